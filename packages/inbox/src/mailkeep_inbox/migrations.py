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

import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from mailkeep_inbox.errors import MigrationChecksumError, MigrationError, SchemaTypeMismatchError

ADVISORY_LOCK_KEY: Final = 170_339_329
"""Taken with `pg_advisory_xact_lock` for the whole run (INBOX-17)."""

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_WHITESPACE: Final = re.compile(r"\s+")
_DOLLAR_TAG: Final = re.compile(r"\$(?:[A-Za-z_][A-Za-z_0-9]*)?\$")

KNOWN_TYPES: Final = frozenset(
    {
        "bigint",
        "boolean",
        "bytea",
        "character",
        "character varying",
        "date",
        "double precision",
        "integer",
        "interval",
        "jsonb",
        "numeric",
        "smallint",
        "text",
        "text[]",
        "timestamp with time zone",
        "tsvector",
        "uuid",
        "vector",
    }
)
"""The type names that an `ExpectedColumn` may ask for, as `information_schema` spells them, arrays as `text[]`."""


@dataclass(frozen=True, slots=True)
class ExpectedColumn:
    """A column that the code relies on. An unknown type name is refused, since nothing could ever equal it."""

    table: str
    name: str
    data_type: str

    def __post_init__(self) -> None:
        if self.data_type not in KNOWN_TYPES:
            raise ValueError(f"{self.table}.{self.name}: {self.data_type!r} is not a type this check knows")


@dataclass(frozen=True, slots=True)
class Migration:
    """One reviewed step, permanent once shipped.

    `statements` run in order, one at a time, so that every driver takes them. `check_columns_before` maps the index of
    a statement to columns that must exist as declared before it runs: a clash with a host's table of the same name
    then gets its own error rather than the server's. It is no part of the checksum (INBOX-22).
    """

    id: str
    statements: tuple[str, ...]
    check_columns_before: Mapping[int, tuple[ExpectedColumn, ...]] = field(default_factory=dict)

    @classmethod
    def from_sql(cls, migration_id: str, sql: str) -> Migration:
        """Read a plain SQL file: statements end at `;` outside quotes, dollar quotes and comments."""
        return cls(id=migration_id, statements=split_statements(sql))

    @property
    def checksum(self) -> str:
        """SHA-256 in lower hex over the statements, white space collapsed: reindenting is no edit (INBOX-19)."""
        collapsed = [_WHITESPACE.sub(" ", statement).strip() for statement in self.statements]
        return hashlib.sha256(";\n".join(collapsed).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class MigrationOutcome:
    """`applied` by this run, in order; `unknown` are recorded ids that the code does not hold."""

    applied: tuple[str, ...]
    unknown: tuple[str, ...]


def split_statements(sql: str) -> tuple[str, ...]:
    """Split at top-level `;`. Comments stay with the statement after them; a trailing comment alone is dropped.

    Understands '…' with doubled quotes, E'…' escapes, "…", $tag$…$tag$, -- and nested /* */ (PostgreSQL §4.1).
    """
    statements: list[str] = []
    start = position = 0
    has_code = False
    while position < len(sql):
        if sql[position] == ";":
            if has_code:
                statements.append(sql[start:position].strip())
            start, has_code = position + 1, False
            position += 1
            continue
        end, is_comment = _token_end(sql, position)
        has_code = has_code or not (is_comment or sql[position].isspace())
        position = end
    if has_code:
        statements.append(sql[start:].strip())
    return tuple(statements)


def _token_end(sql: str, position: int) -> tuple[int, bool]:
    """The end of the quoted text, comment or single character at `position`, and whether it is a comment."""
    pair = sql[position : position + 2]
    if pair == "--":
        end = sql.find("\n", position)
        return (len(sql) if end < 0 else end), True
    if pair == "/*":
        return _block_comment_end(sql, position), True
    if sql[position] in "'\"":
        takes_escapes = position > 0 and sql[position - 1] in "eE" and not sql[position - 2 : position - 1].isalnum()
        return _quote_end(sql, position, takes_escapes=takes_escapes), False
    if sql[position] == "$" and (tag := _DOLLAR_TAG.match(sql, position)):
        end = sql.find(tag.group(), tag.end())
        return (len(sql) if end < 0 else end + len(tag.group())), False
    return position + 1, False


def _block_comment_end(sql: str, position: int) -> int:
    depth = 0
    for mark in re.finditer(r"/\*|\*/", sql[position:]):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return position + mark.end()
    return len(sql)


def _quote_end(sql: str, position: int, *, takes_escapes: bool) -> int:
    quote, index = sql[position], position + 1
    while index < len(sql):
        if takes_escapes and sql[index] == "\\":
            index += 2
            continue
        if sql[index] == quote:
            if sql[index + 1 : index + 2] != quote:
                return index + 1
            index += 1
        index += 1
    return len(sql)


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


def pending_migrations(migrations: Sequence[Migration], recorded: Mapping[str, str]) -> tuple[Migration, ...]:
    """Those that the ledger lacks, in order. Raises MigrationChecksumError for the first recorded one that differs."""
    for migration in migrations:
        checksum = recorded.get(migration.id)
        if checksum is not None and checksum != migration.checksum:
            raise MigrationChecksumError(migration.id, recorded=checksum, current=migration.checksum)
    return tuple(migration for migration in migrations if migration.id not in recorded)


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
