"""Pacing: calls leave at most so many a minute (FIND-93)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Pacer:
    """Hands out slots a fixed time apart. The slot is taken at once, the wait for it happens outside of any lock."""

    def __init__(
        self,
        requests_per_minute: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`requests_per_minute` 0 sets no pace."""
        self._interval = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._next_slot = clock()

    async def wait(self) -> None:
        """Until the next free slot."""
        if not self._interval:
            return
        now = self._clock()
        slot = max(now, self._next_slot)
        self._next_slot = slot + self._interval  # no await since it was read: nobody else takes it
        if slot > now:
            await self._sleep(slot - now)
