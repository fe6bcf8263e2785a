"""The gate at every start, and how the schema gets to a database."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mailkeep.config import PersistenceSettings, Settings
from mailkeep.db import Database, schema, status, upgrade
from mailkeep.errors import (
    DatabaseUnavailable,
    MigrationMissing,
    SchemaStateUnreadable,
    TextSearchConfigurationMismatch,
)
from mailkeep_inbox.migrations import Migration

pytestmark = pytest.mark.anyio

NEXT = Migration.from_sql("9001_next", "CREATE TABLE next_release (id bigint);")
SHIPPED = schema.migrations()
BROKEN = Migration.from_sql("9002_broken", "CREATE TABLE half (id bigint); SELECT 1/0;")


@pytest.fixture
def home() -> Iterator[Path]:
    """A short private folder."""
    with tempfile.TemporaryDirectory(prefix="mk-") as folder:
        yield Path(folder)


async def enter(dsn: str, persistence: PersistenceSettings | None = None) -> None:
    """Pass the gate and leave."""
    async with Database(dsn, persistence=persistence):
        pass


def execute(dsn: str, *statements: str) -> None:
    """Run statements."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def known() -> list[str]:
    """The ids of this build's migrations."""
    return [migration.id for migration in schema.migrations()]


@pytest.mark.spec("DATA-45", "DATA-48")
async def test_empty_external_database_is_refused_and_left_as_it_is(empty_dsn: str, home: Path) -> None:
    """Every missing migration is named; a configured database is migrated by the operator's command only."""
    settings = Settings(persistence=PersistenceSettings(dsn=empty_dsn))
    with pytest.raises(MigrationMissing) as raised:
        async with Database.open(settings, home):
            pass
    assert all(name in str(raised.value) for name in known())
    assert (await status(settings, home)).missing == tuple(known())
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


@pytest.mark.spec("DATA-41", "DATA-43")
async def test_upgrade_applies_once_and_opens_the_gate(empty_dsn: str, home: Path) -> None:
    """The operator's command brings everything; again it brings nothing."""
    settings = Settings(persistence=PersistenceSettings(dsn=empty_dsn))
    assert await upgrade(settings, home) == tuple(known())
    assert await upgrade(settings, home) == ()
    await enter(empty_dsn)
    assert await status(settings, home) == schema.SchemaStatus(tuple(known()), (), ())


@pytest.mark.spec("DATA-45")
async def test_missing_migration_is_named_alone(dsn: str) -> None:
    """One behind: that one."""
    execute(dsn, f"DELETE FROM schema_migrations WHERE id = '{known()[-1]}'")
    with pytest.raises(MigrationMissing, match=known()[-1]) as raised:
        await enter(dsn)
    assert known()[0] not in str(raised.value)


@pytest.mark.spec("DATA-45", "DATA-46")
async def test_database_ahead_of_the_build_serves(dsn: str) -> None:
    """During an upgrade the older build goes on."""
    execute(dsn, "INSERT INTO schema_migrations (id, checksum) VALUES ('9999_newer', 'x')")
    await enter(dsn)


@pytest.mark.spec("DATA-44")
async def test_altered_checksum_is_refused_by_name(dsn: str) -> None:
    """An applied migration that differs from the build's stops the start."""
    execute(dsn, f"UPDATE schema_migrations SET checksum = repeat('0', 64) WHERE id = '{known()[0]}'")
    with pytest.raises(SchemaStateUnreadable, match=known()[0]):
        await enter(dsn)


@pytest.mark.spec("DATA-45")
async def test_ledger_that_may_not_be_read_is_refused_with_its_class_only(dsn: str) -> None:
    """Missing rights are unreadable state, not a missing migration."""
    role = "gate_" + dsn.rpartition("t_")[2][:12]
    execute(dsn, f"CREATE ROLE {role} LOGIN")
    try:
        with pytest.raises(SchemaStateUnreadable, match="InsufficientPrivilege"):
            await enter(psycopg.conninfo.make_conninfo(dsn, user=role))
    finally:
        execute(dsn, f"DROP ROLE {role}")


@pytest.mark.spec("DATA-49", "SYNC-112", "FIND-33")
async def test_other_text_search_configuration_is_refused(dsn: str) -> None:
    """Otherwise queries stem one way and the index another."""
    with pytest.raises(TextSearchConfigurationMismatch, match="simple"):
        await enter(dsn, PersistenceSettings(text_search_configuration="english"))


