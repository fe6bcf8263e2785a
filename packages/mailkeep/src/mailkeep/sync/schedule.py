"""When an account runs next. Pure; chance is passed in (SYNC-8)."""

from __future__ import annotations

from datetime import timedelta

MAX_EXPONENT = 16


def wait_before_next_run(
    *, interval: timedelta, max_failure_backoff: timedelta, failures: int, more_remains: bool, chance: float
) -> timedelta:
    """The wait from the end of a run to the start of the next.

    `failures` counts failed runs in a row, 0 after a success; `chance` is uniform in [0, 1). While there is more to
    fetch a successful run is followed at once.
    """
    if failures == 0:
        return timedelta(0) if more_remains else interval
    factor: int = 2 ** min(failures, MAX_EXPONENT)
    grown = min(interval * factor, max_failure_backoff)
    low = max(interval, grown / 2)
    return low + (max(grown, low) - low) * chance
