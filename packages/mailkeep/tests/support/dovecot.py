"""A private Dovecot for tests, demonstrations and benchmarks: own ports, own certificate authority, own mail, no traces.

    with Dovecot.start(users=("anna", "ben")) as server:
        server.fill("anna", "INBOX", [b"Subject: hi\r\n\r\nhello\r\n"])
        with server.client("anna") as other:
            other.append("INBOX", b"Subject: two\r\n\r\n", flags=["\\Seen"])

Every user's password is `PASSWORD`. Runs as root (mail then belongs to `nobody`, since Dovecot refuses to serve root)
and as an ordinary user. Needs the Debian packages dovecot-core and dovecot-imapd; `is_installed` tells.
`configuration` alone makes the text of dovecot.conf and may be used by other starters.
"""

from __future__ import annotations

import getpass
import grp
import imaplib
import itertools
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

BINARY = Path("/usr/sbin/dovecot")
PASSWORD = "open sesame"
START_SECONDS = 15.0
STOP_SECONDS = 10.0
WITHOUT_CONDSTORE = (
    "IMAP4rev1 LITERAL+ SASL-IR ID ENABLE IDLE NAMESPACE UIDPLUS ESEARCH LIST-EXTENDED LIST-STATUS SPECIAL-USE"
)
WITHOUT_EXTENSIONS = "IMAP4rev1"


def is_installed() -> bool:
    """Whether a Dovecot binary is there to start."""
    return BINARY.exists()


@dataclass(frozen=True, slots=True)
class Ports:
    """`plain` also offers STARTTLS; `tls` speaks TLS from the first octet."""

    plain: int
    tls: int


def configuration(
    root: Path,
    ports: Ports,
    *,
    owner: str,
    group: str,
    capability: str | None = None,
    mail_format: str = "maildir",
    token_mechanisms: str = "",
) -> str:
    """The text of dovecot.conf for a server that lives wholly under `root` and runs as `owner`.

    `capability` replaces what the server advertises after sign-in; the server still understands everything else.
    `token_mechanisms` are offered beside the passwords; their tokens are judged as `root`/oauth2.conf says.
    """
    internal = (
        ""
        if os.geteuid() == 0
        else f"""
default_internal_user = {owner}
default_internal_group = {group}
default_login_user = {owner}
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
}}
"""
    )
    special = "".join(
        f"  mailbox {name} {{\n    auto = create\n    special_use = \\{role}\n  }}\n"
        for name, role in (("Sent", "Sent"), ("Drafts", "Drafts"), ("Trash", "Trash"), ("Junk", "Junk"))
    )
    settings = _settings_2_4 if _version() >= (2, 4) else _settings_2_3
    by_token = _BY_TOKEN.format(root=root, mechanisms=token_mechanisms) if token_mechanisms else ""
    return f"""{settings(root, owner=owner, group=group, capability=capability, mail_format=mail_format)}
base_dir = {root}/run
state_dir = {root}/state
log_path = {root}/dovecot.log
listen = 127.0.0.1
ssl = yes
auth_mechanisms = plain login {token_mechanisms}
{by_token}
auth_failure_delay = 0
mail_max_userip_connections = 100
mail_fsync = never
first_valid_uid = 1
first_valid_gid = 1
{internal}
namespace inbox {{
  inbox = yes
  separator = /
{special}}}
service imap-login {{
  inet_listener imap {{
    port = {ports.plain}
  }}
  inet_listener imaps {{
    port = {ports.tls}
    ssl = yes
  }}
}}
service anvil {{
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service imap {{
  process_limit = 256
}}
"""


_BY_TOKEN = """
passdb {{
  driver = oauth2
  mechanisms = {mechanisms}
  args = {root}/oauth2.conf
}}
"""
_OAUTH2 = """
introspection_mode = post
introspection_url = {address}
username_attribute = username
active_attribute = active
active_value = true
"""


