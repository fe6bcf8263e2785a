"""From the record of a change to its recognition, on real servers: recorded, carried out and met again in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.accounts import account_at
from support.cyrus import Cyrus
from support.dovecot import Dovecot
from support.engine import folder, mail, rows, run_once, stored
from support.own_changes import (
    ERASE,
    RETAIN,
    TOMBSTONE,
    OwnChanges,
    copying,
    deletion,
    derived,
    relocation,
    whereabouts,
)
from support.proxy import Proxy
from support.tap import Tap

from mailkeep.config import AuthoredDeleteDisposition
from mailkeep.db import Database
from mailkeep.mutations import Mutation, Terms
from mailkeep.sync import AccountOutcome

pytestmark = pytest.mark.anyio

SERVERS = ("dovecot", "cyrus")
INBOX: list[dict[str, Any]] = [{"alias": "INBOX", "remote_path": "INBOX"}]
NO_MOVE = frozenset({"MOVE"})
NO_COPYUID = frozenset({"UIDPLUS"})


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Dovecot | Cyrus:
    found: Dovecot | Cyrus = request.getfixturevalue(request.param)
    return found


class Mailbox:
    """INBOX with three messages, an empty Archive, and whatever stands between them and mailkeep."""

    def __init__(self, db: Database, home: Path, server: Dovecot | Cyrus, user: str) -> None:
        self.db, self.home, self.server, self.user = db, home, server, user
        self.ours = OwnChanges(db, server, user)
        self.port = server.ports.plain

    async def run(self, **options: Any) -> AccountOutcome:
        outcome = await run_once(
            self.db, self.home, account_at(self.port, user_name=self.user, **options), until_complete=True
        )
        assert not outcome.is_failed
        return outcome

    async def begin(self, **options: Any) -> list[UUID]:
        with self.server.client(self.user) as other:
            other.create("Archive")
            for name in ("one", "two", "three"):
                other.append("INBOX", mail(name))
        await self.run(**options)
        return [row[0] for row in (await stored(self.db)).values()]

    def on_server(self, name: str) -> list[int]:
        with self.server.client(self.user) as other:
            return other.uids(name)


@pytest.fixture
def mailbox(db: Database, tmp_path: Path, server: Dovecot | Cyrus, user: str) -> Mailbox:
    return Mailbox(db, tmp_path, server, user)


@pytest.mark.spec("MUT-45", "MUT-37", "MUT-48", "MUT-52")
@pytest.mark.parametrize("hides", [frozenset(), NO_MOVE], ids=["MOVE", "COPY and EXPUNGE"])
async def test_a_relocation_comes_back_without_a_fetch(mailbox: Mailbox, hides: frozenset[str]) -> None:
    """Proof 11: marked as read and archived in one breath, the same row, nothing fetched, nothing raised."""
    _, two, _ = await mailbox.begin()
    before = await derived(mailbox.db, two)
    await mailbox.ours.recorded(two, Terms(Mutation.SET_SEEN, desired_seen_state=True))
    change = await mailbox.ours.recorded(two, relocation("Archive"))
    with Proxy(mailbox.server.ports.plain, hides=hides) as proxy:
        async with Tap(proxy.port) as tap:
            mailbox.port = tap.port
            outcome = await mailbox.run()
    assert mailbox.on_server("Archive") == [1]
    assert mailbox.on_server("INBOX") == [1, 3]
    assert tap.commands("BODY.PEEK[]") == []
    assert (await whereabouts(mailbox.db))[two] == ("ARCHIVE", 1, "present")
    assert await derived(mailbox.db, two) == before
    assert (await stored(mailbox.db, "ARCHIVE"))[1][2] is True
    assert await mailbox.ours.observed(change) == (True, True)
    assert sum(one.recognized.relocated for one in outcome.folders) == 1
    assert outcome.arrivals.stored == 0
    assert (
        sum((one.recognized.owner_flags for one in outcome.folders), start=folder(outcome).recognized.owner_flags) == {}
    )
    assert len(await whereabouts(mailbox.db)) == 3


@pytest.mark.spec("MUT-49", "MUT-31")
async def test_a_relocation_whose_placement_is_not_named_is_new_mail(mailbox: Mailbox) -> None:
    """Proof 11, with COPYUID masked: a new email, raised as an arrival of nobody's; the first one goes."""
    _, two, _ = await mailbox.begin()
    await mailbox.ours.recorded(two, relocation("Archive"))
    with Proxy(mailbox.server.ports.plain, hides=NO_COPYUID) as proxy:
        mailbox.port = proxy.port
        outcome = await mailbox.run()
        again = await mailbox.run()
    assert mailbox.on_server("Archive") == [1]
    archive = folder(outcome, "ARCHIVE")
    assert (archive.arrivals.stored, archive.recognized.own_arrivals, archive.recognized.relocated) == (1, 0, 0)
    places = await whereabouts(mailbox.db)
    assert places[two] == ("INBOX", 2, "hidden")
    assert len(places) == 4
    assert again.arrivals.stored == 0


