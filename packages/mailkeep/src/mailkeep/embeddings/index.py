"""The HNSW index of one profile: the only DDL at run time (FIND-75, FIND-76).

Its statement holds nothing but a registered row's key and width and one of three words of a closed mapping; names of
providers and models never enter it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg import sql

from mailkeep.config import MAX_INDEXED_DIMENSION, DistanceMetric
from mailkeep.db import Connection, Database, load_queries
from mailkeep.embeddings.profiles import Profile
from mailkeep.errors import VectorIndexRefused

_SQL: Final = load_queries("mailkeep.embeddings")
OPERATOR_CLASSES: Final = {
    DistanceMetric.COSINE: "vector_cosine_ops",
    DistanceMetric.INNER_PRODUCT: "vector_ip_ops",
    DistanceMetric.EUCLIDEAN: "vector_l2_ops",
}
BUILD_TIMEOUT: Final = "2h"
_ITERATIVE_SINCE: Final = (0, 8)


def index_name(profile: Profile) -> str:
    """The name of a profile's index."""
    return f"ix_email_embeddings_hnsw_{profile.id.hex}"


def create_statement(profile: Profile) -> sql.Composed:
    """The statement that makes the index."""
    return sql.SQL(
        "CREATE INDEX IF NOT EXISTS {name} ON email_embeddings USING hnsw ((embedding::vector({width})) {operators})"
        " WHERE embedding_profile_id = {id}::uuid"
    ).format(
        name=sql.Identifier(index_name(profile)),
        width=sql.Literal(profile.identity.dimension),
        operators=sql.SQL(OPERATOR_CLASSES[profile.identity.distance_metric]),
        id=sql.Literal(str(profile.id)),
    )


async def create_index(db: Database, profile: Profile) -> bool:
    """Make the index if there is none; False for a width that is never indexed. Raises VectorIndexRefused (33001)."""
    if profile.identity.dimension > MAX_INDEXED_DIMENSION:
        return False
    await _run(db, profile, create_statement(profile))
    return True


async def drop_index(db: Database, profile: Profile) -> None:
    """Drop the index if there is one. Raises VectorIndexRefused (33001)."""
    await _run(db, profile, sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(index_name(profile))))


async def has_index(db: Database, profile: Profile) -> bool:
    """Whether the index is there and usable."""
    async with db.connection() as connection:
        return (await _state(connection, profile))[1]


async def is_walkable(connection: Connection, profile: Profile) -> bool:
    """Whether the index is there and can be walked on and on in order of distance (pgvector 0.8)."""
    if profile.identity.dimension > MAX_INDEXED_DIMENSION:
        return False
    version, is_usable = await _state(connection, profile)
    return is_usable and version >= _ITERATIVE_SINCE


def vector_literal(vector: Sequence[float]) -> str:
    """A vector in pgvector's spelling."""
    return "[" + ",".join(map(repr, vector)) + "]"


async def _state(connection: Connection, profile: Profile) -> tuple[tuple[int, ...], bool]:
    """The version of pgvector, major and minor, and whether the index is whole and usable."""
    row = await (await connection.execute(_SQL["index_state"], {"name": index_name(profile)})).fetchone()
    if row is None:
        return (), False
    return tuple(int(part) for part in row[0].split(".")[:2]), row[1]


async def _run(db: Database, profile: Profile, statement: sql.Composed) -> None:
    try:
        async with db.connection() as connection:
            await connection.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(sql.Literal(BUILD_TIMEOUT)))
            # Two at once would meet in the catalogue, and one would be refused.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [index_name(profile)])
            await connection.execute(statement)
    except psycopg.Error as error:
        raise VectorIndexRefused(f"profile {profile.id}: its index was refused (SQLSTATE {error.sqlstate})") from error
