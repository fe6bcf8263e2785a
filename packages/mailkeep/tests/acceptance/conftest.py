"""What the acceptance tests share: a mail server of this session and a fresh installation per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import Installation
from support.dovecot import Dovecot, is_installed
from support.sample_mail import INBOX, SENT

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


@pytest.fixture
def mirrored(installation: Installation, mail_server: Dovecot) -> Installation:
    """A home whose account is mirrored."""
    installation.add_account(mail_server)
    installation.run("sync", "--once")
    return installation
