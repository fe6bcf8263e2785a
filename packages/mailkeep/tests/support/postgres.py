"""A real PostgreSQL for tests: one embedded server per test session, a fresh migrated database per test.

`db` is an open Database, `dsn` the connection string of the same fresh database, `empty_dsn` that of a database
without any table. Tests that use `db` are async: mark them with `pytest.mark.anyio`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import psycopg
import pytest

from mailkeep.db import Database, embedded, schema

TEMPLATE = "mailkeep_template"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[embedded.EmbeddedServer]:
    """A server of this test session in a folder of its own, without waits for the disk."""
    home = Path(tempfile.mkdtemp(prefix="mailkeep-tests-"))
    server = embedded.start(home)
    try:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("ALTER SYSTEM SET full_page_writes = off")
            connection.execute("SELECT pg_reload_conf()")
        yield server
    finally:
        server.close()
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def template_database(postgres_server: embedded.EmbeddedServer) -> str:
    """The name of a database that holds the migrated schema and nothing else."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {TEMPLATE}")
    anyio.run(schema.migrate, psycopg.conninfo.make_conninfo(postgres_server.dsn, dbname=TEMPLATE))
    return TEMPLATE


@pytest.fixture
def dsn(postgres_server: embedded.EmbeddedServer, template_database: str) -> Iterator[str]:
    """A fresh migrated database, dropped afterwards."""
    yield from temporary_database(postgres_server.dsn, template=template_database)


@pytest.fixture
def empty_dsn(postgres_server: embedded.EmbeddedServer) -> Iterator[str]:
    """A fresh database without our schema, dropped afterwards."""
    yield from temporary_database(postgres_server.dsn, template="template1")


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Database]:
    """An open Database on a fresh migrated database."""
    async with Database(dsn) as database:
        yield database


def temporary_database(server_dsn: str, *, template: str) -> Iterator[str]:
    name = f"t_{uuid4().hex}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield psycopg.conninfo.make_conninfo(server_dsn, dbname=name)
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
