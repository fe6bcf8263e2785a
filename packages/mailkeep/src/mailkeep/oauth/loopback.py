"""Waiting on this machine for the browser to come back (RFC 8252 §7.3): a listener that answers one question.

The redirect address is `http://localhost:PORT` without a path, which the providers' registrations for installed
applications accept on any port. Requests without our state are turned away and change nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from pydantic import SecretStr

from mailkeep.errors import ConfigurationRefused, MailboxAuthorizationNeeded

READ_SECONDS: Final = 10.0
MAX_HEAD_BYTES: Final = 16 * 1024
_PAGE: Final = "<!doctype html><meta charset=utf-8><title>mailkeep</title><p>{}\n"
_DONE: Final = "Signed in. You can close this page and go back to mailkeep."
_REFUSED: Final = "The sign-in was refused. Go back to mailkeep."
_FOREIGN: Final = "This is not the answer that mailkeep is waiting for."


class LoopbackListener:
    """`async with LoopbackListener() as listener:` then `listener.address`, `await listener.code(read)`."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._read: Callable[[str], SecretStr | None] = lambda _: None
        self._answer: asyncio.Future[SecretStr] = asyncio.get_running_loop().create_future()
        self.port = 0

    @property
    def address(self) -> str:
        """The redirect address."""
        return f"http://localhost:{self.port}"

    async def __aenter__(self) -> Self:
        try:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        except OSError as error:
            raise ConfigurationRefused("no port of this machine can be listened on; use --flow paste") from error
        self._servers.append(server)
        self.port = server.sockets[0].getsockname()[1]
        # Some systems know localhost by its newer address first. Where that fails, one will do.
        with contextlib.suppress(OSError):
            self._servers.append(await asyncio.start_server(self._serve, "::1", self.port, limit=MAX_HEAD_BYTES))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        if self._answer.done() and not self._answer.cancelled():
            self._answer.exception()

    async def code(self, read: Callable[[str], SecretStr | None]) -> SecretStr:
        """The code of the first request that `read` accepts. Raises what `read` raises."""
        self._read = read
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, sentence = self._take(head)
                body = _PAGE.format(sentence).encode()
                writer.write(_head(status, len(body)) + body)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a visitor that said nothing to the point
        finally:
            writer.close()

    def _take(self, head: bytes) -> tuple[str, str]:
        method, _, rest = head.partition(b" ")
        target = rest.partition(b" ")[0].decode("latin-1")
        if method != b"GET" or self._answer.done():
            return "404 Not Found", _FOREIGN
        try:
            code = self._read(target)
        except MailboxAuthorizationNeeded as refusal:
            self._answer.set_exception(refusal)
            return "200 OK", _REFUSED
        if code is None:
            return "404 Not Found", _FOREIGN
        self._answer.set_result(code)
        return "200 OK", _DONE


def _head(status: str, length: int) -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n"
        "Connection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n\r\n"
    ).encode("ascii")
