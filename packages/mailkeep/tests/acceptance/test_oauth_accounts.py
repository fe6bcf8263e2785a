"""Accounts that sign in by OAuth, from the first key to the removal, at the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.authorization import CLIENT_SECRET, AuthorizationServer
from support.command import Finished, Installation
from support.dovecot import Dovecot, offers_tokens
from support.sample_mail import INBOX
from support.terminal import Terminal

BROWSER = """
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile={authority!r})
urllib.request.urlopen(sys.argv[1], context=context, timeout=20).read()
"""


@pytest.fixture
def authorization(tmp_path: Path, installation: Installation) -> Iterator[AuthorizationServer]:
    """An authorization server whose users always consent, and a browser that goes where it is sent."""
    with AuthorizationServer.start(tmp_path / "authorization") as server:
        script = tmp_path / "browser.py"
        script.write_text(BROWSER.format(authority=str(server.authority)))
        installation.environment["BROWSER"] = f"{sys.executable} {script} %s"
        yield server


@pytest.fixture
def token_server(authorization: AuthorizationServer) -> Iterator[Dovecot]:
    """A mail server that takes the authorization server's tokens."""
    if not offers_tokens():
        pytest.skip("needs Dovecot 2.3 (Debian packages dovecot-core, dovecot-imapd)")
    with Dovecot.start(users=("anna",), introspection=authorization.introspection_address) as server:
        server.fill("anna", "INBOX", INBOX)
        yield server


def add(
    installation: Installation,
    authorization: AuthorizationServer,
    server: Dovecot,
    *extra: str,
    stdin: str = "",
    code: int = 0,
) -> Finished:
    """Add an account of another provider, addresses given."""
    return installation.run(
        *("account", "add", "--id", "work", "--host", "127.0.0.1", "--port", str(server.ports.plain)),
        *("--user", "anna", "--security", "none", "--ca", str(authorization.authority), "--oauth"),
        *("--client-id", "our-client", "--scope", "mail", "--token-endpoint", authorization.token_endpoint),
        *("--authorization-endpoint", authorization.authorization_endpoint),
        *("--device-endpoint", authorization.device_endpoint, *extra),
        stdin=stdin,
        code=code,
    )


def tokens_stored(installation: Installation) -> int:
    assert installation.dsn is not None
    with psycopg.connect(installation.dsn) as connection:
        row = connection.execute("SELECT count(*) FROM mailbox_refresh_tokens").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.spec("SYNC-48", "SYNC-49", "OPS-84")
def test_no_key_is_made_silently(
    installation: Installation, authorization: AuthorizationServer, token_server: Dovecot
) -> None:
    """Signing in without a key explains the step, asks nobody, saves nothing and makes no key."""
    refused = add(installation, authorization, token_server, code=3)
    assert "mailkeep keys create" in refused.err
    assert "[13004]" in refused.err
    assert authorization.consent_requests == []
    assert not (installation.home / "mailkeep.toml").exists()
    assert not (installation.home / "secrets").exists()


@pytest.mark.spec("SYNC-49", "SYNC-45", "SYNC-41")
def test_an_account_is_added_in_the_browser_and_mirrored(
    installation: Installation, authorization: AuthorizationServer, token_server: Dovecot
) -> None:
    """Key, consent, test, save, mirror over processes of their own with a server that rotates; then remove."""
    authorization.rotates = True
    installation.run("keys", "create")
    added = add(installation, authorization, token_server)
    assert "INBOX" in added.err
    settings = (installation.home / "mailkeep.toml").read_text()
    assert "refresh_token =" not in settings
    assert "password" not in settings
    for _ in range(2):
        installation.run("sync", "--once")
    tested = installation.run("account", "test", "work")
    assert "INBOX" in tested.out
    status = installation.run("status", "--json").json
    assert sum(folder["stored"] for folder in status["accounts"][0]["folders"]) == len(INBOX)
    refreshes = [form["refresh_token"] for form in authorization.forms if form["grant_type"] == "refresh_token"]
    assert len(set(refreshes)) == 3
    shown = "".join(done.out + done.err for done in (added, tested))
    assert not any(
        secret in shown for secret in (*authorization.refresh_tokens, *authorization.access_tokens, *refreshes)
    )
    assert installation.run("keys", "list", "--json").json == {
        "keys": [{"id": "key-1", "active": True, "missing": False, "seals": 1}]
    }
    installation.run("account", "remove", "work")
    assert tokens_stored(installation) == 0


