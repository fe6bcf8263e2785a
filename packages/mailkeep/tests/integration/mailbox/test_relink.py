"""After a UIDVALIDITY change: what is recognized keeps its ids, what is not found again is retired."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.mail import message
from support.store import NOW, arrival, execute, header_only, inbox, rows, store

from mailkeep.db import Database
from mailkeep.mailbox import (
    BatchOutcome,
    Disposition,
    Flags,
    QuarantineReason,
    Uid,
    UidValidity,
    local_uids,
    quarantine,
    quarantined,
    retire_other_uid_validities,
    store_batch,
)

pytestmark = pytest.mark.anyio

MAILS = [message(f"n {n}", message_id=f"{n}@example.com") for n in range(6)]
LATER = NOW + timedelta(days=1)


@pytest.mark.spec("SYNC-71")
@pytest.mark.case("1", "4")
async def test_recognized_mail_keeps_its_ids_and_new_mail_is_stored(db: Database) -> None:
    """The folder was recreated with other UIDs and one more message: nothing is fetched into a second row."""
    binding = await inbox(db)
    await store(db, binding, *MAILS[:5], flags=Flags(seen=True))
    before = dict(await rows(db, "SELECT subject, id FROM stored_emails"))
    threads = dict(await rows(db, "SELECT subject, email_thread_id FROM stored_emails"))
    shuffled = [MAILS[4], MAILS[5], MAILS[0], MAILS[2], MAILS[1]]
    outcome = await store(
        db, binding, *shuffled, first_uid=101, uid_validity=8, now=LATER, flags=Flags(flagged=True, keywords=("K",))
    )
    assert outcome == BatchOutcome(stored=5, relinked=4, octets_stored=len(MAILS[5]))
    after = await rows(
        db, "SELECT subject, id, uid, email_thread_id FROM stored_emails WHERE uid_validity = 8 ORDER BY uid"
    )
    assert [(subject, uid) for subject, _, uid, _ in after] == [
        ("n 4", 101),
        ("n 5", 102),
        ("n 0", 103),
        ("n 2", 104),
        ("n 1", 105),
    ]
    assert {subject: key for subject, key, _, _ in after if subject != "n 5"} == {
        subject: before[subject] for subject in ("n 4", "n 0", "n 2", "n 1")
    }
    assert all(thread == threads[subject] for subject, _, _, thread in after if subject != "n 5")
    flags = "SELECT DISTINCT is_remotely_seen, is_remotely_flagged, remote_keywords, remote_flags_observed_at FROM stored_emails WHERE uid_validity = 8"
    assert await rows(db, flags) == [(False, True, ["K"], LATER)]
    assert await rows(db, "SELECT subject FROM stored_emails WHERE uid_validity = 7") == [("n 3",)]


async def test_repeated_relinking_changes_nothing(db: Database) -> None:
    """A run that died after re-linking a batch finds it in place."""
    binding = await inbox(db)
    await store(db, binding, *MAILS)
    await store(db, binding, *MAILS, uid_validity=8)
    before = await rows(db, "SELECT *, xmin FROM stored_emails ORDER BY id")
    assert await store(db, binding, *MAILS, uid_validity=8) == BatchOutcome(stored=6)
    assert await rows(db, "SELECT *, xmin FROM stored_emails ORDER BY id") == before


@pytest.mark.case("221")
async def test_same_message_id_with_other_octets_is_another_message(db: Database) -> None:
    """A client rewrote the message: the old content stays its own row."""
    binding = await inbox(db)
    await store(db, binding, message("with file", message_id="x@example.com"))
    outcome = await store(db, binding, message("without it", message_id="x@example.com"), uid_validity=8)
    assert outcome.relinked == 0
    assert await rows(db, "SELECT uid_validity, subject FROM stored_emails ORDER BY uid_validity") == [
        (7, "with file"),
        (8, "without it"),
    ]


async def test_equal_copies_are_relinked_one_to_one(db: Database) -> None:
    """The same octets twice in one folder are two rows before and after."""
    binding = await inbox(db)
    await store(db, binding, MAILS[0], MAILS[0])
    before = await rows(db, "SELECT id FROM stored_emails ORDER BY id")
    outcome = await store(db, binding, MAILS[0], MAILS[0], MAILS[0], uid_validity=8)
    assert (outcome.stored, outcome.relinked) == (3, 2)
    assert await rows(db, "SELECT count(*) FROM stored_emails") == [(3,)]
    assert set(before) < set(await rows(db, "SELECT id FROM stored_emails"))


async def test_other_folders_are_never_relinked(db: Database) -> None:
    """UIDVALIDITY means nothing across folders; a copy elsewhere is another row (SYNC-82)."""
    await store(db, await inbox(db), MAILS[0])
    outcome = await store(db, await inbox(db, alias="ARCHIVE"), MAILS[0], uid_validity=8)
    assert (outcome.stored, outcome.relinked) == (1, 0)
    assert await rows(db, "SELECT count(*) FROM email_message_contents") == [(2,)]


async def test_message_without_octets_is_not_recognized_by_its_header(db: Database) -> None:
    """Headers decide nothing alone: an oversized message is stored anew."""
    binding = await inbox(db)
    header = b"Message-ID: <big@example.com>\r\n\r\n"
    for uid_validity in (7, 8):
        outcome = await store_batch(
            db, binding, uid_validity=UidValidity(uid_validity), arrivals=[header_only(1, header)], now=NOW
        )
        assert outcome.relinked == 0


async def test_buried_mail_that_is_back_on_the_server_is_visible_again(db: Database) -> None:
    """A server restored from a backup: the tombstone goes with the new identity, living rows are taken first."""
    binding = await inbox(db)
    await store(db, binding, MAILS[0])
    await execute(db, "UPDATE stored_emails SET remote_expunge_observed_at = now()")
    await store(db, binding, arrival(1, MAILS[0]).octets or b"", uid_validity=8)
    assert await rows(db, "SELECT uid_validity, remote_expunge_observed_at FROM stored_emails") == [(8, None)]


@pytest.mark.spec("SYNC-79")
@pytest.mark.parametrize(
    ("disposition", "left"), [(Disposition.RETAIN_TOMBSTONE, 2), (Disposition.ERASE_LOCAL_COPY, 1)]
)
async def test_retiring_buries_or_erases_what_no_new_identity_claimed(
    db: Database, disposition: Disposition, left: int
) -> None:
    """After a complete pass the rest of the old epoch is gone, and so are its quarantined UIDs; the new is untouched."""
    binding = await inbox(db)
    await store(db, binding, MAILS[0], MAILS[1])
    await quarantine(
        db,
        binding.folder_id,
        uid_validity=UidValidity(7),
        uid=Uid(9),
        reason=QuarantineReason.FETCH_REFUSED,
        detail=None,
        size_octets=None,
        now=NOW,
    )
    await store(db, binding, MAILS[0], uid_validity=8)
    count = await retire_other_uid_validities(
        db, binding.folder_id, uid_validity=UidValidity(8), disposition=disposition, observed_at=LATER
    )
    assert count == 1
    assert await rows(db, "SELECT count(*) FROM stored_emails") == [(left,)]
    assert await rows(db, "SELECT subject FROM stored_emails WHERE remote_expunge_observed_at IS NULL") == [("n 0",)]
    assert await local_uids(db, binding.folder_id, uid_validity=UidValidity(8)) == [1]
    assert await quarantined(db, binding.folder_id) == []
