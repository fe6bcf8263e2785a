"""A private Cyrus IMAP server for tests: own port, own mail, no traces.

    with Cyrus.start() as server:
        server.add_user("anna")
        with server.client("anna") as other:
            other.append("INBOX", b"Subject: two\r\n\r\n", flags=["\\Seen"])

Debian's cyrus-imapd and dovecot-imapd exclude each other, so `make test` unpacks the former beside into var/cyrus
(.ci/cyrus); `folder` finds it there, in MAILKEEP_CYRUS, or installed, and says None when it is nowhere. Differs from our
Dovecot on purpose: its hierarchy delimiter is a dot, and its folders are no directories of messages.
"""

from __future__ import annotations

import contextlib
import imaplib
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from support.dovecot import PASSWORD, OtherClient, Ports, _free_ports, _mail_owner

UNPACKED = Path(__file__).parents[4] / "var" / "cyrus"
START_SECONDS = 20.0
STOP_SECONDS = 10.0
ADMINISTRATOR = "cyrus"


def folder() -> Path | None:
    """The file system root below which Cyrus lies, None when it is not there."""
    roots = (Path(os.environ["MAILKEEP_CYRUS"]),) if "MAILKEEP_CYRUS" in os.environ else (UNPACKED, Path("/"))
    return next((root for root in roots if (root / "usr/lib/cyrus/bin/imapd").exists()), None)


class Cyrus:
    """A running server. `start` is the way to make one."""

    host = "127.0.0.1"
    password = PASSWORD

    def __init__(self, root: Path, ports: Ports, process: subprocess.Popen[bytes]) -> None:
        self.root = root
        self.ports = ports
        self._process = process
        self._users: set[str] = set()

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[Self]:
        """Run a server until the block ends."""
        installed = folder()
        if installed is None:
            raise RuntimeError("Cyrus is not there; .ci/cyrus unpacks it")
        root = Path(tempfile.mkdtemp(prefix="mailkeep-cyrus-"))
        ports = _free_ports()
        owner, group = _mail_owner()
        for name in ("conf", "spool", "run"):
            (root / name).mkdir()
        programs = installed / "usr/lib/cyrus/bin"
        (root / "imapd.conf").write_text(_SETTINGS.format(root=root, owner=owner, group=group))
        (root / "cyrus.conf").write_text(_SERVICES.format(root=root, programs=programs, port=ports.plain))
        root.chmod(0o755)
        if os.geteuid() == 0:
            for path in (root, *root.glob("*")):
                shutil.chown(path, owner, group)
        libraries = (*installed.glob("usr/lib/*-linux-gnu"), *installed.glob("lib/*-linux-gnu"))
        with _password_server(root / "run" / "mux"):
            process = subprocess.Popen(
                [
                    programs / "master",
                    *("-C", root / "imapd.conf"),
                    *("-M", root / "cyrus.conf"),
                    *("-p", root / "run" / "pid"),
                    "-D",
                ],
                env=os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, libraries))},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            server = cls(root, ports, process)
            try:
                server._await_greeting()
                yield server
            finally:
                process.terminate()
                try:
                    process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                shutil.rmtree(root, ignore_errors=True)

    def add_user(self, user: str) -> None:
        """Give a user an empty mailbox with the usual folders."""
        if user in self._users:
            return
        with self._administrator() as client:
            for name in (f"user.{user}", *(f"user.{user}.{name}" for name in ("Sent", "Drafts", "Trash", "Junk"))):
                status, answer = client.create(name)
                if status != "OK":
                    raise RuntimeError(f"Cyrus made no mailbox: {answer!r}")
        self._users.add(user)

    def client(self, user: str) -> OtherClient:
        """An independent connection that may change things: the person's own mail program, so to say."""
        self.add_user(user)
        return OtherClient(self.host, self.ports.plain, user)

    @contextmanager
    def _administrator(self) -> Iterator[imaplib.IMAP4]:
        with imaplib.IMAP4(self.host, self.ports.plain, timeout=30) as client:
            client.login(ADMINISTRATOR, PASSWORD)
            yield client

    def _await_greeting(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with socket.create_connection((self.host, self.ports.plain), 1) as probe:
                    if probe.recv(4) == b"* OK":
                        return
            except OSError:
                pass
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("Cyrus did not start")
            time.sleep(0.02)


@contextmanager
def _password_server(path: Path) -> Iterator[None]:
    """What Cyrus asks for passwords: saslauthd's protocol, four counted strings (user, password, service, realm)."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o777)
    listener.listen(50)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError, struct.error):
                stream = connection.makefile("rb")
                fields = [stream.read(struct.unpack(">H", stream.read(2))[0]) for _ in range(4)]
                verdict = b"OK" if fields[1] == PASSWORD.encode() else b"NO"
                connection.sendall(struct.pack(">H", len(verdict)) + verdict)

    thread = threading.Thread(target=serve, name="saslauthd", daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


_SETTINGS = """\
configdirectory: {root}/conf
partition-default: {root}/spool
cyrus_user: {owner}
cyrus_group: {group}
admins: cyrus
sasl_pwcheck_method: saslauthd
sasl_saslauthd_path: {root}/run/mux
sasl_mech_list: PLAIN LOGIN
allowplaintext: yes
altnamespace: yes
unixhierarchysep: no
idlesocket: {root}/run/idle
lmtpsocket: {root}/run/lmtp
expunge_mode: immediate
delete_mode: immediate
maxlogins_per_user: 100
skiplist_unsafe: yes
specialusealways: yes
"""
_SERVICES = """\
START {{
  recover cmd="{programs}/ctl_cyrusdb -C {root}/imapd.conf -r"
}}
SERVICES {{
  imap cmd="{programs}/imapd -C {root}/imapd.conf -U 100" listen="127.0.0.1:{port}" prefork=1
}}
EVENTS {{
}}
"""
