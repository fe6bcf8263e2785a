"""Push as a person meets it: mail that arrives while `mailkeep serve` runs is found at once."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from support.command import Installation
from support.dovecot import Dovecot, is_installed
from support.mail import message

SECONDS_UNTIL_WATCHED = 30.0
SECONDS_UNTIL_FOUND = 5.0  # about one on an idle machine, half of it Dovecot's own delay
POLL_SECONDS = 0.02


@pytest.fixture
def server() -> Iterator[Dovecot]:
    """A mail server of this test alone."""
    if not is_installed():
        pytest.skip("Dovecot is not installed (Debian: dovecot-imapd)")
    with Dovecot.start(users=("anna",)) as running:
        running.fill("anna", "INBOX", [message(subject="Old news")])
        yield running


def within(seconds: float, condition: Callable[[], bool]) -> None:
    """Poll until the condition holds; fails when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)


@pytest.mark.spec("SYNC-85", "SYNC-86")
def test_mail_that_arrives_is_searchable_long_before_the_interval(installation: Installation, server: Dovecot) -> None:
    """With an interval of a day and `mode = "Push"`, a new message is found within moments."""
    installation.add_account(server)
    path = installation.home / "mailkeep.toml"
    text = path.read_text()
    assert text.count("account_id = ") == 1
    text = text.replace("account_id = ", 'mode = "Push"\naccount_id = ', 1)
    text = text.replace(
        "[mail_synchronization]\n", '[mail_synchronization]\ninterval = "1d"\nmax_failure_backoff = "1d"\n'
    )
    path.write_text(text)
    with installation.started("serve", "--port", "0") as running:
        url = running.await_line(r"Status and search: (http://127\.0\.0\.1:\d+)/")[1]

        def get(where: str) -> str:
            with urllib.request.urlopen(url + where, timeout=30) as answer:
                return str(answer.read().decode())

        def is_watched() -> bool:
            (account,) = json.loads(get("/api/status"))["accounts"]
            return bool(account["watched_folders"])

        within(SECONDS_UNTIL_WATCHED, is_watched)
        assert "push by Notify" in get("/")
        with server.client("anna") as other:
            other.append("INBOX", message(subject="Comet tonight"))
        within(SECONDS_UNTIL_FOUND, lambda: "Comet" in get("/search?q=comet").replace("<mark>", "").split("<h1", 1)[-1])
        assert running.stop() == 0
