"""The stage: what is read, what is kept of it, and what happens when it is interrupted or meets something bad."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support import files, mail
from support.store import NOW, execute, inbox, rows, store

from mailkeep.attachments import (
    AttachmentStage,
    Language,
    Spelling,
    attachment_readings,
    attachment_text,
    count_outcomes,
)
from mailkeep.attachments import stage as stage_module
from mailkeep.attachments.segments import SEGMENT_CHARACTERS
from mailkeep.config import AttachmentTextSettings
from mailkeep.db import Database
from mailkeep.errors import AttachmentReaderUnavailable
from mailkeep.extraction import Extraction, Outcome
from mailkeep.extraction.process import ExtractionProcess
from mailkeep.mailbox import AccountId, erase_folder, rederive_pass, request_rederivation
from mailkeep_message import Limits

pytestmark = pytest.mark.anyio

SPELLING = Spelling("simple", lambda text: None, lambda text: None)
PDF = mail.File("plan.pdf", "application/pdf", files.pdf("Ferry timetable"))


def stage(db: Database, *, spelling: Spelling = SPELLING, pass_messages: int = 100, **settings: Any) -> AttachmentStage:
    """The stage under settings."""
    section = AttachmentTextSettings.model_validate(settings)
    return AttachmentStage(db, section, spelling=spelling, limits=Limits(), pass_messages=pass_messages)


async def stored(db: Database, *attached: mail.File, **fields: Any) -> UUID:
    """The key of one stored message with these files."""
    binding = await inbox(db)
    (uid,) = (await rows(db, "SELECT coalesce(max(uid), 0) + 1 FROM stored_emails"))[0]
    await store(db, binding, mail.message(files=attached, **fields), first_uid=uid)
    ((key,),) = await rows(db, "SELECT id FROM stored_emails WHERE uid = %s", uid)
    return key


async def outcomes(db: Database, key: UUID) -> list[tuple[int, str]]:
    """What became of a message's attachments."""
    return [(one.position, one.outcome.value) for one in (await attachment_readings(db, key)).values()]


@pytest.mark.spec("FIND-97", "FIND-99")
async def test_attachments_are_read_kept_and_counted(db: Database) -> None:
    """Text, its pieces, the reasons of what has none, and the counts that status shows."""
    key = await stored(
        db,
        PDF,
        mail.File("photo.jpg", "image/jpeg", b"\xff\xd8\xff"),
        mail.File("locked.pdf", "application/pdf", files.locked_pdf("x", password="p")),
        mail.File("scan.pdf", "application/pdf", files.pdf("", picture=True)),
        mail.File("broken.docx", files.WORD, files.docx("x")[:200]),
        mail.File("large.txt", "text/plain", b"x" * 5000),
    )
    plain = await stored(db)
    work = stage(db, max_attachment_bytes=4096)
    assert await work.count() == replace(await work.count(), done=0, outstanding=1, failed=0)
    outcome = await work.run_pass(NOW)
    assert (outcome.done, outcome.failed, outcome.has_more) == (0, 1, False)
    assert await outcomes(db, key) == [
        (0, "Extracted"),
        (1, "Unsupported"),
        (2, "Encrypted"),
        (3, "ScannedPages"),
        (4, "Broken"),
        (5, "TooLarge"),
    ]
    assert await count_outcomes(db) == {
        Outcome.EXTRACTED: 1,
        Outcome.SCANNED_PAGES: 1,
        Outcome.ENCRYPTED: 1,
        Outcome.UNSUPPORTED: 1,
        Outcome.BROKEN: 1,
        Outcome.TOO_LARGE: 1,
    }
    text = await attachment_text(db, key, 0, offset=6, limit=4)
    assert text is not None
    assert (text.text, text.reading.character_count) == ("time", len("Ferry timetable"))
    assert await attachment_text(db, plain, 0, offset=0, limit=4) is None
    counts = await work.count()
    assert (counts.done, counts.outstanding, counts.failed) == (1, 0, 1)
    assert (await work.run_pass(NOW)).done == 0


@pytest.mark.spec("FIND-103")
async def test_words_of_names_and_texts_stand_beside_the_document_below_its_own(db: Database) -> None:
    """Weight C; the names once more by themselves; the message's own vector is untouched."""
    key = await stored(db, mail.File("boat_plan-2026.txt", "text/plain", b"harbour timetable"))
    before = await rows(db, "SELECT search_vector::text FROM email_search_documents")
    await stage(db).run_pass(NOW)
    ((own, names, whole),) = await rows(
        db,
        "SELECT search_vector::text, attachment_names_vector, attachment_vector FROM email_search_documents"
        " WHERE stored_email_id = %s",
        key,
    )
    assert [(own,)] == before
    for word in ("'harbour':", "'timetable':", "'boat':", "'plan':", "'2026':"):
        assert word in whole
        assert (word in names) is (word not in ("'harbour':", "'timetable':"))
    assert all(entry.endswith("C") for entry in whole.split() if ":" in entry)


