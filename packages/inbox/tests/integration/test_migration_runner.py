"""The migration runner on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from mailkeep_inbox.errors import MigrationChecksumError, MigrationError, SchemaTypeMismatchError
from mailkeep_inbox.migrations import (
    ExpectedColumn,
    Migration,
    MigrationOutcome,
    read_ledger,
    run_migrations,
)

pytestmark = pytest.mark.anyio

TABLE = Migration.from_sql("0001_table", "CREATE TABLE box.mail (id bigint, refs text[]); SELECT '100%', ':x';")
COLUMN = Migration.from_sql("0002_column", "ALTER TABLE box.mail ADD COLUMN subject text;")


@pytest.fixture
async def engine(empty_dsn: str) -> AsyncIterator[AsyncEngine]:
    """An engine of the host, on an empty database."""
    engine = create_async_engine(
        "postgresql+psycopg://", async_creator=lambda: psycopg.AsyncConnection.connect(empty_dsn)
    )
    yield engine
    await engine.dispose()


async def run(engine: AsyncEngine | AsyncConnection, *migrations: Migration, **options: object) -> MigrationOutcome:
    """Run with the names of these tests."""
    return await run_migrations(engine, migrations, schema="box", ledger="box_migrations", **options)  # type: ignore[arg-type]


async def ledger(engine: AsyncEngine) -> dict[str, str]:
    """What is recorded."""
    async with engine.connect() as connection:
        return await read_ledger(connection, schema="box", ledger="box_migrations")


async def has_table(engine: AsyncEngine, name: str) -> bool:
    """Whether a table exists."""
    async with engine.connect() as connection:
        return (await connection.scalar(text("SELECT to_regclass(:name)"), {"name": name})) is not None


@pytest.mark.spec("INBOX-17", "INBOX-18", "DATA-43")
async def test_running_twice_applies_once(engine: AsyncEngine) -> None:
    """Schema, ledger and migrations are made in order on the first run; the second run changes nothing."""
    assert (await run(engine, TABLE, COLUMN)).applied == ("0001_table", "0002_column")
    assert (await run(engine, TABLE, COLUMN)).applied == ()
    assert await ledger(engine) == {"0001_table": TABLE.checksum, "0002_column": COLUMN.checksum}


@pytest.mark.spec("INBOX-17")
async def test_concurrent_cold_starts_apply_each_migration_once(engine: AsyncEngine) -> None:
    """Five replicas that start on an empty database together do not collide, and one of them does the work."""
    outcomes = await asyncio.gather(*(run(engine, TABLE, COLUMN) for _ in range(5)))
    assert sorted(len(outcome.applied) for outcome in outcomes) == [0, 0, 0, 0, 2]


@pytest.mark.spec("INBOX-18")
async def test_edited_migration_stops_the_run_and_rolls_it_back(engine: AsyncEngine) -> None:
    """A checksum that differs is an error that names the migration, and nothing of the run stays."""
    await run(engine, TABLE)
    edited = Migration("0001_table", ("SELECT 'edited'",))
    other = Migration("0003_other", ("CREATE TABLE box.other ()",))
    with pytest.raises(MigrationChecksumError, match="0001_table"):
        await run(engine, other, edited)
    assert await ledger(engine) == {"0001_table": TABLE.checksum}
    assert not await has_table(engine, "box.other")


@pytest.mark.spec("INBOX-18")
async def test_recorded_migration_that_the_code_lacks_is_left_alone(engine: AsyncEngine) -> None:
    """An older replica starts on a newer database and is told what it does not know."""
    await run(engine, TABLE, COLUMN)
    assert await run(engine, TABLE) == MigrationOutcome(applied=(), unknown=("0002_column",))


@pytest.mark.spec("INBOX-20", "DATA-42")
async def test_failing_migration_leaves_neither_its_work_nor_its_record(engine: AsyncEngine) -> None:
    """A migration that fails half-way is never recorded, and what it did before is undone."""
    broken = Migration("0002_broken", ("CREATE TABLE box.half ()", "SELECT 1/0"))
    with pytest.raises(DBAPIError):
        await run(engine, TABLE, broken)
    assert await ledger(engine) == {}
    assert not await has_table(engine, "box.half")
    assert not await has_table(engine, "box.mail")


@pytest.mark.spec("INBOX-20")
async def test_host_that_catches_the_failure_keeps_its_own_transaction(engine: AsyncEngine) -> None:
    """On a connection inside the host's transaction the run is a savepoint: its failure undoes only itself."""
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE public.host ()"))
        with pytest.raises(DBAPIError):
            await run(connection, TABLE, Migration("0002_broken", ("SELECT 1/0",)))
        assert (await run(connection, TABLE)).applied == ("0001_table",)
    assert await has_table(engine, "public.host")
    assert await has_table(engine, "box.mail")