@pytest.mark.spec("SYNC-49")
def test_signing_in_again_replaces_a_withdrawn_consent(
    installation: Installation, authorization: AuthorizationServer, token_server: Dovecot
) -> None:
    """The run fails with the server's code; `account authorize` on another device repairs it."""
    installation.run("keys", "create")
    add(installation, authorization, token_server, "--no-test")
    authorization.refresh_tokens.clear()
    authorization.access_tokens.clear()
    failed = installation.run("sync", "--once", code=None)
    assert failed.code != 0
    assert "invalid_grant" in failed.err
    again = installation.run("account", "authorize", "work", "--flow", "device")
    assert "ABCD-EFGH" in again.err
    installation.run("sync", "--once")
    installation.run("account", "authorize", "home", code=2)


@pytest.mark.spec("SYNC-49")
def test_an_address_can_be_pasted_where_no_browser_is(
    installation: Installation, authorization: AuthorizationServer, token_server: Dovecot
) -> None:
    """Without a browser the address is shown and asked back; one of another sign-in is refused and nothing saved."""
    del installation.environment["BROWSER"]
    installation.environment |= {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    installation.run("keys", "create")
    refused = add(installation, authorization, token_server, stdin="http://localhost/?code=x&state=y\n", code=3)
    assert authorization.authorization_endpoint in refused.err
    assert "[13002]" in refused.err
    assert installation.run("account", "list", "--json").json == {"accounts": []}
    assert tokens_stored(installation) == 0


@pytest.mark.spec("SYNC-49")
def test_google_has_no_device_flow_for_mail(installation: Installation) -> None:
    """It is said before anybody is sent anywhere."""
    installation.run("keys", "create")
    arguments = ("account", "add", "--id", "g", "--preset", "gmail", "--user", "a@gmail.com", "--oauth")
    refused = installation.run(*arguments, "--client-id", "x", "--flow", "device", code=2)
    assert "Google does not" in refused.err
    missing = installation.run(*arguments, code=2)
    assert "--client-id" in missing.err
    both = installation.run(*arguments, "--client-id", "x", "--password-stdin", stdin="p\n", code=2)
    assert "exclude" in both.err


@pytest.mark.spec("SYNC-48", "OPS-84")
def test_keys_are_added_and_never_overwritten(installation: Installation) -> None:
    """A second key takes --rotate and becomes the active one; the first one's file stays untouched."""
    installation.run("keys", "create")
    (first,) = (installation.home / "secrets").glob("*.key")
    material = first.read_bytes()
    installation.run("keys", "create", code=2)
    installation.run("keys", "create", "--rotate", "--id", "key-1", code=2)
    installation.run("keys", "create", "--rotate")
    assert first.read_bytes() == material
    keys = installation.run("keys", "list", "--json").json["keys"]
    assert [(key["id"], key["active"]) for key in keys] == [("key-1", False), ("key-2", True)]


@pytest.mark.spec("SYNC-49", "SYNC-40")
def test_a_person_is_asked_for_the_application(
    installation: Installation, authorization: AuthorizationServer, token_server: Dovecot
) -> None:
    """Client id and secret are asked, the secret without showing it; it lies in an owner-only file and is sent."""
    installation.run("keys", "create")
    arguments = (
        *("account", "add", "--id", "work", "--host", "127.0.0.1", "--port", str(token_server.ports.plain)),
        *("--user", "anna", "--security", "none", "--ca", str(authorization.authority), "--oauth", "--scope", "mail"),
        *("--token-endpoint", authorization.token_endpoint),
        *("--authorization-endpoint", authorization.authorization_endpoint),
    )
    with Terminal(installation, *arguments) as dialogue:
        dialogue.answer("Client id", "our-client")
        dialogue.answer("Client secret", CLIENT_SECRET)
        dialogue.answer(r"Save this account\?", "")
        assert dialogue.finish() == 0
    assert CLIENT_SECRET not in dialogue.seen
    kept = installation.home / "secrets" / "work.client-secret"
    assert kept.read_text() == CLIENT_SECRET
    assert kept.stat().st_mode & 0o777 == 0o600
    installation.run("account", "test", "work")
    assert [form.get("client_secret") for form in authorization.forms] == [CLIENT_SECRET, CLIENT_SECRET]
    installation.run("account", "remove", "work")
    assert not kept.exists()
