"""`mailkeep serve` as a person and a browser meet it."""

from __future__ import annotations

import json
import re
import signal
from urllib.parse import quote

import pytest
from support.browser import served
from support.command import Installation
from support.dovecot import Dovecot


def test_pages_show_what_is_held_and_find_mail(reading: Installation) -> None:
    """Status, search and message pages, JSON status and the probe answer; SIGTERM ends the service cleanly."""
    with served(reading, "--no-sync") as (browser, running):
        status, text, headers = browser.get("/")
        assert status == 200
        assert "INBOX" in text
        assert "default-src 'none'" in headers["content-security-policy"]
        assert browser.get("/healthz")[:2] == (200, "ok\n")
        accounts = json.loads(browser.get("/api/status")[1])["accounts"]
        assert {folder["folder"]: folder["stored"] for folder in accounts[0]["folders"]}["INBOX"] == 4
        status, text, _ = browser.get("/search?q=" + quote("lanterns"))
        assert status == 200
        assert "<mark>lanterns</mark>" in text
        match = re.search(r'href="(/message/[0-9a-f-]+)"', text)
        assert match is not None
        status, text, _ = browser.get(match[1])
        assert status == 200
        assert "Bring lanterns." in text
        assert "<script" not in text
        assert browser.get("/search")[0] == 200
        assert running.stop(signal.SIGTERM) == 0
        assert "Stopping" in running.errors


def test_foreign_names_and_pages_are_refused(reading: Installation) -> None:
    """DNS rebinding and requests of other sites get nothing, on the pages and on the MCP endpoint."""
    with served(reading, "--no-sync") as (browser, _):
        for path in ("/", "/api/status", "/mcp"):
            assert browser.get(path, Host="mail.example.com")[0] == 421
            assert browser.get(path, Origin="https://example.com")[0] == 403


def test_mistakes_are_short_pages(reading: Installation) -> None:
    """Unknown ids, malformed ids and unknown paths answer without quoting the request."""
    with served(reading, "--no-sync") as (browser, _):
        assert browser.get("/message/0190f2d4-0000-7000-8000-000000000000")[0] == 404
        status, text, _ = browser.get("/message/sentinel%3Cscript%3E")
        assert status == 400
        assert "sentinel" not in text
        status, text, _ = browser.get("/nowhere")
        assert status == 404
        assert "<h1>Not found</h1>" in text
        status, _, headers = browser.get("/mcp")
        assert (status, headers["allow"]) == (405, "POST")


def test_the_service_mirrors_by_itself(installation: Installation, mail_server: Dovecot) -> None:
    """Mail appears without any other command, and Ctrl-C ends the service."""
    installation.add_account(mail_server)
    with served(installation) as (browser, running):
        for _ in range(200):
            accounts = json.loads(browser.get("/api/status")[1])["accounts"]
            held = {folder["folder"]: folder["missing"] for folder in accounts[0]["folders"]}
            if held.get("INBOX") == 0 and held.get("SENT") == 0:
                break
        else:
            pytest.fail("nothing was mirrored")
        assert accounts[0]["phase"] is not None
        assert running.stop(signal.SIGINT) == 0


def test_a_port_that_is_taken_is_named(reading: Installation) -> None:
    """The second service says which setting to change and ends with 2."""
    with served(reading, "--no-sync") as (browser, _):
        port = browser.address.rpartition(":")[2]
        assert "http.port" in reading.run("serve", "--port", port, "--no-sync", code=2).err


@pytest.mark.spec("SYNC-3")
def test_a_secret_that_is_gone_refuses_the_start(mirrored: Installation) -> None:
    """Nothing listens before every reference resolves."""
    (mirrored.home / "secrets" / "work.password").unlink()
    refused = mirrored.run("serve", "--port", "0", code=2)
    assert "mail_synchronization.accounts[0].secrets.password" in refused.err
