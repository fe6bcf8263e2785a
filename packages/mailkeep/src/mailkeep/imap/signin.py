"""Connecting, protecting and signing in, through IMAPClient; what comes out is a stream and the capabilities.

The IMAPClient object is dropped afterwards: it could change mailboxes, and a session must not hold anything that can.
Certificates are always verified; a private authority is trusted beside the system's (SYNC-33).
"""

from __future__ import annotations

import imaplib
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import imapclient

from mailkeep.config import AccountSettings, ConnectionSecurity
from mailkeep.errors import (
    CertificateRefused,
    LoginRejected,
    MailServerUnavailable,
    MechanismRefused,
    TransportPolicyRefused,
)
from mailkeep.imap.advice import read_advice
from mailkeep.imap.dialogue import AskedToComeBack, Completion, speaks_of_passing_trouble
from mailkeep.imap.stream import Stream

if TYPE_CHECKING:
    from pydantic import SecretStr

CLEAR_TEXT_MECHANISMS = ("PLAIN", "LOGIN")
TOKEN_MECHANISMS = ("OAUTHBEARER", "XOAUTH2")
LOGIN_COMMAND = "the LOGIN command"
# Seconds of silence before the first probe (macOS has a name of its own for it), between probes, and probes that fail.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPALIVE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


def choose_mechanism(capabilities: Iterable[str], permitted: Iterable[str]) -> str:
    """The mechanism to sign in with: OAUTHBEARER, XOAUTH2, PLAIN, LOGIN, or LOGIN_COMMAND where the server offers no
    SASL that carries a password (SYNC-32, SYNC-41).

    The server's list is narrowed to the permitted ones and never widened. Raises MechanismRefused (21001).
    """
    offered = {name.upper() for name in capabilities}
    allowed = {name.upper() for name in permitted}
    for mechanism in (*TOKEN_MECHANISMS, *CLEAR_TEXT_MECHANISMS):
        if mechanism in allowed and f"AUTH={mechanism}" in offered:
            return mechanism
    if allowed & set(CLEAR_TEXT_MECHANISMS) and "LOGINDISABLED" not in offered:
        return LOGIN_COMMAND
    raise MechanismRefused("the mail server offers no authentication mechanism that this account permits")


def check_transport_policy(account: AccountSettings) -> None:
    """Refuse a clear-text connection without both opt-ins (SYNC-33). Configuration checks this too, before start."""
    policy = account.transport_security
    if policy.connection_security is not ConnectionSecurity.NONE:
        return
    if not policy.allow_insecure_connection or not policy.allow_clear_text_authentication_over_unencrypted_connection:
        raise TransportPolicyRefused("an unprotected connection needs both opt-ins")


def tls_context(account: AccountSettings) -> ssl.SSLContext:
    """Verification of chain and host name, TLS 1.2 or later. An unusable authority file is CertificateRefused."""
    context = ssl.create_default_context()
    authority = account.transport_security.trusted_certificate_authority
    if authority is not None:
        try:
            context.load_verify_locations(cafile=str(authority))
        except (OSError, ssl.SSLError) as error:
            raise CertificateRefused("the file of the private certificate authority cannot be used") from error
    return context


def sign_in(
    account: AccountSettings,
    secret: SecretStr | None,
    stream: Stream,
    *,
    connect_timeout: float,
    token: SecretStr | None = None,
) -> frozenset[str]:
    """Connect and authenticate on `stream`; the capabilities that came with signing in, empty when none did.

    `secret` is the password and `token` an access token; a mechanism is only considered when what it carries is given.
    Blocking. Raises MailServerUnavailable, CertificateRefused, MechanismRefused, LoginRejected, TransportPolicyRefused.
    """
    check_transport_policy(account)
    context = tls_context(account)
    security = account.transport_security.connection_security
    try:
        client = _Client(
            account, stream, context if security is ConnectionSecurity.TLS_ON_CONNECT else None, connect_timeout
        )
        if security is ConnectionSecurity.STARTTLS_REQUIRED:
            if "STARTTLS" not in client.transport.capabilities:
                raise CertificateRefused("the mail server does not offer STARTTLS, which this account requires")
            client.starttls(context)
        return _authenticate(client, account, secret, token)
    except ssl.SSLError as error:
        raise CertificateRefused("no trusted TLS connection to the mail server could be made") from error
    except (imaplib.IMAP4.error, OSError) as error:
        raise MailServerUnavailable("the mail server could not be reached") from error


