"""uvicorn in this process on a port of its own, and a raw socket that reads an event stream."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp


class _Server(uvicorn.Server):
    """One that leaves the signals of the test run alone."""

    def install_signal_handlers(self) -> None:
        """Nothing."""


@dataclass(slots=True)
class Running:
    """A server at work."""

    port: int
    server: uvicorn.Server
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """As a signal would."""
        self.server.should_exit = True
        await self.task


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[Running]:
    """The application on a real socket; streams have a tenth of a second at shutdown."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1, ws="none", access_log=False
    )
    server = _Server(config)
    task = asyncio.ensure_future(server._serve([listener]))
    await until(lambda: server.started)
    running = Running(listener.getsockname()[1], server, task)
    try:
        yield running
    finally:
        await running.stop()


class Stream:
    """An event stream over a socket; reads only when asked, so that it can be slow."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        self.head = head
        self._reader = reader
        self._writer = writer

    async def frame(self) -> bytes:
        """The next chunk, which is one frame; empty at the end of the stream."""
        size = int((await self._reader.readline()).strip() or b"0", 16)
        chunk = await self._reader.readexactly(size + 2)
        return chunk[:-2]

    def close(self) -> None:
        """Go politely."""
        self._writer.close()

    def reset(self) -> None:
        """Go without a word."""
        self._writer.transport.abort()


async def open_stream(
    port: int,
    who: str = "acme/ann",
    *,
    user: str = "",
    last_event_id: str | None = None,
    receive_buffer: int | None = None,
) -> Stream:
    """Connect, ask for the events and read the head of the response."""
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=2**14)
    resume = "" if last_event_id is None else f"last-event-id: {last_event_id}\r\n"
    writer.write(
        f"GET /api/me/inbox/events HTTP/1.1\r\nhost: x\r\nx-who: {who}\r\nx-user: {user}\r\n{resume}\r\n".encode()
    )
    return Stream(reader, writer, await reader.readuntil(b"\r\n\r\n"))


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until it holds; fails the test after the bound."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 -- no event tells of the other side
            await asyncio.sleep(0.01)
