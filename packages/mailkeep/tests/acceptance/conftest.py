"""What the acceptance tests share: a mail server of this session and a fresh installation per test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.command import Installation
from support.dovecot import Dovecot, is_installed
from support.postgres import temporary_database
from support.sample_mail import INBOX, SENT

from mailkeep.db.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def mail_server() -> Iterator[Dovecot]:
    """A Dovecot with one mailbox, read by every test and changed by none."""
    if not is_installed():
        pytest.skip("Dovecot is not installed (Debian: dovecot-imapd)")
    with Dovecot.start(users=("anna", "ben", "many")) as server:
        server.fill("anna", "INBOX", INBOX)
        server.fill("anna", "Sent", [SENT], seen=True)
        yield server


@pytest.fixture
def installation(tmp_path: Path, dsn: str) -> Installation:
    """An empty home on a fresh database."""
    return Installation(tmp_path / "home", dsn=dsn)


@pytest.fixture(scope="session")
def reading(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: EmbeddedServer,
    template_database: str,
    mail_server: Dovecot,
) -> Iterator[Installation]:
    """A mirrored home that many tests read and none changes."""
    with contextmanager(temporary_database)(postgres_server.dsn, template=template_database) as dsn:
        shared = Installation(tmp_path_factory.mktemp("reading") / "home", dsn=dsn)
        shared.add_account(mail_server)
        shared.run("sync", "--once")
        yield shared


@pytest.fixture
def mirrored(installation: Installation, mail_server: Dovecot) -> Installation:
    """A home whose account is mirrored."""
    installation.add_account(mail_server)
    installation.run("sync", "--once")
    return installation
