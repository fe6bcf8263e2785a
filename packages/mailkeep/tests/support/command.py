"""Drive the real `mailkeep` process in a home of its own, as a script without a terminal does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str
    octets: bytes

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


@dataclass
class Installation:
    """One MAILKEEP_HOME. `dsn` names its database; without it the embedded server is used."""

    home: Path
    dsn: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """The environment of its processes: ours without any setting of mailkeep, then its own."""
        # An installation keeps what it compiled; without that, each of many hundred commands compiles everything anew.
        dropped = ("MAILKEEP_", "PYTHONDONTWRITEBYTECODE")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        own = {"MAILKEEP_HOME": str(self.home), "COLUMNS": "200"}
        if self.dsn is not None:
            own["MAILKEEP_PERSISTENCE__DSN"] = self.dsn
        return inherited | own | self.environment

    def run(self, *arguments: str, stdin: str = "", code: int | None = 0) -> Finished:
        """Run a command to its end and check its exit code (None: any) and that it printed no traceback."""
        done = subprocess.run(
            command(arguments),
            env=self.variables(),
            input=stdin.encode(),
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        finished = Finished(
            done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"), done.stdout
        )
        assert "Traceback" not in finished.err, finished.err
        if code is not None:
            assert finished.code == code, f"exit code {finished.code}\n{finished.out}\n{finished.err}"
        return finished

    def add_account(
        self, server: Any, *extra: str, account_id: str = "work", user: str = "anna", code: int = 0
    ) -> Finished:
        """Add an account on a loopback test server over a connection without protection."""
        return self.run(
            *("account", "add", "--id", account_id, "--host", "127.0.0.1", "--port", str(server.ports.plain)),
            *("--user", user, "--password-stdin", "--security", "none", *extra),
            stdin=f"{server.password}\n",
            code=code,
        )

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Running]:
        """A command that runs until the block ends; it is stopped with SIGTERM if it has not ended by itself."""
        process = subprocess.Popen(
            command(arguments),
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running = Running(process)
        try:
            yield running
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(TIMEOUT_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
            running.close()


def command(arguments: Sequence[str]) -> list[str]:
    """The command line of a mailkeep process."""
    return [sys.executable, "-m", "mailkeep", *arguments]


class Running:
    """A command that is running; its standard error is read as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_line(self, pattern: str) -> re.Match[str]:
        """The first line of standard error that matches; fails when the process ends or time is up before."""
        seen = 0
        with self._changed:
            while True:
                for line in self._lines[seen:]:
                    if match := re.search(pattern, line):
                        return match
                seen = len(self._lines)
                if self._is_over or not self._changed.wait(TIMEOUT_SECONDS):
                    raise AssertionError(f"{pattern!r} never came:\n{self.errors}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_SECONDS)

    @property
    def errors(self) -> str:
        """Everything on standard error so far."""
        return "".join(self._lines)

    def close(self) -> None:
        """Let go of the pipes of an ended process."""
        self._reader.join(TIMEOUT_SECONDS)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for octets in self.process.stderr:
            with self._changed:
                self._lines.append(octets.decode("utf-8", "replace"))
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
