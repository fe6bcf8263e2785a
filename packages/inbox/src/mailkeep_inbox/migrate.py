"""The mailbox schema: its migrations, its printable DDL, and the check that changes nothing (section 3)."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

from sqlalchemy import Table, UniqueConstraint, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateIndex, ForeignKeyConstraint, PrimaryKeyConstraint

from mailkeep_inbox.errors import MigrationError, SchemaCheckError, SchemaTypeMismatchError
from mailkeep_inbox.handle import Handle, reading, writing
from mailkeep_inbox.migrations import (
    ExpectedColumn,
    Migration,
    assert_expected_column_types,
    read_ledger,
    run_migrations,
)
from mailkeep_inbox.schema import LEDGER, OUR_TABLES, SCHEMA, TRIGGER, principal_mail

_TYPE_NAMES: Final = {
    "TEXT": "text",
    "BYTEA": "bytea",
    "JSONB": "jsonb",
    "TSVECTOR": "tsvector",
    "BIGINT": "bigint",
    "BOOLEAN": "boolean",
    "TEXT[]": "text[]",
    "TIMESTAMP WITHOUT TIME ZONE": "timestamp without time zone",
}
_EARLY_CHECK: Final = ("0003_mail_references", "USING gin (refs)", "refs")


@cache
def mailbox_migrations() -> tuple[Migration, ...]:
    """Every migration of the mailbox schema, in order."""
    folder = resources.files("mailkeep_inbox").joinpath("sql")
    files = sorted((entry for entry in folder.iterdir() if re.match(r"\d{4}_", entry.name)), key=lambda it: it.name)
    return tuple(_with_early_check(Migration.from_sql(file.name[:-4], file.read_text("utf-8"))) for file in files)


async def run_mailbox_migrations(db: Handle) -> None:
    """Bring the mailbox schema to this build; idempotent, safe at each start of each replica (INBOX-17).

    `public.tenant` and `public.principal` must exist. In a caller's transaction it commits with it.
    """
    async with writing(db) as connection:
        await run_migrations(
            connection, mailbox_migrations(), schema=SCHEMA, ledger=LEDGER, expected_columns=expected_columns()
        )


def mailbox_ddl() -> str:
    """What `run_mailbox_migrations` executes, as one SQL text for reading or for a host's own migrations."""
    parts = [f"CREATE SCHEMA IF NOT EXISTS {SCHEMA};"]
    for migration in mailbox_migrations():
        parts.append(f"-- migration {migration.id}, checksum {migration.checksum}")
        parts += [f"{statement};" for statement in migration.statements]
    return "\n\n".join(parts) + "\n"


async def check_mailbox_schema(db: Handle) -> None:
    """Raise SchemaCheckError naming every fault of ledger, columns, indexes, constraints and trigger.

    Reads catalogues only: for a role that may not change the schema, at its start.
    """
    async with reading(db) as connection:
        faults = [
            *await _ledger_faults(connection),
            *await _column_faults(connection),
            *await _index_faults(connection),
            *await _constraint_faults(connection),
            *await _trigger_faults(connection),
        ]
    if faults:
        raise SchemaCheckError(faults)


@cache
def expected_columns() -> tuple[ExpectedColumn, ...]:
    """Every declared column; a type that the check cannot name is an error of ours (INBOX-21)."""
    return tuple(
        ExpectedColumn(table.name, column.name, _TYPE_NAMES[column.type.compile(postgresql.dialect())])  # type: ignore[no-untyped-call]
        for table in OUR_TABLES
        for column in table.columns
    )


@cache
def expected_indexes() -> dict[str, str]:
    """The definition of every declared index by its name, in the form that `index_form` gives."""
    return {
        str(index.name): index_form(str(CreateIndex(index).compile(dialect=postgresql.dialect())))  # type: ignore[no-untyped-call]
        for table in OUR_TABLES
        for index in sorted(table.indexes, key=lambda each: str(each.name))
    }


def index_form(definition: str) -> str:
    """A definition without what PostgreSQL writes in other words than SQLAlchemy: parentheses, casts, quotes."""
    plain = definition.lower().replace("::text", "").replace("using btree ", "")
    return " ".join(re.sub(r"[()\"']", " ", plain).replace(",", " , ").replace("=", " = ").split())