@pytest.mark.spec("DATA-1")
async def test_database_of_another_encoding_is_refused(empty_dsn: str, home: Path) -> None:
    """Text of any script must fit; neither serving nor upgrading begins on another encoding."""
    name = "ascii_" + empty_dsn.rpartition("t_")[2][:12]
    execute(empty_dsn, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING SQL_ASCII LOCALE_PROVIDER libc LOCALE 'C'")
    dsn = psycopg.conninfo.make_conninfo(empty_dsn, dbname=name)
    try:
        with pytest.raises(SchemaStateUnreadable, match="SQL_ASCII"):
            await enter(dsn)
        with pytest.raises(SchemaStateUnreadable, match="SQL_ASCII"):
            await upgrade(Settings(persistence=PersistenceSettings(dsn=dsn)), home)
    finally:
        execute(empty_dsn, f"DROP DATABASE {name} WITH (FORCE)")


async def test_unreachable_database_is_told_without_its_password(home: Path) -> None:
    """What the operator reads has the class of trouble and no secret."""
    dsn = f"host={home} user=me password=geheim dbname=x connect_timeout=2"
    with pytest.raises(DatabaseUnavailable) as raised:
        await enter(dsn)
    assert "geheim" not in str(raised.value)
    with pytest.raises(DatabaseUnavailable) as raised:
        Database.open(Settings(persistence=PersistenceSettings(dsn="password=geheim nonsense")), home)
    assert "geheim" not in str(raised.value)


@pytest.mark.spec("DATA-48")
async def test_embedded_database_migrates_itself_also_when_two_start_at_once(home: Path) -> None:
    """First start of several processes on an empty folder: one cluster, every migration once."""

    async def start() -> tuple[str, ...]:
        async with Database.open(Settings(), home) as database, database.connection() as connection:
            return (await schema.read_status(connection)).applied

    assert await asyncio.gather(start(), start(), start()) == [tuple(known())] * 3
    assert not [name for name in os.listdir(home) if name.startswith("postgres.before-")]


@pytest.mark.spec("DATA-48")
async def test_upgrade_of_an_embedded_database_sets_a_copy_aside(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer build copies the stopped cluster before it migrates; the copy is what the older build can use."""
    async with Database.open(Settings(), home) as database, database.connection() as connection:
        await connection.execute("INSERT INTO mailbox_accounts VALUES ('ann')")
    monkeypatch.setattr(schema, "migrations", lambda: (*SHIPPED, NEXT))
    async with Database.open(Settings(), home) as database, database.connection() as connection:
        assert (await schema.read_status(connection)).applied[-1] == NEXT.id
        row = await (await connection.execute("SELECT id FROM mailbox_accounts")).fetchone()
        assert row == ("ann",)
    copy = home / "postgres.before-9001_next"
    assert (copy / "PG_VERSION").exists()
    assert not (copy / "postmaster.pid").exists()
    assert copy.stat().st_uid == (home / "postgres").stat().st_uid


@pytest.mark.spec("DATA-42", "DATA-48")
async def test_crash_between_two_migrations_leaves_the_older_database(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain that breaks half-way is undone whole, the server is stopped, and the older build still serves."""
    async with Database.open(Settings(), home):
        pass
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: (*SHIPPED, NEXT, BROKEN))
        with pytest.raises(SchemaStateUnreadable, match="22012"):
            await upgrade(Settings(), home)
    assert not (home / "postgres" / "postmaster.pid").exists()
    async with Database.open(Settings(), home) as database, database.connection() as connection:
        found = await (await connection.execute("SELECT to_regclass('next_release'), to_regclass('half')")).fetchone()
        assert found == (None, None)


@pytest.mark.spec("DATA-48")
async def test_upgrade_waits_for_no_other_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an older build uses the database it is neither stopped nor migrated; the newer one says what to do."""
    async with Database.open(Settings(), home) as database:
        with monkeypatch.context() as patch:
            patch.setattr(schema, "migrations", lambda: (*SHIPPED, NEXT))
            with pytest.raises(DatabaseUnavailable, match="another mailkeep process"):
                await upgrade(Settings(), home)
        async with database.connection() as connection:
            await connection.execute("SELECT 1")
