"""Accounts from the command line: added, refused, listed, tested, removed; the password never shown."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from support.command import Installation
from support.dovecot import PASSWORD, Dovecot


def test_an_account_is_added_tested_and_listed_without_a_terminal(
    installation: Installation, mail_server: Dovecot
) -> None:
    """The login is tried, the folders are shown, the account is saved, and the password is kept by reference only."""
    added = installation.add_account(mail_server, "--name", "Work mail")
    assert "INBOX" in added.err
    assert "Sent" in added.err
    listed = installation.run("account", "list", "--json").json
    assert [account["id"] for account in listed["accounts"]] == ["work"]
    settings = (installation.home / "mailkeep.toml").read_text()
    (secret,) = (installation.home / "secrets").iterdir()
    assert PASSWORD not in settings + added.out + added.err
    assert secret.read_text() == PASSWORD
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    tested = installation.run("account", "test", "work", "--json").json
    assert {"INBOX", "Sent"} <= {folder["name"] for folder in tested["folders"]}
    assert next(folder["messages"] for folder in tested["folders"] if folder["name"] == "INBOX") == 4


@pytest.mark.spec("SYNC-33")
def test_an_unprotected_server_elsewhere_is_refused_before_anything_is_sent(installation: Installation) -> None:
    """Only a server on this machine may be reached without TLS, unless the person insists."""
    arguments = (
        *("account", "add", "--id", "far", "--host", "mail.example.com", "--user", "ann"),
        *("--password-stdin", "--security", "none"),
    )
    refused = installation.run(*arguments, "--no-test", stdin="x\n", code=2)
    assert "--allow-insecure" in refused.err
    assert not (installation.home / "mailkeep.toml").exists()
    installation.run(*arguments, "--no-test", "--allow-insecure", stdin="x\n")
    assert "allow_insecure_connection = true" in (installation.home / "mailkeep.toml").read_text()


def test_a_wrong_password_saves_nothing(installation: Installation, mail_server: Dovecot) -> None:
    """The refusal is one sentence with exit code 3, and no account and no secret are left behind."""
    refused = installation.run(
        *("account", "add", "--id", "work", "--host", "127.0.0.1", "--port", str(mail_server.ports.plain)),
        *("--user", "anna", "--password-stdin", "--security", "none"),
        stdin="sentinel-wrong\n",
        code=3,
    )
    assert "[21002]" in refused.err
    assert "sentinel-wrong" not in refused.err + refused.out
    assert installation.run("account", "list", "--json").json == {"accounts": []}
    assert not (installation.home / "secrets").exists()


def test_an_unreachable_server_is_named_with_its_code(installation: Installation) -> None:
    """A closed port is exit code 3, and --no-test saves the account all the same."""
    arguments = (
        *("account", "add", "--id", "work", "--host", "127.0.0.1", "--port", "1", "--user", "anna"),
        *("--password-stdin", "--security", "none"),
    )
    refused = installation.run(*arguments, stdin="x\n", code=3)
    assert "[22001]" in refused.err
    assert "--security tls" in refused.err
    installation.run(*arguments, "--no-test", stdin="x\n")
    assert "[22001]" in installation.run("account", "test", "work", code=3).err
    assert "[22001]" in installation.run("sync", "--once", code=3).err


@pytest.mark.spec("SYNC-33")
@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_a_certificate_nobody_trusts_is_refused_until_its_authority_is_given(
    installation: Installation, mail_server: Dovecot, security: str
) -> None:
    """Validation cannot be switched off; a private authority is added instead."""
    port = mail_server.ports.tls if security == "tls" else mail_server.ports.plain
    arguments = (
        *("account", "add", "--id", "work", "--host", "127.0.0.1", "--port", str(port)),
        *("--user", "anna", "--password-stdin", "--security", security),
    )
    refused = installation.run(*arguments, stdin=f"{PASSWORD}\n", code=3)
    assert "[21003]" in refused.err
    assert "--ca" in refused.err
    assert ("--security starttls" in refused.err) is (security == "tls")
    installation.run(*arguments, "--ca", str(mail_server.authority), stdin=f"{PASSWORD}\n")
    installation.run("sync", "--once")


def test_missing_options_are_all_named_at_once(installation: Installation) -> None:
    """Without a terminal nobody is asked, and nothing waits for an answer."""
    refused = installation.run("account", "add", code=2)
    for option in ("--id", "--host", "--user"):
        assert option in refused.err
    unsure = installation.run("account", "add", "--id", "a", "--host", "h", "--user", "u", code=2)
    assert "--password-stdin" in unsure.err


def test_a_preset_fills_in_the_server(installation: Installation) -> None:
    """The domain of an address tells provider, port and protection; a provider unknown here is a usage error."""
    installation.run(
        *("account", "add", "--id", "home", "--address", "ann@icloud.com", "--password-stdin", "--no-test"), stdin="x\n"
    )
    text = (installation.home / "mailkeep.toml").read_text()
    assert 'host = "imap.mail.me.com"' in text
    assert 'user_name = "ann"' in text
    installation.run("account", "add", "--preset", "nowhere", code=2)


def test_the_next_command_can_be_typed_as_shown(installation: Installation, mail_server: Dovecot) -> None:
    """An id with a space is quoted in the command that is proposed."""
    added = installation.run(
        *("account", "add", "--id", "at home", "--host", "127.0.0.1", "--port", str(mail_server.ports.plain)),
        *("--user", "anna", "--password-stdin", "--security", "none"),
        stdin=f"{PASSWORD}\n",
    )
    assert "mailkeep sync --once --account 'at home'" in added.err


def test_a_second_account_of_one_id_is_refused(installation: Installation, mail_server: Dovecot) -> None:
    """The first account and its secret stay as they were."""
    installation.add_account(mail_server)
    before = (installation.home / "mailkeep.toml").read_bytes()
    installation.add_account(mail_server, account_id="WORK", user="ben", code=2)
    assert (installation.home / "mailkeep.toml").read_bytes() == before


@pytest.mark.spec("SYNC-6")
def test_removing_an_account_keeps_its_mail_until_told_otherwise(mirrored: Installation, mail_server: Dovecot) -> None:
    """Removed mail is unreadable and comes back with the account; --erase-mail erases it for good."""
    (found,) = mirrored.run("search", "lanterns", "--json").json["matches"]
    mirrored.run("account", "remove", "work")
    assert not (mirrored.home / "secrets" / "work.password").exists()
    assert mirrored.run("search", "lanterns", "--json").json["matches"] == []
    mirrored.run("show", found["id"], code=1)
    mirrored.add_account(mail_server)
    assert mirrored.run("search", "lanterns", "--json").json["matches"][0]["id"] == found["id"]
    mirrored.run("account", "remove", "work", "--erase-mail", code=2)
    assert "erased 5" in mirrored.run("account", "remove", "work", "--erase-mail", "--yes").err
    mirrored.add_account(mail_server)
    assert mirrored.run("search", "lanterns", "--json").json["matches"] == []


def test_a_password_elsewhere_is_kept_by_reference(
    installation: Installation, mail_server: Dovecot, tmp_path: Path
) -> None:
    """A file of one's own is read and left alone; the settings name it."""
    secret = tmp_path / "mine"
    secret.write_text(PASSWORD + "\n")
    installation.run(
        *("account", "add", "--id", "work", "--host", "127.0.0.1", "--port", str(mail_server.ports.plain)),
        *("--user", "anna", "--security", "none", "--password-from", f"file:{secret}"),
    )
    installation.run("sync", "--once")
    installation.run("account", "remove", "work")
    assert secret.exists()