@pytest.mark.spec("INBOX-21")
async def test_column_check_names_all_faults_and_rolls_back(engine: AsyncEngine) -> None:
    """A table that a host made under our name is found by its columns, every fault at once, again at each start."""
    async with engine.begin() as connection:
        await connection.execute(text("CREATE SCHEMA box"))
        await connection.execute(text("CREATE TABLE box.mail (id text, extra text, tags integer[])"))
    adopting = Migration("0001_table", ("CREATE TABLE IF NOT EXISTS box.mail (id bigint, refs text[])",))
    expected = (
        ExpectedColumn("mail", "id", "bigint"),
        ExpectedColumn("mail", "refs", "text[]"),
        ExpectedColumn("mail", "tags", "text[]"),
    )
    for _ in range(2):
        with pytest.raises(SchemaTypeMismatchError, match="Rename or move") as raised:
            await run(engine, adopting, expected_columns=expected)
        assert raised.value.mismatches == (
            "mail.id is text, expected bigint",
            "mail.refs is missing (expected text[])",
            "mail.tags is int4[], expected text[]",
        )
        assert await ledger(engine) == {}


@pytest.mark.spec("INBOX-21")
async def test_column_check_passes_over_extra_columns(engine: AsyncEngine) -> None:
    """Columns that a newer build added are no fault."""
    expected = (ExpectedColumn("mail", "id", "bigint"), ExpectedColumn("mail", "refs", "text[]"))
    assert (await run(engine, TABLE, COLUMN, expected_columns=expected)).applied == ("0001_table", "0002_column")


@pytest.mark.spec("INBOX-22")
async def test_column_check_before_a_statement_gives_the_named_error(engine: AsyncEngine) -> None:
    """An index over a missing column is preceded by the check, so the clash is named rather than the server's error."""
    async with engine.begin() as connection:
        await connection.execute(text("CREATE SCHEMA box"))
        await connection.execute(text("CREATE TABLE box.mail (id bigint)"))
    indexing = Migration(
        "0003_refs",
        ("SELECT 1", "CREATE INDEX ix ON box.mail USING gin (refs)"),
        {1: (ExpectedColumn("mail", "refs", "text[]"),)},
    )
    with pytest.raises(SchemaTypeMismatchError, match=r"mail\.refs is missing"):
        await run(engine, indexing)


@pytest.mark.spec("DATA-51")
async def test_lock_timeout_bounds_the_wait_for_a_table(engine: AsyncEngine) -> None:
    """A migration does not queue behind somebody's long transaction, where it would hold up everybody else."""
    await run(engine, TABLE)
    async with engine.begin() as connection:
        await connection.execute(text("LOCK TABLE box.mail"))
        with pytest.raises(DBAPIError, match="lock timeout"):
            await run(engine, TABLE, COLUMN, lock_timeout=timedelta(milliseconds=50))


async def test_names_that_would_need_quoting_are_refused(engine: AsyncEngine) -> None:
    """Schema and ledger enter SQL as text, so only plain identifiers are taken."""
    with pytest.raises(MigrationError, match="identifier"):
        await run_migrations(engine, [TABLE], schema='box"; DROP', ledger="ledger")
    with pytest.raises(MigrationError, match="share one id"):
        await run(engine, TABLE, TABLE)
