"""Drive the real `mailkeep` process at a pseudo-terminal, as a person does."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from typing import Self

from support.command import TIMEOUT_SECONDS, Installation, command


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
