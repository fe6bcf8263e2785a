"""Flags and disappearances: set-based, idempotent, never against a newer observation."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.mail import message
from support.store import EPOCH, NOW, execute, inbox, rows, store

from mailkeep.db import Database
from mailkeep.mailbox import (
    Disposition,
    Flags,
    QuarantineReason,
    Uid,
    apply_flags,
    apply_removals,
    filter_unknown,
    local_flags,
    local_uids,
    quarantine,
    quarantined,
    release_quarantine,
)

pytestmark = pytest.mark.anyio

LATER = NOW + timedelta(hours=1)


@pytest.mark.spec("SYNC-75", "SYNC-76", "DATA-24")
async def test_observed_flags_are_written_and_read_back(db: Database) -> None:
    """Five flags and the keywords of each message; a UID that is not stored is ignored."""
    binding = await inbox(db)
    await store(db, binding, *(message(f"{n}") for n in range(3)))
    observed = {
        Uid(1): Flags(True, True, True, True, True, ("A", "B")),
        Uid(2): Flags(),
        Uid(99): Flags(seen=True),
    }
    changed = await apply_flags(db, binding.folder_id, uid_validity=EPOCH, observed=observed, observed_at=LATER)
    assert [change.uid for change in changed] == [1, 2]
    assert await local_flags(db, binding.folder_id, uid_validity=EPOCH) == {
        1: Flags(True, True, True, True, True, ("A", "B")),
        2: Flags(),
        3: None,
    }


async def test_unchanged_rows_are_not_rewritten(db: Database) -> None:
    """An observation that says what the rows say writes nothing: one flag change in a large folder is one row."""
    binding = await inbox(db)
    await store(db, binding, *(message(f"{n}") for n in range(20)), flags=Flags(seen=True, keywords=("X",)))
    before = dict(await rows(db, "SELECT uid, xmin FROM stored_emails"))
    observed = {Uid(n): Flags(seen=True, keywords=("X",)) for n in range(1, 21)}
    observed[Uid(7)] = Flags(seen=True, flagged=True, keywords=("X",))
    changed = await apply_flags(db, binding.folder_id, uid_validity=EPOCH, observed=observed, observed_at=LATER)
    assert [change.uid for change in changed] == [7]
    after = dict(await rows(db, "SELECT uid, xmin FROM stored_emails"))
    assert [uid for uid in before if before[uid] != after[uid]] == [7]


@pytest.mark.spec("SYNC-78")
async def test_newer_observation_is_left_alone_by_flags_and_by_removal(db: Database) -> None:
    """An answer that was overtaken neither sets flags nor buries."""
    binding = await inbox(db)
    await store(db, binding, message("a"), flags=Flags(seen=True), now=LATER)
    folder = binding.folder_id
    assert await apply_flags(db, folder, uid_validity=EPOCH, observed={Uid(1): Flags()}, observed_at=NOW) == []
    for disposition in Disposition:
        assert (
            await apply_removals(
                db, folder, uid_validity=EPOCH, uids=[Uid(1)], disposition=disposition, observed_at=NOW
            )
            == 0
        )
    assert await local_flags(db, folder, uid_validity=EPOCH) == {1: Flags(seen=True)}


@pytest.mark.spec("SYNC-71")
async def test_another_uid_validity_is_never_touched(db: Database) -> None:
    """Flags and removals of one epoch reach no row of another."""
    binding = await inbox(db)
    await store(db, binding, message("a"), uid_validity=6, flags=Flags())
    folder = binding.folder_id
    await apply_flags(db, folder, uid_validity=EPOCH, observed={Uid(1): Flags(seen=True)}, observed_at=LATER)
    await apply_removals(
        db,
        folder,
        uid_validity=EPOCH,
        uids=[Uid(1)],
        disposition=Disposition.ERASE_LOCAL_COPY,
        observed_at=LATER,
    )
    assert await rows(db, "SELECT is_remotely_seen, remote_expunge_observed_at FROM stored_emails") == [(False, None)]


@pytest.mark.spec("SYNC-77")
async def test_deleted_flag_hides_nothing(db: Database) -> None:
    r"""`\Deleted` is a flag, not a disappearance."""
    binding = await inbox(db)
    await store(db, binding, message("a"), flags=Flags(deleted=True))
    assert await local_uids(db, binding.folder_id, uid_validity=EPOCH) == [1]


@pytest.mark.spec("SYNC-79")
@pytest.mark.case("223")
async def test_tombstone_keeps_content_and_is_set_once(db: Database) -> None:
    """The default keeps the copy, hidden; a second observation keeps the first moment."""
    binding = await inbox(db)
    await store(db, binding, message("a"), message("b"))
    for observed_at, expected in ((LATER, 1), (LATER + timedelta(hours=1), 0)):
        count = await apply_removals(
            db,
            binding.folder_id,
            uid_validity=EPOCH,
            uids=[Uid(1), Uid(77)],
            disposition=Disposition.RETAIN_TOMBSTONE,
            observed_at=observed_at,
        )
        assert count == expected
    assert await local_uids(db, binding.folder_id, uid_validity=EPOCH) == [2]
    assert await local_flags(db, binding.folder_id, uid_validity=EPOCH) == {2: None}
    assert await rows(db, "SELECT remote_expunge_observed_at FROM stored_emails WHERE uid = 1") == [(LATER,)]
    assert await rows(db, "SELECT count(*) FROM email_message_contents") == [(2,)]
    assert await filter_unknown(db, binding.folder_id, uid_validity=EPOCH, uids=[Uid(1)]) == []


@pytest.mark.spec("SYNC-79", "DATA-18", "DATA-19")
async def test_erasure_leaves_no_row_of_the_message(db: Database) -> None:
    """Octets, document and repair request go with the row; a reply to it becomes a root."""
    binding = await inbox(db)
    await store(
        db,
        binding,
        message("a", message_id="a@example.com"),
        message("b", in_reply_to="a@example.com", references=["a@example.com"]),
    )
    assert await rows(db, "SELECT count(*) FROM stored_emails WHERE parent_stored_email_id IS NOT NULL") == [(1,)]
    await execute(
        db,
        "INSERT INTO email_content_repair_requests SELECT id, 'Missing', now(), now(), 1 FROM stored_emails WHERE uid = 1",
    )
    await apply_removals(
        db,
        binding.folder_id,
        uid_validity=EPOCH,
        uids=[Uid(1)],
        disposition=Disposition.ERASE_LOCAL_COPY,
        observed_at=LATER,
    )
    assert await rows(
        db,
        "SELECT (SELECT count(*) FROM stored_emails), (SELECT count(*) FROM email_message_contents), "
        "(SELECT count(*) FROM email_search_documents), (SELECT count(*) FROM email_content_repair_requests)",
    ) == [(1, 1, 1, 0)]
    assert await rows(db, "SELECT parent_stored_email_id FROM stored_emails") == [(None,)]


async def test_disappearance_ends_quarantine(db: Database) -> None:
    """A quarantined message that left the server is no longer missing; releasing one makes it unknown again."""
    binding = await inbox(db)
    for uid in (1, 2):
        await quarantine(
            db,
            binding.folder_id,
            uid_validity=EPOCH,
            uid=Uid(uid),
            reason=QuarantineReason.FETCH_REFUSED,
            detail=None,
            size_octets=None,
            now=NOW,
        )
    await apply_removals(
        db,
        binding.folder_id,
        uid_validity=EPOCH,
        uids=[Uid(1)],
        disposition=Disposition.RETAIN_TOMBSTONE,
        observed_at=LATER,
    )
    assert [entry.uid for entry in await quarantined(db, binding.folder_id)] == [2]
    assert await release_quarantine(db, binding.folder_id, uid_validity=EPOCH, uids=[Uid(2)]) == 1
    assert await filter_unknown(db, binding.folder_id, uid_validity=EPOCH, uids=[Uid(2), Uid(1)]) == [1, 2]


async def test_flags_are_paged_in_uid_order(db: Database) -> None:
    """A large folder is compared page by page; an empty page ends the walk."""
    binding = await inbox(db)
    await store(db, binding, *(message(f"{n}") for n in range(5)), flags=Flags())
    walked: list[int] = []
    while page := await local_flags(
        db, binding.folder_id, uid_validity=EPOCH, after_uid=walked[-1] if walked else 0, limit=2
    ):
        assert len(page) <= 2
        walked += page
    assert walked == [1, 2, 3, 4, 5]
