"""Rewinding folders on a real server: everything is compared again, nothing is doubled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import checkpoint, engine, folder, mail, rows, run_once, stored, tombstones

from mailkeep.config import AccountSettings
from mailkeep.db import Database
from mailkeep.errors import ConfigurationRefused
from mailkeep.mailbox import AccountId
from mailkeep.sync import Outcome, run_account
from mailkeep.upkeep import rewind_all, rewindable

pytestmark = pytest.mark.anyio

ANNA = AccountId("anna")
LOCAL = AccountSettings.model_validate({"account_id": "files", "display_name": "Files", "kind": "local"})


@pytest.mark.spec("SYNC-128")
async def test_a_rewound_folder_is_walked_again_onto_the_same_rows(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """The count is told first; ids and octets stay, damage is replaced, other folders keep their checkpoints."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 21)])
    with dovecot.client(user) as other:
        other.append("Sent", mail("sent"))
    account = account_at(dovecot.ports.plain, user_name=user)
    await run_once(db, tmp_path, account)
    before, sent = await stored(db), await checkpoint(db, "SENT")
    assert await rewindable(db, [account, LOCAL], "INBOX") == {"anna": 20}
    async with db.connection() as connection:
        await connection.execute(
            "UPDATE email_message_contents SET raw_mime = 'x', sha256_hash = 'y' WHERE mime_byte_length > 0"
        )
    assert await rewind_all(db, [ANNA], alias="INBOX") == 1
    assert await rows(db, "SELECT count(*) FROM stored_emails") == [(21,)]
    outcome = await run_once(db, tmp_path, account, until_complete=True, max_metadata_batch_size=3)
    assert not outcome.is_failed
    assert await stored(db) == before
    assert (await checkpoint(db))[1] == 20
    assert (await checkpoint(db, "SENT"))[:2] == sent[:2]


@pytest.mark.spec("SYNC-128")
@pytest.mark.parametrize("server", ["dovecot", "dovecot_without_condstore"])
async def test_what_changed_before_a_rewind_is_found_after_it(
    db: Database, tmp_path: Path, server: str, user: str, request: pytest.FixtureRequest
) -> None:
    """Flags and removals that no run had seen yet are not taken for known because the folder starts over."""
    dovecot: Dovecot = request.getfixturevalue(server)
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 13)])
    account = account_at(dovecot.ports.plain, user_name=user)
    await run_once(db, tmp_path, account)
    with dovecot.client(user) as other:
        other.flag("INBOX", 3, "\\Flagged")
        other.expunge("INBOX", 5)
    await rewind_all(db, [ANNA], alias=None)
    outcome = await run_once(
        db, tmp_path, account, until_complete=True, max_metadata_batch_size=2, max_metadata_batches_per_run=2
    )
    assert not outcome.is_failed
    inbox = await stored(db)
    assert inbox[3][3] is True
    assert 5 not in inbox
    assert await tombstones(db) == [5]
    assert folder(await run_once(db, tmp_path, account)).arrivals.stored == 0


@pytest.mark.spec("SYNC-128", "SYNC-57")
async def test_a_run_in_flight_fails_its_compare_and_set(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """The folder is deferred, not advanced from a place that is no more; the next run walks it whole."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 9)])
    account = account_at(dovecot.ports.plain, user_name=user)
    async with engine(db, tmp_path, account, max_metadata_batch_size=2) as resources:
        prepare, rewound = resources.preparer.prepare, asyncio.Event()

        async def rewinding(arrivals, **bounds):  # type: ignore[no-untyped-def]
            if not rewound.is_set():
                rewound.set()
                assert await rewind_all(db, [ANNA], alias="INBOX") == 1
            return await prepare(arrivals, **bounds)

        resources.preparer.prepare = rewinding  # type: ignore[method-assign]
        outcome = await run_account(resources, "anna")
    assert folder(outcome).outcome is Outcome.DEFERRED_AFTER_CONCURRENCY_CONFLICT
    await run_once(db, tmp_path, account)
    assert sorted(await stored(db)) == list(range(1, 9))


@pytest.mark.spec("SYNC-128")
async def test_what_cannot_be_rewound_is_refused(db: Database) -> None:
    """A local account's checkpoint says which UIDs are taken: losing it would overwrite mail."""
    with pytest.raises(ConfigurationRefused):
        await rewindable(db, [LOCAL], None)
    with pytest.raises(ConfigurationRefused):
        await rewindable(db, [account_at(1)], "NOWHERE")
