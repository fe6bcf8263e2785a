"""Bounds on octets under way and at rest."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.imap import Metadata
from mailkeep.sync.volume import InFlight, RunBudget, StorageCeiling, assumed_size, chunks


def message(uid: int, size: int | None) -> Metadata:
    return Metadata(uid, size, None, ())


@pytest.mark.spec("SYNC-62")
@pytest.mark.parametrize("size", [None, 0])
def test_an_unreported_size_counts_as_the_limit(size: int | None) -> None:
    """Otherwise servers that report nothing would escape every bound."""
    assert assumed_size(message(1, size), 1000) == 1000
    assert assumed_size(message(1, 400), 1000) == 400


@pytest.mark.spec("SYNC-60")
def test_an_oversized_message_costs_nothing_and_is_fetched_by_its_header() -> None:
    """It travels with its neighbours and is exempt from the chunk's octets."""
    (chunk,) = chunks([message(1, 10), message(2, 5000), message(3, 10)], limit=1000)
    assert [m.uid for m in chunk.messages] == [1, 3]
    assert [m.uid for m in chunk.oversized] == [2]
    assert chunk.octets == 20


@given(st.lists(st.none() | st.integers(0, 3000), max_size=40))
def test_chunks_are_bounded_ordered_and_complete(sizes: list[int | None]) -> None:
    """Each chunk stays within the target or holds one message; order and members are the batch's."""
    batch = [message(uid, size) for uid, size in enumerate(sizes, 1)]
    parts = list(chunks(batch, limit=1000, target=1500))
    highest = [max(m.uid for m in (*part.messages, *part.oversized)) for part in parts]
    assert highest == sorted(highest)
    assert sorted(m.uid for part in parts for m in (*part.messages, *part.oversized)) == [m.uid for m in batch]
    for part in parts:
        assert part.octets <= 1500 or len(part.messages) == 1
        assert part.octets == sum(assumed_size(m, 1000) for m in part.messages)


@pytest.mark.spec("SYNC-63")
def test_a_run_budget_takes_what_fits_and_nothing_else() -> None:
    """What does not fit leaves the rest as it was."""
    budget = RunBudget(100)
    assert budget.spend(60)
    assert not budget.spend(41)
    assert budget.spend(40)
    budget.give_back(5)
    assert budget.left == 5


@pytest.mark.spec("SYNC-65")
def test_the_ceiling_counts_measured_committed_and_claimed_octets() -> None:
    """Claims are returned when a fetch came to nothing, and a measurement replaces what was committed before it."""
    ceiling = StorageCeiling(100)
    assert ceiling.claim(60)
    assert not ceiling.claim(50)
    ceiling.settle(60, 30)
    assert ceiling.occupied == 30
    begun = ceiling.measurement_begins()
    assert ceiling.claim(20)
    ceiling.settle(20, 20)
    ceiling.measured(begun, 35)
    assert ceiling.occupied == 55


@pytest.mark.spec("SYNC-65")
def test_a_measurement_overtaken_by_a_later_one_is_discarded() -> None:
    """The older answer would lower the level below the truth."""
    ceiling = StorageCeiling(100)
    first, second = ceiling.measurement_begins(), ceiling.measurement_begins()
    ceiling.measured(second, 80)
    ceiling.measured(first, 10)
    assert ceiling.occupied == 80
    assert StorageCeiling(None).claim(10**18)


@pytest.mark.spec("SYNC-66")
@pytest.mark.anyio
async def test_octets_in_flight_are_granted_first_come_first_served() -> None:
    """A small request does not overtake a large one, and a cancelled waiter is skipped."""
    pool = InFlight(100)
    await pool.acquire(80)
    order: list[str] = []

    async def want(name: str, octets: int) -> None:
        await pool.acquire(octets)
        order.append(name)

    large = asyncio.create_task(want("large", 90))
    cancelled = asyncio.create_task(want("cancelled", 10))
    small = asyncio.create_task(want("small", 10))
    await asyncio.sleep(0)
    assert order == []
    cancelled.cancel()
    pool.release(80)
    await asyncio.gather(large, small)
    assert order == ["large", "small"]
    assert pool.held == 100


@pytest.mark.spec("SYNC-66")
@pytest.mark.anyio
async def test_more_than_everything_counts_as_everything() -> None:
    """A single message above the bound passes alone instead of waiting for ever."""
    pool = InFlight(100)
    async with pool.holding(500):
        assert pool.held == 100
    assert pool.held == 0


@pytest.mark.spec("SYNC-66")
@pytest.mark.anyio
async def test_a_waiter_cancelled_when_it_was_served_gives_its_octets_back() -> None:
    """Nothing leaks between being served and being woken."""
    pool = InFlight(100)
    await pool.acquire(100)
    waiter = asyncio.create_task(pool.acquire(50))
    await asyncio.sleep(0)
    pool.release(100)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert pool.held == 0
