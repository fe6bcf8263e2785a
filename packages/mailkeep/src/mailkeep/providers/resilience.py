"""The one layer of retries around an endpoint (ASK-72): bulkhead, deadline, attempts, circuit."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mailkeep.errors import EmbeddingProviderFailed
from mailkeep.providers.model import FailureClass, failure

T = TypeVar("T")

CONCURRENT_CALLS: Final = 4
TOTAL_SECONDS: Final = 300.0
ATTEMPTS: Final = 3
FIRST_BACKOFF_SECONDS: Final = 2.0
LONGEST_BACKOFF_SECONDS: Final = 30.0
CIRCUIT_FAILURE_RATIO: Final = 0.5
CIRCUIT_MINIMUM_CALLS: Final = 5
CIRCUIT_WINDOW_SECONDS: Final = 60.0
CIRCUIT_BREAK_SECONDS: Final = 30.0


class Guard:
    """What stands between a caller and one endpoint; one instance for each alias."""

    def __init__(
        self,
        alias: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._alias = alias
        self._clock = clock
        self._sleep = sleep
        self._running = 0
        self._recent: deque[tuple[float, bool]] = deque()
        self._open_until = 0.0

    async def call(self, attempt: Callable[[], Awaitable[T]], *, attempts: int = ATTEMPTS) -> T:
        """Call until it succeeds, fails for good, or fails `attempts` times.

        A fifth concurrent call and one while the circuit is open are refused as TransportFaulted without being sent.
        """
        if self._running >= CONCURRENT_CALLS:
            raise failure(FailureClass.TRANSPORT_FAULTED, self._alias, detail="too many calls at once")
        self._running += 1
        try:
            async with asyncio.timeout(TOTAL_SECONDS) as deadline:
                return await self._attempts(attempt, attempts)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise failure(FailureClass.REQUEST_TIMED_OUT, self._alias, may_be_billed=True) from None
        finally:
            self._running -= 1

    async def _attempts(self, attempt: Callable[[], Awaitable[T]], attempts: int) -> T:
        billed = False
        for number in range(1, attempts + 1):
            if self._clock() < self._open_until:
                raise failure(
                    FailureClass.TRANSPORT_FAULTED, self._alias, detail="left alone for now", may_be_billed=billed
                )
            try:
                answer = await attempt()
            except EmbeddingProviderFailed as error:
                billed = error.may_be_billed = billed or error.may_be_billed
                self._note(failed=error.retryable)
                if not error.retryable or number == attempts:
                    raise
            else:
                self._note(failed=False)
                return answer
            wait = min(FIRST_BACKOFF_SECONDS * 2 ** (number - 1), LONGEST_BACKOFF_SECONDS)
            await self._sleep(random.uniform(wait / 2, wait))  # noqa: S311 -- jitter, not a secret
        raise AssertionError("there is at least one attempt")

    def _note(self, *, failed: bool) -> None:
        now = self._clock()
        self._recent.append((now, failed))
        while self._recent[0][0] < now - CIRCUIT_WINDOW_SECONDS:
            self._recent.popleft()
        failures = sum(1 for _, is_failure in self._recent if is_failure)
        if len(self._recent) >= CIRCUIT_MINIMUM_CALLS and failures >= CIRCUIT_FAILURE_RATIO * len(self._recent):
            self._open_until = now + CIRCUIT_BREAK_SECONDS
            self._recent.clear()
