"""One owner for each stage across all processes of a database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from mailkeep.db import Database, load_queries
from mailkeep.errors import DatabaseUnavailable

_SQL = load_queries("mailkeep.stages")


@asynccontextmanager
async def stage_lease(db: Database, name: str) -> AsyncIterator[bool]:
    """Be the only process that works at this stage until the end of the block; False when another one is.

    Held by a connection of its own, so that it ends with the process however that ends. Raises DatabaseUnavailable.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(db.dsn, autocommit=True)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable("the database cannot be reached") from error
    async with connection:
        try:
            row = await (await connection.execute(_SQL["take_stage"], {"name": name})).fetchone()
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable("the database cannot be reached") from error
        if row is None or not row[0]:
            yield False
            return
        try:
            yield True
        finally:
            # The lock would end with the connection, but only when the server notices that it ended.
            with contextlib.suppress(psycopg.Error):
                await asyncio.shield(connection.execute(_SQL["leave_stage"], {"name": name}))
