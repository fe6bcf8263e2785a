"""Ranking by meaning: the nearest passage of each message under the profile that is read (FIND-46, FIND-47, Beyond 1).

A narrow scope is compared exactly, passage by passage. A broad one walks the profile's HNSW index in order of distance
until enough messages passed the joined conditions; where that walk ends early, everything is compared after all. The
index can only be met by a statement that repeats the profile's key as a literal and the cast to its width (DATA-17).
"""

# ruff: noqa: S608  -- joined from literals of this module; values are parameters or composed literals

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import sql

from mailkeep.config import DistanceMetric
from mailkeep.db import Connection, load_queries
from mailkeep.embeddings import Meaning, Profile, is_walkable, vector_literal
from mailkeep.search.conditions import filter_condition
from mailkeep.search.queries import MATCHED, CompiledQuery, Selection

_SQL: Final = load_queries("mailkeep.search")

NARROW_EMAILS: Final = 2_000
"""A scope of no more messages is compared exactly: about 25 ms at most."""
EF_SEARCH: Final = 200
MAX_SCAN_TUPLES: Final = 20_000
PASSAGES_PER_EMAIL: Final = 2
MOST_PASSAGES: Final = 8
_OPERATORS: Final[dict[DistanceMetric, LiteralString]] = {
    DistanceMetric.COSINE: "<=>",
    DistanceMetric.INNER_PRODUCT: "<#>",
    DistanceMetric.EUCLIDEAN: "<->",
}


@dataclass(frozen=True, slots=True)
class Hit:
    """A message by its nearest passage."""

    stored_email_id: UUID
    chunk_id: UUID
    distance: float


async def rank(
    connection: Connection, selection: Selection, meaning: Meaning, *, strict: CompiledQuery | None, limit: int
) -> list[Hit]:
    """The nearest `limit` messages, nearest first, ties in timeline order; those without a vector are absent.

    `strict` is what a message must hold besides: what was quoted, excluded or asked of one field. Runs in a transaction
    of its own, whose planner settings it changes.
    """
    if meaning.profile is None or meaning.vector is None or not selection.folders:
        return []
    search = VectorSearch(selection, meaning.profile, meaning.vector, strict)
    if await search.is_broad(connection) and await is_walkable(connection, meaning.profile):
        found = await search.by_index(connection, limit=limit)
        if found is not None:
            return found
    return await search.exactly(connection, limit=limit)


async def nearest_texts(connection: Connection, chunk_ids: Sequence[UUID]) -> dict[UUID, str]:
    """The texts of passages."""
    cursor = await connection.execute(_SQL["passage_texts"], {"ids": list(chunk_ids)})
    return dict(await cursor.fetchall())


class VectorSearch:
    """One query's statements."""

    def __init__(
        self, selection: Selection, profile: Profile, vector: Sequence[float], strict: CompiledQuery | None
    ) -> None:
        condition = filter_condition(selection.filters)
        self._condition: LiteralString = f"e.mail_folder_id = ANY(%(folder_ids)s) AND {condition.text}"
        self._parameters: dict[str, Any] = {
            **condition.parameters,
            "folder_ids": selection.folder_ids,
            "vector": vector_literal(vector),
        }
        if strict is not None:
            self._condition = (
                f"{self._condition} AND EXISTS (SELECT 1 FROM email_search_documents d"
                f" WHERE d.stored_email_id = e.id AND {MATCHED} @@ %(strict)s::tsquery)"
            )
            self._parameters["strict"] = strict.text
        self._profile = sql.Literal(str(profile.id))
        self._width = sql.Literal(profile.identity.dimension)
        self._operator = sql.SQL(_OPERATORS[profile.identity.distance_metric])

    async def is_broad(self, connection: Connection) -> bool:
        """Whether the scope holds more than NARROW_EMAILS messages."""
        statement: LiteralString = (
            f"SELECT count(*) FROM (SELECT 1 FROM stored_emails e WHERE {self._condition} LIMIT %(most)s) few"
        )
        cursor = await connection.execute(statement, {**self._parameters, "most": NARROW_EMAILS + 1}, prepare=False)
        row = await cursor.fetchone()
        return row is not None and row[0] > NARROW_EMAILS

    async def exactly(self, connection: Connection, *, limit: int) -> list[Hit]:
        """Compare every passage of the scope."""
        statement = sql.SQL(
            "WITH scope AS MATERIALIZED (SELECT e.id, e.received_at FROM stored_emails e WHERE {condition})"
            # Distances first: what is sorted then holds no vector.
            " SELECT n.id, (array_agg(n.chunk_id ORDER BY n.distance, n.ordinal))[1], min(n.distance) AS distance"
            " FROM (SELECT s.id, s.received_at, c.id AS chunk_id, c.ordinal,"
            " v.embedding {operator} %(vector)s::vector AS distance"
            " FROM scope s JOIN email_chunks c ON c.stored_email_id = s.id"
            " JOIN email_embeddings v ON v.email_chunk_id = c.id AND v.embedding_profile_id = {profile}::uuid"
            " OFFSET 0) n"
            " GROUP BY n.id, n.received_at ORDER BY distance, n.received_at DESC NULLS LAST, n.id DESC LIMIT %(limit)s"
        ).format(condition=sql.SQL(self._condition), operator=self._operator, profile=self._profile)
        cursor = await connection.execute(statement, {**self._parameters, "limit": limit}, prepare=False)
        return [Hit(*row) for row in await cursor.fetchall()]

    async def by_index(self, connection: Connection, *, limit: int) -> list[Hit] | None:
        """Walk the index; None when it gave fewer messages than asked for, for whatever reason."""
        await connection.execute(_SQL["force_vector_index"], {"ef": EF_SEARCH, "tuples": MAX_SCAN_TUPLES})
        statement = sql.SQL(
            "SELECT c.stored_email_id, c.id, v.embedding::vector({width}) {operator} %(vector)s::vector({width}),"
            " e.received_at FROM email_embeddings v JOIN email_chunks c ON c.id = v.email_chunk_id"
            " JOIN stored_emails e ON e.id = c.stored_email_id AND {condition}"
            " WHERE v.embedding_profile_id = {profile}::uuid"
            " ORDER BY v.embedding::vector({width}) {operator} %(vector)s::vector({width}) LIMIT %(passages)s"
        ).format(
            width=self._width,
            operator=self._operator,
            condition=sql.SQL(self._condition),
            profile=self._profile,
        )
        for passages in (limit * PASSAGES_PER_EMAIL, limit * MOST_PASSAGES):
            cursor = await connection.execute(statement, {**self._parameters, "passages": passages}, prepare=False)
            rows = await cursor.fetchall()
            nearest = {row[0]: row for row in reversed(rows)}
            if len(nearest) >= limit:
                ordered = sorted(nearest.values(), key=_by_distance_and_time)
                return [Hit(*row[:3]) for row in ordered[:limit]]
            if len(rows) < passages:
                break  # the walk ended before it had enough
        await connection.execute(_SQL["free_planner"])
        return None


def _by_distance_and_time(row: Sequence[Any]) -> tuple[float, bool, float, int]:
    received = row[3]
    return (row[2], received is None, 0.0 if received is None else -received.timestamp(), -row[0].int)