@pytest.mark.spec("MUT-46", "MUT-52")
async def test_a_copy_comes_back_as_a_second_row_whose_arrival_is_withheld(mailbox: Mailbox) -> None:
    """Proof 12."""
    _, two, _ = await mailbox.begin()
    await mailbox.ours.recorded(two, copying("Archive"))
    outcome = await mailbox.run()
    archive = folder(outcome, "ARCHIVE")
    assert (archive.arrivals.stored, archive.recognized.own_arrivals) == (1, 1)
    assert (await whereabouts(mailbox.db))[two] == ("INBOX", 2, "present")
    assert (await stored(mailbox.db, "ARCHIVE"))[1][1] == mail("two")


@pytest.mark.spec("MUT-50", "MUT-52")
async def test_an_owner_s_revert_after_our_store_reaches_whoever_will_listen(mailbox: Mailbox) -> None:
    """Proof 13: set by us and read back as ours; reverted by the owner, it is counted as the owner's change."""
    one, *_ = await mailbox.begin()
    await mailbox.ours.recorded(one, Terms(Mutation.SET_SEEN, desired_seen_state=True))
    first = folder(await mailbox.run()).recognized
    with mailbox.server.client(mailbox.user) as other:
        other.unflag("INBOX", 1, "\\Seen")
    second = folder(await mailbox.run()).recognized
    assert (dict(first.own_flags), dict(first.owner_flags)) == ({"seen": 1}, {})
    assert (dict(second.own_flags), dict(second.owner_flags)) == ({}, {"seen": 1})


@pytest.mark.spec("MUT-53", "MUT-54", "MUT-55", "MUT-62", "MUT-63", "DATA-18")
@pytest.mark.parametrize("leaving", ["deleted", "moved out"])
@pytest.mark.parametrize("disposition", [RETAIN, TOMBSTONE, ERASE])
async def test_each_disposition_of_what_leaves_the_mirror(
    mailbox: Mailbox, disposition: AuthoredDeleteDisposition, leaving: str
) -> None:
    """Proofs 14 and 15: the account's setting changes between asking and observing; the audit entry outlives the row."""
    _, two, _ = await mailbox.begin(folders=INBOX)
    terms = deletion(disposition) if leaving == "deleted" else relocation("Archive", disposition)
    change = await mailbox.ours.recorded(two, terms, audited=True)
    setting = "RetainTombstone" if disposition is ERASE else "EraseLocalCopy"
    outcome = await mailbox.run(folders=INBOX, disposition=setting)
    assert mailbox.on_server("INBOX") == [1, 3]
    expected = {RETAIN: ("INBOX", 2, "kept"), TOMBSTONE: ("INBOX", 2, "hidden"), ERASE: None}[disposition]
    assert (await whereabouts(mailbox.db)).get(two) == expected
    assert folder(outcome).recognized.own_removals == 1
    left = await rows(mailbox.db, "SELECT stage FROM mailbox_mutations WHERE id = %s", change)
    assert left == ([] if disposition is ERASE else [("Completed",)])
    audited = await rows(
        mailbox.db,
        "SELECT stored_email_id, outcome FROM mailbox_mutation_audit_entries WHERE mutation_record_id = %s",
        change,
    )
    assert audited == [(two, "Performed")]
    before = await whereabouts(mailbox.db)
    await mailbox.run(folders=INBOX, disposition=setting)
    assert await whereabouts(mailbox.db) == before


@pytest.mark.spec("MUT-45", "MUT-48")
async def test_many_archived_at_once_come_back_in_one_run(mailbox: Mailbox) -> None:
    """Two hundred messages go to Archive and some of them back: every row at its place, no content, few commands."""
    with mailbox.server.client(mailbox.user) as other:
        other.create("Archive")
        for number in range(200):
            other.append("INBOX", mail(number))
    await mailbox.run()
    ids = [row[0] for row in (await stored(mailbox.db)).values()]
    for email_id in ids:
        await mailbox.ours.recorded(email_id, relocation("Archive"))
    async with Tap(mailbox.server.ports.plain) as tap:
        mailbox.port = tap.port
        await mailbox.run()
        assert {place[0] for place in (await whereabouts(mailbox.db)).values()} == {"ARCHIVE"}
        for email_id in ids[:50]:
            await mailbox.ours.recorded(email_id, relocation("INBOX"))
        await mailbox.run()
    places = await whereabouts(mailbox.db)
    assert [places[email_id][0] for email_id in ids] == ["INBOX"] * 50 + ["ARCHIVE"] * 150
    assert {place[2] for place in places.values()} == {"present"}
    assert len(places) == 200
    assert tap.commands("BODY.PEEK[]") == []