@pytest.mark.spec("FIND-103")
async def test_stems_and_spellings_are_those_that_mail_gets(db: Database) -> None:
    """The language of each text, with the mark that a query asks for, and plainer spellings."""
    spelling = Spelling("simple", lambda text: Language("english", "\x01len"), lambda text: "'uber'")
    await stored(db, mail.File("a.txt", "text/plain", "Ferries über".encode()))
    await stage(db, spelling=spelling).run_pass(NOW)
    found = await rows(
        db,
        "SELECT 1 FROM email_search_documents WHERE attachment_vector @@ %s::tsquery",
        "'ferri' & '\x01len' & 'uber' & 'über' & 'ferries'",
    )
    assert len(found) == 1


async def test_long_texts_are_kept_whole_in_pieces_and_read_by_stretches(db: Database) -> None:
    """Pieces join to the text; a stretch across their borders is what stands there."""
    words = " ".join(f"word{number}" for number in range(2_000))
    key = await stored(db, mail.File("a.txt", "text/plain", words.encode()))
    await stage(db).run_pass(NOW)
    pieces = await rows(
        db,
        "SELECT starts_at, segment_text FROM email_attachment_segments WHERE stored_email_id = %s ORDER BY ordinal",
        key,
    )
    assert "".join(text for _, text in pieces) == words
    assert all(words.startswith(text, at) and len(text) <= SEGMENT_CHARACTERS for at, text in pieces)
    for offset in (0, 1_990, 3_000, len(words) - 5, len(words) + 5):
        stretch = await attachment_text(db, key, 0, offset=offset, limit=2_500)
        assert stretch is not None
        assert stretch.text == words[offset : offset + 2_500]


@pytest.mark.spec("FIND-104")
async def test_more_words_than_a_vector_holds_are_indexed_from_the_beginning(db: Database) -> None:
    """The store refuses a vector over a megabyte; the message is then found by as many pieces as fit."""
    letters = [chr(0x10400 + number) for number in range(40)]  # four octets each
    pairs = itertools.cycle("".join(pair) for pair in itertools.product(letters, repeat=3))
    compounds = ("-".join(itertools.islice(pairs, 100)) for _ in range(498))
    words = f"firstly {' '.join(compounds)} finally"
    key = await stored(db, mail.File("a.txt", "text/plain", words.encode()))
    await stage(db).run_pass(NOW)
    assert await outcomes(db, key) == [(0, "Extracted")]
    found = "SELECT attachment_vector @@ 'firstly', attachment_vector @@ 'finally' FROM email_search_documents"
    assert await rows(db, found) == [(True, False)]
    assert await rows(db, "SELECT 1 FROM email_attachment_segments WHERE segment_vector @@ 'finally'") == [(1,)]


