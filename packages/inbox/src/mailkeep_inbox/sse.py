"""One open event stream (INBOX-93 to INBOX-95): subscribe, start the response, write until somebody ends it.

The stream is an ASGI response. Its writer is one task, which alone sends frames; a second one waits for the client to
go. Whatever ends first ends the other, and the subscription ends with them, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mailkeep_inbox.bounds import MAX_SSE_QUEUE
from mailkeep_inbox.events import MailboxEventBus
from mailkeep_inbox.log_reader import LogReader
from mailkeep_inbox.model import MailboxEvent, MailboxScope

logger = logging.getLogger("mailkeep_inbox")

HEARTBEAT: Final = b": heartbeat\n\n"
RESET: Final = b'event: reset\ndata: {"type":"reset"}\n\n'
"""Only on resumable streams: the log no longer reaches back to where the client was."""
Emit: TypeAlias = Callable[[bytes], Awaitable[None]]
LAST_WORDS_SECONDS: Final = 1.0
"""How long a cut stream may take to say that it is over; a reader that is not reading never hears it."""
HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
}


def event_frame(event: MailboxEvent, *, position: str | None = None) -> bytes:
    """The bytes of one event. `position` becomes the id that a browser sends back as Last-Event-ID."""
    data = json.dumps(event.as_wire(), separators=(",", ":"), ensure_ascii=False)
    resume = "" if position is None else f"id: {position}\n"
    return f"{resume}event: mailbox\ndata: {data}\n\n".encode()


class MailboxEventStream(Response):
    """The response of the events route. With `log` the frames carry ids and are read from the event log."""

    def __init__(
        self, scope: MailboxScope, *, bus: MailboxEventBus, heartbeat_interval: float, log: LogReader | None = None
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._mailbox = scope
        self._bus = bus
        self._interval = heartbeat_interval
        self._log = log
        self._waiting: deque[MailboxEvent] = deque()
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 -- ASGI
        """Serve the stream until the client goes, reads too slowly, or the server stops."""
        self._unsubscribe = self._bus.subscribe(self._mailbox, self._arrive)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            if not self._is_over:
                async with asyncio.TaskGroup() as tasks:
                    self._writer = writer = tasks.create_task(self._write(send))
                    watcher = tasks.create_task(_watch(receive))
                    writer.add_done_callback(lambda _: watcher.cancel())
                    watcher.add_done_callback(lambda _: writer.cancel())
        except OSError:
            logger.debug("mailbox stream ended before it began")
        finally:
            self._end()
        await _last_words(send)

    def _arrive(self, event: MailboxEvent) -> None:
        """From the bus. The one that finds a hundred waiting ends the stream: the client fetches anew (INBOX-95)."""
        if self._is_over:
            return
        if len(self._waiting) >= MAX_SSE_QUEUE:
            logger.info("mailbox stream cut: its reader is too slow")
            self._end()
            if self._writer is not None:
                self._writer.cancel()
            return
        self._waiting.append(event)
        self._wake.set()

    def _end(self) -> None:
        self._is_over = True
        self._waiting.clear()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    async def _write(self, send: Send) -> None:
        """Events as they come and a heartbeat at each interval, until cancelled or the client cannot be written to."""

        async def emit(frame: bytes) -> None:
            await send({"type": "http.response.body", "body": frame, "more_body": True})

        try:
            next_beat = monotonic() + self._interval
            await self._emit_logged(emit)
            while True:
                await _wait(self._wake, next_beat - monotonic())
                if self._wake.is_set():
                    self._wake.clear()
                    await self._emit_news(emit)
                if monotonic() >= next_beat:
                    await emit(HEARTBEAT)
                    next_beat = max(next_beat + self._interval, monotonic())
                    await self._emit_logged(emit)
        except Exception as failure:
            logger.debug("mailbox stream ended: error=%s", type(failure).__name__)

    async def _emit_news(self, emit: Emit) -> None:
        if self._log is not None:
            self._waiting.clear()
            await self._emit_logged(emit)
        while self._waiting:
            await emit(event_frame(self._waiting.popleft()))

    async def _emit_logged(self, emit: Emit) -> None:
        """What the log holds since the last look; also what a bus that was down never told."""
        news = None if self._log is None else await self._log.read()
        if news is None:
            return
        if not news.is_complete:
            await emit(RESET)
        for event in news.events:
            await emit(event_frame(event, position=news.position))
        if news.is_first and not news.events:
            await emit(f"id: {news.position}\n\n".encode())


async def _watch(receive: Receive) -> None:
    """Until the client is gone, which a server may also say by failing."""
    with contextlib.suppress(Exception):
        while (await receive())["type"] != "http.disconnect":
            pass


async def _wait(wake: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0)):
            await wake.wait()


async def _last_words(send: Send) -> None:
    try:
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except Exception as failure:
        logger.debug("mailbox stream closed without an end: error=%s", type(failure).__name__)
