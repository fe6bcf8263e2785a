"""A local authorization server that does what is asked of it, and misbehaves when a test tells it to.

    with AuthorizationServer.start(tmp_path) as server:
        server.next(status=503)                      # the next token request fails, the one after it succeeds
        server.next(body=b"<html>", status=200)      # a page where JSON belongs
        server.rotates = True                        # each refresh token is good for one request
        ...
        assert server.forms[-1]["grant_type"] == "refresh_token"

Speaks TLS under an authority of its own (`server.authority`) at `token_endpoint`, `authorization_endpoint` and
`device_endpoint`. `introspection_address` is plain HTTP, for a mail server that asks whether a token is good. Every
token request is recorded in `forms`. Runs in threads of its own, so that other processes can use it as well.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import ssl
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from support.dovecot import make_certificates

CLIENT_ID = "our-client"
CLIENT_SECRET = "client secret"
SCOPE = "https://mail.example/ offline_access"


@dataclass(slots=True)
class Misbehaviour:
    """One answer instead of the right one. `hold` is waited for before answering; `endless` never stops sending."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hold: threading.Event | None = None
    endless: bool = False
    cut: bool = False


class AuthorizationServer:
    """The server's state. Attributes may be changed at any moment by the test."""

    def __init__(self, authority: Path) -> None:
        self.authority = authority
        self.user = "anna"
        self.rotates = False
        self.gives_refresh_token = True
        self.expires_in: object = 3600
        self.consents = True
        self.device_pending: deque[str] = deque()
        self.forms: list[dict[str, str]] = []
        self.consent_requests: list[dict[str, str]] = []
        self.refresh_tokens = {"seed token"}
        self.access_tokens: dict[str, str] = {}
        self.introspected: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}
        self._plan: deque[Misbehaviour] = deque()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self.base = ""
        self.introspection_address = ""

    @classmethod
    @contextmanager
    def start(cls, folder: Path) -> Iterator[Self]:
        """Run until the block ends; certificates go into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        make_certificates(folder)
        server = cls(folder / "authority.pem")
        handler = type("Handler", (_Handler,), {"state": server})
        listeners = [_Listener(("127.0.0.1", 0), handler) for _ in range(2)]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        listeners[0].socket = context.wrap_socket(listeners[0].socket, server_side=True, do_handshake_on_connect=False)
        server.base = f"https://localhost:{listeners[0].server_address[1]}"
        server.introspection_address = f"http://127.0.0.1:{listeners[1].server_address[1]}/introspect"
        threads = [threading.Thread(target=each.serve_forever, args=(0.02,), daemon=True) for each in listeners]
        for thread in threads:
            thread.start()
        try:
            yield server
        finally:
            for each in listeners:
                each.shutdown()
                each.server_close()
            for thread in threads:
                thread.join()

    @property
    def token_endpoint(self) -> str:
        return f"{self.base}/token"

    @property
    def authorization_endpoint(self) -> str:
        """With a query of its own, as providers have."""
        return f"{self.base}/authorize?access_type=offline"

    @property
    def device_endpoint(self) -> str:
        return f"{self.base}/device"

    def next(self, **behaviour: Any) -> None:
        """What the next token request meets; several wait in line."""
        self._plan.append(Misbehaviour(**behaviour))

    def refuse_next(self, error: str, *, status: int = 400) -> None:
        """The next token request is refused with an error code of RFC 6749."""
        body = json.dumps({"error": error, "error_description": "for anna@example.com"}).encode()
        self.next(status=status, body=body, headers={"Content-Type": "application/json"})

    def revoke_access_tokens(self) -> None:
        """From now on introspection calls every token given so far inactive."""
        self.access_tokens.clear()

    def block(self, **changes: Any) -> dict[str, Any]:
        """An `oauth` block for this server; a change to None leaves the key out."""
        block = {
            "grant": "refresh_token",
            "token_endpoint": self.token_endpoint,
            "client_id": CLIENT_ID,
            "scope": SCOPE,
            "public_client": True,
            "refresh_token": "env:MAILKEEP_TEST_REFRESH_TOKEN",
            "authorization_endpoint": self.authorization_endpoint,
            "device_authorization_endpoint": self.device_endpoint,
            "trusted_certificate_authority": str(self.authority),
        }
        return {key: value for key, value in (block | changes).items() if value is not None}

    def await_request(self) -> None:
        """Wait until a first token request has arrived."""
        assert self._arrived.wait(20)

    # What follows runs in the server's threads.

    def note(self, form: dict[str, str]) -> None:
        self.forms.append(form)
        self._arrived.set()

    def misbehaviour(self) -> Misbehaviour | None:
        return self._plan.popleft() if self._plan else None

    def token_answer(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            grant = form.get("grant_type")
            if grant == "refresh_token":
                if form.get("refresh_token") not in self.refresh_tokens:
                    return 400, {"error": "invalid_grant"}
                if self.rotates:
                    self.refresh_tokens.discard(form["refresh_token"])
                    return 200, self._tokens(refresh=True)
                return 200, self._tokens(refresh=False)
            if grant == "client_credentials":
                if form.get("client_secret") != CLIENT_SECRET:
                    return 401, {"error": "invalid_client"}
                return 200, self._tokens(refresh=self.rotates)
            if grant == "authorization_code":
                return self._exchange(form)
            if grant == "urn:ietf:params:oauth:grant-type:device_code":
                if self.device_pending:
                    return 400, {"error": self.device_pending.popleft()}
                return 200, self._tokens(refresh=self.gives_refresh_token)
            return 400, {"error": "unsupported_grant_type"}

    def _exchange(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or asked["redirect_uri"] != form.get("redirect_uri")
            or asked["code_challenge"] != challenge
            or asked["client_id"] != form.get("client_id")
        ):
            return 400, {"error": "invalid_grant"}
        return 200, self._tokens(refresh=self.gives_refresh_token)

    def _tokens(self, *, refresh: bool) -> dict[str, Any]:
        token = f"access-{next(self._numbers)}"
        self.access_tokens[token] = self.user
        answer: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in}
        if self.expires_in is None:
            del answer["expires_in"]
        if refresh:
            answer["refresh_token"] = f"refresh-{next(self._numbers)}"
            self.refresh_tokens.add(answer["refresh_token"])
        return answer

    def consent(self, query: Mapping[str, str]) -> str:
        """Where the browser is sent after the person has said yes, or no."""
        self.consent_requests.append(dict(query))
        if not self.consents:
            back = {"error": "access_denied", "state": query["state"]}
        else:
            code = f"code-{next(self._numbers)}"
            self.codes[code] = dict(query)
            back = {"code": code, "state": query["state"]}
        return f"{query['redirect_uri']}/?{urlencode(back)}"


class _Listener(ThreadingHTTPServer):
    """Clients that leave early are what these tests are about."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet."""


