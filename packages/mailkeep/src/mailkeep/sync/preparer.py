"""Reading fetched messages away from the event loop.

A thread, not a process: measured on 6,046 messages a process costs its start, a second copy of the code in memory and
every message passed twice between them, and saves less than that. What did cost were the waits of the event loop and
of the connection's thread for the interpreter, 5 ms at each of some two thousand answers; hence SWITCH_SECONDS.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self

from mailkeep.mailbox import Arrival, PreparedBatch, prepare
from mailkeep_message import Limits

SWITCH_SECONDS = 0.0002  # how long a thread that computes may keep others waiting; Python's default is 0.005


class Preparer:
    """A worker thread that turns arrivals into prepared batches. The switch interval holds while it is open."""

    def __init__(self) -> None:
        self._switch_before = 0.0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mailkeep-prepare")

    async def __aenter__(self) -> Self:
        self._switch_before = sys.getswitchinterval()
        sys.setswitchinterval(min(self._switch_before, SWITCH_SECONDS))
        return self

    async def __aexit__(self, *_: object) -> None:
        sys.setswitchinterval(self._switch_before)
        self._executor.shutdown(wait=False)

    async def prepare(self, arrivals: Sequence[Arrival], *, limits: Limits) -> PreparedBatch:
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, partial(prepare, arrivals, limits=limits)
        )
