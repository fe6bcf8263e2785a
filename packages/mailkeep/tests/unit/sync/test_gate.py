"""The gate of an account: its budget of connections and its pauses."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.accounts import account_at

from mailkeep.imap import Advice, AskedToComeBack, PauseReason
from mailkeep.sync.gate import AccountGate, Gates
from mailkeep.sync.pauses import FILE_NAME, read_pauses

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Clock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime:
        return self.time


def plea(reason: PauseReason, wait: timedelta | None) -> AskedToComeBack:
    return AskedToComeBack("x", Advice(reason, wait))


@pytest.mark.spec("SYNC-141")
async def test_a_watcher_leaves_room_for_a_run_and_a_run_waits_for_its_turn() -> None:
    """Of three connections two stay for runs; the fourth waits until one comes back."""
    gate = AccountGate(3, Clock())
    assert await gate.enter_to_watch(leave_free=2)
    assert not await gate.enter_to_watch(leave_free=2)
    await gate.enter()
    await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.leave_watch()
    async with asyncio.timeout(5):
        await waiting
    assert not await gate.enter_to_watch(leave_free=3)


@pytest.mark.case("58")
async def test_a_server_that_counts_fewer_connections_gets_fewer_watchers() -> None:
    """The budget was too high: one watcher goes, and no further one comes in its place."""
    clock = Clock()
    gate = AccountGate(10, clock)
    for _ in range(3):
        assert await gate.enter_to_watch(leave_free=1)
    assert not gate.has_watchers_to_spare
    gate.heed(plea(PauseReason.TOO_MANY_CONNECTIONS, timedelta(minutes=2)))
    assert gate.has_watchers_to_spare
    gate.leave_watch()
    clock.time += timedelta(minutes=3)
    assert not gate.has_watchers_to_spare
    assert not await gate.enter_to_watch(leave_free=1)


@pytest.mark.spec("SYNC-142")
async def test_a_pause_binds_until_its_time_is_over_and_the_longer_one_counts() -> None:
    """A shorter plea during a longer pause changes nothing, and a busy moment pauses nothing."""
    clock = Clock()
    gate = AccountGate(1, clock)
    gate.heed(plea(PauseReason.BUSY, None))
    assert gate.pause is None
    gate.heed(plea(PauseReason.QUOTA_EXHAUSTED, timedelta(hours=1)))
    gate.heed(plea(PauseReason.THROTTLED, timedelta(minutes=5)))
    assert gate.pause == (PauseReason.QUOTA_EXHAUSTED, NOON + timedelta(hours=1))
    with pytest.raises(AskedToComeBack):
        await gate.enter()
    clock.time += timedelta(hours=1)
    await gate.enter()
    assert gate.pause is None


@pytest.mark.spec("SYNC-142")
async def test_pauses_of_several_accounts_outlive_the_process_and_end(tmp_path: Path) -> None:
    """One file holds them; those that are over are dropped, and a broken file is as good as none."""
    clock = Clock()
    anna, ben = account_at(1, account_id="anna"), account_at(1, account_id="ben")
    gates = Gates(tmp_path, clock)
    gates.of(anna).heed(plea(PauseReason.THROTTLED, timedelta(minutes=5)))
    gates.of(ben).heed(plea(PauseReason.QUOTA_EXHAUSTED, timedelta(hours=1)))
    assert set(read_pauses(tmp_path, now=clock())) == {"anna", "ben"}
    clock.time += timedelta(minutes=6)
    later = Gates(tmp_path, clock)
    assert later.of(anna).pause is None
    assert later.of(ben).pause == (PauseReason.QUOTA_EXHAUSTED, NOON + timedelta(hours=1))
    (tmp_path / FILE_NAME).write_text('{"ben": 3}')
    assert read_pauses(tmp_path, now=clock()) == {}


@pytest.mark.spec("SYNC-141")
def test_the_budget_is_the_accounts_own_else_its_providers(tmp_path: Path) -> None:
    """Gmail says 15; nobody said anything of other servers."""
    gates = Gates(tmp_path, Clock())
    assert gates.of(account_at(1, account_id="a", max_connections=3)).capacity == 3
    assert gates.of(account_at(1, account_id="b", host="imap.gmail.com")).capacity == 15
    assert gates.of(account_at(1, account_id="c")).capacity == 10


@pytest.mark.spec("SYNC-2", "SYNC-141")
async def test_a_changed_budget_holds_for_the_connections_to_come() -> None:
    """Growing lets waiters in; shrinking takes effect as connections end, never below none."""
    gate = AccountGate(1, Clock())
    await gate.enter()
    gate.resize(3)
    await gate.enter()
    await gate.enter()
    gate.resize(1)
    gate.leave()
    gate.leave()
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.resize(2)
    await waiting
    gate.leave()
    gate.leave()
    await gate.enter()
    await gate.enter()
    third = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    assert not third.done()
    third.cancel()
