"""What reading attachments costs, and what searching them costs a search: readers, worker, stage, word search.

The files are made here: PDF pages, office documents and plain text of words with the frequencies of an archive. For the
search one message in seven of a store has a file of about 12,000 characters; each kind of term is searched before the
files are read and afterwards, in the same process. MAILKEEP_BENCH_MESSAGES makes the store smaller.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import psycopg

from mailkeep.attachments import queries
from mailkeep.attachments.stage import RULES
from mailkeep.config import Settings, load_settings
from mailkeep.config.edit import add_account
from mailkeep.db import Database
from mailkeep.derived import spelling_of
from mailkeep.extraction import Bounds, Extraction, Format, Outcome
from mailkeep.extraction.process import ExtractionProcess
from mailkeep.search import SearchRequest, search_emails
from mailkeep_message import Attachment

from .corpus import WORK
from .figure import Figure
from .lexical_search import KINDS, Kind, percentile
from .process import MEBIBYTE, kilobytes, processor_seconds
from .search_mail import COMMON, mail
from .search_store import ACCOUNT_ID, fill

MESSAGES = int(os.environ.get("MAILKEEP_BENCH_MESSAGES", "250000")) // 5
ONE_IN = 7
FILE_WORDS = 1_800
INNER = "quarterdeck"
"""A word in every third file and in no message."""
RUNS = 40
PAGES = 40
PAGE_WORDS = 400
BOUNDS = Bounds()
MEMORY = 384 << 20
WALL = 120.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A file of PAGES pages to read: its name, reader and octets, and how often it is read, to use up a second."""

    name: str
    form: Format
    octets: bytes
    runs: int


def measure() -> Iterator[Figure]:
    """Yield the cost of reading, then of storing and of searching."""
    yield from asyncio.run(_readers())
    home = _prepared_home()
    yield from asyncio.run(_searches(home, load_settings(home)))


async def _readers() -> list[Figure]:
    figures: list[Figure] = []
    for sample in _samples():
        async with ExtractionProcess(BOUNDS, max_memory_octets=MEMORY, wall_seconds=WALL) as worker:
            started = time.perf_counter()
            await worker.start()
            if not figures:
                figures.append(Figure("attachment_worker_start", (time.perf_counter() - started) * 1000, "ms"))
            pid = worker.pid
            assert pid is not None
            before = _processor_ms(pid)
            for _ in range(sample.runs):
                found = await worker.extract(sample.octets, sample.form)
                if found.outcome is not Outcome.EXTRACTED:
                    raise RuntimeError(f"{sample.name} was not read: {found.outcome}")
            cost = (_processor_ms(pid) - before) / sample.runs / PAGES
            figures.append(Figure(f"attachment_read_{sample.name}", cost, "ms of processor per page"))
            figures.append(
                Figure(
                    f"attachment_worker_{sample.name}_peak_memory", kilobytes(pid, "status", "VmHWM:") / MEBIBYTE, "MiB"
                )
            )
    return figures


def _samples() -> Iterator[Sample]:
    words = _words(random.Random(3), PAGES * PAGE_WORDS)
    pages = [words[at : at + PAGE_WORDS] for at in range(0, len(words), PAGE_WORDS)]
    yield Sample("pdf", Format.PDF, _pdf(pages), 3)
    paragraphs = "".join(f"<w:p><w:r><w:t>{' '.join(page)}</w:t></w:r></w:p>" for page in pages)
    yield Sample("docx", Format.ZIP, _zipped({"word/document.xml": f'<w:d xmlns:w="urn:w">{paragraphs}</w:d>'}), 40)
    rows = ("".join(f'<c t="str"><v>{word}</v></c>' for word in page) for page in pages)
    cells = "".join(f"<row>{row}</row>" for row in rows)
    book = {"xl/workbook.xml": "<w/>", "xl/worksheets/sheet1.xml": f"<s>{cells}</s>"}
    yield Sample("xlsx", Format.ZIP, _zipped(book), 20)
    yield Sample("text", Format.TEXT, "\n".join(" ".join(page) for page in pages).encode(), 300)


