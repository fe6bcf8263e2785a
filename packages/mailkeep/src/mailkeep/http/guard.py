"""What every request passes first: it must be addressed to this machine, and must not come from a foreign page.

A web page that a person visits can make the browser call 127.0.0.1, and by DNS rebinding even read the answers under
the page's own name. Such requests carry that name in Host, and the page in Origin; both are refused. Pages get headers
that let a browser load nothing but our own style sheet and keep no copy of mail.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class LoopbackGuard:
    """ASGI middleware: 421 for a foreign Host, 403 for a foreign Origin, security headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = refused(scope.get("headers", ()), method=scope.get("method", "GET"))
        if refusal is not None:
            status, sentence = refusal
            await _answer(send, status, sentence)
            return
        try:
            await self._app(scope, receive, _with_headers(send))
        except Exception as error:
            # The answer has been sent; the error's text may quote mail, so its kind is all that is logged.
            log.error("request failed", extra={"error": type(error).__name__})  # noqa: TRY400


def refused(headers: Iterable[tuple[bytes, bytes]], *, method: str = "GET") -> tuple[int, str] | None:
    """Why a request with these headers is not served, as status and sentence; None when it is."""
    headers = tuple(headers)
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) != 1 or not _is_local_host(hosts[0]):
        return 421, "This server answers to 127.0.0.1 and localhost only."
    for name, value in headers:
        if name == b"sec-fetch-site" and method not in SAFE_METHODS and value not in (b"same-origin", b"none"):
            return 403, "Requests of other sites are not served."
        if name == b"origin" and not _is_local_origin(value):
            return 403, "Requests of other sites are not served."
    return None


def _is_local_host(value: bytes) -> bool:
    try:
        name = urlsplit("//" + value.decode("ascii")).hostname
    except ValueError:
        return False
    return name in LOOPBACK_NAMES and b"@" not in value and b"/" not in value


def _is_local_origin(value: bytes) -> bool:
    scheme, separator, rest = value.partition(b"://")
    return bool(separator) and scheme in (b"http", b"https") and _is_local_host(rest)


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = sentence.encode("ascii")
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        *SECURITY_HEADERS,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", ())}
            added = [pair for pair in SECURITY_HEADERS if pair[0] not in present]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return guarded