@cache
def expected_constraints() -> dict[str, str]:
    """`pg_get_constraintdef` of every declared constraint by its table and name."""
    return {
        f"{table.name}.{constraint.name}": _constraint_text(constraint)
        for table in OUR_TABLES
        for constraint in sorted(table.constraints, key=lambda each: str(each.name))
        if isinstance(constraint, (PrimaryKeyConstraint, ForeignKeyConstraint))
    }


def _constraint_text(constraint: PrimaryKeyConstraint | ForeignKeyConstraint | UniqueConstraint) -> str:
    columns = ", ".join(constraint.columns.keys())
    if not isinstance(constraint, ForeignKeyConstraint):
        return f"PRIMARY KEY ({columns})"
    target: Table = constraint.referred_table
    schema = "" if target.schema == "public" else f"{target.schema}."
    return f"FOREIGN KEY ({columns}) REFERENCES {schema}{target.name}(id) ON DELETE CASCADE"


def _with_early_check(migration: Migration) -> Migration:
    """0003 checks the columns before the index that a foreign table could lack the column for (INBOX-22)."""
    migration_id, mark, column = _EARLY_CHECK
    if migration.id != migration_id:
        return migration
    index = next(number for number, statement in enumerate(migration.statements) if mark in statement)
    early = ExpectedColumn(principal_mail.name, column, "jsonb")
    return Migration(migration.id, migration.statements, check_columns_before={index: (early,)})


async def _ledger_faults(connection: AsyncConnection) -> list[str]:
    recorded = await read_ledger(connection, schema=SCHEMA, ledger=LEDGER)
    faults = []
    for migration in mailbox_migrations():
        checksum = recorded.get(migration.id)
        if checksum is None:
            faults.append(f"migration {migration.id} is not applied")
        elif checksum != migration.checksum:
            faults.append(f"migration {migration.id} was applied with another checksum")
    return faults


async def _column_faults(connection: AsyncConnection) -> list[str]:
    try:
        await assert_expected_column_types(connection, expected_columns(), schema=SCHEMA)
    except SchemaTypeMismatchError as mismatch:
        return list(mismatch.mismatches)
    return []


async def _index_faults(connection: AsyncConnection) -> list[str]:
    rows = await connection.execute(
        text("SELECT c.relname AS name, pg_get_indexdef(i.indexrelid) AS definition, i.indisvalid AS is_valid "
             "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
             "WHERE n.nspname = :schema"),
        {"schema": SCHEMA},
    )  # fmt: skip
    found = {row.name: index_form(row.definition) if row.is_valid else "invalid" for row in rows}
    return _differences("index", expected_indexes(), found)


async def _constraint_faults(connection: AsyncConnection) -> list[str]:
    rows = await connection.execute(
        text("SELECT t.relname || '.' || c.conname AS name, pg_get_constraintdef(c.oid) AS definition, "
             "c.convalidated AS is_valid FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid "
             "JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = :schema"),
        {"schema": SCHEMA},
    )  # fmt: skip
    # How a foreign key's target is written depends on the session's search_path.
    found = {row.name: row.definition.replace(" public.", " ") if row.is_valid else "invalid" for row in rows}
    return _differences("constraint", expected_constraints(), found)


def _differences(kind: str, expected: dict[str, str], found: dict[str, str]) -> list[str]:
    faults = []
    for name, definition in expected.items():
        if name not in found:
            faults.append(f"{kind} {name} is missing")
        elif found[name] != definition:
            faults.append(f"{kind} {name} is {found[name]!r}, expected {definition!r}")
    return faults


async def _trigger_faults(connection: AsyncConnection) -> list[str]:
    enabled = await connection.scalar(
        text("SELECT t.tgenabled::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
             "JOIN pg_namespace n ON n.oid = c.relnamespace "
             "WHERE n.nspname = :schema AND c.relname = 'principal_mail' AND t.tgname = :name"),
        {"schema": SCHEMA, "name": TRIGGER},
    )  # fmt: skip
    return [] if enabled in ("O", "A") else [f"trigger {TRIGGER} is missing or disabled"]


__all__ = [
    "MigrationError",
    "check_mailbox_schema",
    "expected_columns",
    "expected_constraints",
    "expected_indexes",
    "index_form",
    "mailbox_ddl",
    "mailbox_migrations",
    "run_mailbox_migrations",
]
