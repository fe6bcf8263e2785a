"""`make demo`: mailkeep on a real IMAP server, from an empty folder to answers, as a person would type it.

Starts a private Dovecot with the demo mailbox, then drives the real `mailkeep` command with a MAILKEEP_HOME of its own
(var/demo) and compares what is stored with what the server has. Ends with a non-zero code as soon as something is not
as it should be. `--once` stops after the searches; otherwise it serves until Ctrl-C and then stops what it started.
"""

import argparse
import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from packages.mailkeep.tests.support.dovecot import PASSWORD, Dovecot, is_installed

from mailkeep.config import HttpSettings
from mailkeep.imap.names import encode_name

from .mailbox import DemoMessage, compose, demo_now

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "var" / "demo"
MAILKEEP = Path(sys.executable).with_name("mailkeep")
USER = "robin"
ACCOUNT = "demo"
COMMAND_TIMEOUT_SECONDS = 300
STOP_TIMEOUT_SECONDS = 30
USUAL_PORT = HttpSettings().port

SEARCHES = (
    ("a word in German invoices", "Wasserwaage"),
    ("a person and a thing: Mira Kowalska's mail about the shed", "mira shed"),
    ("Japanese, written without spaces: cherry blossom viewing", "花見"),
)
QUESTION = "When does the ferry leave?"
QUESTION_AS_WORDS = "ferry leave*"


class DemoFailedError(Exception):
    """Something is not as it should be; the message says what."""


