"""An event loop whose time passes by itself: a wait of an hour takes no time, and everything happens in order.

    def test_something() -> None:
        async def scene() -> None:
            await asyncio.sleep(3600)
        pass_time(scene())

For code that does no I/O. `asyncio.sleep`, timeouts and `loop.time()` all follow the same clock.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _PassingTime(asyncio.SelectorEventLoop):
    """Whenever nothing is ready, the clock moves on to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._scheduled: list[asyncio.TimerHandle]
        self._ready: Any

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)
        if not self._ready and self._scheduled:
            self._now = max(self._now, self._scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


def pass_time(scene: Coroutine[Any, Any, T]) -> T:
    """Run a scene to its end on a clock of its own, which begins at 0."""
    with asyncio.Runner(loop_factory=_PassingTime) as runner:
        return runner.run(scene)
