"""A proxy in front of a real IMAP server that takes away what the server can do, adds distance, and breaks connections.

    with Proxy(server.ports.plain, hides=NO_QRESYNC) as proxy:
        ...                                   # point a session at proxy.host, proxy.port
    assert proxy.count("UID FETCH") == 2

`hides` names capabilities. They vanish from every list of capabilities, commands that need them are answered BAD as by
a server that never heard of them, and what such a server could not say is left out of its answers. `round_trip` is in
seconds, half of it each way; data that is under way together arrives together, so pipelining pays as on a real line.
`cut_after` breaks every connection after so many octets from the server, `cut_after_sent` after so many from the
client. `before_command` is called with the number (from 1) and the text of each command before the server sees it.

Runs in a thread of its own, so that it serves async tests, other processes and benchmarks alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, Self

from .connections import end_connections

NOTHING: frozenset[str] = frozenset()
NO_QRESYNC = frozenset({"QRESYNC"})
NO_CONDSTORE = NO_QRESYNC | {"CONDSTORE"}
NO_LIST_STATUS = NO_CONDSTORE | {"LIST-STATUS", "LIST-EXTENDED", "NOTIFY"}
FEW_EXTENSIONS = NO_LIST_STATUS | {"UIDPLUS", "ESEARCH", "LITERAL+", "LITERAL-", "SASL-IR", "MOVE", "ENABLE", "ID"}
EVERYTHING = frozenset({"*"})
"""Hides whatever is not in RFC 3501."""

_OF_RFC_3501 = frozenset({"IMAP4REV1", "STARTTLS", "LOGINDISABLED", "AUTH=PLAIN", "AUTH=LOGIN"})
_NEEDS = (
    (r"ENABLE\b", "ENABLE"),
    (r"IDLE\b", "IDLE"),
    (r"ID\b", "ID"),
    (r"NAMESPACE\b", "NAMESPACE"),
    (r"NOTIFY\b", "NOTIFY"),
    (r"UNSELECT\b", "UNSELECT"),
    (r"(?:UID )?MOVE\b", "MOVE"),
    (r"UID EXPUNGE\b", "UIDPLUS"),
    (r"AUTHENTICATE \S+ \S", "SASL-IR"),
    (r"(?:UID )?SEARCH RETURN\b", "ESEARCH"),
    (r"LIST\b.*\bRETURN \(", "LIST-EXTENDED"),
    (r"LIST\b.*\bRETURN \(.*SPECIAL-USE", "SPECIAL-USE"),
    (r"LIST\b.*\bRETURN \(.*STATUS", "LIST-STATUS"),
    (r"(?:SELECT|EXAMINE)\b.*\(CONDSTORE\)$", "CONDSTORE"),
    (r"(?:SELECT|EXAMINE)\b.*\(QRESYNC ", "QRESYNC"),
    (r"STATUS\b.*\([^)]*HIGHESTMODSEQ", "CONDSTORE"),
    (r"UID FETCH\b.*\(CHANGEDSINCE \d+\)", "CONDSTORE"),
    (r"UID FETCH\b.*VANISHED\)", "QRESYNC"),
)
_COMMANDS = tuple((re.compile(pattern, re.IGNORECASE | re.DOTALL), needed) for pattern, needed in _NEEDS)
_LITERAL = re.compile(rb"\{(\d+)(\+?)\}\r?\n$")
_CAPABILITIES = re.compile(rb"(CAPABILITY) ([^\]\r\n]*)", re.IGNORECASE)
_UNHEARD_OF = {  # parts of answers, and the capability without which a server has no such thing to say
    "UIDPLUS": re.compile(rb" \[(?:APPENDUID|COPYUID) [^\]]*\]"),
    "SPECIAL-USE": re.compile(rb" ?\\(?:Sent|Drafts|Trash|Junk|Archive|All|Flagged|Important)\b(?=[^()]*\) )"),
}


@dataclass(slots=True)
class _Way:
    """One direction of one connection: what waits to be delivered, and how much was."""

    writer: asyncio.StreamWriter
    limit: int | None
    waiting: asyncio.Queue[tuple[float, bytes]] = field(default_factory=asyncio.Queue)
    passed: int = 0


class Proxy:
    """The proxy; a context manager on a free loopback port. `cut_after` and its like may be set while it runs."""

    host = "127.0.0.1"

    def __init__(
        self,
        target: int,
        *,
        hides: Collection[str] = (),
        round_trip: float = 0.0,
        before_command: Callable[[int, str], None] | None = None,
    ) -> None:
        self._target = target
        self._hides = frozenset(hides)
        self._delay = round_trip / 2
        self.before_command = before_command
        self.cut_after: int | None = None
        self.cut_after_sent: int | None = None
        self.connections = 0
        self.octets_sent = 0
        self.octets_received = 0
        self.commands: list[str] = []
        self.refused: list[str] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="imap-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def count(self, word: str = "") -> int:
        """How many commands so far hold `word`."""
        return sum(word.upper() in command.upper() for command in self.commands)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await end_connections(self._clients)  # also those whose serving never began

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        task = self._loop.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self.connections += 1
        server = None
        tasks: list[asyncio.Task[None]] = []
        try:
            server_reader, server = await asyncio.open_connection(self.host, self._target)
            up, down = _Way(server, self.cut_after_sent), _Way(client, self.cut_after)
            works = (
                self._deliver(up),
                self._deliver(down),
                self._until_end(self._read_client(client_reader, up, down), up),
                self._until_end(self._read_server(server_reader, down), down),
            )
            tasks = [self._loop.create_task(work) for work in works]
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)  # the last words arrive as well
        except OSError:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await end_connections(writer for writer in (client, server) if writer is not None)
            self._clients.discard(client)

    async def _until_end(self, reading: Coroutine[Any, Any, None], way: _Way) -> None:
        """Read one side; its end is delivered behind what came before it."""
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await reading
        finally:
            self._send(way, b"")

    async def _deliver(self, way: _Way) -> None:
        """Write what is due, in order, until the limit of this direction; returning ends the connection."""
        while True:
            due, octets = await way.waiting.get()
            await asyncio.sleep(max(due - self._loop.time(), 0))
            if not octets:
                return
            if way.limit is not None and way.passed + len(octets) > way.limit:
                way.writer.write(octets[: way.limit - way.passed])
                await way.writer.drain()
                way.writer.close()
                await way.writer.wait_closed()
                return
            way.passed += len(octets)
            way.writer.write(octets)
            await way.writer.drain()

    def _send(self, way: _Way, octets: bytes) -> None:
        way.waiting.put_nowait((self._loop.time() + self._delay, octets))

    async def _read_client(self, reader: asyncio.StreamReader, up: _Way, down: _Way) -> None:
        while (line := await _line(reader)) is not None:
            self.octets_sent += len(line)
            tag, _, command = line.rstrip(b"\r\n").decode("latin-1").partition(" ")
            is_command = bool(command)  # else DONE, or the answer to a challenge
            if is_command:
                self.commands.append(command)
                if self.before_command is not None:
                    self.before_command(len(self.commands), command)
            refused = is_command and self._is_refused(command, line)
            if not refused:
                self._send(up, line)
            while (literal := _LITERAL.search(line)) and not (refused and not literal[2]):
                octets = await reader.readexactly(int(literal[1]))
                line = await _line(reader) or b""
                self.octets_sent += len(octets) + len(line)
                if not refused:
                    self._send(up, octets + line)
            if refused:
                self.refused.append(command)
                self._send(down, f"{tag} BAD Unknown command or argument\r\n".encode())

    async def _read_server(self, reader: asyncio.StreamReader, down: _Way) -> None:
        if not self._hides:
            while octets := await reader.read(65536):
                self.octets_received += len(octets)
                self._send(down, octets)
        is_start = True
        while self._hides and (line := await _line(reader)) is not None:
            self.octets_received += len(line)
            shown = self._masked(line) if is_start else line
            self._send(down, shown) if shown else None
            literal = _LITERAL.search(line)
            is_start = literal is None
            if literal:
                octets = await reader.readexactly(int(literal[1]))
                self.octets_received += len(octets)
                self._send(down, octets)

    def lacks(self, capability: str) -> bool:
        """Whether the server seems to lack this capability because of the proxy."""
        return capability.upper() in self._hides or (self._hides == EVERYTHING and capability not in _OF_RFC_3501)

    def _is_refused(self, command: str, line: bytes) -> bool:
        literal = _LITERAL.search(line)
        if literal and literal[2] and self.lacks("LITERAL+"):
            return True
        return any(pattern.match(command) and self.lacks(needed) for pattern, needed in _COMMANDS)

    def _masked(self, line: bytes) -> bytes:
        """The line as a server without the hidden capabilities would have written it; empty for none at all."""
        if self.lacks("CONDSTORE") and re.match(rb"\* OK \[(?:HIGHESTMODSEQ|NOMODSEQ)\b", line, re.IGNORECASE):
            return b""
        if line.startswith(b"* LIST ") and self.lacks("SPECIAL-USE"):
            return _UNHEARD_OF["SPECIAL-USE"].sub(b"", line)
        if self.lacks("UIDPLUS") and not line.startswith(b"* LIST "):
            line = _UNHEARD_OF["UIDPLUS"].sub(b"", line)
        if line.upper().startswith((b"* CAPABILITY", b"* OK [CAPABILITY")) or b" OK [CAPABILITY" in line[:80].upper():
            return _CAPABILITIES.sub(self._fewer, line)
        return line

    def _fewer(self, match: re.Match[bytes]) -> bytes:
        kept = [word for word in match[2].split() if not self.lacks(word.decode("latin-1").upper())]
        return match[1] + b" " + b" ".join(kept)


async def _line(reader: asyncio.StreamReader) -> bytes | None:
    """A line of any length, its end included; None at the end of the connection."""
    line = b""
    while True:
        try:
            return line + await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            line += await reader.readexactly(error.consumed)
        except asyncio.IncompleteReadError:
            return None