@dataclass(frozen=True, slots=True)
class Home:
    """The installation that the demo makes, and the way to call `mailkeep` in it."""

    path: Path
    environment: Mapping[str, str] = field(repr=False)

    def run(self, *arguments: str, say: bool = True, standard_input: str | None = None) -> None:
        """Run one command as typed; its output goes to the terminal. Raises DemoFailedError on a non-zero code."""
        if say:
            print(f"\n$ mailkeep {' '.join(_quoted(argument) for argument in arguments)}", flush=True)
        done = subprocess.run(
            [MAILKEEP, *arguments],
            env=self.environment,
            input=standard_input,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise DemoFailedError(f"`mailkeep {arguments[0]}` ended with code {done.returncode}")

    def read_json(self, *arguments: str) -> dict[str, object]:
        """Run one command and return the JSON object it prints."""
        done = subprocess.run(
            [MAILKEEP, *arguments, "--json"],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise DemoFailedError(f"`mailkeep {arguments[0]} --json` ended with code {done.returncode}")
        answer = json.loads(done.stdout)
        if not isinstance(answer, dict):
            raise DemoFailedError(f"`mailkeep {arguments[0]} --json` printed no object")
        return answer


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description="mailkeep on a real IMAP server")
    parser.add_argument("--once", action="store_true", help="end after the searches")
    once = parser.parse_args().once
    # Ctrl-C by name as well: a shell starts its background jobs with that signal ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_as_with_ctrl_c)
    if not is_installed():
        print("Dovecot is not installed. On Debian or Ubuntu: sudo apt-get install dovecot-imapd", file=sys.stderr)
        return 1
    try:
        with _only_demo(), Dovecot.start(users=(USER,)) as server:
            _demonstrate(server, once=once)
    except (DemoFailedError, subprocess.TimeoutExpired, RuntimeError, OSError) as failure:
        print(f"\nThe demo failed: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    return 0


def _demonstrate(server: Dovecot, *, once: bool) -> None:
    home = _new_home()
    messages = compose(demo_now())
    _put_on_server(server, messages)
    print(f"Everything mailkeep keeps in this demo lies in {home.path.relative_to(ROOT)} (MAILKEEP_HOME).")
    home.run(
        *("account", "add", "--id", ACCOUNT, "--name", "Robin", "--host", server.host),
        *("--port", str(server.ports.tls), "--user", USER, "--password-stdin", "--security", "tls"),
        *("--ca", str(server.authority)),
        standard_input=PASSWORD + "\n",
    )
    flags_before = _flags(server, messages)
    home.run("sync", "--once")
    _compare_counts(home, server, messages)
    for why, query in SEARCHES:
        print(f"\n--- {why}")
        home.run("search", query, "--limit", "3")
    _ask(home)
    _second_run(home, server, messages, flags_before=flags_before)
    if once:
        print("\nDone: mirrored, counted, searched; nothing is left running.")
        return
    _serve(home)


def _new_home() -> Home:
    """Return an empty installation; what an earlier demo left is removed."""
    path = FOLDER / "home"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAILKEEP_")}
    return Home(path, {**environment, "MAILKEEP_HOME": str(path)})


@contextmanager
def _only_demo() -> Iterator[None]:
    """Hold the lock of var/demo; a second demo beside a running one would take its mail away."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            raise DemoFailedError("another demo is running here; stop it first") from held
        yield


def _put_on_server(server: Dovecot, messages: list[DemoMessage]) -> None:
    folders = _folders(messages)
    with server.client(USER) as client:
        for folder in folders:
            if folder not in {"INBOX", "Sent", "Drafts", "Junk"}:
                client.create(_wire_name(folder))
        for message in messages:
            client.append(
                _wire_name(message.folder), message.octets, flags=message.flags, internaldate=message.arrived_at
            )
    print(f"Dovecot holds {len(messages)} messages in {len(folders)} folders of {USER}.")


def _compare_counts(home: Home, server: Dovecot, messages: list[DemoMessage]) -> None:
    """Print server against stored for each folder; raise DemoFailedError unless every message is accounted for."""
    home.run("status")
    stored = _stored_counts(home)
    with server.client(USER) as client:
        for folder in _folders(messages):
            there, here = len(client.uids(_wire_name(folder))), stored.get(folder.upper())
            if there != here:
                raise DemoFailedError(f"{folder}: {there} messages on the server, {here} stored")
    print(f"\nEvery one of the {len(messages)} messages is stored; the broken ones too.")


def _ask(home: Home) -> None:
    print(f"\n--- a question: “{QUESTION}”")
    print("mailkeep finds mail and does not write answers: here are the best matches for the words that matter.")
    home.run("search", QUESTION_AS_WORDS, "--limit", "3")
    answer = home.read_json("search", QUESTION_AS_WORDS)
    matches = answer.get("matches")
    if not isinstance(matches, list) or not any("07:45" in json.dumps(match) for match in matches[:3]):
        raise DemoFailedError("the letter that tells when the ferry leaves is not among the best three matches")


def _second_run(
    home: Home, server: Dovecot, messages: list[DemoMessage], *, flags_before: dict[str, dict[int, frozenset[str]]]
) -> None:
    before = _stored_counts(home)
    home.run("sync", "--once")
    if _stored_counts(home) != before:
        raise DemoFailedError("a second run changed what is stored although nothing changed on the server")
    if _flags(server, messages) != flags_before:
        raise DemoFailedError("mirroring changed flags on the server")
    unread = sum("\\Seen" not in flags for folder in flags_before.values() for flags in folder.values())
    print(
        f"\nThe second run changed nothing, and the server still counts {unread} unread messages: \\Seen did not move."
    )


def _serve(home: Home) -> None:
    """Serve status page and MCP until Ctrl-C; `mailkeep serve` says where."""
    port = _port()
    print(
        f"""
Connect an agent (an MCP client on this machine) with this entry:

  {{"mcpServers": {{"mailkeep": {{"command": "{MAILKEEP}", "args": ["mcp"],
    "env": {{"MAILKEEP_HOME": "{home.path}"}}}}}}}}

or over HTTP at the address that follows, path /mcp. Ctrl-C ends the demo and stops everything it started.

$ {" ".join(("mailkeep", "serve", *port))}""",
        flush=True,
    )
    process = subprocess.Popen([MAILKEEP, "serve", *port], env=home.environment)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        code = process.wait(STOP_TIMEOUT_SECONDS)
        print("Stopped.")
    if code not in (0, 130, -signal.SIGINT):
        raise DemoFailedError(f"`mailkeep serve` ended with code {code}")


def _port() -> tuple[str, ...]:
    """Return the option for a free port where the usual one is taken, perhaps by the owner's own mailkeep."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", USUAL_PORT))
        except OSError:
            return ("--port", "0")
    return ()


def _end_as_with_ctrl_c(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _stored_counts(home: Home) -> dict[str, int]:
    """Return the stored count of each folder by its alias, the upper-cased name."""
    accounts = home.read_json("status")["accounts"]
    if not isinstance(accounts, list):
        raise DemoFailedError("`mailkeep status --json` lists no accounts")
    return {row["folder"]: row["stored"] for account in accounts for row in account["folders"]}


def _flags(server: Dovecot, messages: list[DemoMessage]) -> dict[str, dict[int, frozenset[str]]]:
    with server.client(USER) as client:
        return {folder: client.flags(_wire_name(folder)) for folder in _folders(messages)}


def _folders(messages: list[DemoMessage]) -> list[str]:
    return sorted({message.folder for message in messages})


def _wire_name(folder: str) -> str:
    return encode_name(folder).decode("ascii")


def _quoted(argument: str) -> str:
    return shlex.quote(argument) if argument.isascii() else argument


if __name__ == "__main__":
    sys.exit(main())
