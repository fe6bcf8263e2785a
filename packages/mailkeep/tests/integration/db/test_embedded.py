"""The embedded server: private, shared by processes, found again after a crash, silent."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mailkeep.db import embedded
from mailkeep.errors import DatabaseUnavailable


@pytest.fixture
def home() -> Iterator[Path]:
    """A short private folder; pytest's own may be too deep for a socket."""
    with tempfile.TemporaryDirectory(prefix="mk-") as folder:
        yield Path(folder)


def postmaster(home: Path) -> int | None:
    """The process id of the running server."""
    found = home / "postgres" / "postmaster.pid"
    return int(found.read_text().splitlines()[0]) if found.exists() else None


def refuses(dsn: str) -> bool:
    """Whether the server takes no connection."""
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return True
    return False


def in_other_process(home: Path, ending: str) -> subprocess.CompletedProcess[str]:
    """Start the server of `home` in another process and end it so, warnings being errors there."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom mailkeep.db import embedded\n"
        f"server = embedded.start(Path(sys.argv[1]))\n{ending}\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    command = (sys.executable, "-W", "error", "-c", code, str(home))
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


@pytest.mark.spec("DATA-48", "DATA-52", "DATA-1")
def test_server_is_created_with_fixed_order_and_full_durability(home: Path) -> None:
    """A new cluster: UTF-8, order by code point, confirmed commits on disk, no network, our database in it."""
    server = embedded.start(home)
    try:
        with psycopg.connect(server.dsn) as connection:

            def show(name: str) -> str:
                row = connection.execute(f"SHOW {name}").fetchone()
                assert row is not None
                return str(row[0])

            assert show("server_encoding") == "UTF8"
            assert (show("synchronous_commit"), show("fsync"), show("full_page_writes")) == ("on", "on", "on")
            assert (show("listen_addresses"), show("shared_buffers")) == ("", "96MB")
            assert int(show("server_version_num")) >= 160000
            row = connection.execute(
                "SELECT current_database(), 'Z' < 'a', 'É' = upper('é'), to_tsvector('simple', 'ÉTÉ “été”')::text"
            ).fetchone()
            assert row == ("mailkeep", True, True, "'été':1,2")
    finally:
        server.close()
    assert postmaster(home) is None


def test_nobody_but_the_owner_reaches_the_data_or_the_socket(home: Path) -> None:
    """Any local user may connect without a password to whom the socket is open, so it is open to nobody else."""
    server = embedded.start(home)
    try:
        folder = home / "postgres"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / ".s.PGSQL.5432").stat().st_mode) == 0o700
        assert not [path for path in home.iterdir() if path.is_file() and path.stat().st_mode & 0o077]
    finally:
        server.close()


def test_processes_share_one_server_and_the_last_one_stops_it(home: Path) -> None:
    """A second process uses the running server and leaves it running; nothing is printed on the way."""
    server = embedded.start(home)
    running = postmaster(home)
    other = in_other_process(home, "server.close()")
    assert (other.returncode, other.stdout, other.stderr) == (0, "", "")
    assert postmaster(home) == running
    server.close()
    assert postmaster(home) is None


@pytest.mark.spec("DATA-48")
def test_server_that_outlived_a_crash_is_found_and_used(home: Path) -> None:
    """A process that died without a word leaves no claim behind: the next one takes the server over and stops it."""
    assert in_other_process(home, "os._exit(9)").returncode == 9
    running = postmaster(home)
    assert running is not None
    server = embedded.start(home)
    assert postmaster(home) == running
    server.close()
    assert postmaster(home) is None


def test_killed_server_starts_again(home: Path) -> None:
    """A stale file of a server that was killed does not keep the next one from starting."""
    server = embedded.start(home)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1")
    killed = postmaster(home)
    assert killed is not None
    os.kill(killed, 9)
    again = embedded.start(home)
    try:
        with psycopg.connect(again.dsn) as connection:
            assert connection.execute("SELECT * FROM kept").fetchone() == (1,)
    finally:
        again.close()
        server.close()


@pytest.mark.spec("DATA-48")
def test_server_that_never_finishes_stopping_does_not_keep_the_next_one_away(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses everybody and does not end, as after a full disk; the next start ends it and loses nothing."""
    monkeypatch.setattr(embedded, "RESTART_PATIENCE_SECONDS", 0.5)
    first = embedded.start(home)
    with psycopg.connect(first.dsn, autocommit=True) as lingering:
        lingering.execute("CREATE TABLE kept AS SELECT 1 AS n")
        stuck = postmaster(home)
        os.kill(stuck or 0, signal.SIGTERM)  # smart: waits for the connection, which stays
        while not refuses(first.dsn):
            pass
        second = embedded.start(home)
    try:
        assert postmaster(home) != stuck
        with psycopg.connect(second.dsn) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (1,)
    finally:
        second.close()
        first.close()


def test_long_path_gets_a_short_private_socket_folder(home: Path) -> None:
    """A socket's path is limited to about a hundred octets, a home folder is not."""
    deep = home / ("d" * 60) / ("e" * 60)
    server = embedded.start(deep)
    try:
        with psycopg.connect(server.dsn) as connection:
            row = connection.execute("SHOW unix_socket_directories").fetchone()
        assert row is not None
        folder = Path(row[0])
        assert len(str(folder)) < 60
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        server.close()
    folder.rmdir()


def test_data_of_another_major_version_are_refused(home: Path) -> None:
    """Nothing is converted silently."""
    (home / "postgres").mkdir()
    (home / "postgres" / "PG_VERSION").write_text("15\n")
    with pytest.raises(DatabaseUnavailable, match="PostgreSQL 15"):
        embedded.start(home)


@pytest.mark.spec("DATA-22")
def test_log_of_the_server_holds_no_mail(home: Path) -> None:
    """A refused row is named by the server in its answer, never in its log."""
    server = embedded.start(home)
    try:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a integer, b text CHECK (b <> 'private words'))")
            for statement in ("INSERT INTO t VALUES (1, 'private words')", "SELECT 'private words'::integer"):
                with pytest.raises(psycopg.Error, match=r"private words|check constraint"):
                    connection.execute(statement)
            with pytest.raises(psycopg.Error, match="private"), connection.cursor().copy("COPY t FROM STDIN") as copy:
                copy.write("private words\tx\n")
    finally:
        server.close()
    assert "private" not in (home / "postgres" / "server.log").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_ordinary_user_runs_a_server_of_their_own(home: Path) -> None:
    """Without root the server runs as the user that asked for it."""
    user = pwd.getpwnam("daemon")
    os.chown(home, user.pw_uid, user.pw_gid)
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            server = embedded.start(home)
            with psycopg.connect(server.dsn) as connection:
                connection.execute("SELECT 1")
            owner = (home / "postgres").stat().st_uid
            server.close()
            os._exit(0 if owner == user.pw_uid else 3)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert postmaster(home) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts it as somebody else")
def test_under_root_the_server_runs_as_an_ordinary_user_and_lists_nothing(home: Path) -> None:
    """The server's user may pass through the home folder to its data, and see nothing else in it."""
    home.chmod(0o700)
    (home / "secrets").mkdir(mode=0o700)
    server = embedded.start(home)
    try:
        assert (home / "postgres").stat().st_uid != 0
        assert stat.S_IMODE(home.stat().st_mode) == 0o701
        assert stat.S_IMODE((home / "secrets").stat().st_mode) == 0o700
    finally:
        server.close()
