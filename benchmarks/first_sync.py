"""First synchronization of 6,046 real messages, from an empty installation until all are searchable, and what a run
costs when nothing has changed; memory meanwhile. Rivals: mbsync, then mu index (or notmuch new), on the same server.
"""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from . import rivals
from .corpus import WORK, messages
from .figure import Figure
from .mailserver import PASSWORD, USER, Dovecot, warm
from .process import Measured, run

MAILKEEP = Path(sys.executable).with_name("mailkeep")
NO_CHANGE_RUNS = 3


class BenchmarkInvalidError(Exception):
    """A run did not do the work that it was timed for."""


def measure() -> Iterator[Figure]:
    """Yield the figures of first_sync, their memory, and of no_change for one folder."""
    mail = messages()
    with work_folder() as folder, Dovecot.start(users=(USER,), folder=folder) as server:
        server.fill(USER, "INBOX", mail, seen=True)
        warm(server)
        environment, data = installation(folder / "home", server)
        first = run([MAILKEEP, "sync", "--once"], environment=environment, data=data)
        require_stored(environment, len(mail))
        them = rivals.prepare(folder / "rivals", server)
        fetched, indexed = rivals.mbsync(them), rivals.mu_init(them) + rivals.mu_index(them)
        yield Figure("first_sync", first.seconds, "s", "mbsync + mu index", fetched + indexed)
        yield Figure("first_sync_rate", len(mail) / first.seconds, "messages/s")
        yield Figure("sync_memory", first.peak_mib, "MiB")
        yield Figure("sync_memory_postgres", first.postgres_peak_mib, "MiB")
        yield from _no_change(environment, data, them)
        noted = rivals.notmuch_new(them)
        yield Figure("first_sync_notmuch", first.seconds, "s", "mbsync + notmuch new", fetched + noted)


def _no_change(environment: Mapping[str, str], data: Path, them: rivals.Rivals) -> Iterator[Figure]:
    ours = median_of_runs(environment, data)
    theirs = statistics.median(rivals.mbsync(them) + rivals.mu_index(them) for _ in range(NO_CHANGE_RUNS))
    yield Figure("no_change_1_folder", ours, "s", "mbsync + mu index", theirs)


def median_of_runs(environment: Mapping[str, str], data: Path) -> float:
    """Return the median seconds of `mailkeep sync --once`, start of the process and of PostgreSQL included."""
    return statistics.median(sync_once(environment, data).seconds for _ in range(NO_CHANGE_RUNS))


def sync_once(environment: Mapping[str, str], data: Path) -> Measured:
    """Run `mailkeep sync --once` under measurement."""
    return run([MAILKEEP, "sync", "--once"], environment=environment, data=data)


@contextmanager
def work_folder() -> Iterator[Path]:
    """Give a folder below the benchmarks' own that ends with the block; the mail owner may enter it."""
    WORK.mkdir(parents=True, exist_ok=True)
    base = WORK if os.geteuid() != 0 else Path(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix="mailkeep-bench-", dir=base) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def installation(home: Path, server: Dovecot) -> tuple[dict[str, str], Path]:
    """Make an installation whose account is the server's; return its environment and PostgreSQL's data folder.

    The database is created here: it is part of installing mailkeep, as `mu init` is cheap and `initdb` is not.
    """
    home.mkdir()
    # PYTHONDONTWRITEBYTECODE would compile everything anew at each start; an installation keeps what it compiled.
    dropped = ("MAILKEEP_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    environment = {**kept, "MAILKEEP_HOME": str(home)}
    account = home / "password"
    account.write_text(PASSWORD + "\n")
    account.chmod(0o600)
    options = ["--id", "bench", "--host", server.host, "--port", str(server.ports.plain), "--user", USER]
    options += ["--password-from", f"file:{account}", "--security", "none"]
    run([MAILKEEP, "account", "add", *options], environment=environment)
    run([MAILKEEP, "db", "upgrade"], environment=environment)
    return environment, home / "postgres"


def require_stored(environment: Mapping[str, str], expected: int) -> None:
    """Raise BenchmarkInvalidError unless all `expected` messages are stored and the last one is found by a search."""
    status = json.loads(run([MAILKEEP, "status", "--json"], environment=environment).output)
    stored = sum(folder["stored"] for account in status["accounts"] for folder in account["folders"])
    if stored != expected:
        raise BenchmarkInvalidError(f"{stored} of {expected} messages are stored")
    found = json.loads(run([MAILKEEP, "search", "linux", "--json"], environment=environment).output)
    if not found["matches"]:
        raise BenchmarkInvalidError("the stored mail is not searchable")
