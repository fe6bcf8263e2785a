"""Fixtures of the library's tests: a real PostgreSQL without any table of ours."""

import pytest
from support.postgres import empty_dsn, postgres_server

__all__ = ["empty_dsn", "postgres_server"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests, marked with `pytest.mark.anyio`, run on asyncio."""
    return "asyncio"
