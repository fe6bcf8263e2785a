"""One pipeline, on a clock that passes by itself."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.clock import pass_time

from mailkeep.config import PipelineClass, ResilienceSettings
from mailkeep.errors import PipelineRejected
from mailkeep.resilience import BreakerState, Conduct, Pipeline, Pipelines

KIND = PipelineClass.MAILBOX_SESSION_ESTABLISHMENT  # 3 attempts, waits of 2 to 30 s, 30 s each, 2 min in all, 4 at once


class Passing(Exception):  # noqa: N818  -- a test's own
    """May pass."""


class Lasting(Exception):  # noqa: N818  -- a test's own
    """Will not."""


class Late(Passing):
    """Took too long."""


CONDUCT = Conduct(is_transient=lambda error: isinstance(error, Passing), too_late=Late)


def pipeline(conduct: Conduct = CONDUCT) -> Pipeline:
    return Pipelines(ResilienceSettings()).of(KIND, "one", conduct)


class Other:
    """The other side: what each call comes to, the last one for ever; remembers when it was called."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.called_at: list[float] = []

    async def __call__(self) -> object:
        self.called_at.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        return answer


@pytest.mark.spec("SYNC-34")
def test_a_transient_failure_is_repeated_after_growing_jittered_waits() -> None:
    """The third attempt succeeds; waits are 2 to 4 and 4 to 6 seconds."""
    other = Other(Passing(), Passing(), "done")
    assert pass_time(pipeline().run(other)) == "done"
    first, second, third = other.called_at
    assert first == 0
    assert 2 <= second - first <= 4 <= third - second <= 6
    waits = {Other(Passing(), "done") for _ in range(5)}
    for one in waits:
        pass_time(pipeline().run(one))
    assert len({one.called_at[1] for one in waits}) > 1


@pytest.mark.spec("SYNC-34", "SYNC-36")
@pytest.mark.parametrize(("error", "calls"), [(Passing, 3), (Lasting, 1), (ValueError, 1)])
def test_only_what_may_pass_is_repeated_and_the_last_error_comes_out(error: type[Exception], calls: int) -> None:
    """Three attempts for one, a single one for anything that is terminal or not recognized."""
    other = Other(error())
    with pytest.raises(error):
        pass_time(pipeline().run(other))
    assert len(other.called_at) == calls


@pytest.mark.spec("SYNC-34")
def test_an_attempt_and_the_whole_call_are_bounded() -> None:
    """A silent side costs 30 seconds an attempt; what is still under way after two minutes is given up."""

    async def scene() -> float:
        with pytest.raises(Late):
            await pipeline().run(Other(asyncio.Event()))
        return asyncio.get_running_loop().time()

    assert 90 < pass_time(scene()) <= 100

    async def slow() -> float:
        settings = ResilienceSettings.model_validate(
            {KIND.value: {"attempts": 10, "attempt_timeout": "50s", "total_timeout": "2m"}}
        )
        other = Other(asyncio.Event())
        with pytest.raises(Late):
            await Pipelines(settings).of(KIND, "one", CONDUCT).run(other)
        assert len(other.called_at) == 3
        return asyncio.get_running_loop().time()

    assert pass_time(slow()) == pytest.approx(120)


@pytest.mark.spec("SYNC-34")
def test_a_call_that_bounds_itself_may_take_long_but_begins_no_attempt_too_late() -> None:
    """An hour of steady octets is no failure; a failure after an hour is not repeated."""

    async def hour() -> str:
        await asyncio.sleep(3600)
        return "done"

    async def hour_in_vain() -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(3600)
        raise Passing

    calls = 0
    own = Conduct(is_transient=CONDUCT.is_transient)
    assert pass_time(pipeline(own).run(hour)) == "done"
    with pytest.raises(Passing):
        pass_time(pipeline(own).run(hour_in_vain))
    assert calls == 1


@pytest.mark.spec("SYNC-34", "SYNC-38")
def test_beyond_the_limit_calls_are_rejected_and_never_queued() -> None:
    """The fifth is not made; when one has ended, the next one is."""

    async def scene() -> None:
        line, gate, other = pipeline(), asyncio.Event(), Other("done")
        running = [asyncio.create_task(line.run(Other(gate))) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(PipelineRejected) as caught:
            await line.run(other)
        assert caught.value.code == 41001
        assert other.called_at == []
        gate.set()
        await asyncio.gather(*running)
        assert await line.run(other) == "done"

    pass_time(scene())


@pytest.mark.spec("SYNC-34", "SYNC-38")
def test_an_open_breaker_rejects_until_its_time_is_over() -> None:
    """Of two calls with three attempts each the fifth attempt opens it; 30 seconds later one call closes it again."""

    async def scene() -> None:
        line, other = pipeline(), Other(Passing())
        with pytest.raises(Passing):
            await line.run(other)
        with pytest.raises(PipelineRejected):
            await line.run(other)
        assert len(other.called_at) == 5
        assert line.breaker is BreakerState.OPEN
        with pytest.raises(PipelineRejected):
            await line.run(other)
        assert len(other.called_at) == 5
        await asyncio.sleep(30)
        assert line.breaker is BreakerState.HALF_OPEN
        assert await line.run(Other("done")) == "done"
        assert line.breaker is BreakerState.CLOSED

    pass_time(scene())


@pytest.mark.spec("SYNC-34", "SYNC-36")
def test_refusals_and_cancelled_calls_say_nothing_against_the_other_side() -> None:
    """However many, the breaker stays closed."""

    async def scene() -> None:
        line = pipeline()
        for _ in range(10):
            with pytest.raises(Lasting):
                await line.run(Other(Lasting()))
            task = asyncio.create_task(line.run(Other(asyncio.Event())))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert line.breaker is BreakerState.CLOSED

    pass_time(scene())


@pytest.mark.spec("SYNC-34")
def test_two_counterparts_share_nothing() -> None:
    """While one is left alone the other is called."""

    async def scene() -> None:
        lines = Pipelines(ResilienceSettings())
        bad, good = lines.of(KIND, "bad", CONDUCT), lines.of(KIND, "good", CONDUCT)
        for _ in range(2):
            with pytest.raises((Passing, PipelineRejected)):
                await bad.run(Other(Passing()))
        assert await good.run(Other("done")) == "done"
        assert lines.of(KIND, "bad", CONDUCT) is bad
        assert lines.breakers("bad") == {KIND: BreakerState.OPEN}
        assert lines.breakers("good") == {KIND: BreakerState.CLOSED}

    pass_time(scene())


@pytest.mark.spec("SYNC-37")
def test_a_class_inside_of_itself_is_a_defect_and_other_classes_nest() -> None:
    """It raises at once, before anything is called, on the same task and on one that it started."""
    lines = Pipelines(ResilienceSettings())
    outer = lines.of(KIND, "one", CONDUCT)

    def within(kind: PipelineClass, instance: str, other: Other) -> Callable[[], Awaitable[object]]:
        return lambda: lines.of(kind, instance, CONDUCT).run(other)

    other = Other("done")
    for instance in ("one", "another"):
        with pytest.raises(RuntimeError):
            pass_time(outer.run(within(KIND, instance, other)))
    assert other.called_at == []
    assert pass_time(outer.run(within(PipelineClass.MAILBOX_DATA_RETRIEVAL, "one", other))) == "done"

    async def beside() -> list[object]:
        return list(await asyncio.gather(outer.run(other), outer.run(other)))

    assert pass_time(beside()) == ["done", "done"]
