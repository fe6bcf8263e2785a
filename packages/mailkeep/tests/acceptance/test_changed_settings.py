"""A running service and a settings file that changes under it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.browser import Browser, served
from support.command import Installation
from support.dovecot import Dovecot

WAIT_SECONDS = 30.0


def eventually(browser: Browser, condition: Callable[[list[Any]], bool]) -> None:
    """Ask for the status until the accounts in it are as expected."""
    ends = time.monotonic() + WAIT_SECONDS
    while not condition(json.loads(browser.get("/api/status")[1])["accounts"]):
        assert time.monotonic() < ends, "the status never became that"


def holds_inbox(accounts: list[Any], account_id: str) -> bool:
    return any(
        account["account"] == account_id
        and any(folder["folder"] == "INBOX" and folder["missing"] == 0 for folder in account["folders"])
        for account in accounts
    )


@pytest.mark.spec("SYNC-2", "SYNC-6")
def test_accounts_come_change_and_go_without_a_restart_and_a_broken_file_keeps_what_was(
    installation: Installation, mail_server: Dovecot
) -> None:
    """From an empty installation on: an account is added, the file broken, mended, and the account removed."""
    with served(installation) as (browser, running):
        assert json.loads(browser.get("/api/status")[1])["accounts"] == []
        installation.add_account(mail_server)
        eventually(browser, lambda accounts: holds_inbox(accounts, "work"))
        assert "<mark>lanterns</mark>" in browser.get("/search?q=lanterns")[1]

        file = installation.home / "mailkeep.toml"
        good = file.read_text()
        file.write_text(good.replace("[mail_synchronization]", "[mail_synchronization]\nintervall = 'hush'", 1))
        running.await_line("The changed settings are not in use")
        assert "mail_synchronization.intervall: is not a setting" in browser.get("/")[1]
        assert "hush" not in running.errors
        assert holds_inbox(json.loads(browser.get("/api/status")[1])["accounts"], "work")

        file.write_text(good + "\n[http]\nport = 1\n")
        running.await_line("Waiting for a restart: http")
        assert "not in use" not in browser.get("/")[1]
        assert json.loads(browser.get("/api/status")[1])["settings"]["needs_restart"] == ["http"]

        installation.run("account", "remove", "work", "--yes")
        eventually(browser, lambda accounts: accounts == [])
        assert "<mark>lanterns</mark>" not in browser.get("/search?q=lanterns")[1]
