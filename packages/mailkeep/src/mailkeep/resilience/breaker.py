"""A circuit breaker: who failed most of the time lately is left alone for a while, then one call may try.

Our own, since the libraries looked at count failures in a row and know no ratio over a window (docs/decisions/0007).
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

from mailkeep.config.resilience import PipelineSettings


class BreakerState(StrEnum):
    """Closed lets everything through, Open nothing, HalfOpen one call that decides."""

    CLOSED = "Closed"
    OPEN = "Open"
    HALF_OPEN = "HalfOpen"


class Breaker:
    """One per pipeline. Time is passed in: seconds of any clock that never goes back."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._recent: deque[tuple[float, bool]] = deque()
        self._failures = 0
        self._open_until: float | None = None
        self._is_trying = False

    def state(self, now: float) -> BreakerState:
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._open_until else BreakerState.HALF_OPEN

    def admits(self, now: float) -> bool:
        """Whether a call may be made. One that is admitted must be ended by `succeeded`, `failed` or `withdrawn`."""
        match self.state(now):
            case BreakerState.CLOSED:
                return True
            case BreakerState.OPEN:
                return False
            case BreakerState.HALF_OPEN:
                if self._is_trying:
                    return False
                self._is_trying = True
                return True

    def succeeded(self, now: float) -> None:
        if self._is_trying:
            self._close()
        self._note(now, failed=False)

    def failed(self, now: float) -> None:
        if self._is_trying:
            self._open(now)
            return
        self._note(now, failed=True)
        enough = len(self._recent) >= self._settings.breaker_minimum_throughput
        if enough and self._failures >= self._settings.breaker_failure_ratio * len(self._recent):
            self._open(now)

    def withdrawn(self) -> None:
        """A call ended without telling anything: it was cancelled."""
        self._is_trying = False

    def _note(self, now: float, *, failed: bool) -> None:
        self._recent.append((now, failed))
        self._failures += failed
        oldest = now - self._settings.breaker_sampling_window.total_seconds()
        while self._recent[0][0] < oldest:
            self._failures -= self._recent.popleft()[1]

    def _open(self, now: float) -> None:
        self._close()
        self._open_until = now + self._settings.breaker_break_duration.total_seconds()

    def _close(self) -> None:
        self._recent.clear()
        self._failures, self._open_until, self._is_trying = 0, None, False
