"""Fixtures of all tests of the service; each comes from a module of `support`."""

import pytest
from support.postgres import db, dsn, empty_dsn, postgres_server, template_database

__all__ = ["db", "dsn", "empty_dsn", "postgres_server", "template_database"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests, marked with `pytest.mark.anyio`, run on asyncio."""
    return "asyncio"
