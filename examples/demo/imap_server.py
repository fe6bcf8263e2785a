"""A Dovecot of our own in a folder of its own: one account, one free port on loopback, nothing changed elsewhere.

Works as root and as an ordinary user. As root the mail belongs to the account `mail`, because Dovecot refuses to serve
mail to root; the folder therefore has to be one that this account may enter, such as one under /var/tmp.
Understands the configuration languages of Dovecot 2.3 (Debian 12) and 2.4 (Debian 13).
"""

import grp
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT_SECONDS = 20.0
STOP_TIMEOUT_SECONDS = 10.0

USER_NAME = "demo@mail.example"
PASSWORD = "demo-password"  # noqa: S105 - the server listens on loopback and lives as long as the demo


class ServerUnavailableError(Exception):
    """Dovecot is not installed or did not start; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ImapServer:
    """Where the running server listens and where its mail lies (one Maildir, folders beside each other)."""

    host: str
    port: int
    user_name: str
    password: str
    maildir: Path
    log: Path
    pid: int


@dataclass(frozen=True, slots=True)
class _Owner:
    """The system account that owns the mail and runs the mail processes."""

    uid: int
    gid: int
    name: str
    group: str


def find_dovecot() -> str:
    """Return the path of the `dovecot` program, or raise ServerUnavailableError with the package to install."""
    program = shutil.which("dovecot", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        raise ServerUnavailableError(
            "Dovecot is not installed. On Debian or Ubuntu: sudo apt-get install dovecot-imapd"
        )
    return program


def mail_owner() -> _Owner:
    """Return the account that mail files must belong to: `mail` for root, else the caller."""
    entry = pwd.getpwnam("mail") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    return _Owner(entry.pw_uid, entry.pw_gid, entry.pw_name, grp.getgrgid(entry.pw_gid).gr_name)


@contextmanager
def running_dovecot(folder: Path) -> Iterator[ImapServer]:
    """Run Dovecot on the Maildir `folder/Maildir` until the block ends.

    The Maildir may be filled before or while the server runs; give new files to the mail owner (`give_to_owner`).
    """
    program = find_dovecot()
    owner = mail_owner()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    maildir = folder / "Maildir"
    maildir.mkdir(exist_ok=True)
    give_to_owner(maildir)
    port = _free_port()
    configuration = folder / "dovecot.conf"
    configuration.write_text(_configuration(folder, port=port, owner=owner, version=_version(program)))
    (folder / "users").write_text(f"{USER_NAME}:{{PLAIN}}{PASSWORD}\n")
    (folder / "users").chmod(0o644)
    process = subprocess.Popen(  # noqa: S603
        [program, "-F", "-c", str(configuration)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        _wait_until_listening(process, port=port, log=folder / "dovecot.log")
        yield ImapServer("127.0.0.1", port, USER_NAME, PASSWORD, maildir, folder / "dovecot.log", process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


def give_to_owner(path: Path) -> None:
    """Hand `path` and everything below it to the mail owner; nothing to do for an ordinary user."""
    if os.geteuid() != 0:
        return
    owner = mail_owner()
    os.chown(path, owner.uid, owner.gid)
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files):
            os.chown(os.path.join(parent, name), owner.uid, owner.gid)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _version(program: str) -> tuple[int, int]:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    found = re.match(r"(\d+)\.(\d+)", answer)
    if found is None:
        raise ServerUnavailableError(f"cannot read Dovecot's version from {answer.strip()!r}")
    return int(found[1]), int(found[2])


def _wait_until_listening(process: subprocess.Popen[bytes], *, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = process.stderr.read().decode(errors="replace") if process.stderr else ""
            raise ServerUnavailableError(
                f"Dovecot did not start: {said.strip() or log.read_text(errors='replace')[-2000:]}"
            )
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise ServerUnavailableError(f"Dovecot did not listen on port {port} within {START_TIMEOUT_SECONDS:.0f} s")


def _configuration(folder: Path, *, port: int, owner: _Owner, version: tuple[int, int]) -> str:
    is_root = os.geteuid() == 0
    internal = "".join(
        f"default_{setting} = {value}\n"
        for setting, value in (
            ("internal_user", owner.name),
            ("internal_group", owner.group),
            ("login_user", owner.name),
        )
        if not is_root
    )
    no_chroot = "" if is_root else "  chroot =\n"
    common = f"""
base_dir = {folder}/run
log_path = {folder}/dovecot.log
protocols = imap
listen = 127.0.0.1
ssl = no
first_valid_uid = {owner.uid}
{internal}service imap-login {{
{no_chroot}  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
{no_chroot}}}
service stats {{
{no_chroot}}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Drafts {{
    special_use = \\Drafts
  }}
  mailbox Sent {{
    special_use = \\Sent
  }}
  mailbox Junk {{
    special_use = \\Junk
  }}
}}
"""
    if version >= (2, 4):
        return f"""dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
auth_allow_cleartext = yes
mail_driver = maildir
mail_path = {folder}/Maildir
mailbox_list_layout = fs
mail_uid = {owner.uid}
mail_gid = {owner.gid}
state_dir = {folder}/state
passdb passwd-file {{
  passwd_file_path = {folder}/users
}}
userdb static {{
  fields {{
    uid = {owner.uid}
    gid = {owner.gid}
    home = {folder}
  }}
}}
{common}"""
    return f"""disable_plaintext_auth = no
mail_location = maildir:{folder}/Maildir:LAYOUT=fs
state_dir = {folder}/state
passdb {{
  driver = passwd-file
  args = {folder}/users
}}
userdb {{
  driver = static
  args = uid={owner.uid} gid={owner.gid} home={folder}
}}
{common}"""
