"""The proof of completeness against a real server: every UID accounted for, holes named, filled and counted."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import engine, mail, rows, run_once, stored, tombstones
from support.tap import Tap

from mailkeep.config import AccountSettings
from mailkeep.db import Database
from mailkeep.errors import AccountHeldElsewhere, ConfigurationRefused
from mailkeep.mailbox import AccountId, LastProof, folder_status
from mailkeep.sync.queries import account_lease
from mailkeep.sync.verify import AccountProof, FolderProof, verify_account

pytestmark = pytest.mark.anyio


async def verified(
    db: Database, home: Path, account: AccountSettings, *, fill: bool = False, alias: str | None = None, **bounds: Any
) -> AccountProof:
    """The proof of one account."""
    async with engine(db, home, account, **bounds) as resources:
        return await verify_account(resources, account.account_id, alias=alias, fill=fill)


def of(proof: AccountProof, alias: str = "INBOX") -> FolderProof:
    """One folder's proof."""
    return next(one for one in proof.folders if one.alias == alias)


async def forget(db: Database, *uids: int) -> None:
    """Lose stored messages behind the store's back."""
    async with db.connection() as connection:
        await connection.execute("DELETE FROM stored_emails WHERE uid = ANY(%s)", (list(uids),))


@pytest.mark.spec("SYNC-143")
@pytest.mark.case("212", "218")
async def test_equal_counts_do_not_hide_a_hole(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """One message lost and one that the server has no more: the counts agree, the UIDs do not; nothing is fetched."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 21)])
    account = account_at(dovecot.ports.plain, user_name=user)
    await run_once(db, tmp_path, account)
    assert (await verified(db, tmp_path, account)).is_complete
    async with db.connection() as connection:
        await connection.execute("UPDATE stored_emails SET uid = 77 WHERE uid = 7")
    (status, *_) = [one for one in await folder_status(db, AccountId("anna")) if one.alias == "INBOX"]
    assert status.server == status.stored == 20
    async with Tap(dovecot.ports.plain) as tap:
        proof = await verified(db, tmp_path, account_at(tap.port, user_name=user))
    inbox = of(proof)
    assert (inbox.holes, inbox.surplus, inbox.not_reached) == ("7", "77", 0)
    assert (inbox.counts.server, inbox.counts.stored, inbox.counts.holes, inbox.counts.surplus) == (20, 19, 1, 1)
    assert not proof.is_complete
    assert tap.commands("FETCH") == []
    (status, *_) = [one for one in await folder_status(db, AccountId("anna")) if one.alias == "INBOX"]
    assert status.proof == LastProof(inbox.proved_at, server=20, holes=1, surplus=1)


@pytest.mark.spec("SYNC-143")
@pytest.mark.case("212")
@pytest.mark.parametrize("server", ["dovecot", "plain_dovecot"])
async def test_holes_are_filled_through_the_arrival_path_and_counted(
    db: Database, tmp_path: Path, server: str, user: str, request: pytest.FixtureRequest
) -> None:
    """Only what is missing is fetched; hidden mail is shown again; the checkpoint stays; nothing is marked read."""
    dovecot: Dovecot = request.getfixturevalue(server)
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 16)])
    account = account_at(dovecot.ports.plain, user_name=user)
    await run_once(db, tmp_path, account)
    before = await stored(db)
    progress = await rows(db, "SELECT * FROM synchronization_checkpoints ORDER BY 1")
    await forget(db, 4, 5, 11)
    async with db.connection() as connection:
        await connection.execute("UPDATE stored_emails SET remote_expunge_observed_at = now() WHERE uid = 9")
    found = of(await verified(db, tmp_path, account))
    assert (found.holes, found.hidden) == ("4:5,9,11", 1)
    async with Tap(dovecot.ports.plain) as tap:
        proof = await verified(db, tmp_path, account_at(tap.port, user_name=user), fill=True, max_metadata_batch_size=2)
    assert proof.is_complete
    assert (of(proof).counts.filled, of(proof).counts.stored) == (4, 15)
    assert [line.split("UID FETCH ")[1].split()[0] for line in tap.commands("BODY.PEEK[]")] == ["4:5", "11"]
    after = await stored(db)
    assert {uid: row[1] for uid, row in after.items()} == {uid: row[1] for uid, row in before.items()}
    assert await tombstones(db) == []
    assert await rows(db, "SELECT * FROM synchronization_checkpoints ORDER BY 1") == progress
    with dovecot.client(user) as other:
        assert not any("\\Seen" in flags for flags in other.flags("INBOX").values())


@pytest.mark.spec("SYNC-143")
async def test_skipped_mail_is_no_hole_and_has_its_reason(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Too large, before the earliest date, quarantined: each is counted where it belongs."""
    with dovecot.client(user) as other:
        for day in (1, 2, 3, 4, 5):
            octets = mail(day, size=9_000 if day == 4 else 0)
            other.append("INBOX", octets, internaldate=datetime(2024, 3, day, 12, tzinfo=UTC))
    account = account_at(dovecot.ports.plain, user_name=user, earliest=date(2024, 3, 3))
    await run_once(db, tmp_path, account, max_raw_mime_bytes=4096)
    async with db.connection() as connection:
        await connection.execute(
            "WITH gone AS (DELETE FROM stored_emails WHERE uid = 5 RETURNING mail_folder_id, uid_validity, uid) "
            "INSERT INTO quarantined_messages SELECT mail_folder_id, uid_validity, uid, 'FetchRefused', NULL, 1, 1, now(), "
            "now() FROM gone"
        )
    proof = await verified(db, tmp_path, account, max_raw_mime_bytes=4096)
    counts = of(proof).counts
    assert proof.is_complete
    assert (counts.server, counts.stored, counts.skipped, counts.excluded_by_date, counts.quarantined) == (
        5,
        1,
        1,
        2,
        1,
    )
    assert of(proof).skipped_by_reason == {"ExceededSizeLimit": 1, "BeforeEarliestDate": 2}


@pytest.mark.case("218")
async def test_mail_and_folders_that_no_run_has_met_are_holes_and_can_be_filled(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Half of a first synchronization never passes for a whole one, nor does a folder that is new on the server."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 11)])
    account = account_at(dovecot.ports.plain, user_name=user)
    await run_once(db, tmp_path, account, max_metadata_batch_size=2, max_metadata_batches_per_run=2)
    with dovecot.client(user) as other:
        other.create("New")
        other.append("New", mail("new"))
    proof = await verified(db, tmp_path, account)
    assert (of(proof).holes, of(proof).not_reached) == ("5:10", 6)
    assert of(proof, "NEW").holes == "1"
    assert await rows(db, "SELECT count(*) FROM mail_folders WHERE alias = 'NEW'") == [(0,)]
    filled = await verified(db, tmp_path, account, fill=True)
    assert filled.is_complete
    assert (of(filled).counts.filled, of(filled, "NEW").counts.filled) == (6, 1)
    outcome = await run_once(db, tmp_path, account, until_complete=True)
    assert not outcome.is_failed
    assert await rows(db, "SELECT count(*), count(DISTINCT (mail_folder_id, uid)) FROM stored_emails") == [(11, 11)]


async def test_a_folder_that_cannot_be_compared_is_named_and_stops_no_other(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A folder that is gone from the server keeps the proof from being whole."""
    dovecot.fill(user, "INBOX", [mail(1)])
    with dovecot.client(user) as other:
        other.create("Old")
    account = account_at(dovecot.ports.plain, user_name=user)
    await run_once(db, tmp_path, account)
    with dovecot.client(user) as other:
        other.delete("Old")
    proof = await verified(db, tmp_path, account)
    assert [(one.alias, one.outcome) for one in proof.unproven] == [("OLD", "AliasUnresolved")]
    assert not proof.is_complete
    assert (await verified(db, tmp_path, account, alias="INBOX")).is_complete
    with pytest.raises(ConfigurationRefused):
        await verified(db, tmp_path, account, alias="NEVER")


@pytest.mark.case("28")
async def test_an_account_that_is_being_synchronized_is_not_compared(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """What arrives meanwhile would look like holes."""
    account = account_at(dovecot.ports.plain, user_name=user)
    async with account_lease(db, "anna"):
        with pytest.raises(AccountHeldElsewhere):
            await verified(db, tmp_path, account)
