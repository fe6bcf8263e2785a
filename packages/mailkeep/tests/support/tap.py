"""A wire tap: a TCP relay that notes every line the client sends, and can cut connections on demand.

async with Tap(server.ports.plain) as tap:
    ...                             # connect to tap.port
    assert not tap.commands("STORE")
    tap.cut_after = 5000            # octets from the server, per connection from now on
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

from support.connections import end_connections


class Tap:
    """The relay; an async context manager on a free loopback port."""

    def __init__(self, target_port: int, *, host: str = "127.0.0.1") -> None:
        self.host = host
        self._target = target_port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.lines: list[str] = []
        self.connections = 0
        self.refuses = False
        self.cut_after: int | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await end_connections(self._writers)

    def commands(self, word: str) -> list[str]:
        """Lines the client sent that hold `word`, in any case."""
        return [line for line in self.lines if word.upper() in line.upper()]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if not self.refuses:
                other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target)
                self._writers.add(other_writer)
                try:
                    up = asyncio.create_task(self._up(reader, other_writer))
                    await self._down(other_reader, writer)
                    up.cancel()
                    await asyncio.gather(up, return_exceptions=True)
                finally:
                    other_writer.close()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unfinished = b""
        with contextlib.suppress(ConnectionError):
            while octets := await reader.read(65536):
                *lines, unfinished = (unfinished + octets).split(b"\n")
                self.lines += [line.decode("latin-1").rstrip("\r") for line in lines]
                writer.write(octets)
                await writer.drain()
            writer.write_eof()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        while octets := await reader.read(65536):
            passed += len(octets)
            if self.cut_after is not None and passed > self.cut_after:
                writer.write(octets[: max(len(octets) - (passed - self.cut_after), 0)])
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                return
            writer.write(octets)
            await writer.drain()