def _pdf(pages: list[list[str]]) -> bytes:
    """Pages of lines of twelve words, content compressed, as word processors write them."""
    import zlib

    out = bytearray(b"%PDF-1.7\n")
    kids = b" ".join(b"%d 0 R" % (4 + 2 * at) for at in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, page in enumerate(pages):
        lines = b"".join(b"(%s) Tj T* " % " ".join(page[n : n + 12]).encode() for n in range(0, len(page), 12))
        stream = zlib.compress(b"BT /F 9 Tf 12 TL 72 720 Td " + lines + b"ET")
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F 3 0 R >> >>"
            b" /Contents %d 0 R >>" % (5 + 2 * at)
        )
        objects.append(b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def _zipped(members: dict[str, str]) -> bytes:
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return target.getvalue()


def _words(dice: random.Random, count: int) -> list[str]:
    """Words of the synthetic mail, in their frequencies."""
    found: list[str] = []
    for item in mail(2_000, seed=dice.randrange(1 << 30)):
        found += [word for word in item.body.split() if word.isascii() and word.isalnum()]
        if len(found) >= count:
            return found[:count]
    raise RuntimeError("there are too few words")


def _processor_ms(pid: int) -> float:
    return processor_seconds(pid) * 1000


def _prepared_home() -> Path:
    """An installation with mail whose files are not read yet."""
    home = WORK / f"attachments-{MESSAGES}" / "home"
    shutil.rmtree(home, ignore_errors=True)
    add_account(home, {"account_id": ACCOUNT_ID, "display_name": "Bench", "kind": "local"})
    return home


async def _searches(home: Path, settings: Settings) -> list[Figure]:
    figures = []
    async with Database.open(settings, home) as database:
        await asyncio.to_thread(_fill, database.dsn)
        kinds = (*KINDS, Kind("word_of_files", INNER, rivals_can=False))
        before = [await _times(database, settings, kind.query) for kind in kinds]
        started = time.perf_counter()
        count = await _attach(database, settings)
        figures.append(Figure("attachment_store", (time.perf_counter() - started) * 1000 / count, "ms per file"))
        await asyncio.to_thread(_settle, database.dsn)
        for kind, without in zip(kinds, before, strict=True):
            times = await _times(database, settings, kind.query)
            name = f"attachment_search_{kind.name}_{MESSAGES}"
            wall = percentile(times.wall, 95)
            if kind.query == INNER:  # there is nothing to find before
                figures.append(Figure(f"{name}_p95", wall, "ms"))
                figures.append(Figure(f"{name}_cpu", times.cpu, "ms of processor"))
                continue
            figures.append(Figure(f"{name}_p95", wall, "ms", "no files", percentile(without.wall, 95)))
            figures.append(Figure(f"{name}_cpu", times.cpu, "ms of processor", "no files", without.cpu))
    return figures


async def _attach(database: Database, settings: Settings) -> int:
    """Give one message in ONE_IN the text of a file, through the stage's own statements."""
    dice, spelling, now = random.Random(11), spelling_of(settings), datetime.now(UTC)
    pool = _words(dice, 60_000)
    async with database.connection() as connection:
        rows = await (
            await connection.execute("SELECT stored_email_id, extracted_at FROM email_search_documents ORDER BY 1")
        ).fetchall()
    chosen = rows[::ONE_IN]
    for number, (key, extracted_at) in enumerate(chosen):
        start = dice.randrange(len(pool) - FILE_WORDS)
        words = pool[start : start + FILE_WORDS]
        words[0] = INNER if number % 3 == 0 else COMMON
        text = "\n".join(" ".join(words[at : at + 12]) for at in range(0, len(words), 12))
        reading = queries.Reading(key, extracted_at, RULES)
        about = Attachment(0, f"report-{number}.pdf", False, "application/pdf", 60_000, None)
        async with database.connection() as connection:
            await queries.begin(connection, reading, about, spelling=spelling, now=now)
            await queries.keep(connection, reading, 0, Extraction(Outcome.EXTRACTED, text), spelling=spelling)
        await queries.finish(database, reading, [about.file_name or ""], spelling=spelling)
    async with database.connection() as connection:
        await connection.execute("UPDATE stored_emails SET attachment_count = 1 WHERE attachments_read_by IS NOT NULL")
    return len(chosen)


@dataclass(frozen=True, slots=True)
class Times:
    """What one kind of search took: each run on the clock, and on average of the processor, ours and the server's."""

    wall: list[float]
    cpu: float


async def _times(database: Database, settings: Settings, query: str) -> Times:
    request = SearchRequest(query_text=query, result_limit=20)
    for _ in range(3):
        await search_emails(database, settings, request)
    async with database.connection() as connection:
        found = await connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'mailkeep'")
        pids = [os.getpid(), *(row[0] for row in await found.fetchall())]
    before = sum(map(_processor_ms, pids))
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        await search_emails(database, settings, request)
        times.append((time.perf_counter() - started) * 1000)
    return Times(times, (sum(map(_processor_ms, pids)) - before) / RUNS)


def _fill(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        fill(connection, mail(MESSAGES))
    _settle(dsn)


def _settle(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