class _Transport(imaplib.IMAP4):
    """imaplib on our stream: the greeting, STARTTLS and authentication, nothing later."""

    def __init__(
        self, account: AccountSettings, stream: Stream, context: ssl.SSLContext | None, timeout: float
    ) -> None:
        self._stream = stream
        self._context = context
        self._connect_timeout = timeout
        super().__init__(account.host or "", account.port)

    def open(self, host: str = "", port: int = 143, timeout: float | None = None) -> None:
        self.host, self.port = host, port
        connected = socket.create_connection((host, port), timeout if timeout is not None else self._connect_timeout)
        keep_alive(connected)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is not None:
            try:
                connected = self._context.wrap_socket(connected, server_hostname=host)
            except BaseException:
                connected.close()
                raise
        self.sock = connected
        self._stream.adopt(connected)

    def read(self, size: int) -> bytes:
        self._stream.adopt(self.sock)
        return self._stream.read(size)

    def readline(self) -> bytes:
        self._stream.adopt(self.sock)
        return self._stream.readline()

    def send(self, data: bytes) -> None:  # type: ignore[override]  # typeshed wants any buffer; imaplib sends bytes
        self._stream.adopt(self.sock)
        self._stream.send(data)

    def shutdown(self) -> None:
        self._stream.close()


def keep_alive(connected: socket.socket) -> None:
    """Probe a silent connection, so that one whose flow was dropped on the way ends within two minutes (case 50)."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):  # each system knows some of them
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Client(imapclient.IMAPClient):  # type: ignore[misc]  # imapclient has no types
    """IMAPClient whose transport is ours and which logs nothing: its debug log would hold whole commands."""

    def __init__(
        self, account: AccountSettings, stream: Stream, context: ssl.SSLContext | None, timeout: float
    ) -> None:
        self._build: Callable[[], _Transport] = lambda: _Transport(account, stream, context, timeout)
        super().__init__(account.host, account.port, ssl=context is not None, ssl_context=context, timeout=timeout)
        self.transport.debug = 0

    def _create_IMAP4(self) -> _Transport:  # noqa: N802  -- IMAPClient's name
        self.transport = self._build()
        return self.transport


def _authenticate(
    client: _Client, account: AccountSettings, secret: SecretStr | None, token: SecretStr | None
) -> frozenset[str]:
    transport = client.transport
    permitted = [
        mechanism.value
        for mechanism in account.transport_security.permitted_authentication_mechanisms
        if (token if mechanism.takes_token else secret) is not None
    ]
    mechanism = choose_mechanism(transport.capabilities, permitted)
    by_token = mechanism in TOKEN_MECHANISMS
    _refuse_line_breaks(account.user_name or "", token if by_token else secret)
    transport.untagged_responses.pop("CAPABILITY", None)  # what was offered before signing in no longer holds
    try:
        if by_token and token is not None:
            _present_token(client, mechanism, account.user_name or "", token)
        elif secret is not None:
            _present_password(transport, mechanism, account.user_name or "", secret)
    except UnicodeEncodeError:
        raise MechanismRefused("the LOGIN command cannot carry this user name or password") from None
    except imaplib.IMAP4.abort as error:
        raise MailServerUnavailable("the connection broke while signing in") from error
    except imaplib.IMAP4.error as error:
        if speaks_of_passing_trouble(Completion(b"NO", str(error).encode())):
            advice = read_advice(str(error).encode())
            raise AskedToComeBack("the mail server asks to come back later (signing in)", advice) from None
        rejected = "the access token" if by_token else "the user name or the password"
        raise LoginRejected(f"the mail server rejected {rejected}", by_token=by_token) from None
    lines = transport.untagged_responses.get("CAPABILITY") or [b""]
    last = lines[-1]
    return frozenset((last if isinstance(last, bytes) else b"").decode("latin-1").upper().split())


def _refuse_line_breaks(user: str, credential: SecretStr | None) -> None:
    """What holds a line break would go out as a further command of somebody else's making (SYNC-29): a name that was
    pasted in, or a file of several lines where a password should be."""
    sent = user + (credential.get_secret_value() if credential is not None else "")
    if set(sent) & {"\r", "\n", "\0"}:
        raise MechanismRefused("the user name or the password holds a line break or a NUL and cannot be sent")


def _present_password(transport: _Transport, mechanism: str, user: str, secret: SecretStr) -> None:
    password = secret.get_secret_value()
    if mechanism == LOGIN_COMMAND:
        transport.login(_quoted(user), password)
    elif mechanism == "PLAIN":
        transport.authenticate("PLAIN", lambda _: f"\0{user}\0{password}".encode())
    else:
        answers = iter((user.encode(), password.encode()))
        transport.authenticate("LOGIN", lambda _: next(answers, b""))


def _present_token(client: _Client, mechanism: str, user: str, token: SecretStr) -> None:
    """Send the token once. A server that rejects it explains first and waits for an empty answer, which OAUTHBEARER
    spells as one separator (RFC 7628 §3.2.3); IMAPClient's own login methods would send the token again there."""
    bearer = f"auth=Bearer {token.get_secret_value()}\1\1"
    if mechanism == "OAUTHBEARER":
        identity = user.replace("=", "=3D").replace(",", "=2C")
        answers = iter((f"n,a={identity},\1{bearer}".encode(), b"\1"))
    else:
        answers = iter((f"user={user}\1{bearer}".encode(), b""))
    client.sasl_login(mechanism, lambda _: next(answers, b""))


def _quoted(user: str) -> str:
    return '"' + user.replace("\\", "\\\\").replace('"', '\\"') + '"'
