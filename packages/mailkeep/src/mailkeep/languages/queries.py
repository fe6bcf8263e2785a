"""The SQL of the stage, and the languages that queries are stemmed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import psycopg

from mailkeep.db import Connection, Database, is_lost_race, is_server_trouble, load_queries
from mailkeep.languages.configurations import STEMMED
from mailkeep.languages.detect import DETECTED_CHARACTERS
from mailkeep.stages import StageCounts

LARGEST_VECTOR_OCTETS: Final = 450_000
"""Stems at most double a vector, and one over 1,048,575 octets cannot be written (SQLSTATE 54000)."""

_SQL: Final = load_queries("mailkeep.languages")


@dataclass(frozen=True, slots=True)
class Outstanding:
    """A document to be done; `rules` below 0 means that its extra terms are out of date as well."""

    id: UUID
    rules: int
    extracted_at: datetime
    characters: int
    has_too_many_words: bool


@dataclass(frozen=True, slots=True)
class Texts:
    """What a document says."""

    id: UUID
    subject: str
    names: str
    addresses: str
    body: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What is written about a document; `extracted_at` is the reading of the mail that it is about."""

    id: UUID
    extracted_at: datetime
    language: str | None
    confidence: float | None
    folded: str | None


@dataclass(frozen=True, slots=True)
class Terms:
    """The extra terms of a document."""

    id: UUID
    subject: str | None
    participants: str | None
    body: str | None


class UnwritableError(Exception):
    """PostgreSQL refuses one of these rows for what it holds."""


async def read_outstanding(connection: Connection, *, rules: int, limit: int) -> list[Outstanding]:
    """Some of the documents that lack the current rules."""
    cursor = await connection.execute(
        _SQL["outstanding"], {"rules": rules, "limit": limit, "largest_vector": LARGEST_VECTOR_OCTETS}
    )
    return [Outstanding(*row) for row in await cursor.fetchall()]


async def read_texts(connection: Connection, ids: Sequence[UUID]) -> list[Texts]:
    """The texts of documents."""
    cursor = await connection.execute(_SQL["texts"], {"ids": list(ids), "beginning": DETECTED_CHARACTERS})
    return [Texts(*row) for row in await cursor.fetchall()]


async def write(
    connection: Connection, findings: Sequence[Findings], terms: Sequence[Terms], *, rules: int, now: datetime
) -> None:
    """Write findings and terms. Raises UnwritableError when a row is refused for its content."""
    try:
        if terms:
            await connection.execute(
                _SQL["write_terms"],
                {
                    "ids": [one.id for one in terms],
                    "subjects": [one.subject for one in terms],
                    "participants": [one.participants for one in terms],
                    "bodies": [one.body for one in terms],
                },
            )
        await connection.execute(
            _SQL["write"],
            {
                "rules": rules,
                "ids": [one.id for one in findings],
                "extracted": [one.extracted_at for one in findings],
                "languages": [one.language for one in findings],
                "confidences": [one.confidence for one in findings],
                "folded": [one.folded for one in findings],
            },
        )
    except psycopg.Error as error:
        if is_lost_race(error) or is_server_trouble(error):
            raise
        raise UnwritableError from error
    languages = sorted({one.language for one in findings if one.language is not None})
    await connection.execute(_SQL["note_languages"], {"languages": languages, "now": now})
    await connection.execute(_SQL["forget_failures"], {"ids": [one.id for one in findings]})


async def give_up(connection: Connection, ids: Sequence[UUID], *, reason: str, rules: int, now: datetime) -> None:
    """Pass documents by, with a reason."""
    await connection.execute(_SQL["give_up"], {"ids": list(ids), "rules": rules})
    await connection.execute(_SQL["record_failures"], {"ids": list(ids), "reason": reason, "now": now})


async def read_counts(db: Database, *, rules: int) -> StageCounts:
    """How far the stage is."""
    async with db.connection() as connection:
        row = await (await connection.execute(_SQL["counts"], {"rules": rules})).fetchone()
    done, outstanding, failed = row if row is not None else (0, 0, 0)
    return StageCounts(done=done - failed, outstanding=outstanding, failed=failed)


async def stemmed_languages(connection: Connection) -> tuple[str, ...]:
    """Codes of the languages that there is mail in and that PostgreSQL stems."""
    cursor = await connection.execute(_SQL["languages"])
    return tuple(row[0] for row in await cursor.fetchall() if row[0] in STEMMED)
