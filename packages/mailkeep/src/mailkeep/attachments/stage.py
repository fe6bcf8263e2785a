"""The stage `attachments`: the texts of attached files, one after the other, through the confined worker."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.attachments import queries
from mailkeep.attachments.model import Spelling
from mailkeep.attachments.queries import Content, Reading
from mailkeep.config import AttachmentTextSettings, Settings
from mailkeep.db import Database
from mailkeep.errors import AttachmentReaderUnavailable, ConcurrencyConflict, MailkeepError
from mailkeep.extraction import Bounds, Extraction, Outcome, format_of
from mailkeep.extraction.formats import HEAD_OCTETS
from mailkeep.extraction.model import FAILURES
from mailkeep.extraction.process import ExtractionProcess
from mailkeep.stages import PassOutcome, StageCounts
from mailkeep_message import AttachedFile, Limits, attached_files

RULES: Final = 1
"""Raised whenever a reader or what is indexed changes: all attachments are then read again."""
MAX_ATTEMPTS: Final = 3
"""How often reading a file may be begun before it is given up."""
PASS_MESSAGES: Final = 100
PASS_SECONDS: Final = 20.0
"""A pass ends behind the message during which this is over."""


class AttachmentStage:
    """Reads the attachments of each message that has some; see `mailkeep.stages.Stage`.

    An attempt is counted in the database before it begins, and each file's outcome is kept as soon as it is known: a
    kill costs at most one file its attempt. `limits` are those that the message was read with.
    """

    name: Final = "attachments"

    def __init__(
        self,
        db: Database,
        settings: AttachmentTextSettings,
        *,
        spelling: Spelling,
        limits: Limits,
        pass_messages: int = PASS_MESSAGES,
    ) -> None:
        self._db = db
        self._settings = settings
        self._spelling = spelling
        self._limits = limits
        self._pass_messages = pass_messages

    def follow(self, settings: Settings) -> None:
        """Go by this snapshot from the next pass on."""
        self._settings = settings.attachment_text

    async def run_pass(self, now: datetime) -> PassOutcome:
        """Read the attachments of some messages, each file in transactions of its own."""
        async with self._db.connection() as connection:
            ids = await queries.read_outstanding(connection, rules=RULES, limit=self._pass_messages)
        if not ids:
            return PassOutcome()
        done, failed, over = 0, 0, time.monotonic() + PASS_SECONDS
        async with worker_of(self._settings) as worker:
            for stored_email_id in ids:
                try:
                    is_whole = await self._read_message(worker, stored_email_id, now)
                except ConcurrencyConflict:
                    is_whole = True  # erased or read anew meanwhile: if it is there, it is outstanding still
                done, failed = done + is_whole, failed + (not is_whole)
                if time.monotonic() > over:
                    break
        return PassOutcome(
            done=done, failed=failed, has_more=done + failed < len(ids) or len(ids) == self._pass_messages
        )

    async def count(self) -> StageCounts:
        """Messages with attachments by their state."""
        return await queries.read_counts(self._db, rules=RULES)

    async def _read_message(self, worker: ExtractionProcess, stored_email_id: UUID, now: datetime) -> bool:
        """Read all attachments of a message; False when one of them, or the message, cannot be read."""
        async with self._db.connection() as connection:
            content = await queries.read_content(connection, stored_email_id)
            if content is None:
                return True
            reading = Reading(stored_email_id, content.extracted_at, RULES)
            finished = await queries.resume(connection, reading)
        is_whole = await asyncio.to_thread(_is_sound, content)
        names: list[str] = []
        # Damaged octets are for whoever mends them; the message is read anew then.
        files = _Files(attached_files(content.octets, limits=self._limits)) if is_whole else _Files(iter(()))
        while (file := await asyncio.to_thread(files.next)) is not None:
            if file.about.file_name is not None:
                names.append(file.about.file_name)
            if file.about.position not in finished:
                extraction = await self._read_file(worker, reading, file, now)
                is_whole = is_whole and extraction.outcome not in FAILURES
        await queries.finish(self._db, reading, names, spelling=self._spelling)
        return is_whole and not files.is_broken

    async def _read_file(
        self, worker: ExtractionProcess, reading: Reading, file: AttachedFile, now: datetime
    ) -> Extraction:
        form = format_of(file.octets[:HEAD_OCTETS], media_type=file.about.media_type, file_name=file.about.file_name)
        is_read = form is not None and len(file.octets) <= self._settings.max_attachment_bytes
        if is_read:
            try:
                await worker.start()
            except RuntimeError as error:
                raise AttachmentReaderUnavailable("the process that reads attachments does not start") from error
        async with self._db.connection() as connection:
            attempts = await queries.begin(connection, reading, file.about, spelling=self._spelling, now=now)
        if form is None:
            extraction = Extraction(Outcome.UNSUPPORTED)
        elif not is_read:
            extraction = Extraction(Outcome.TOO_LARGE)
        elif attempts > MAX_ATTEMPTS:
            extraction = Extraction(Outcome.GAVE_UP)
        else:
            try:
                extraction = await worker.extract(file.octets, form, charset=file.charset, hint=file.charset_hint)
            except asyncio.CancelledError:
                with contextlib.suppress(MailkeepError):
                    await queries.take_back(self._db, reading, file.about.position)
                raise
        async with self._db.connection() as connection:
            await queries.keep(connection, reading, file.about.position, extraction, spelling=self._spelling)
        return extraction


def worker_of(settings: AttachmentTextSettings) -> ExtractionProcess:
    """A worker with the configured bounds; it starts when the first file is given to it."""
    bounds = Bounds(
        max_characters=settings.max_characters_per_attachment,
        max_expanded_octets=settings.max_expanded_bytes,
        max_pages=settings.max_pages,
        max_nesting_depth=settings.max_nesting_depth,
        cpu_seconds=max(1, int(settings.max_cpu_time.total_seconds())),
    )
    return ExtractionProcess(
        bounds,
        max_memory_octets=settings.max_worker_memory_bytes,
        wall_seconds=settings.max_wall_time.total_seconds(),
    )


class _Files:
    """The files of one message, asked for one by one from a thread. An error of the reader ends them."""

    def __init__(self, files: Iterator[AttachedFile]) -> None:
        self._files = files
        self.is_broken = False

    def next(self) -> AttachedFile | None:
        try:
            return next(self._files, None)
        except Exception:
            # Arrival's own reading keeps such a message by its envelope; here it has no files.
            self.is_broken = True
            return None


def _is_sound(content: Content) -> bool:
    return len(content.octets) == content.length and hashlib.sha256(content.octets).digest() == content.sha256
