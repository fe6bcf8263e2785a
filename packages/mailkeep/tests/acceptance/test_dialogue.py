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
