"""The tools we measure ourselves against, as Debian packages them: mbsync (isync), mu (maildir-utils) and notmuch.

Each runs with its defaults, on a home folder of its own, as a person would set it up.
"""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .mailserver import PASSWORD, USER, Dovecot

PACKAGES = {"mbsync": "isync", "mu": "maildir-utils", "notmuch": "notmuch"}


class RivalMissingError(Exception):
    """A rival is not installed; the message names its Debian package."""


class RivalFailedError(Exception):
    """A rival gave up; the message has its last words."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """One mail folder on disk and the two indexes over it, below `home`."""

    home: Path

    @property
    def maildir(self) -> Path:
        """Where mbsync keeps the mail and mu and notmuch read it."""
        return self.home / "mail"

    @property
    def environment(self) -> dict[str, str]:
        """The environment that keeps the tools away from the caller's own mail."""
        return {
            **os.environ,
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "NOTMUCH_CONFIG": str(self.home / "notmuch-config"),
            "LC_ALL": "C.UTF-8",
        }


def require_rivals() -> None:
    """Raise RivalMissingError unless all three tools are installed."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        raise RivalMissingError(f"the benchmarks need other mail tools; install: apt-get install {' '.join(missing)}")


def prepare(home: Path, server: Dovecot) -> Rivals:
    """Write the configuration of all three tools for the mail of `server`."""
    rivals = Rivals(home)
    rivals.maildir.mkdir(parents=True)
    (home / "mbsyncrc").write_text(
        f"""IMAPAccount bench
Host {server.host}
Port {server.ports.plain}
User {USER}
Pass "{PASSWORD}"
SSLType None
AuthMechs LOGIN

IMAPStore bench-remote
Account bench

MaildirStore bench-local
Path {rivals.maildir}/
Inbox {rivals.maildir}/INBOX
SubFolders Verbatim

Channel bench
Far :bench-remote:
Near :bench-local:
Patterns *
Create Near
Sync Pull
SyncState *
"""
    )
    prepare_notmuch(rivals)
    return rivals


def prepare_notmuch(rivals: Rivals) -> None:
    """Write notmuch's configuration: the mail folder, no hooks, tags as by default."""
    (rivals.home / "notmuch-config").write_text(
        f"[database]\npath={rivals.maildir}\n[user]\nname=Bench\nprimary_email=bench@mail.example\n"
        "[new]\ntags=unread;inbox;\nignore=.mbsyncstate;.uidvalidity;\n[maildir]\nsynchronize_flags=true\n"
    )


def mbsync(rivals: Rivals) -> float:
    """Mirror once; return the seconds."""
    return _timed(rivals, ["mbsync", "-q", "-c", str(rivals.home / "mbsyncrc"), "-a"])


def mu_init(rivals: Rivals) -> float:
    """Create mu's empty index; return the seconds."""
    return _timed(rivals, ["mu", "init", "--quiet", f"--maildir={rivals.maildir}"])


def mu_index(rivals: Rivals) -> float:
    """Index what is new; return the seconds."""
    return _timed(rivals, ["mu", "index", "--quiet"])


def notmuch_new(rivals: Rivals) -> float:
    """Index what is new; return the seconds."""
    return _timed(rivals, ["notmuch", "new", "--quiet"])


class Search(Protocol):
    """A search of a rival: the seconds it took and the number of hits printed."""

    def __call__(self, rivals: Rivals, query: str, *, limit: int = ...) -> tuple[float, int]: ...


def mu_find(rivals: Rivals, query: str, *, limit: int = 25) -> tuple[float, int]:
    """Search; return the seconds and the number of hits printed (at most `limit`, newest first)."""
    command = ["mu", "find", f"--maxnum={limit}", "--sortfield=date", "--reverse", "--fields=i d f s", query]
    return _timed_search(rivals, command)


def notmuch_search(rivals: Rivals, query: str, *, limit: int = 25) -> tuple[float, int]:
    """Search; return the seconds and the number of hits printed (at most `limit`, newest first)."""
    return _timed_search(rivals, ["notmuch", "search", "--output=summary", f"--limit={limit}", query])


def _timed(rivals: Rivals, command: list[str]) -> float:
    started = time.perf_counter()
    answer = subprocess.run(command, env=rivals.environment, check=False, capture_output=True)
    elapsed = time.perf_counter() - started
    if answer.returncode != 0:
        raise RivalFailedError(
            f"{command[0]} ended with {answer.returncode}: {answer.stderr.decode(errors='replace').strip()[-400:]}"
        )
    return elapsed


def _timed_search(rivals: Rivals, command: list[str]) -> tuple[float, int]:
    started = time.perf_counter()
    answer = subprocess.run(command, env=rivals.environment, check=False, capture_output=True)
    return time.perf_counter() - started, len(answer.stdout.splitlines())
