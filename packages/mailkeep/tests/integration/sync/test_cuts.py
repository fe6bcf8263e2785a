"""Connections that break after any octet of what the server says: the end state is that of an undisturbed run."""

import contextlib
from pathlib import Path

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import folder, mail, rows, run_once, stored
from support.tap import Tap

from mailkeep.db import Database
from mailkeep.errors import MailkeepError

pytestmark = pytest.mark.anyio

CUTS = 7  # places spread over the answers of one run, from the greeting to the last line


@pytest.mark.case("16", "220")
@pytest.mark.spec("SYNC-29", "SYNC-31", "SYNC-56")
@pytest.mark.parametrize("kind", ["dovecot", "dovecot_without_condstore"])
async def test_a_cut_anywhere_costs_nothing_but_time(
    db: Database, tmp_path: Path, request: pytest.FixtureRequest, user: str, kind: str
) -> None:
    """Arrivals, flags and expunges, every connection cut at the same octet; the next run sees all of it, once."""
    server = request.getfixturevalue(kind)
    assert isinstance(server, Dovecot)
    server.fill(user, "INBOX", [mail(number) for number in range(1, 3 * CUTS)])
    await run_once(db, tmp_path, account_at(server.ports.plain, user_name=user))
    with server.client(user) as other:
        async with Tap(server.ports.plain) as tap:
            for place in range(CUTS):
                other.append("INBOX", mail(f"late {place}"))
                other.flag("INBOX", 2 * CUTS + place, "\\Flagged", f"step{place}")
                other.expunge("INBOX", place + 1)
                before = other.flags("INBOX")
                tap.cut_after = 40 + place * 257
                with contextlib.suppress(MailkeepError):
                    await run_once(db, tmp_path, account_at(tap.port, user_name=user))
                outcome = await run_once(db, tmp_path, account_at(server.ports.plain, user_name=user))
                assert not outcome.is_failed
                assert other.flags("INBOX") == before
                inbox = await stored(db)
                assert sorted(inbox) == sorted(before)
                assert {uid for uid, row in inbox.items() if row[3]} == {
                    uid for uid, flags in before.items() if "\\Flagged" in flags
                }
                assert not any(row[2] for row in inbox.values())
        assert tap.connections >= CUTS
    assert len({row[1] for row in (await stored(db)).values()}) == len(await stored(db))
    assert folder(outcome).more_remains is False
    assert (await rows(db, "SELECT count(*) FROM quarantined_messages"))[0][0] == 0
