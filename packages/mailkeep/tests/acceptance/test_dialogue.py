"""Adding an account at a terminal: asked, shown, confirmed; the password never echoed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.command import Installation
from support.dovecot import PASSWORD, Dovecot
from support.terminal import Terminal


def test_a_person_is_asked_for_what_is_missing(installation: Installation, mail_server: Dovecot) -> None:
    """User, id and password are asked, the folders shown, and only a yes saves the account."""
    arguments = (
        *("account", "add", "--host", "127.0.0.1", "--port", str(mail_server.ports.plain), "--security", "none"),
    )
    with Terminal(installation, *arguments) as refused:
        refused.answer("User name", "anna")
        refused.answer("Id of the account", "work")
        refused.answer("Password", PASSWORD)
        refused.answer(r"Save this account\?", "n")
        assert refused.finish() == 1
    assert not (installation.home / "mailkeep.toml").exists()
    with Terminal(installation, *arguments) as accepted:
        accepted.answer("User name", "anna")
        accepted.answer("Id of the account", "")
        accepted.answer("Password", PASSWORD)
        accepted.answer(r"Save this account\?", "")
        assert accepted.finish() == 0
    assert "INBOX" in accepted.seen
    assert PASSWORD not in accepted.seen
    assert [account["id"] for account in installation.run("account", "list", "--json").json["accounts"]] == ["anna"]


def test_a_mistyped_password_is_asked_again(installation: Installation, mail_server: Dovecot) -> None:
    """What was answered before stays, and the account that exists already keeps its id."""
    installation.add_account(mail_server)
    arguments = (
        *("account", "add", "--host", "127.0.0.1", "--port", str(mail_server.ports.plain), "--security", "none"),
        *("--user", "anna"),
    )
    with Terminal(installation, *arguments) as dialogue:
        dialogue.answer("Id of the account", "work")
        dialogue.answer(r"(?s)There is an account work already.*Id of the account", "again")
        dialogue.answer("Password", "wrong")
        dialogue.answer(r"(?s)21002.*Password", PASSWORD)
        dialogue.answer(r"Save this account\?", "")
        assert dialogue.finish() == 0
    assert [one["id"] for one in installation.run("account", "list", "--json").json["accounts"]] == ["work", "again"]


def test_a_free_id_is_proposed_for_a_second_account_at_one_provider(installation: Installation) -> None:
    """Return is enough where the obvious id is taken."""
    installation.run(
        *("account", "add", "--id", "example", "--host", "h", "--user", "u", "--password-stdin", "--no-test"),
        stdin="x\n",
    )
    with Terminal(installation, "account", "add", "--host", "h", "--user", "ann@example.org") as dialogue:
        dialogue.answer(r"Id of the account here \[example-2\]", "")
        dialogue.answer("Password", "\x04")
        assert dialogue.finish() != 0
    assert [one["id"] for one in installation.run("account", "list", "--json").json["accounts"]] == ["example"]


def test_an_address_is_enough_where_the_provider_is_known(installation: Installation) -> None:
    """The domain tells the server; the provider's advice is shown; Ctrl-D at the password saves nothing."""
    with Terminal(installation, "account", "add") as dialogue:
        dialogue.answer("Mail address", "ann@gmail.com")
        dialogue.answer("Id of the account", "")
        dialogue.answer("Password for ann@gmail.com", "\x04")
        assert dialogue.finish() != 0
    assert "app password" in dialogue.seen
    assert "Traceback" not in dialogue.seen
    assert not (installation.home / "mailkeep.toml").exists()


def test_the_command_for_clients_explains_itself_to_a_person(installation: Installation) -> None:
    """Typed by hand it says what it waits for, instead of nothing."""
    with Terminal(installation, "mcp") as typed:
        typed.answer("for MCP clients.*Ctrl-D ends it", "\x04")
        assert typed.finish() == 0


def test_a_bar_shows_the_progress_of_a_run(installation: Installation, mail_server: Dovecot) -> None:
    """On a terminal a run ends with its counts, and the bar leaves no trace of its own."""
    installation.add_account(mail_server)
    with Terminal(installation, "sync", "--once") as run:
        assert run.finish() == 0
    assert "5 messages stored" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", run.seen)


@pytest.mark.parametrize("name", ["bad\x1b[31mname", " "])
def test_a_name_that_cannot_be_shown_is_refused(installation: Installation, tmp_path: Path, name: str) -> None:
    """An id with control characters never reaches the settings."""
    (tmp_path / "x").touch()
    installation.run(
        *("account", "add", "--id", name, "--host", "127.0.0.1", "--user", "u", "--password-stdin", "--no-test"),
        stdin="x\n",
        code=2,
    )
    assert not (installation.home / "mailkeep.toml").exists()
