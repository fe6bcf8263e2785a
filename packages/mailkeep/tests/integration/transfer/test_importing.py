"""Importing into a real store: identity, numbering, state, times, and what happens when it breaks off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.mail import message

from mailkeep.db import Database
from mailkeep.errors import DatabaseUnavailable
from mailkeep.mailbox import AccountId, Flags, Uid, folder_bindings, folder_status, load_checkpoint, local_flags
from mailkeep.transfer import ImportOutcome, Source, SourceKind, Unreadable, import_sources
from mailkeep.transfer import importing as importing_module
from mailkeep.transfer.importing import LOCAL_UID_VALIDITY
from mailkeep_message import Limits

pytestmark = pytest.mark.anyio

ACCOUNT = AccountId("old")
WHEN = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)


def eml_source(folder: Path, mails: Sequence[bytes], *, alias: str = "INBOX") -> Source:
    """Loose message files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, octets in enumerate(mails):
        files.append(folder / f"{number:05d}.eml")
        files[-1].write_bytes(octets)
    return Source(SourceKind.EML, folder, alias, tuple(files))


async def bring(db: Database, *sources: Source | Unreadable, alias: str | None = None) -> ImportOutcome:
    """Import with ordinary bounds."""
    return await import_sources(
        db, ACCOUNT, sources, alias=alias, max_octets=1 << 20, limits=Limits(), now=lambda: WHEN
    )


async def stored(db: Database) -> list[tuple[str, int, str]]:
    """Folder, UID and subject of everything stored, in that order."""
    async with db.connection() as connection:
        cursor = await connection.execute(
            "SELECT f.alias, e.uid, coalesce(e.subject, '') FROM stored_emails e"
            " JOIN mail_folders f ON f.id = e.mail_folder_id ORDER BY f.alias, e.uid"
        )
        return [(row[0], row[1], row[2]) for row in await cursor.fetchall()]


async def test_importing_twice_changes_nothing(db: Database, tmp_path: Path) -> None:
    """A message is itself by its octets: repeated inside a source, across runs and under other names."""
    mails = [message(f"Number {n}") for n in range(3)]
    first = await bring(db, eml_source(tmp_path / "a", [*mails, mails[0]]))
    assert (first.imported, first.already_present) == (3, 1)
    before = await stored(db)
    again = await bring(db, eml_source(tmp_path / "b", list(reversed(mails))))
    assert (again.imported, again.already_present, again.octets) == (0, 3, 0)
    assert await stored(db) == before


async def test_the_same_mail_may_lie_in_two_folders(db: Database, tmp_path: Path) -> None:
    """Identity is the digest within the folder, as copies on a server are messages of their own."""
    source = eml_source(tmp_path, [message("One")])
    await bring(db, source, alias="first")
    await bring(db, source, alias="second")
    assert await stored(db) == [("FIRST", 1, "One"), ("SECOND", 1, "One")]


async def test_messages_that_differ_by_one_octet_are_two(db: Database, tmp_path: Path) -> None:
    """One Message-ID on different octets is no identity."""
    one = message("One", message_id="same@example.com")
    outcome = await bring(db, eml_source(tmp_path, [one, one + b"x\r\n"]))
    assert outcome.imported == 2


async def test_batches_follow_each_other_without_gaps_or_repeats(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More messages than a batch holds, a number of them equal to whole batches, arrive once each."""
    monkeypatch.setattr(importing_module, "BATCH_MESSAGES", 4)
    outcome = await bring(db, eml_source(tmp_path, [message(f"Number {n}") for n in range(8)]))
    assert outcome.imported == 8
    assert [uid for _, uid, _ in await stored(db)] == list(range(1, 9))


async def test_a_run_that_broke_off_is_completed_by_the_next(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are claimed before messages are stored: a crash leaves a gap, never a number used twice."""
    source = eml_source(tmp_path, [message(f"Number {n}") for n in range(6)])
    monkeypatch.setattr(importing_module, "BATCH_MESSAGES", 2)
    store, calls = importing_module.store_batch, []

    async def failing(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise DatabaseUnavailable("gone")
        return await store(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(importing_module, "store_batch", failing)
    with pytest.raises(DatabaseUnavailable):
        await bring(db, source)
    outcome = await bring(db, source)
    assert (outcome.imported, outcome.already_present) == (4, 2)
    found = await stored(db)
    assert sorted(subject for _, _, subject in found) == [f"Number {n}" for n in range(6)]
    assert [uid for _, uid, _ in found] == [1, 2, 5, 6, 7, 8]


async def test_state_and_times_come_along(db: Database, tmp_path: Path) -> None:
    """Maildir flags are stored; mail without any Received field gets the time its file or Date field tells."""
    for part in ("cur", "new", "tmp"):
        (tmp_path / "box" / part).mkdir(parents=True)
    (tmp_path / "box" / "cur" / "1.x:2,FS").write_bytes(message("Flagged", sent_at=None))
    await bring(db, Source(SourceKind.MAILDIR, tmp_path / "box", "INBOX"))
    await bring(db, eml_source(tmp_path / "eml", [message("Dated", sent_at=WHEN)]))
    (binding,) = await folder_bindings(db, ACCOUNT)
    flags = await local_flags(db, binding.folder_id, uid_validity=LOCAL_UID_VALIDITY)
    assert flags[Uid(1)] == Flags(seen=True, flagged=True)
    async with db.connection() as connection:
        cursor = await connection.execute("SELECT subject, received_at FROM stored_emails ORDER BY uid")
        rows = dict(await cursor.fetchall())
    assert rows["Flagged"] is not None
    assert rows["Dated"] == WHEN


async def test_what_cannot_be_read_is_counted_and_named(db: Database, tmp_path: Path) -> None:
    """Unreadable sources and items stand in the outcome; the others are stored and the status counts them."""
    source = eml_source(tmp_path, [message("Good"), b"", message("Large", body="x" * (2 << 20))])
    outcome = await bring(db, Unreadable("elsewhere", "no"), source)
    assert (outcome.imported, outcome.unreadable_count) == (1, 3)
    assert outcome.unreadable[0] == Unreadable("elsewhere", "no")
    (status,) = await folder_status(db, ACCOUNT)
    assert (status.stored, status.server, status.synchronized_at) == (1, None, WHEN)
    checkpoint = await load_checkpoint(db, status.folder_id)
    assert checkpoint is not None
    assert checkpoint.last_seen_uid == 1


async def test_an_mbox_is_never_held_whole(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a batch of messages is read ahead of what is stored."""
    read_ahead: list[int] = []
    counted = {"read": 0, "stored": 0}
    store, read = importing_module.store_batch, importing_module.read_items

    def counting(source: Source, *, max_octets: int) -> Iterator[object]:
        for item in read(source, max_octets=max_octets):
            counted["read"] += 1
            read_ahead.append(counted["read"] - counted["stored"])
            yield item

    async def storing(*arguments: object, **options: object) -> object:
        outcome = await store(*arguments, **options)  # type: ignore[arg-type]
        counted["stored"] += outcome.stored
        return outcome

    monkeypatch.setattr(importing_module, "BATCH_MESSAGES", 3)
    monkeypatch.setattr(importing_module, "read_items", counting)
    monkeypatch.setattr(importing_module, "store_batch", storing)
    await bring(db, eml_source(tmp_path, [message(f"Number {n}") for n in range(20)]))
    assert max(read_ahead) <= 3
