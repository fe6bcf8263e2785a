"""One pipeline: concurrency limit, total timeout, retry, circuit breaker, attempt timeout, outermost first (SYNC-34).

Time is the event loop's, so that a test may let it pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

import stamina
import stamina.instrumentation

from mailkeep.config.resilience import PipelineClass, PipelineSettings
from mailkeep.errors import PipelineRejected
from mailkeep.resilience.breaker import Breaker, BreakerState

log = logging.getLogger(__name__)

T = TypeVar("T")

_inside: ContextVar[frozenset[PipelineClass]] = ContextVar("pipelines this task is inside of", default=frozenset())

# The library's own hooks log what they retried with its arguments.
stamina.instrumentation.set_on_retry_hooks(())


@dataclass(frozen=True, slots=True)
class Conduct:
    """How one class of calls fails.

    `is_transient` says whether an error may pass; every other error, and cancellation, ends the call unchanged and says
    nothing against the counterpart. `too_late` makes the error of an attempt, or of a whole call, that took too long;
    None for calls that bound their own waiting, in which case no attempt begins after the total timeout.
    """

    is_transient: Callable[[Exception], bool]
    too_late: Callable[[], Exception] | None = None


class Pipeline:
    """One per class and counterpart; `run` makes one logical call."""

    def __init__(self, kind: PipelineClass, instance: str, settings: PipelineSettings, conduct: Conduct) -> None:
        self.kind: Final = kind
        self._instance = instance
        self._settings = settings
        self._conduct = conduct
        self._breaker = Breaker(settings)
        self._running = 0

    @property
    def breaker(self) -> BreakerState:
        """The state of the circuit breaker at this moment."""
        return self._breaker.state(asyncio.get_running_loop().time())

    async def run(self, work: Callable[[], Awaitable[T]], *, attempts: int | None = None) -> T:
        """Do the work, again after a transient failure; at most `attempts` times where the settings allow more.

        Raises PipelineRejected (41001) while the breaker is open and beyond the concurrency limit, what `too_late`
        makes, or the error of the last attempt. Raises RuntimeError inside of the same class on the same task: one
        logical call is retried at one layer (SYNC-37).
        """
        inside = _inside.get()
        if self.kind in inside:
            raise RuntimeError(f"a call of {self.kind} is inside of another one")
        if self._running >= self._settings.concurrency_limit:
            raise PipelineRejected("too many calls of this kind are under way")
        limit = min(attempts or self._settings.attempts, self._settings.attempts)
        token = _inside.set(inside | {self.kind})
        self._running += 1
        try:
            return await self._within_total(work, limit)
        finally:
            self._running -= 1
            _inside.reset(token)

    async def _within_total(self, work: Callable[[], Awaitable[T]], attempts: int) -> T:
        total = self._settings.total_timeout.total_seconds()
        ends = asyncio.get_running_loop().time() + total
        if self._conduct.too_late is None:
            return await self._repeatedly(work, attempts, ends)
        try:
            async with asyncio.timeout(total) as bound:
                return await self._repeatedly(work, attempts, ends)
        except TimeoutError:
            if not bound.expired():
                raise
            raise self._conduct.too_late() from None

    async def _repeatedly(self, work: Callable[[], Awaitable[T]], attempts: int, ends: float) -> T:
        def is_worth_repeating(error: Exception) -> bool:
            return self._conduct.is_transient(error) and asyncio.get_running_loop().time() < ends

        try:
            return await self._attempt(work)  # nearly always the only one, so the library costs nothing
        except Exception as error:
            if attempts == 1 or not is_worth_repeating(error):
                raise
            failure: Exception | None = error
        async for attempt in stamina.retry_context(
            on=is_worth_repeating,
            attempts=attempts,
            timeout=None,
            wait_initial=self._settings.base_delay,
            wait_max=self._settings.max_delay,
            wait_jitter=self._settings.base_delay,
        ):
            with attempt:
                if failure is not None:  # the first attempt was made above
                    first, failure = failure, None
                    raise first
                return await self._attempt(work)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, work: Callable[[], Awaitable[T]]) -> T:
        clock, breaker = asyncio.get_running_loop().time, self._breaker
        if not breaker.admits(clock()):
            raise PipelineRejected("the other side failed too often lately and is left alone for a moment")
        try:
            result = await self._in_time(work)
        except asyncio.CancelledError:
            breaker.withdrawn()
            raise
        except Exception as error:
            if self._conduct.is_transient(error):
                self._note_failure(clock())
            else:
                breaker.succeeded(clock())  # an orderly refusal is an answer
            raise
        breaker.succeeded(clock())
        return result

    async def _in_time(self, work: Callable[[], Awaitable[T]]) -> T:
        if self._conduct.too_late is None:
            return await work()
        try:
            async with asyncio.timeout(self._settings.attempt_timeout.total_seconds()) as bound:
                return await work()
        except TimeoutError:
            if not bound.expired():
                raise
            raise self._conduct.too_late() from None

    def _note_failure(self, now: float) -> None:
        self._breaker.failed(now)
        if self._breaker.state(now) is BreakerState.OPEN:
            log.warning("circuit breaker opened", extra={"pipeline": self.kind.value, "instance": self._instance})
