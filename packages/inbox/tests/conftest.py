"""Fixtures of the library's tests: a real PostgreSQL, empty, with a host's control plane, or migrated."""

import pytest
from inbox_support.postgres import (
    empty_dsn,
    engine,
    host_dsn,
    host_template,
    inbox_database,
    inbox_dsn,
    inbox_server,
    inbox_template,
    psycopg_engine,
)

__all__ = [
    "empty_dsn",
    "engine",
    "host_dsn",
    "host_template",
    "inbox_database",
    "inbox_dsn",
    "inbox_server",
    "inbox_template",
    "psycopg_engine",
]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests, marked with `pytest.mark.anyio`, run on asyncio."""
    return "asyncio"
