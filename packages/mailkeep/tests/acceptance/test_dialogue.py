"""Adding an account at a terminal: asked, shown, confirmed; the password never echoed."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest
from support.command import TIMEOUT_SECONDS, Installation, command
from support.dovecot import PASSWORD, Dovecot


class Terminal:
    """A command at a pseudo-terminal, and a person who waits for a prompt and types."""

    def __init__(self, installation: Installation, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command(arguments),
            env=installation.variables(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,  # or the password would be asked at the terminal of whoever runs the tests
        )
        os.close(theirs)
        self.seen = ""
        self._answered = 0

    def answer(self, prompt: str, text: str) -> None:
        """Wait for a prompt that was not answered yet, then type a line."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (match := re.search(prompt, self.seen[self._answered :])):
            assert time.monotonic() < deadline, f"{prompt!r} never came:\n{self.seen}"
            assert self._read(deadline), f"ended before {prompt!r}:\n{self.seen}"
        self._answered += match.end()
        os.write(self._ours, text.encode() + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def finish(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self._read(deadline):
            pass
        os.close(self._ours)
        return self.process.wait(TIMEOUT_SECONDS)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return False
        try:
            octets = os.read(self._ours, 65536)
        except OSError:  # Linux reports the closed other end like this
            return False
        self.seen += octets.decode("utf-8", "replace")
        return bool(octets)


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
