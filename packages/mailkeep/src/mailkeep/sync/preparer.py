"""Reading fetched messages away from the event loop.

Large batches go to a process of their own, so that reading and storing do not share one interpreter; it is started for
the first of them and ended when it has been idle. Small batches are read in a thread at once. A message that ends the
process, or keeps it longer than any message should, is stored with nothing read but its octets: the others of its batch
do not suffer.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, Self

from mailkeep.preparation import Arrival, Form, PreparedBatch, PreparedMessage, PreparingProcess, ProcessLost, prepare
from mailkeep.preparation import prepare_one as prepare_in_form
from mailkeep_message import Limits

MESSAGES_FOR_PROCESS: Final = 100
OCTETS_FOR_PROCESS: Final = 1024 * 1024
IDLE_SECONDS: Final = 30.0
ATTEMPTS: Final = 2  # of one message; somebody may have ended the process on its account by mistake
SWITCH_SECONDS: Final = 0.0002  # how long a thread that computes may keep others waiting; Python's default is 0.005


class Preparer:
    """Turns arrivals into prepared batches, one batch at a time. The switch interval holds while it is open."""

    def __init__(self, process: PreparingProcess | None = None) -> None:
        self._switch_before = 0.0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mailkeep-prepare")
        self._process = process or PreparingProcess()
        self._ends: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._switch_before = sys.getswitchinterval()
        sys.setswitchinterval(min(self._switch_before, SWITCH_SECONDS))
        return self

    async def __aexit__(self, *_: object) -> None:
        sys.setswitchinterval(self._switch_before)
        self._is_closed = True
        self._keep()
        self._process.close()
        self._executor.shutdown(wait=False)

    def expect(self, messages: int) -> None:
        """So many are going to be fetched: start the process meanwhile when it will be wanted."""
        if messages >= MESSAGES_FOR_PROCESS and not self._is_closed:
            self._executor.submit(self._start)
            self._end_when_idle()

    async def prepare(self, arrivals: Sequence[Arrival], *, limits: Limits) -> PreparedBatch:
        """Read and encode a batch. Never raises on account of a message."""
        loop = asyncio.get_running_loop()
        if not _is_large(arrivals):
            return await loop.run_in_executor(self._executor, partial(prepare, arrivals, limits=limits))
        self._keep()
        try:
            messages = await loop.run_in_executor(self._executor, partial(self._in_process, arrivals, limits))
        finally:
            self._end_when_idle()
        return PreparedBatch(tuple(messages), limits)

    def _start(self) -> None:
        with suppress(OSError):  # then it is tried again, and mail is read here
            self._process.start()

    def _end_when_idle(self) -> None:
        self._keep()
        loop = asyncio.get_running_loop()
        self._ends = loop.call_later(IDLE_SECONDS, self._executor.submit, self._process.kill)

    def _keep(self) -> None:
        if self._ends is not None:
            self._ends.cancel()

    def _in_process(self, arrivals: Sequence[Arrival], limits: Limits) -> Sequence[PreparedMessage]:
        """Halve a batch that the process does not survive until the message at fault stands alone."""
        for _ in range(ATTEMPTS if len(arrivals) == 1 else 1):
            try:
                return self._process.prepare(arrivals, limits=limits)
            except OSError:
                return prepare(arrivals, limits=limits).messages
            except ProcessLost:
                if self._is_closed:
                    raise
        if len(arrivals) == 1:
            return [prepare_in_form(arrivals[0], limits=limits, form=Form.BARE)]
        middle = len(arrivals) // 2
        first = self._in_process(arrivals[:middle], limits)
        return [*first, *self._in_process(arrivals[middle:], limits)]


def _is_large(arrivals: Sequence[Arrival]) -> bool:
    octets = sum(len(arrival.octets or b"") for arrival in arrivals)
    return len(arrivals) >= MESSAGES_FOR_PROCESS or octets >= OCTETS_FOR_PROCESS
