"""When an account runs next."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.sync.schedule import wait_before_next_run

MINUTE = timedelta(minutes=1)


def wait(failures: int, *, more: bool = False, chance: float = 0.0, ceiling: timedelta = 30 * MINUTE) -> timedelta:
    return wait_before_next_run(
        interval=5 * MINUTE, max_failure_backoff=ceiling, failures=failures, more_remains=more, chance=chance
    )


@pytest.mark.spec("SYNC-8")
def test_success_waits_the_interval_and_failures_grow_to_the_ceiling() -> None:
    """Doubling from the interval, half of it jitter, never above the ceiling nor below the interval."""
    assert wait(0) == 5 * MINUTE
    assert (wait(1), wait(1, chance=1.0)) == (5 * MINUTE, 10 * MINUTE)
    assert (wait(2), wait(2, chance=1.0)) == (10 * MINUTE, 20 * MINUTE)
    assert (wait(9), wait(9, chance=1.0)) == (15 * MINUTE, 30 * MINUTE)


@pytest.mark.spec("SYNC-8")
@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_waits_stay_within_bounds_however_often_it_failed(failures: int, chance: float) -> None:
    """The exponent is bounded, so nothing overflows."""
    assert 5 * MINUTE <= wait(failures, chance=chance) <= 30 * MINUTE


def test_more_to_fetch_is_followed_at_once_unless_the_run_failed() -> None:
    """A first synchronization never waits for the interval; a failing server is not hurried."""
    assert wait(0, more=True) == timedelta(0)
    assert wait(1, more=True) >= 5 * MINUTE