class _Handler(BaseHTTPRequestHandler):
    """One request. `state` is the AuthorizationServer."""

    state: AuthorizationServer
    timeout = 20

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/authorize":
            self._send(302, b"", {"Location": self.state.consent(dict(parse_qsl(parts.query)))})
        elif parts.path == "/introspect":  # the token is behind the address, as Dovecot's mode `get` asks
            self._introspect(parse_qs(parts.query).get("token", [""])[0])
        else:
            self._json(404, {"error": "not_found"})

    def do_POST(self) -> None:
        octets = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        form = dict(parse_qsl(octets.decode(), keep_blank_values=True))
        path = urlsplit(self.path).path
        if path == "/introspect":
            self._introspect(form.get("token", ""))
            return
        if path == "/device":
            answer = {"device_code": "device-1", "user_code": "ABCD-EFGH", "interval": 1, "expires_in": 60}
            self._json(200, answer | {"verification_uri": f"{self.state.base}/activate"})
            return
        if path != "/token":
            self._json(404, {"error": "not_found"})
            return
        self.state.note(form)
        odd = self.state.misbehaviour()
        if odd is None:
            self._json(*self.state.token_answer(form))
            return
        if odd.hold is not None:
            odd.hold.wait(20)
        if odd.cut:
            self.close_connection = True
            return
        if odd.endless:
            self.send_response(200)
            self.end_headers()
            self._pour()
            return
        if odd.body or odd.status != 200 or odd.headers:
            self._send(odd.status, odd.body, odd.headers)
        else:  # only late
            self._json(*self.state.token_answer(form))

    def _pour(self) -> None:
        self.close_connection = True
        try:
            for _ in range(4096):
                self.wfile.write(b" " * 65536)
        except OSError:
            return
        self.state.forms[-1]["poured to the end"] = "yes"

    def _introspect(self, token: str) -> None:
        self.state.introspected.append(token)
        user = self.state.access_tokens.get(token)
        self._json(200, {"active": user is not None, **({"username": user} if user else {})})

    def _json(self, status: int, payload: Mapping[str, Any]) -> None:
        self._send(status, json.dumps(payload).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Quiet."""
