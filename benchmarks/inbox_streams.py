"""A thousand listeners on the event streams of one process of the inbox library: memory of each, and its growth.

The rival holds the same connections with sse-starlette and a queue for each. Memory is the server's resident set;
processor time is the server's own for one event reaching one listener. Nothing here depends on the clock.
"""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Iterator

from .figure import Figure
from .process import kilobytes, processor_seconds

LISTENERS = int(os.environ.get("INBOX_LISTENERS", "1000"))
EVENTS = 50
ROUNDS = 6
HEAD_SECONDS = 60
RIVAL = "sse-starlette"


def measure() -> Iterator[Figure]:
    """Yield memory of a listener, its growth over all rounds, and processor time of a delivery."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LISTENERS + 256
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    ours, theirs = (asyncio.run(_measured(kind)) for kind in ("ours", RIVAL))
    yield Figure(f"inbox_streams_{LISTENERS}_memory_each", ours[0], "KiB", RIVAL, theirs[0])
    yield Figure(f"inbox_streams_{LISTENERS}_memory_growth", ours[1], "KiB", RIVAL, theirs[1])
    yield Figure(f"inbox_streams_{LISTENERS}_processor_per_delivery", ours[2], "us", RIVAL, theirs[2])


async def _measured(kind: str) -> tuple[float, float, float]:
    """KiB of a listener, KiB that the process grew from the first round to the last, microseconds of a delivery."""
    command = [sys.executable, "-m", "benchmarks.inbox_stream_server", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: ASYNC220 -- nothing else runs
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            await _publish(port, 1)
            empty = _resident(server.pid)
            streams = [await _open(port, number) for number in range(LISTENERS)]
            held = (_resident(server.pid) - empty) / LISTENERS
            await _round(port, streams)
            first, spent = _resident(server.pid), processor_seconds(server.pid)
            for _ in range(ROUNDS):
                await _round(port, streams)
            each = (processor_seconds(server.pid) - spent) * 1e6 / (ROUNDS * EVENTS * LISTENERS)
            growth = _resident(server.pid) - first
            for _, writer in streams:
                writer.transport.abort()
        finally:
            server.terminate()
    return held, float(growth), each


async def _round(port: int, streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    """Publish the events of a round; every listener has to get each of them."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_publish(port, EVENTS))
        for reader, _ in streams:
            tasks.create_task(_read(reader))


async def _read(reader: asyncio.StreamReader) -> None:
    for _ in range(EVENTS):
        await reader.readuntil(b'"op":"create"}')


async def _open(port: int, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /me/inbox/events HTTP/1.1\r\nhost: x\r\nx-number: {number}\r\n\r\n".encode())
    async with asyncio.timeout(HEAD_SECONDS):
        await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def _publish(port: int, count: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /publish/{count} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    await reader.read()
    writer.close()


def _resident(pid: int) -> int:
    """KiB."""
    return kilobytes(pid, "status", "VmRSS:")
