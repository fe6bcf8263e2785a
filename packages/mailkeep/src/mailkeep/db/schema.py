"""How the schema gets to a database, and the gate that every start passes (DATA-41 to DATA-51)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib import resources
from typing import Final

import psycopg

from mailkeep.errors import MigrationMissing, SchemaStateUnreadable, TextSearchConfigurationMismatch
from mailkeep_inbox.errors import MigrationChecksumError
from mailkeep_inbox.migration_files import Migration, pending_migrations

LEDGER: Final = "schema_migrations"
LOCK_KEY: Final = 7_331_020_260
"""The advisory lock of our own runs: the inbox library's runs in the same database need not wait for them."""
LOCK_TIMEOUT: Final = timedelta(seconds=5)
MIN_SERVER_VERSION: Final = 160_000
MIN_VECTOR_VERSION: Final = (0, 7)

_CONFIGURATION: Final = re.compile(r"to_tsvector\('(?:pg_catalog\.)?\"?([^'\"]+)\"?'::regconfig")


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Migration ids in order: recorded and known, known and missing, recorded and unknown to this build."""

    applied: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]


@cache
def migrations() -> tuple[Migration, ...]:
    """Every migration of this build, in order of its file name."""
    folder = resources.files("mailkeep.db").joinpath("migrations")
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return tuple(Migration.from_sql(entry.name.removesuffix(".sql"), entry.read_text("utf-8")) for entry in files)


async def migrate(dsn: str) -> tuple[str, ...]:
    """Apply what is missing, all or nothing; the ids applied, in order. Raises SchemaStateUnreadable.

    The tables go where the connection creates unqualified names: the first schema of its search path.
    """
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await check_server(connection)
        if not (await read_status(connection)).missing:
            return ()
        await check_vector(connection)
        row = await (await connection.execute("SELECT coalesce(current_schema(), 'public')")).fetchone()
    assert row is not None
    # Needed once per release and slow to load, so that no other start waits for it.
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.ext.asyncio import create_async_engine

    from mailkeep_inbox.migrations import run_migrations

    engine = create_async_engine("postgresql+psycopg://", async_creator=lambda: psycopg.AsyncConnection.connect(dsn))
    try:
        outcome = await run_migrations(
            engine, migrations(), schema=row[0], ledger=LEDGER, lock_key=LOCK_KEY, lock_timeout=LOCK_TIMEOUT
        )
    except MigrationChecksumError as error:
        raise SchemaStateUnreadable(str(error)) from error
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None) or "unknown"
        raise SchemaStateUnreadable(f"the migrations cannot be applied (SQLSTATE {state})") from error
    finally:
        await engine.dispose()
    return outcome.applied


async def check_server(connection: psycopg.AsyncConnection) -> None:
    """Raise SchemaStateUnreadable for a server or a database that our schema cannot live in (DATA-1)."""
    if connection.info.server_version < MIN_SERVER_VERSION:
        raise SchemaStateUnreadable(f"PostgreSQL {MIN_SERVER_VERSION // 10_000} or later is needed")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise SchemaStateUnreadable(f"the database's encoding is {encoding}, UTF8 is needed")


async def check_vector(connection: psycopg.AsyncConnection) -> None:
    """Raise SchemaStateUnreadable, saying what to do, where the extension `vector` is missing or too old (DATA-1)."""
    cursor = await connection.execute(
        "SELECT coalesce(e.extversion, a.default_version), e.extversion IS NOT NULL,"
        " (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"
        " OR coalesce((SELECT bool_or(v.trusted) FROM pg_available_extension_versions v"
        " WHERE v.name = a.name AND v.version = a.default_version), false)"
        " FROM pg_available_extensions a LEFT JOIN pg_extension e ON e.extname = a.name WHERE a.name = 'vector'"
    )
    row = await cursor.fetchone()
    needed = ".".join(map(str, MIN_VECTOR_VERSION))
    if row is None:
        raise SchemaStateUnreadable(f"the server lacks the extension vector (pgvector {needed} or later)")
    version, is_installed, may_install = row
    if _version(version) < MIN_VECTOR_VERSION:
        raise SchemaStateUnreadable(f"the extension vector is {version}, {needed} or later is needed")
    if not is_installed and not may_install:
        raise SchemaStateUnreadable(
            "the extension vector is not installed in this database, and only a superuser may do that:"
            " CREATE EXTENSION vector"
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


async def read_status(connection: psycopg.AsyncConnection) -> SchemaStatus:
    """Compare the ledger with this build. Raises SchemaStateUnreadable for an unreadable ledger or another checksum."""
    try:
        found = await (await connection.execute("SELECT to_regclass(%s)", (LEDGER,))).fetchone()
        recorded: dict[str, str] = {}
        if found is not None and found[0] is not None:
            rows = await connection.execute(f"SELECT id, checksum FROM {LEDGER} ORDER BY id")  # noqa: S608 -- constant
            recorded = {row[0]: row[1] for row in await rows.fetchall()}
    except psycopg.Error as error:
        raise SchemaStateUnreadable(f"the migration ledger cannot be read ({type(error).__name__})") from error
    try:
        missing = pending_migrations(migrations(), recorded)
    except MigrationChecksumError as error:
        raise SchemaStateUnreadable(str(error)) from error
    known = {migration.id for migration in migrations()}
    return SchemaStatus(
        applied=tuple(name for name in recorded if name in known),
        missing=tuple(migration.id for migration in missing),
        unknown=tuple(name for name in recorded if name not in known),
    )


async def pass_gate(connection: psycopg.AsyncConnection, *, text_search_configuration: str) -> None:
    """Refuse to serve a database that lacks migrations (32001), cannot be judged (32002) or stems otherwise (32003).

    A database ahead of this build serves, for the window of an upgrade (DATA-45).
    """
    await check_server(connection)
    status = await read_status(connection)
    if status.missing:
        raise MigrationMissing(
            f"the database lacks the migrations {', '.join(status.missing)}; run `mailkeep db upgrade`"
        )
    found = await _text_search_configurations(connection)
    if found != {text_search_configuration}:
        raise TextSearchConfigurationMismatch(
            f"the search documents were built with {', '.join(sorted(found)) or 'nothing'}, "
            f"persistence.text_search_configuration says {text_search_configuration}"
        )


async def _text_search_configurations(connection: psycopg.AsyncConnection) -> set[str]:
    """The configurations that the generated search vector names for every text, out of the catalogue (DATA-49).

    Those that it chooses by a message's language come in beside them and are no matter of settings.
    """
    try:
        rows = await connection.execute(
            "SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d "
            "JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum "
            "WHERE d.adrelid = to_regclass('email_search_documents') AND a.attname = 'search_vector'"
        )
        row = await rows.fetchone()
    except psycopg.Error as error:
        raise SchemaStateUnreadable(f"the catalogue cannot be read ({type(error).__name__})") from error
    return set(_CONFIGURATION.findall(row[0])) if row is not None else set()
