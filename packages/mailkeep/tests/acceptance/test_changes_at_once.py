"""A change is made while `mailkeep serve` runs, without waiting for the account's next run; what is stuck is shown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.browser import served
from support.command import TIMEOUT_SECONDS, Installation
from support.dovecot import Dovecot, is_installed
from support.mail import message

LETTERS = [message(f"Letter {number}", message_id=f"o{number}@example.com") for number in range(2)]


@pytest.fixture(scope="module")
def server() -> Any:
    """A server with a mailbox that the test changes."""
    if not is_installed():
        pytest.skip("Dovecot is not installed (Debian: dovecot-imapd)")
    with Dovecot.start(users=("xaver",)) as started:
        yield started


def eventually(condition: Callable[[], bool]) -> None:
    """Look until it is so."""
    ends = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < ends, "it never came to that"


@pytest.mark.spec("MUT-B6", "MUT-36")
def test_a_running_service_makes_a_change_at_once_and_shows_what_waits(
    installation: Installation, server: Dovecot
) -> None:
    """No run is waited for; the command that waits says how it ended, and pages and API count what is stuck."""
    server.fill("xaver", "INBOX", LETTERS)
    installation.add_account(server, user="xaver")
    installation.run("sync", "--once")
    ids = {one["subject"]: one["id"] for one in installation.run("list", "--json").json["emails"]}
    with served(installation) as (browser, _):
        eventually(lambda: json.loads(browser.get("/api/status")[1])["accounts"][0]["phase"] == "WaitingForNextRun")
        done = installation.run("mark", ids["Letter 0"], "--star", "--wait", "--json").json
        assert [one["state"] for one in done["changes"]] == ["completed"]
        with server.client("xaver") as client:
            assert client.flags("INBOX")[1] == frozenset({"\\Flagged"})
        eventually(lambda: installation.run("show", ids["Letter 0"], "--json").json["flags"]["flagged"])
        with server.client("xaver") as client:
            client.expunge("INBOX", 2)
        late = installation.run("mark", ids["Letter 1"], "--star", "--wait", "--json", code=1).json
        assert [(one["state"], one["code"]) for one in late["changes"]] == [("dead-lettered", 25006)]
        page = browser.get("/changes")
        assert page[0] == 200
        assert "not in its folder any more" in page[1]
        assert json.loads(browser.get("/api/changes?state=dead-lettered")[1])["changes"][0]["code"] == 25006
        assert json.loads(browser.get("/api/status")[1])["accounts"][0]["changes"]["dead_lettered"] == 1
        assert "1 change given up" in browser.get("/")[1]
