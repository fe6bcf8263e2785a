"""Bindings, checkpoints and the status of folders."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from support.mail import message
from support.store import EPOCH, NOW, execute, header_only, inbox, rows, store

from mailkeep.db import Database
from mailkeep.errors import ConcurrencyConflict
from mailkeep.mailbox import (
    AccountId,
    Checkpoint,
    ContentAvailability,
    FolderId,
    ModSeq,
    QuarantineReason,
    SpecialUse,
    Uid,
    UidValidity,
    advance_checkpoint,
    bind_folder,
    folder_bindings,
    folder_status,
    load_checkpoint,
    quarantine,
    store_batch,
)

pytestmark = pytest.mark.anyio

ANN = AccountId("ann")


@pytest.mark.spec("SYNC-18", "SYNC-19")
async def test_same_path_is_the_same_binding_and_another_path_the_next_generation(db: Database) -> None:
    """Repointing an alias keeps the older mail and starts without a checkpoint."""
    first = await inbox(db)
    assert await inbox(db) == first
    await advance_checkpoint(db, first.folder_id, expected=None, new=Checkpoint(EPOCH, Uid(5)))
    await store(db, first, message("old"))
    second = await bind_folder(db, ANN, alias="INBOX", remote_path=" Odd  path ", hierarchy_delimiter=None)
    assert (second.generation, second.remote_path, second.hierarchy_delimiter) == (2, " Odd  path ", None)
    assert await load_checkpoint(db, second.folder_id) is None
    assert await load_checkpoint(db, first.folder_id) is not None
    assert await folder_bindings(db, ANN) == [second]
    assert await rows(db, "SELECT count(*) FROM stored_emails") == [(1,)]


async def test_role_of_a_folder_follows_the_server(db: Database) -> None:
    """A role that the server advertises later is noted on the same binding."""
    first = await inbox(db)
    again = await bind_folder(
        db, ANN, alias="INBOX", remote_path="Inbox", hierarchy_delimiter="/", special_use=SpecialUse.INBOX
    )
    assert again == replace(first, special_use=SpecialUse.INBOX)
    assert await folder_bindings(db, ANN) == [again]


@pytest.mark.spec("SYNC-20", "DATA-11")
async def test_racing_first_bindings_meet_in_one(db: Database) -> None:
    """Two processes that bind an account's first folder at once get one account and one binding."""
    bindings = await asyncio.gather(*(inbox(db) for _ in range(6)))
    assert len(set(bindings)) == 1
    assert await rows(db, "SELECT count(*) FROM mail_folders") == [(1,)]


@pytest.mark.spec("SYNC-51", "DATA-7")
async def test_checkpoint_round_trips_at_its_bounds(db: Database) -> None:
    """The sequence is a 63-bit number, kept exactly (case 25)."""
    binding = await inbox(db)
    full = Checkpoint(
        UidValidity(4_294_967_295), Uid(4_294_967_295), NOW, ModSeq(2**63 - 1), 12, Uid(4_294_967_295), NOW
    )
    await advance_checkpoint(db, binding.folder_id, expected=None, new=full)
    assert await load_checkpoint(db, binding.folder_id) == full


@pytest.mark.spec("SYNC-57")
async def test_stale_advance_is_refused(db: Database) -> None:
    """Whoever decided on an older checkpoint loses; also on the first one, and when the row is gone."""
    folder = (await inbox(db)).folder_id
    first = Checkpoint(EPOCH, Uid(5))
    await advance_checkpoint(db, folder, expected=None, new=first)
    with pytest.raises(ConcurrencyConflict):
        await advance_checkpoint(db, folder, expected=None, new=first)
    await advance_checkpoint(db, folder, expected=first, new=replace(first, last_seen_uid=Uid(9)))
    for stale in (first, replace(first, uid_validity=UidValidity(8), last_seen_uid=Uid(9))):
        with pytest.raises(ConcurrencyConflict):
            await advance_checkpoint(db, folder, expected=stale, new=replace(stale, last_seen_uid=Uid(20)))
    await execute(db, "DELETE FROM synchronization_checkpoints")
    with pytest.raises(ConcurrencyConflict):
        await advance_checkpoint(db, folder, expected=first, new=first)


