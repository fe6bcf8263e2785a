"""Fixtures of all tests of the service; each comes from a module of `support`."""

import pytest
from support.mailboxes import cyrus, dovecot, dovecot_without_condstore, plain_dovecot, user
from support.postgres import db, dsn, empty_dsn, postgres_server, template_database

__all__ = [
    "cyrus",
    "db",
    "dovecot",
    "dovecot_without_condstore",
    "dsn",
    "empty_dsn",
    "plain_dovecot",
    "postgres_server",
    "template_database",
    "user",
]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests, marked with `pytest.mark.anyio`, run on asyncio."""
    return "asyncio"
