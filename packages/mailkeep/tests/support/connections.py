"""Connections of test servers: they all end with their server, whatever was under way on them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable


async def end_connections(writers: Iterable[asyncio.StreamWriter]) -> None:
    """Abort and wait until the sockets are closed; octets that nobody took would hold back an orderly close for ever."""
    ending = list(writers)
    for writer in ending:
        writer.transport.abort()
    for writer in ending:
        with contextlib.suppress(OSError):
            await writer.wait_closed()