@pytest.mark.spec("SYNC-57")
async def test_two_racing_advances_have_one_winner(db: Database) -> None:
    """Compare and set holds between processes."""
    folder = (await inbox(db)).folder_id
    await advance_checkpoint(db, folder, expected=None, new=Checkpoint(EPOCH))
    results = await asyncio.gather(
        *(
            advance_checkpoint(db, folder, expected=Checkpoint(EPOCH), new=Checkpoint(EPOCH, Uid(n)))
            for n in range(1, 6)
        ),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["ConcurrencyConflict"] * 4 + ["NoneType"]


@pytest.mark.spec("SYNC-57", "SYNC-74")
async def test_instants_and_sequence_only_rise_within_one_uid_validity(db: Database) -> None:
    """A late writer moves nothing back; a new epoch starts its sequence anew."""
    folder = (await inbox(db)).folder_id
    first = Checkpoint(EPOCH, Uid(5), NOW, ModSeq(50), 5, Uid(6), NOW)
    await advance_checkpoint(db, folder, expected=None, new=first)
    older = replace(first, synchronized_at=NOW - timedelta(hours=1), reconciled_through_modseq=ModSeq(40))
    await advance_checkpoint(db, folder, expected=first, new=older)
    assert await load_checkpoint(db, folder) == first
    recreated = Checkpoint(UidValidity(8), None, NOW, ModSeq(3))
    await advance_checkpoint(db, folder, expected=first, new=recreated)
    loaded = await load_checkpoint(db, folder)
    assert loaded is not None
    assert (loaded.last_seen_uid, loaded.reconciled_through_modseq) == (None, 3)
    with pytest.raises(ValueError, match="never moves back"):
        await advance_checkpoint(db, folder, expected=first, new=replace(first, last_seen_uid=Uid(4)))


@pytest.mark.case("218")
async def test_status_shows_the_servers_count_against_what_is_here(db: Database) -> None:
    """Stored, quarantined and skipped messages of the current epoch, tombstones and unreadable ones apart."""
    binding = await inbox(db)
    folder = binding.folder_id
    await store(db, binding, *(message(f"{n}") for n in range(4)))
    await store(db, binding, message("old epoch"), uid_validity=3)
    await store_batch(
        db,
        binding,
        uid_validity=EPOCH,
        arrivals=[header_only(8, b""), header_only(9, b"", ContentAvailability.AWAITING_STORAGE_HEADROOM)],
        now=NOW,
    )
    await execute(db, "UPDATE stored_emails SET remote_expunge_observed_at = now() WHERE uid = 1 AND uid_validity = 7")
    await execute(db, "UPDATE stored_emails SET is_structurally_read = false WHERE uid = 2")
    for epoch in (EPOCH, UidValidity(3)):
        await quarantine(
            db,
            folder,
            uid_validity=epoch,
            uid=Uid(50),
            reason=QuarantineReason.FETCH_REFUSED,
            detail=None,
            size_octets=None,
            now=NOW,
        )
    await advance_checkpoint(db, folder, expected=None, new=Checkpoint(EPOCH, Uid(50), NOW, None, 6, Uid(51), NOW))
    other = await inbox(db, alias="EMPTY")
    empty, status = await folder_status(db, ANN)
    assert (status.server, status.stored, status.quarantined, status.unreadable, status.tombstoned) == (6, 5, 1, 1, 1)
    assert status.stored + status.quarantined == status.server
    assert status.skipped_by_reason == {
        ContentAvailability.EXCEEDED_SIZE_LIMIT: 1,
        ContentAvailability.AWAITING_STORAGE_HEADROOM: 1,
    }
    assert (status.synchronized_at, status.observed_at, status.alias) == (NOW, NOW, "INBOX")
    assert (empty.folder_id, empty.server, empty.stored, empty.skipped_by_reason) == (other.folder_id, None, 0, {})
    assert await folder_status(db, AccountId("nobody")) == []


@pytest.mark.spec("DATA-20", "DATA-21")
async def test_erasing_an_account_leaves_nothing_of_it(db: Database) -> None:
    """One statement takes folders, mail, conversations with their merges, checkpoints and quarantine along."""
    binding = await inbox(db)
    await store(db, binding, message("a", message_id="a@example.com"))
    await store(db, binding, message("b", message_id="b@example.com"), first_uid=2)
    await store(db, binding, message("c", references=["a@example.com", "b@example.com"]), first_uid=3)
    assert await rows(db, "SELECT count(*) FROM email_threads WHERE merged_into_email_thread_id IS NOT NULL") == [(1,)]
    await advance_checkpoint(db, FolderId(binding.folder_id), expected=None, new=Checkpoint(EPOCH))
    await execute(db, "DELETE FROM mailbox_accounts")
    tables = [
        "mail_folders",
        "synchronization_checkpoints",
        "email_threads",
        "email_thread_identifiers",
        "stored_emails",
        "email_message_contents",
        "email_search_documents",
        "quarantined_messages",
    ]
    for table in tables:
        assert await rows(db, f"SELECT count(*) FROM {table}") == [(0,)], table