def offers_tokens() -> bool:
    """Whether `start` can be given an address that judges tokens: the language of Dovecot 2.3 only."""
    return is_installed() and _version() < (2, 4)


def _settings_2_3(root: Path, *, owner: str, group: str, capability: str | None, mail_format: str) -> str:
    """What Dovecot 2.3 (Debian 12) spells in its own way."""
    advertised = f"imap_capability = {capability}" if capability else ""
    return f"""
protocols = imap
ssl_cert = <{root}/server.pem
ssl_key = <{root}/server.key
disable_plaintext_auth = no
mail_location = {mail_format}:~/mail
{advertised}
passdb {{
  driver = passwd-file
  args = scheme=PLAIN username_format=%u {root}/users
}}
userdb {{
  driver = static
  args = uid={owner} gid={group} home={root}/mail/%u
}}
"""


def _settings_2_4(root: Path, *, owner: str, group: str, capability: str | None, mail_format: str) -> str:
    """The same for Dovecot 2.4 (Debian 13); the first line has to be the first of the file."""
    advertised = f"imap_capability = {capability}" if capability else ""
    return f"""dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
protocols = imap
ssl_server_cert_file = {root}/server.pem
ssl_server_key_file = {root}/server.key
auth_allow_cleartext = yes
mail_driver = {mail_format}
mail_path = ~/mail
{advertised}
passdb passwd-file {{
  passwd_file_path = {root}/users
  default_password_scheme = PLAIN
  auth_username_format = %{{user}}
}}
userdb static {{
  fields {{
    uid = {owner}
    gid = {group}
    home = {root}/mail/%{{user}}
  }}
}}
"""


def _version() -> tuple[int, int]:
    """Dovecot's major and minor version; they tell the language of its configuration."""
    answer = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"(\d+)\.(\d+)", answer)
    if found is None:
        raise RuntimeError(f"Dovecot's version is unreadable: {answer!r}")
    return int(found[1]), int(found[2])