@pytest.mark.spec("FIND-97")
async def test_a_new_version_of_the_rules_reads_everything_again(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the former version are replaced, and only then."""
    key = await stored(db, PDF)
    work = stage(db)
    await work.run_pass(NOW)
    monkeypatch.setattr(stage_module, "RULES", stage_module.RULES + 1)
    assert (await work.count()).outstanding == 1
    assert (await work.run_pass(NOW)).done == 1
    assert await rows(db, "SELECT rule_version, attempt_count FROM email_attachment_texts") == [(stage_module.RULES, 1)]
    assert await outcomes(db, key) == [(0, "Extracted")]


@pytest.mark.spec("FIND-97")
async def test_reading_a_message_again_reads_its_attachments_again(db: Database) -> None:
    """Re-derivation, which may sort files otherwise, leaves nothing of the former reading behind."""
    key = await stored(db, PDF)
    work = stage(db)
    await work.run_pass(NOW)
    run = await request_rederivation(db, AccountId("ann"), alias=None, now=NOW)
    later = NOW + timedelta(hours=1)
    await rederive_pass(db, run, limits=Limits(), now=lambda: later)
    assert (await work.count()).outstanding == 1
    assert (await work.run_pass(later)).done == 1
    assert await rows(db, "SELECT document_extracted_at, attempt_count FROM email_attachment_texts") == [(later, 1)]
    assert await outcomes(db, key) == [(0, "Extracted")]


@pytest.mark.spec("FIND-106")
async def test_erasing_leaves_nothing_of_an_attachment(db: Database) -> None:
    """Texts are as private as the mail, and die with it."""
    await stored(db, PDF)
    await stage(db).run_pass(NOW)
    await erase_folder(db, AccountId("ann"), alias="INBOX", emails_per_pass=100)
    assert (
        await rows(db, "SELECT 1 FROM email_attachment_texts UNION ALL SELECT 1 FROM email_attachment_segments") == []
    )


async def test_passes_are_bounded_and_take_the_newest_first(db: Database) -> None:
    """`has_more` says that another pass finds work."""
    keys = [await stored(db, PDF, subject=str(number)) for number in range(3)]
    work = stage(db, pass_messages=2)
    first = await work.run_pass(NOW)
    assert (first.done, first.has_more) == (2, True)
    assert sorted(await rows(db, "SELECT DISTINCT stored_email_id FROM email_attachment_texts")) == sorted(
        [(key,) for key in sorted(keys)[1:]]
    )
    assert (await work.run_pass(NOW)).done == 1


@pytest.mark.spec("FIND-100")
async def test_a_worker_that_dies_costs_one_attachment_and_the_stage_goes_on(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is recorded, the neighbours are read, and the file is not tried for ever."""
    original = ExtractionProcess.extract

    async def deadly(self: ExtractionProcess, octets: bytes, *args: Any, **named: Any) -> Extraction:
        if b"poison" in octets:
            await self.kill()
            return Extraction(Outcome.WORKER_DIED)
        return await original(self, octets, *args, **named)

    monkeypatch.setattr(ExtractionProcess, "extract", deadly)
    key = await stored(db, mail.File("bad.txt", "text/plain", b"poison"), PDF)
    work = stage(db)
    outcome = await work.run_pass(NOW)
    assert (outcome.failed, await outcomes(db, key)) == (1, [(0, "WorkerDied"), (1, "Extracted")])
    assert (await work.count()).outstanding == 0


@pytest.mark.spec("FIND-101")
async def test_what_ends_the_service_every_time_is_given_up(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts are counted before they begin; files done before it are not read again, those behind it are reached."""
    begun: list[bytes] = []
    original = ExtractionProcess.extract

    class Killed(BaseException):
        """The end of the whole process."""

    async def deadly(self: ExtractionProcess, octets: bytes, *args: Any, **named: Any) -> Extraction:
        begun.append(octets[:6])
        if octets == b"poison":
            raise Killed
        return await original(self, octets, *args, **named)

    monkeypatch.setattr(ExtractionProcess, "extract", deadly)
    key = await stored(
        db,
        mail.File("first.txt", "text/plain", b"before"),
        mail.File("bad.txt", "text/plain", b"poison"),
        mail.File("last.txt", "text/plain", b"behind"),
    )
    work = stage(db)
    for _ in range(stage_module.MAX_ATTEMPTS):
        with pytest.raises(Killed):
            await work.run_pass(NOW)
    assert (await work.run_pass(NOW)).failed == 1
    assert begun == [b"before", b"poison", b"poison", b"poison", b"behind"]
    assert await outcomes(db, key) == [(0, "Extracted"), (1, "GaveUp"), (2, "Extracted")]


@pytest.mark.spec("FIND-101")
async def test_a_worker_that_cannot_start_counts_no_attempt(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass fails as a whole and is tried later; no file is blamed."""
    monkeypatch.setattr("mailkeep.extraction.process.sys.executable", "/bin/false")
    await stored(db, PDF)
    work = stage(db)
    with pytest.raises(AttachmentReaderUnavailable):
        await work.run_pass(NOW)
    assert await rows(db, "SELECT 1 FROM email_attachment_texts") == []
    assert (await work.count()).outstanding == 1


@pytest.mark.parametrize("act", ["DELETE FROM stored_emails", "UPDATE email_search_documents SET extracted_at = now()"])
@pytest.mark.spec("FIND-97")
async def test_mail_that_changes_while_it_is_read_is_left_to_its_change(
    db: Database, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """Erased in the middle: nothing fails. Read anew in the middle: still outstanding."""
    original: Callable[..., Any] = ExtractionProcess.extract

    async def overtaken(self: ExtractionProcess, *args: Any, **named: Any) -> Extraction:
        await execute(db, act)
        return await original(self, *args, **named)

    monkeypatch.setattr(ExtractionProcess, "extract", overtaken)
    await stored(db, PDF)
    await stage(db).run_pass(NOW)
    monkeypatch.undo()
    left = 0 if act.startswith("DELETE") else 1
    assert (await stage(db).count()).outstanding == left
    assert (await stage(db).run_pass(NOW)).done == left


async def test_damaged_octets_are_not_read(db: Database) -> None:
    """What does not match its digest waits to be mended; nothing is made of it."""
    key = await stored(db, PDF)
    await execute(db, "UPDATE email_message_contents SET sha256_hash = sha256('x')")
    assert (await stage(db).run_pass(NOW)).failed == 1
    assert await outcomes(db, key) == []


@pytest.mark.spec("FIND-101")
async def test_a_stopped_pass_loses_nothing(db: Database) -> None:
    """Cancelled in the middle of a file: the next pass does all of it, and a stop on purpose is no attempt."""
    endless = files.pdf_with_content(b"BT /F 9 Tf " + b"(word) Tj " * 200_000 + b"ET")
    key = await stored(db, PDF, mail.File("b.pdf", "application/pdf", endless))
    work = stage(db, max_cpu_time="1s")
    running = asyncio.ensure_future(work.run_pass(NOW))
    async with asyncio.timeout(60):
        while not await rows(db, "SELECT 1 FROM email_attachment_texts WHERE attachment_position = 1"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await outcomes(db, key) == [(0, "Extracted")]
    counted = "SELECT attempt_count FROM email_attachment_texts ORDER BY attachment_position"
    assert await rows(db, counted) == [(1,), (0,)]
    await work.run_pass(NOW)
    assert (await outcomes(db, key))[0] == (0, "Extracted")
    assert (await work.count()).outstanding == 0
