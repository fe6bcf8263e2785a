"""Stages drained and kept running on a real database, with a stage of our own that counts in a table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.errors import DatabaseUnavailable
from mailkeep.stages import PassOutcome, StageCounts, StageRunner, StageStatus, drain, stage_statuses
from mailkeep.stages.lease import stage_lease

pytestmark = pytest.mark.anyio

PASS_SIZE = 3
SECOND = timedelta(seconds=1)


def now() -> datetime:
    return datetime(2026, 11, 30, 12, tzinfo=UTC)


class Tally:
    """A stage over the rows of a table `work`: state 0 is outstanding, 1 done, 2 impossible (made of odd texts)."""

    def __init__(self, db: Database, name: str = "tally") -> None:
        self.name = name
        self.passes = 0
        self.failures: list[Exception] = []
        self.passed = asyncio.Event()
        self._db = db

    def follow(self, settings: Settings) -> None:
        """Nothing of it is configured."""

    async def run_pass(self, now: datetime) -> PassOutcome:
        del now
        self.passes += 1
        if self.failures:
            raise self.failures.pop()
        async with self._db.connection() as connection:
            cursor = await connection.execute(
                "UPDATE work SET state = 1 + (label = 'odd')::integer WHERE id IN"
                " (SELECT id FROM work WHERE state = 0 ORDER BY id LIMIT %s) RETURNING state",
                [PASS_SIZE],
            )
            states = [row[0] for row in await cursor.fetchall()]
        self.passed.set()
        return PassOutcome(done=states.count(1), failed=states.count(2), has_more=len(states) == PASS_SIZE)

    async def count(self) -> StageCounts:
        async with self._db.connection() as connection:
            cursor = await connection.execute(
                "SELECT count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 0),"
                " count(*) FILTER (WHERE state = 2) FROM work"
            )
            row = await cursor.fetchone()
        assert row is not None
        return StageCounts(*row)


async def fill(db: Database, *labels: str) -> None:
    async with db.connection() as connection:
        await connection.execute("CREATE TABLE IF NOT EXISTS work (id serial, label text, state integer DEFAULT 0)")
        for label in labels:
            await connection.execute("INSERT INTO work (label) VALUES (%s)", [label])


@asynccontextmanager
async def running(runner: StageRunner) -> AsyncIterator[None]:
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(runner.run())
        try:
            yield
        finally:
            runner.stop()


async def test_draining_runs_every_stage_to_its_end_and_counts_the_impossible(db: Database) -> None:
    """Seven rows at three a pass are done in one drain; the one that cannot be handled stops nothing."""
    await fill(db, "a", "b", "odd", "c", "d", "e", "f")
    told = []
    (result,) = await drain([Tally(db)], db, now=now, report=told.append)
    assert (result.done, result.failed, result.error, result.held_elsewhere) == (6, 1, None, False)
    assert [step.done for step in told] == [2, 5, 6]
    assert await stage_statuses([Tally(db)]) == (StageStatus("tally", done=6, outstanding=0, failed=1),)
    (again,) = await drain([Tally(db)], db, now=now)
    assert (again.done, again.failed) == (0, 0)


async def test_a_failing_stage_is_reported_and_stops_no_other(db: Database) -> None:
    """The error of one stage is in its result; the next one runs to its end."""
    await fill(db, "a")
    broken = Tally(db, "broken")
    broken.failures = [DatabaseUnavailable("gone")]
    first, second = await drain([broken, Tally(db)], db, now=now)
    assert isinstance(first.error, DatabaseUnavailable)
    assert second.done == 1


async def test_a_stage_that_another_process_works_at_is_left_to_it(db: Database) -> None:
    """Its lease is a database lock: whoever holds it elsewhere keeps us out, and only as long."""
    await fill(db, "a")
    async with stage_lease(db, "tally") as is_owner:
        assert is_owner
        (result,) = await drain([Tally(db)], db, now=now)
    assert result.held_elsewhere
    assert (await drain([Tally(db)], db, now=now))[0].done == 1


async def test_draining_ends_at_a_stage_that_must_wait(db: Database) -> None:
    """A pass that names its next instant with work left ends the drain, and the instant is told."""

    class Throttled(Tally):
        async def run_pass(self, now: datetime) -> PassOutcome:
            self.passes += 1
            return PassOutcome(done=1, has_more=True, next_due=now + SECOND)

    stage = Throttled(db)
    (result,) = await drain([stage], db, now=now)
    assert (stage.passes, result.next_due) == (1, now() + SECOND)


async def test_an_arrival_wakes_the_runner_long_before_its_interval(db: Database) -> None:
    """Rows that come while a stage waits for an hour are done at once when it is woken."""
    await fill(db)
    stage = Tally(db)
    runner = StageRunner([stage], db, now=now, drain_time=SECOND, interval=timedelta(hours=1))
    async with running(runner):
        await stage.passed.wait()
        stage.passed.clear()
        await fill(db, "a", "b")
        runner.wake()
        await stage.passed.wait()
    assert (await stage.count()).done == 2


async def test_a_failure_is_tried_again_after_a_pause_and_other_stages_go_on(db: Database) -> None:
    """A pass that raises costs its stage a pause, not its life, whether the error has a name or not."""
    await fill(db, "a")
    flaky, steady = Tally(db, "flaky"), Tally(db, "steady")
    flaky.failures = [ValueError("unforeseen"), DatabaseUnavailable("gone")]
    runner = StageRunner(
        [flaky, steady], db, now=now, drain_time=SECOND, interval=timedelta(hours=1), first_backoff=timedelta(0)
    )
    async with running(runner):
        await steady.passed.wait()
        await flaky.passed.wait()
    assert flaky.passes >= 3


async def test_stopping_waits_for_the_pass_under_way_and_cancels_it_after_the_drain_time(db: Database) -> None:
    """A stage that never ends cannot hold up the end of the process."""
    entered = asyncio.Event()

    class Endless(Tally):
        async def run_pass(self, now: datetime) -> PassOutcome:
            entered.set()
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    runner = StageRunner([Endless(db)], db, now=now, drain_time=timedelta(milliseconds=50))
    async with running(runner):
        await entered.wait()