class Dovecot:
    """A running server. `start` is the way to make one."""

    host = "127.0.0.1"
    password = PASSWORD

    def __init__(self, root: Path, ports: Ports, process: subprocess.Popen[bytes], mail_format: str) -> None:
        self.root = root
        self.ports = ports
        self.authority = root / "authority.pem"
        self._process = process
        self._format = mail_format
        self._names = itertools.count(1)

    @classmethod
    @contextmanager
    def start(
        cls,
        *,
        users: Sequence[str] = ("anna",),
        capability: str | None = None,
        mail_format: str = "maildir",
        folder: Path | None = None,
        introspection: str | None = None,
        token_mechanisms: str = "xoauth2 oauthbearer",
    ) -> Iterator[Self]:
        """Run a server until the block ends. `mail_format` is `maildir` or `sdbox`.

        `introspection` is the address of an authorization server that says whether a token is good (RFC 7662).
        """
        root = Path(tempfile.mkdtemp(prefix="mailkeep-dovecot-", dir=folder))
        try:
            owner, group = _mail_owner()
            ports = _free_ports()
            make_certificates(root)
            (root / "users").write_text("".join(f"{user}:{PASSWORD}\n" for user in users))
            text = configuration(
                root,
                ports,
                owner=owner,
                group=group,
                capability=capability,
                mail_format=mail_format,
                token_mechanisms=token_mechanisms if introspection is not None else "",
            )
            (root / "oauth2.conf").write_text(_OAUTH2.format(address=introspection))
            (root / "dovecot.conf").write_text(text)
            (root / "mail").mkdir()
            root.chmod(0o755)
            if os.geteuid() == 0:
                shutil.chown(root / "mail", owner, group)
            process = subprocess.Popen(
                [BINARY, "-F", "-c", root / "dovecot.conf"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            server = cls(root, ports, process, mail_format)
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
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def client(self, user: str) -> OtherClient:
        """An independent connection that may change things: the person's own mail program, so to say."""
        return OtherClient(self.host, self.ports.plain, user)

    def fill(self, user: str, folder: str, messages: Iterable[bytes], *, seen: bool = False) -> int:
        """Put messages into a Maildir folder without any protocol, thousands in a second; the number put there."""
        if self._format != "maildir":
            raise ValueError("only a Maildir can be filled from outside")
        target = self._maildir(user, folder)
        count = 0
        for count, octets in enumerate(messages, 1):  # noqa: B007  -- the last value is the result
            name = f"{int(time.time())}.M{next(self._names):09d}P{os.getpid()}.test,S={len(octets)}:2,{'S' if seen else ''}"
            (target / "tmp" / name).write_bytes(octets)
            (target / "tmp" / name).rename(target / "cur" / name)
        self._give_to_owner(target)
        return count

    def set_uid_validity(self, user: str, folder: str, value: int) -> None:
        """Give a folder another UIDVALIDITY, messages and UIDs unchanged."""
        self._doveadm("mailbox", "update", "-u", user, "--uid-validity", str(value), folder)

    def set_next_uid(self, user: str, folder: str, value: int) -> None:
        """Leave a gap in the UIDs of a folder."""
        self._doveadm("mailbox", "update", "-u", user, "--min-next-uid", str(value), folder)

    def log(self) -> str:
        """What the server logged."""
        path = self.root / "dovecot.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _doveadm(self, *arguments: str) -> None:
        subprocess.run(
            ["/usr/bin/doveadm", "-c", str(self.root / "dovecot.conf"), *arguments], check=True, capture_output=True
        )

    def _maildir(self, user: str, folder: str) -> Path:
        home = self.root / "mail" / user
        target = home / "mail" if folder == "INBOX" else home / "mail" / ("." + folder.replace("/", "."))
        for part in ("cur", "new", "tmp"):
            (target / part).mkdir(parents=True, exist_ok=True)
        return target

    def _give_to_owner(self, target: Path) -> None:
        if os.geteuid() != 0:
            return
        owner, group = _mail_owner()
        uid, gid = pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid
        for path in (*(self.root / "mail").glob("*"), *(self.root / "mail").glob("*/*")):
            os.chown(path, uid, gid)
        for folder, _, names in os.walk(target):
            os.chown(folder, uid, gid)
            for name in names:
                os.chown(os.path.join(folder, name), uid, gid)

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
                raise RuntimeError(f"Dovecot did not start:\n{self.log()}")
            time.sleep(0.02)


class OtherClient:
    """Another mail program on the same mailbox: appends, flags, moves and deletes through IMAP."""

    def __init__(self, host: str, port: int, user: str) -> None:
        self._imap = imaplib.IMAP4(host, port, timeout=30)
        self._imap.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else Cyrus waits 40 ms for each literal
        self._imap.login(user, f'"{PASSWORD}"' if '"' in PASSWORD else PASSWORD)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._imap.logout()

    def create(self, folder: str) -> None:
        self._ok(self._imap.create(_quoted(folder)))

    def delete(self, folder: str) -> None:
        self._ok(self._imap.delete(_quoted(folder)))

    def rename(self, folder: str, to: str) -> None:
        self._ok(self._imap.rename(_quoted(folder), _quoted(to)))

    def append(
        self, folder: str, octets: bytes, *, flags: Sequence[str] = (), internaldate: datetime | None = None
    ) -> int:
        """Append one message; its UID."""
        moment = imaplib.Time2Internaldate(internaldate) if internaldate else ""
        answer = self._ok(self._imap.append(_quoted(folder), f"({' '.join(flags)})", moment, octets))
        match = re.search(rb"APPENDUID \d+ (\d+)", answer[-1])
        if match is None:
            raise RuntimeError("the server gave no APPENDUID")
        return int(match[1])

    def flag(self, folder: str, uid: int | str, *flags: str) -> None:
        self._select(folder)
        self._ok(self._imap.uid("STORE", str(uid), "+FLAGS.SILENT", f"({' '.join(flags)})"))

    def unflag(self, folder: str, uid: int | str, *flags: str) -> None:
        self._select(folder)
        self._ok(self._imap.uid("STORE", str(uid), "-FLAGS.SILENT", f"({' '.join(flags)})"))

    def expunge(self, folder: str, uid: int | str) -> None:
        """Delete messages for good."""
        self.flag(folder, uid, "\\Deleted")
        self._ok(self._imap.uid("EXPUNGE", str(uid)))

    def copy(self, folder: str, uid: int | str, to: str) -> None:
        self._select(folder)
        self._ok(self._imap.uid("COPY", str(uid), _quoted(to)))

    def move(self, folder: str, uid: int | str, to: str) -> None:
        self._select(folder)
        self._ok(self._imap.uid("MOVE", str(uid), _quoted(to)))

    def give_new_uids(self, folder: str, *, skipping: int) -> None:
        """Let another folder take the name, with copies of all messages but the first `skipping`."""
        self.create("Meanwhile")
        while self.uid_validity("Meanwhile") == self.uid_validity(folder):  # Cyrus gives out the second of creation
            self.delete("Meanwhile")
            self.create("Meanwhile")
        self.copy(folder, f"{skipping + 1}:*", "Meanwhile")
        self.uids("INBOX")  # a client whose folder is deleted is thrown out
        self.delete(folder)
        self.rename("Meanwhile", folder)

    def uid_validity(self, folder: str) -> int:
        answer = self._ok(self._imap.status(_quoted(folder), "(UIDVALIDITY)"))
        return int(re.findall(rb"UIDVALIDITY (\d+)", answer[-1])[-1])

    def uids(self, folder: str) -> list[int]:
        self._select(folder)
        return [int(word) for word in self._ok(self._imap.uid("SEARCH", "ALL"))[0].split()]

    def flags(self, folder: str) -> dict[int, frozenset[str]]:
        """Flags of every message by UID, as the server reports them, without \\Recent."""
        self._select(folder)
        found = {}
        for line in self._ok(self._imap.uid("FETCH", "1:*", "(UID FLAGS)")):
            match = re.search(rb"UID (\d+) FLAGS \(([^)]*)\)|FLAGS \(([^)]*)\) UID (\d+)", line or b"")
            if match:
                names = (match[2] if match[1] else match[3]).decode().split()
                found[int(match[1] or match[4])] = frozenset(names) - {"\\Recent"}
        return found

    def _select(self, folder: str) -> None:
        self._ok(self._imap.select(_quoted(folder)))

    @staticmethod
    def _ok(answer: tuple[str, list[Any]]) -> list[Any]:
        status, data = answer
        if status != "OK":
            raise RuntimeError(f"the server refused: {data!r}")
        return data


def make_certificates(root: Path) -> None:
    """An authority (`authority.pem`) and a server certificate for localhost and 127.0.0.1 signed by it."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)

    def certificate(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mailkeep test authority")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
        )

    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    authority = (
        certificate("mailkeep test authority", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    server = (
        certificate("localhost", server_key)
        .add_extension(names, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (root / "authority.pem").write_bytes(authority.public_bytes(pem))
    (root / "server.pem").write_bytes(server.public_bytes(pem))
    (root / "server.key").write_bytes(
        server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _mail_owner() -> tuple[str, str]:
    """The user and group that mail belongs to: our own, or nobody's when we are root."""
    if os.geteuid() == 0:
        return "nobody", "nogroup"
    return getpass.getuser(), grp.getgrgid(os.getegid()).gr_name


def _free_ports() -> Ports:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return Ports(first.getsockname()[1], second.getsockname()[1])


def _quoted(folder: str) -> str:
    return '"' + folder.replace("\\", "\\\\").replace('"', '\\"') + '"'
