"""The pure parts of providers: pacing, circuit, bulkhead, shapes, deterministic vectors."""

from __future__ import annotations

import asyncio
import math

import pytest
from support.clock import pass_time

from mailkeep.errors import EmbeddingProviderFailed
from mailkeep.providers import DeterministicEmbedder, FailureClass, Guard, Pacer, Purpose, failure, usable_vectors

pytestmark = pytest.mark.anyio


@pytest.mark.spec("FIND-93")
async def test_slots_are_a_fixed_time_apart_and_waiting_holds_nobody_up() -> None:
    """Three callers at once get slots at 0, 1 and 2 seconds, each knowing its own at once."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    pacer = Pacer(60, clock=lambda: 100.0, sleep=note)
    await asyncio.gather(pacer.wait(), pacer.wait(), pacer.wait())
    assert waits == [1.0, 2.0]
    free = Pacer(0, clock=lambda: 100.0, sleep=note)
    await free.wait()
    assert len(waits) == 2


@pytest.mark.spec("ASK-72")
async def test_a_fifth_call_at_once_is_refused_without_being_made() -> None:
    """The bulkhead rejects and never queues; two aliases know nothing of each other."""
    gate, started = asyncio.Event(), 0

    async def call() -> str:
        nonlocal started
        started += 1
        await gate.wait()
        return "done"

    guard = Guard("one")
    running = [asyncio.create_task(guard.call(call)) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(EmbeddingProviderFailed, match="too many"):
        await guard.call(call)
    other = asyncio.create_task(Guard("two").call(call))
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*running, other) == ["done"] * 5
    assert started == 5


@pytest.mark.spec("ASK-72")
def test_the_circuit_opens_after_failures_and_closes_again() -> None:
    """After five failed calls nobody is asked for 30 seconds; then one may try."""
    calls, works = 0, False

    async def call() -> str:
        nonlocal calls
        calls += 1
        if not works:
            raise failure(FailureClass.TRANSPORT_FAULTED, "one")
        return "done"

    async def scene() -> None:
        nonlocal works
        guard = Guard("one")
        for _ in range(5):
            with pytest.raises(EmbeddingProviderFailed):
                await guard.call(call, attempts=1)
        with pytest.raises(EmbeddingProviderFailed, match="left alone"):
            await guard.call(call, attempts=1)
        assert calls == 5
        works = True
        await asyncio.sleep(30)
        assert await guard.call(call, attempts=1) == "done"

    pass_time(scene())


@pytest.mark.spec("ASK-72")
def test_back_offs_grow_and_are_jittered() -> None:
    """Two waits between three attempts: 2 to 4 seconds, then 4 to 6."""
    called_at: list[float] = []

    async def call() -> str:
        called_at.append(asyncio.get_running_loop().time())
        raise failure(FailureClass.RATE_LIMITED, "one")

    with pytest.raises(EmbeddingProviderFailed):
        pass_time(Guard("one").call(call))
    first, second, third = called_at
    assert 2 <= second - first <= 4 <= third - second <= 6


@pytest.mark.spec("ASK-72")
def test_a_failure_says_that_an_attempt_before_it_may_be_billed() -> None:
    """What was answered too late counts, whatever the last attempt came to; so does a call given up as a whole."""
    kinds = [failure(FailureClass.REQUEST_TIMED_OUT, "one", may_be_billed=True)]

    async def call() -> str:
        raise kinds.pop() if kinds else failure(FailureClass.RATE_LIMITED, "one")

    async def silent() -> str:
        await asyncio.Event().wait()
        return "never"

    for work in (call, silent):
        with pytest.raises(EmbeddingProviderFailed) as raised:
            pass_time(Guard("one").call(work))
        assert raised.value.may_be_billed


@pytest.mark.spec("FIND-80")
def test_trimmed_vectors_are_scaled_whatever_the_profile_says() -> None:
    """What was cut off took its share of the length."""
    (vector,) = usable_vectors([[3.0, 4.0, 5.0]], count=1, dimension=2, allow_trim=True, normalize=False, alias="one")
    assert vector == pytest.approx((0.6, 0.8))
    with pytest.raises(EmbeddingProviderFailed, match="wider"):
        usable_vectors([[3.0, 4.0, 5.0]], count=1, dimension=2, allow_trim=False, normalize=True, alias="one")


@pytest.mark.spec("FIND-80")
def test_vectors_are_scaled_where_the_profile_normalizes_and_kept_otherwise() -> None:
    """Inner-product search over vectors of other lengths would be silently wrong."""
    given = [[3.0, 4.0]]
    (scaled,) = usable_vectors(given, count=1, dimension=2, allow_trim=False, normalize=True, alias="one")
    (kept,) = usable_vectors(given, count=1, dimension=2, allow_trim=False, normalize=False, alias="one")
    assert (math.hypot(*scaled), kept) == (pytest.approx(1.0), (3.0, 4.0))


@pytest.mark.spec("FIND-82")
async def test_deterministic_vectors_are_of_length_1_and_the_same_everywhere() -> None:
    """They depend on the text alone, and a call takes at most 256 texts."""
    one = DeterministicEmbedder("one", 16)
    (first,), (again,) = (
        await one.embed(["Ferry at eight"], Purpose.PASSAGE),
        await one.embed(["ferry AT eight"], Purpose.QUERY),
    )
    assert list(first) == list(again)
    assert math.fsum(number * number for number in first) == pytest.approx(1.0)
    with pytest.raises(EmbeddingProviderFailed, match="256"):
        await one.embed(["x"] * 257, Purpose.PASSAGE)
