"""The SQL of attachments' texts: written by the stage, read by search and by whoever shows a message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import psycopg

from mailkeep.attachments.model import AttachmentReading, AttachmentText, Hit, Language, Spelling, Stemmed
from mailkeep.attachments.segments import segments_of
from mailkeep.db import Connection, Database, load_queries
from mailkeep.extraction import Extraction, Outcome
from mailkeep.extraction.model import FAILURES
from mailkeep.stages import StageCounts
from mailkeep.terms import index_terms
from mailkeep_message import Attachment

_SQL: Final = load_queries("mailkeep.attachments")

MAX_INDEXED_SEGMENTS: Final = 100
"""Pieces of all attachments of one message that the index takes: about 200,000 characters."""
TOO_LONG: Final = "54000"
HEADLINE_BEFORE: Final = 150
HEADLINE_PART: Final = 800
"""Characters of a piece that a headline is cut from, where a word is found as it was typed."""
MAX_MEDIA_TYPE: Final = 255
_MARKS: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of one message under one version of the rules; rows name it, so that nobody finishes another's."""

    id: UUID
    extracted_at: datetime
    rules: int

    def values(self) -> dict[str, object]:
        """As parameters of a statement."""
        return {"id": self.id, "extracted_at": self.extracted_at, "rules": self.rules}


@dataclass(frozen=True, slots=True)
class Content:
    """The stored octets of a message, with what proves them."""

    octets: bytes
    length: int
    sha256: bytes
    extracted_at: datetime


async def read_outstanding(connection: Connection, *, rules: int, limit: int) -> list[UUID]:
    """Messages to be read."""
    cursor = await connection.execute(_SQL["outstanding"], {"rules": rules, "limit": limit})
    return [row[0] for row in await cursor.fetchall()]


async def read_content(connection: Connection, stored_email_id: UUID) -> Content | None:
    """The octets of a message; None when it is gone."""
    row = await (await connection.execute(_SQL["content"], {"id": stored_email_id})).fetchone()
    return None if row is None else Content(*row)


async def resume(connection: Connection, reading: Reading) -> set[int]:
    """Forget what belongs to another reading; the positions that are done already."""
    await connection.execute(_SQL["forget_other_readings"], reading.values())
    cursor = await connection.execute(_SQL["finished"], {"id": reading.id})
    return {row[0] for row in await cursor.fetchall()}


async def begin(
    connection: Connection, reading: Reading, about: Attachment, *, spelling: Spelling, now: datetime
) -> int:
    """Count an attempt at an attachment; the how-manieth it is."""
    values = {
        **reading.values(),
        **_name_values(about.file_name or "", spelling),
        "position": about.position,
        "now": now,
        "file_name": about.file_name,
        "media_type": about.media_type[:MAX_MEDIA_TYPE],
        "size_octets": about.size_octets,
    }
    row = await (await connection.execute(_SQL["begin"], values)).fetchone()
    assert row is not None
    count: int = row[0]
    return count


async def take_back(db: Database, reading: Reading, position: int) -> None:
    """Do not count an attempt that was stopped on purpose."""
    async with db.connection() as connection:
        await connection.execute(_SQL["take_back"], {**reading.values(), "position": position})


async def keep(
    connection: Connection, reading: Reading, position: int, extraction: Extraction, *, spelling: Spelling
) -> None:
    """Write what became of an attachment, its text in pieces."""
    values: dict[str, object] = {**reading.values(), "position": position}
    outcome = {
        "outcome": extraction.outcome.value,
        "is_partial": extraction.is_partial,
        "character_count": len(extraction.text),
    }
    kept = await (await connection.execute(_SQL["keep_outcome"], {**values, **outcome})).fetchone()
    if kept is None:
        return  # read anew or erased meanwhile
    await connection.execute(_SQL["forget_segments"], values)
    if not extraction.text:
        return
    pieces = list(segments_of(extraction.text))
    language: Language | None = spelling.language_of(extraction.text)
    await connection.execute(
        _SQL["keep_segments"],
        {
            **values,
            "configuration": spelling.configuration,
            "stemming": None if language is None else language.stemming,
            "mark": None if language is None else language.mark,
            "ordinals": list(range(len(pieces))),
            "starts": [piece.starts_at for piece in pieces],
            "texts": [piece.text for piece in pieces],
            "terms": [index_terms(piece.text) or "" for piece in pieces],
            "spellings": [spelling.spellings_of(piece.text) or "" for piece in pieces],
        },
    )


