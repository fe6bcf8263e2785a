"""Standard input as lines that an event loop can stop waiting for.

The SDK reads standard input in a worker thread, and a thread inside a read cannot be cancelled: a client that keeps the
pipe open and sends SIGTERM would leave the process, and with it the embedded PostgreSQL, behind. Here the thread that
reads is a daemon, and whoever waits for its lines waits in the event loop.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator
from typing import Final

CHUNK_OCTETS: Final = 64 * 1024
MAX_LINE_OCTETS: Final = 1 << 20
"""One request; the same bound as over HTTP. A longer line ends the session, since its end cannot be trusted."""
WAITING_CHUNKS: Final = 4
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


async def lines(descriptor: int) -> AsyncIterator[str]:
    """The lines of a descriptor until its end; UTF-8, broken sequences replaced. One reader a descriptor at most."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(WAITING_CHUNKS)

    def pump() -> None:
        try:
            while True:
                chunk = os.read(descriptor, CHUNK_OCTETS)
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
                if not chunk:
                    return
        except (OSError, RuntimeError, asyncio.CancelledError):
            return  # the descriptor or the loop is closed: nobody waits any more

    threading.Thread(target=pump, name="standard input", daemon=True).start()
    waiting = bytearray()
    while chunk := await chunks.get():
        waiting += chunk
        *whole, rest = bytes(waiting).split(b"\n")
        waiting = bytearray(rest)
        for line in whole:
            yield readable(line)
        if len(waiting) > MAX_LINE_OCTETS:
            return
    if waiting:
        yield readable(waiting)


def readable(line: bytes | bytearray) -> str:
    """A line as text that the SDK's JSON parser takes.

    That parser refuses the whole request for half a surrogate pair (`\\ud800` alone), and the SDK then answers nothing,
    so that the client waits for ever. U+FFFD in its place lets the request be answered like any other.
    """
    text = line.decode("utf-8", "replace")
    return _ESCAPE.sub(_whole, text) if "\\u" in text else text


def _whole(escape: re.Match[str]) -> str:
    return "\\ufffd" if escape["half"] is not None else escape[0]
