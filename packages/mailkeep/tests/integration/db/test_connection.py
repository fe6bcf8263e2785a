"""Connections, redone work, and the errors that leave the database."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from mailkeep.config import PersistenceSettings
from mailkeep.db import Connection, Database
from mailkeep.errors import ConcurrencyConflict, DatabaseUnavailable

pytestmark = pytest.mark.anyio


async def test_session_is_bounded_and_speaks_utc(db: Database) -> None:
    """Every statement has a time limit, every instant leaves aware and in UTC."""
    async with db.connection() as connection:
        row = await (
            await connection.execute(
                "SELECT current_setting('timezone'), current_setting('statement_timeout'), "
                "current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_isolation')"
            )
        ).fetchone()
    assert row == ("UTC", "30s", "2min", "read committed")


async def test_exception_rolls_back_and_return_commits(db: Database) -> None:
    """One connection is one transaction."""

    async def fail() -> None:
        async with db.connection() as connection:
            await connection.execute("INSERT INTO mailbox_accounts VALUES ('undone')")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    async with db.connection() as connection:
        await connection.execute("INSERT INTO mailbox_accounts VALUES ('done')")
    async with db.connection() as connection:
        assert await (await connection.execute("SELECT id FROM mailbox_accounts")).fetchall() == [("done",)]


@pytest.mark.spec("DATA-11", "DATA-12")
async def test_only_raced_keys_are_conflicts(db: Database) -> None:
    """A lost race for a key that two processes may mint is a conflict; any other unique violation is a failure."""
    with pytest.raises(ConcurrencyConflict):
        async with db.connection() as connection:
            await connection.execute("INSERT INTO mailbox_accounts VALUES ('a'), ('a')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        async with db.connection() as connection:
            await connection.execute("INSERT INTO schema_migrations SELECT id, checksum FROM schema_migrations")


@pytest.mark.spec("DATA-13")
async def test_deadlock_is_a_conflict(db: Database) -> None:
    """Two transactions that wait for each other: one of them is told to begin again."""
    async with db.connection() as connection:
        await connection.execute("CREATE TABLE pair AS SELECT n FROM generate_series(1, 2) n")
    first_locked, second_locked = asyncio.Event(), asyncio.Event()

    async def lock(own: int, other: int, mine: asyncio.Event, theirs: asyncio.Event) -> None:
        async with db.connection() as connection:
            await connection.execute("SELECT * FROM pair WHERE n = %s FOR UPDATE", (own,))
            mine.set()
            await theirs.wait()
            await connection.execute("SELECT * FROM pair WHERE n = %s FOR UPDATE", (other,))

    results = await asyncio.gather(
        lock(1, 2, first_locked, second_locked), lock(2, 1, second_locked, first_locked), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["ConcurrencyConflict", "NoneType"]


@pytest.mark.spec("SYNC-39")
async def test_work_that_lost_a_race_is_redone_whole_and_only_so_often(dsn: str) -> None:
    """Each attempt is a fresh transaction; the last loss is reported."""
    attempts = 0

    async def losing(connection: Connection) -> int:
        nonlocal attempts
        attempts += 1
        await connection.execute("INSERT INTO mailbox_accounts VALUES (%s)", (f"attempt {attempts}",))
        if attempts < 3:
            raise ConcurrencyConflict("lost")
        return attempts

    async with Database(dsn, persistence=PersistenceSettings(maximum_concurrency_commit_attempts=2)) as two:
        with pytest.raises(ConcurrencyConflict):
            await two.redo(losing)
    attempts = 0
    async with Database(dsn, persistence=PersistenceSettings(maximum_concurrency_commit_attempts=3)) as three:
        assert await three.redo(losing) == 3
        async with three.connection() as connection:
            found = await (await connection.execute("SELECT id FROM mailbox_accounts")).fetchall()
    assert found == [("attempt 3",)]


async def test_lost_connection_and_timeout_are_trouble_of_the_server(dsn: str) -> None:
    """A terminated session and a statement over its time leave as the retryable error, and the pool recovers."""
    async with Database(dsn, persistence=PersistenceSettings(command_timeout_seconds=1)) as database:
        with pytest.raises(DatabaseUnavailable):
            async with database.connection() as connection:
                await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(DatabaseUnavailable, match="57014"):
            async with database.connection() as connection:
                await connection.execute("SELECT pg_sleep(30)")
        async with database.connection() as connection:
            assert await (await connection.execute("SELECT 1")).fetchone() == (1,)
