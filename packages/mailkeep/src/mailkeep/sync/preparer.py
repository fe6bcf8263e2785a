"""Reading fetched messages away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self

from mailkeep.mailbox import Arrival, PreparedBatch, prepare
from mailkeep_message import Limits


class Preparer:
    """A worker thread that turns arrivals into prepared batches."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mailkeep-prepare")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._executor.shutdown(wait=False)

    async def prepare(self, arrivals: Sequence[Arrival]) -> PreparedBatch:
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, partial(prepare, arrivals, limits=self._limits)
        )
