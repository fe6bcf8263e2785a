"""Connections, redone work, and the errors that leave the database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource

import psycopg
import pytest

from mailkeep.config import PersistenceSettings, PipelineSettings, ResilienceSettings
from mailkeep.db import Connection, Database, embedded
from mailkeep.errors import ConcurrencyConflict, DatabaseUnavailable, PipelineRejected

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


QUICK = {"base_delay": "10ms", "max_delay": "20ms", "attempt_timeout": "300ms", "total_timeout": "1s", "attempts": 2}


def patience(**values: object) -> PipelineSettings:
    """Quick waits, and these values."""
    table = {"database_command_execution": {**QUICK, **values}}
    return ResilienceSettings.model_validate(table).database_command_execution


@pytest.mark.spec("SYNC-34")
async def test_a_connection_that_the_server_closed_meanwhile_is_replaced_unseen(dsn: str) -> None:
    """After a restart of the server no transaction meets a dead connection of the pool."""
    async with Database(dsn) as database:
        async with database.connection() as connection:
            row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
        assert row is not None
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
            await other.execute("SELECT pg_terminate_backend(%s, 5000)", row)
        async with database.connection() as connection:
            assert await (await connection.execute("SELECT 1")).fetchone() == (1,)


@pytest.mark.spec("SYNC-34", "SYNC-38", "SYNC-139")
async def test_while_the_database_is_away_it_is_said_once_and_left_alone_after_failures(
    dsn: str, postgres_server: embedded.EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Attempts are bounded, the breaker opens, one line tells of it and another one that it is back."""
    caplog.set_level(logging.INFO)
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]

    async def allow(connections: bool) -> None:
        async with await psycopg.AsyncConnection.connect(postgres_server.dsn, autocommit=True) as operator:
            await operator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {"true" if connections else "false"}')
            if not connections:
                await operator.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,)
                )

    async def ask(database: Database) -> None:
        async with database.connection() as connection:
            await connection.execute("SELECT 1")

    bounds = patience(breaker_minimum_throughput=3, breaker_break_duration="510ms")
    async with Database(dsn, resilience=bounds) as database:
        await ask(database)
        await allow(False)
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable):
                await ask(database)
        with pytest.raises(DatabaseUnavailable) as caught:
            await ask(database)
        assert isinstance(caught.value.__cause__, PipelineRejected)
        await allow(True)
        async with asyncio.timeout(20):
            while True:
                try:
                    await ask(database)
                except DatabaseUnavailable:
                    await asyncio.sleep(0.05)  # the break ends, and the pool tries again, by the clock
                else:
                    break
    told = [record.message for record in caplog.records if "database" in record.message]
    assert told == ["database unavailable", "database available again"]
    assert [record.name for record in caplog.records if record.name.startswith("psycopg")] == []


@pytest.mark.spec("SYNC-37")
async def test_what_happens_in_a_transaction_is_never_repeated(dsn: str) -> None:
    """A connection lost in the middle surfaces at once, since nobody knows what was done."""
    begun = 0

    async def lose(database: Database) -> None:
        nonlocal begun
        async with database.connection() as connection:
            begun += 1
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    async with Database(dsn, resilience=patience()) as database:
        with pytest.raises(DatabaseUnavailable):
            await lose(database)
    assert begun == 1


async def test_connections_work_where_a_process_has_many_open_files(dsn: str) -> None:
    """A live pooled connection is told from a dead one also when its file descriptor is above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        held = 0
        while held < 1_100:
            held = os.dup(0)
            stack.callback(os.close, held)
        async with Database(dsn) as database:
            for _ in range(2):
                async with database.connection() as connection:
                    assert connection.fileno() > 1_023
                    assert await (await connection.execute("SELECT 1")).fetchone() == (1,)
