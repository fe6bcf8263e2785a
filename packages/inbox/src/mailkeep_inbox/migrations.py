"""A forward-only migration runner for PostgreSQL, safe at each start of each replica.

One run is one transaction under one advisory lock. Each migration runs in a savepoint of its own together with its
row in the ledger, so none is ever recorded half applied. A recorded migration whose checksum differs from the code's
stops the run; a recorded one that the code does not know is left alone, so that older replicas start during a rolling
deployment. Last, the columns that the code relies on are compared with the catalogue.

    migrations = [Migration.from_sql("0001_initial", text), Migration.from_sql("0002_more", text)]
    outcome = await run_migrations(engine, migrations, schema="mailbox", ledger="mailbox_migrations")

Deliberately absent: going back, editing a shipped migration, and building indexes concurrently, which no transaction
can hold.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from mailkeep_inbox.errors import MigrationError, SchemaTypeMismatchError
from mailkeep_inbox.migration_files import (
    KNOWN_TYPES,
    ExpectedColumn,
    Migration,
    pending_migrations,
    split_statements,
)

__all__ = [
    "ADVISORY_LOCK_KEY",
    "KNOWN_TYPES",
    "ExpectedColumn",
    "Migration",
    "MigrationOutcome",
    "assert_expected_column_types",
    "pending_migrations",
    "read_ledger",
    "run_migrations",
    "split_statements",
]

ADVISORY_LOCK_KEY: Final = 170_339_329
"""Taken with `pg_advisory_xact_lock` for the whole run (INBOX-17)."""

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class MigrationOutcome:
    """`applied` by this run, in order; `unknown` are recorded ids that the code does not hold."""

    applied: tuple[str, ...]
    unknown: tuple[str, ...]


async def run_migrations(
    handle: AsyncEngine | AsyncConnection,
    migrations: Sequence[Migration],
    *,
    schema: str,
    ledger: str,
    expected_columns: Sequence[ExpectedColumn] = (),
    lock_key: int = ADVISORY_LOCK_KEY,
    lock_timeout: timedelta | None = None,
) -> MigrationOutcome:
    """Apply what the ledger lacks, in the given order, all or nothing.

    `handle` is an engine, or a connection of the host: inside a transaction of the host's the run is a savepoint and
    commits with it. `ledger` is created in `schema`, and the schema too when it is missing. `lock_timeout` bounds each
    wait for a table lock, not the wait for another replica's run. Raises MigrationChecksumError (INBOX-18),
    SchemaTypeMismatchError (INBOX-21), or what the server raised for a statement.
    """
    _check_names(migrations, schema=schema, ledger=ledger)
    async with _transaction(handle) as connection:
        await _enter_run(connection, lock_key=lock_key, lock_timeout=lock_timeout)
        if not await _schema_exists(connection, schema):
            await connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
        await connection.exec_driver_sql(
            f"CREATE TABLE IF NOT EXISTS {schema}.{ledger} ("
            f"id varchar(128) NOT NULL, checksum char(64) NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(), "
            f"CONSTRAINT pk_{ledger} PRIMARY KEY (id))"
        )
        recorded = await read_ledger(connection, schema=schema, ledger=ledger)
        pending = pending_migrations(migrations, recorded)
        for migration in pending:
            async with connection.begin_nested():
                await _apply(connection, migration, schema=schema, ledger=ledger)
        await assert_expected_column_types(connection, expected_columns, schema=schema)
        known = {migration.id for migration in migrations}
        return MigrationOutcome(
            applied=tuple(migration.id for migration in pending),
            unknown=tuple(migration_id for migration_id in recorded if migration_id not in known),
        )


async def read_ledger(connection: AsyncConnection, *, schema: str, ledger: str) -> dict[str, str]:
    """The checksum of every recorded migration by its id, in the order of application; empty without a ledger."""
    _check_names((), schema=schema, ledger=ledger)
    found = await connection.scalar(text("SELECT to_regclass(:name)"), {"name": f"{schema}.{ledger}"})
    if found is None:
        return {}
    statement = f"SELECT id, checksum FROM {schema}.{ledger} ORDER BY applied_at, id"  # noqa: S608 -- checked names
    rows = await connection.exec_driver_sql(statement)
    return {row.id: row.checksum for row in rows}


async def assert_expected_column_types(
    connection: AsyncConnection, expected: Sequence[ExpectedColumn], *, schema: str
) -> None:
    """Raise SchemaTypeMismatchError naming every declared column that is missing or of another type.

    Columns beyond the declared ones pass: a newer build may have added them.
    """
    if not expected:
        return
    rows = await connection.execute(
        text(
            "SELECT table_name, column_name, CASE data_type WHEN 'ARRAY' THEN substr(udt_name, 2) || '[]' "
            "WHEN 'USER-DEFINED' THEN udt_name ELSE data_type END AS type_name "
            "FROM information_schema.columns WHERE table_schema = :schema"
        ),
        {"schema": schema},
    )
    actual = {(row.table_name, row.column_name): row.type_name for row in rows}
    mismatches = []
    for column in expected:
        found = actual.get((column.table, column.name))
        if found is None:
            mismatches.append(f"{column.table}.{column.name} is missing (expected {column.data_type})")
        elif found != column.data_type:
            mismatches.append(f"{column.table}.{column.name} is {found}, expected {column.data_type}")
    if mismatches:
        raise SchemaTypeMismatchError(mismatches, schema=schema)


def _check_names(migrations: Sequence[Migration], *, schema: str, ledger: str) -> None:
    """Names enter SQL as text, so only plain lower-case identifiers are taken; ids are unique."""
    for name in (schema, ledger):
        if not _NAME.fullmatch(name):
            raise MigrationError(f"{name!r} is not a plain lower-case identifier")
    ids = [migration.id for migration in migrations]
    if len(set(ids)) != len(ids):
        raise MigrationError("two migrations share one id")


@asynccontextmanager
async def _transaction(handle: AsyncEngine | AsyncConnection) -> AsyncIterator[AsyncConnection]:
    if isinstance(handle, AsyncEngine):
        async with handle.begin() as connection:
            yield connection
    elif handle.in_transaction():
        async with handle.begin_nested():
            yield handle
    else:
        async with handle.begin():
            yield handle


async def _enter_run(connection: AsyncConnection, *, lock_key: int, lock_timeout: timedelta | None) -> None:
    """Silence "already exists" notices, wait for the lock, and only then bound the waits that follow."""
    await connection.exec_driver_sql("SET LOCAL client_min_messages = warning")
    await connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    await connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock_key})
    if lock_timeout is not None:
        milliseconds = int(lock_timeout.total_seconds() * 1000)
        await connection.exec_driver_sql(f"SET LOCAL lock_timeout = {milliseconds}")


async def _schema_exists(connection: AsyncConnection, schema: str) -> bool:
    """Asked first, because CREATE SCHEMA IF NOT EXISTS wants the right to create even when there is nothing to do."""
    found = await connection.scalar(text("SELECT 1 FROM pg_namespace WHERE nspname = :schema"), {"schema": schema})
    return found is not None


async def _apply(connection: AsyncConnection, migration: Migration, *, schema: str, ledger: str) -> None:
    for index, statement in enumerate(migration.statements):
        await assert_expected_column_types(connection, migration.check_columns_before.get(index, ()), schema=schema)
        # Without parameters the driver leaves "%" in the statement alone.
        await connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
    await connection.execute(
        text(f"INSERT INTO {schema}.{ledger} (id, checksum) VALUES (:id, :checksum)"),  # noqa: S608 -- checked names
        {"id": migration.id, "checksum": migration.checksum},
    )
