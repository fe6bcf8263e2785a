"""The circuit breaker, with time as the test says."""

import pytest

from mailkeep.config import ResilienceSettings
from mailkeep.resilience import Breaker, BreakerState

SETTINGS = ResilienceSettings().mailbox_session_establishment  # 5 attempts in 60 s, open for 30 s


def called(breaker: Breaker, now: float, *, fails: bool) -> None:
    """One call that is admitted and ends at once."""
    assert breaker.admits(now)
    (breaker.failed if fails else breaker.succeeded)(now)


@pytest.mark.spec("SYNC-34")
def test_it_opens_at_half_of_enough_attempts_and_not_before() -> None:
    """Four failures say nothing; of six attempts three are enough."""
    few = Breaker(SETTINGS)
    for second in range(4):
        called(few, second, fails=True)
    assert few.state(4) is BreakerState.CLOSED
    mixed = Breaker(SETTINGS)
    for second, fails in enumerate([False, False, False, True, True]):
        called(mixed, second, fails=fails)
    assert mixed.state(5) is BreakerState.CLOSED
    called(mixed, 5, fails=True)
    assert mixed.state(5) is BreakerState.OPEN
    assert not mixed.admits(34.9)


@pytest.mark.spec("SYNC-34")
def test_attempts_older_than_the_window_are_forgotten() -> None:
    """Failures spread thinner than the window never add up."""
    breaker = Breaker(SETTINGS)
    for second in range(0, 400, 20):
        called(breaker, second, fails=True)
    assert breaker.state(400) is BreakerState.CLOSED


@pytest.mark.spec("SYNC-34")
@pytest.mark.parametrize(("fails", "after"), [(False, BreakerState.CLOSED), (True, BreakerState.OPEN)])
def test_after_the_break_one_call_decides(fails: bool, after: BreakerState) -> None:
    """While it is under way no other is admitted; a cancelled one leaves the decision to the next."""
    breaker = Breaker(SETTINGS)
    for _ in range(5):
        called(breaker, 0, fails=True)
    assert breaker.state(30) is BreakerState.HALF_OPEN
    assert breaker.admits(30)
    assert not breaker.admits(30)
    breaker.withdrawn()
    assert breaker.admits(31)
    (breaker.failed if fails else breaker.succeeded)(32)
    assert breaker.state(33) is after
    assert breaker.admits(33) is not fails