async def finish(db: Database, reading: Reading, names: Sequence[str], *, spelling: Spelling) -> bool:
    """Let the message be found by its attachments and mark it as read; False when it was read anew meanwhile.

    Where the words of mail and attachments are more than one vector holds, fewer pieces are indexed.
    """
    segments = MAX_INDEXED_SEGMENTS
    while True:
        try:
            async with db.connection() as connection:
                return await _finish(connection, reading, names, spelling=spelling, segments=segments)
        except psycopg.Error as error:
            if error.sqlstate != TOO_LONG or segments < 0:
                raise
            # The last try keeps the names out, too: the message's own words fill the vector.
            segments = segments // 2 if segments else -1


async def _finish(
    connection: Connection, reading: Reading, names: Sequence[str], *, spelling: Spelling, segments: int
) -> bool:
    named = " ".join(names) if segments >= 0 else ""
    values = {**reading.values(), **_name_values(named, spelling), "segments": max(segments, 0)}
    if await (await connection.execute(_SQL["finish_document"], values)).fetchone() is None:
        return False
    await connection.execute(_SQL["finish_message"], reading.values())
    return True


def _name_values(name: str, spelling: Spelling) -> dict[str, object]:
    """The words of file names, with those between the marks that join them."""
    return {
        "configuration": spelling.configuration,
        "name_words": " ".join(part for part in (name, index_terms(name), " ".join(_MARKS.split(name))) if part),
        "spellings": spelling.spellings_of(name) or "",
    }


async def read_counts(db: Database, *, rules: int) -> StageCounts:
    """Messages done, outstanding, and with an attachment that could not be read."""
    failures = [outcome.value for outcome in FAILURES]
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["counts"], {"rules": rules, "failures": failures})
        row = await cursor.fetchone()
    assert row is not None
    return StageCounts(done=row[0], outstanding=row[1], failed=row[2])


async def count_outcomes(db: Database) -> dict[Outcome, int]:
    """How many attachments came to what, in the order of the outcomes."""
    async with db.connection() as connection:
        rows = dict(await (await connection.execute(_SQL["outcomes"])).fetchall())
    return {outcome: rows[outcome.value] for outcome in Outcome if outcome.value in rows}


async def attachment_readings(db: Database, stored_email_id: UUID) -> dict[int, AttachmentReading]:
    """What became of each attachment of a message, by position. Whether it may be read is the caller's business."""
    async with db.connection() as connection:
        rows = await (await connection.execute(_SQL["of_message"], {"id": stored_email_id})).fetchall()
    known = {outcome.value for outcome in Outcome}
    return {row[0]: AttachmentReading(row[0], Outcome(row[1]), row[2], row[3]) for row in rows if row[1] in known}


async def attachment_text(
    db: Database, stored_email_id: UUID, position: int, *, offset: int, limit: int
) -> AttachmentText | None:
    """At most `limit` characters of an attachment's text from `offset` on; None when it was not looked at yet.

    Whether the message may be read is the caller's business.
    """
    reading = (await attachment_readings(db, stored_email_id)).get(position)
    if reading is None:
        return None
    values = {"id": stored_email_id, "position": position, "offset": offset, "limit": limit}
    async with db.connection() as connection:
        row = await (await connection.execute(_SQL["text"], values)).fetchone()
    if row is None or row[0] is None:
        return AttachmentText(reading, offset, "")
    skipped = offset - row[0]
    return AttachmentText(reading, offset, row[1][skipped : skipped + limit])


async def find_hits(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    whole: str,
    some: str,
    stemmed: Sequence[Stemmed],
    needles: Sequence[str],
    configuration: str,
    options: str,
    per_message: int,
) -> list[Hit]:
    """Where in the attachments of these messages a search found its words, the best of each message first.

    `whole` is the tsquery of what is asked for, `some` holds for any word of it, `stemmed` is `some` for headlines.
    `needles` are its words in lower case.
    """
    values = {
        "ids": list(ids),
        "whole": whole,
        "some": some,
        "needles": list(needles),
        "before": HEADLINE_BEFORE,
        "part": HEADLINE_PART,
        "marks": [one.mark for one in stemmed],
        "configurations": [one.configuration for one in stemmed],
        "stemmed": [one.query for one in stemmed],
        "configuration": configuration,
        "options": options,
        "per_message": per_message,
    }
    cursor = await connection.execute(_SQL["hits"], values, prepare=False)
    return [Hit(*row) for row in await cursor.fetchall()]
