"""Fixtures: one Dovecot and one Cyrus per test session, a user of their own for every test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from support import cyrus as cyrus_server
from support.cyrus import Cyrus
from support.dovecot import WITHOUT_CONDSTORE, WITHOUT_EXTENSIONS, Dovecot, is_installed

USERS = tuple(f"user{number}" for number in range(400))
_names = itertools.cycle(USERS)


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    """A server that offers all that Dovecot has."""
    yield from _server(None)


@pytest.fixture(scope="session")
def plain_dovecot() -> Iterator[Dovecot]:
    """A server that advertises no extension at all."""
    yield from _server(WITHOUT_EXTENSIONS)


@pytest.fixture(scope="session")
def dovecot_without_condstore() -> Iterator[Dovecot]:
    """A server that keeps mod-sequences to itself."""
    yield from _server(WITHOUT_CONDSTORE)


@pytest.fixture(scope="session")
def cyrus() -> Iterator[Cyrus]:
    """A server of another make."""
    if cyrus_server.folder() is None:
        pytest.skip("Cyrus IMAP is not here; `make test` on Debian 12 unpacks it, as .ci/cyrus does")
    with Cyrus.start() as server:
        yield server


@pytest.fixture
def user() -> str:
    """A mailbox nobody else uses."""
    return next(_names)


def _server(capability: str | None) -> Iterator[Dovecot]:
    if not is_installed():
        pytest.skip("Dovecot is not installed (Debian packages dovecot-core, dovecot-imapd)")
    with Dovecot.start(users=USERS, capability=capability) as server:
        yield server
