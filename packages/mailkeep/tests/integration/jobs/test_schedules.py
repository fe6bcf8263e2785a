"""Schedules become jobs: once per occasion, whoever notices it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.jobs import QUICK, execute, handlers, nothing, put, rows, until

from mailkeep.config import JobsSettings
from mailkeep.config.recurrence import parse_recurrence
from mailkeep.db import Database
from mailkeep.jobs import Schedule, VerifyMailbox, Worker, dispatch, pause_schedule, schedule_states
from mailkeep.jobs.schedules import Dispatch, Dispatched

pytestmark = pytest.mark.anyio
SEEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MORNING = datetime(2026, 3, 2, 3, tzinfo=UTC)


def nightly(name: str = "work/nightly", **more: Any) -> Schedule:
    """A schedule at three in the morning, UTC."""
    return Schedule(name, parse_recurrence("Daily at 03:00"), VerifyMailbox("work"), "work", **more)


async def one(db: Database, schedule: Schedule, now: datetime, settings: JobsSettings = QUICK) -> Dispatched:
    """One pass over one schedule."""
    (result,) = await dispatch(db, [schedule], settings=settings, now=now)
    return result


@pytest.mark.spec("JOB-47", "JOB-48", "JOB-51")
async def test_a_new_schedule_owes_nothing_and_a_week_of_downtime_makes_one_job(db: Database) -> None:
    """Seeded, not due, then the latest occasion alone; the others are counted as skipped."""
    schedule = nightly()
    assert (await one(db, schedule, SEEN)).outcome is Dispatch.SEEDED
    assert (await one(db, schedule, SEEN + timedelta(hours=1))).outcome is Dispatch.NOT_DUE
    result = await one(db, schedule, SEEN + 7 * DAY)
    assert (result.outcome, result.occasion, result.skipped) == (Dispatch.DISPATCHED, MORNING + 6 * DAY, 6)
    assert await rows(db, "SELECT idempotency_key, id FROM jobs") == [
        ("work/nightly@2026-03-08T03:00:00Z", result.job_id)
    ]
    assert (await one(db, schedule, SEEN + 7 * DAY)).outcome is Dispatch.NOT_DUE
    assert (await one(db, nightly("work/renamed"), SEEN + 7 * DAY)).outcome is Dispatch.SEEDED


@pytest.mark.spec("JOB-48", "JOB-50", "JOB-51")
async def test_two_processes_on_one_occasion_make_one_job(db: Database) -> None:
    """The key names the occasion; a process that dies before it noted the job finds it again and goes on."""
    schedule = nightly()
    await one(db, schedule, SEEN)
    results = await asyncio.gather(*(one(db, schedule, MORNING) for _ in range(6)))
    assert {result.outcome for result in results} <= {
        Dispatch.DISPATCHED,
        Dispatch.ALREADY_DISPATCHED,
        Dispatch.NOT_DUE,
        Dispatch.PREVIOUS_RUN_IN_FLIGHT,
    }
    assert [result.outcome for result in results].count(Dispatch.DISPATCHED) == 1
    assert len(await rows(db)) == 1
    await execute(db, "UPDATE job_schedules SET last_occurrence_at = NULL, last_dispatched_job_id = NULL")
    again = await one(db, schedule, MORNING)
    assert again.outcome is Dispatch.ALREADY_DISPATCHED
    assert len(await rows(db)) == 1
    state = (await schedule_states(db, [schedule.schedule_id]))[schedule.schedule_id]
    assert (state.last_occurrence_at, state.last_job_id) == (MORNING, again.job_id)


@pytest.mark.spec("JOB-47", "JOB-49")
async def test_an_occasion_during_the_previous_run_is_skipped_and_a_pruned_run_holds_nothing_up(db: Database) -> None:
    """Stepped-over occasions count as skipped; a job that is gone counts as over."""
    schedule = nightly()
    await one(db, schedule, SEEN)
    await one(db, schedule, MORNING)
    busy = await one(db, schedule, MORNING + DAY)
    assert (busy.outcome, busy.skipped) == (Dispatch.PREVIOUS_RUN_IN_FLIGHT, 1)
    await execute(db, "DELETE FROM jobs")
    assert (await one(db, schedule, MORNING + 2 * DAY)).outcome is Dispatch.DISPATCHED


@pytest.mark.spec("JOB-19")
async def test_an_occasion_that_finds_the_queue_full_is_skipped_and_counted(db: Database) -> None:
    """It is not made up for later."""
    small = JobsSettings.model_validate({"max_queue_depth_per_type": 1})
    schedule = nightly()
    await one(db, schedule, SEEN)
    await put(db, "filler")
    full = await one(db, schedule, MORNING, small)
    assert (full.outcome, full.skipped, full.job_id) == (Dispatch.REFUSED_AT_CAPACITY, 1, None)
    await execute(db, "DELETE FROM jobs")
    assert (await one(db, schedule, MORNING + timedelta(hours=1), small)).outcome is Dispatch.NOT_DUE


@pytest.mark.spec("JOB-B12")
async def test_a_paused_schedule_owes_nothing_of_the_pause_and_one_past_its_end_makes_no_job(db: Database) -> None:
    """Resuming begins from then; `until` ends the occasions."""
    schedule = nightly()
    await one(db, schedule, SEEN)
    await pause_schedule(db, schedule.schedule_id, paused=True, now=SEEN)
    assert (await one(db, schedule, MORNING + DAY)).outcome is Dispatch.PAUSED
    await pause_schedule(db, schedule.schedule_id, paused=False, now=MORNING + DAY)
    assert (await one(db, schedule, MORNING + DAY + timedelta(hours=1))).outcome is Dispatch.NOT_DUE
    assert (await one(db, schedule, MORNING + 2 * DAY)).outcome is Dispatch.DISPATCHED
    ended = nightly("work/ended", until=SEEN + timedelta(hours=1))
    await one(db, ended, SEEN)
    assert (await one(db, ended, MORNING)).outcome is Dispatch.NOT_DUE


@pytest.mark.spec("JOB-B12")
async def test_jitter_defers_the_start_by_the_same_part_everywhere(db: Database) -> None:
    """The key stays that of the occasion, so that all processes agree."""
    schedules = [nightly(f"account{number}/nightly", jitter=timedelta(hours=1)) for number in range(20)]
    starts = [schedule.starts_at(MORNING) for schedule in schedules]
    assert len(set(starts)) == 20
    assert all(MORNING <= start < MORNING + timedelta(hours=1) for start in starts)
    await dispatch(db, schedules, settings=QUICK, now=SEEN)
    await dispatch(db, schedules, settings=QUICK, now=MORNING)
    assert sorted(row[0] for row in await rows(db, "SELECT available_at FROM jobs")) == sorted(starts)


@pytest.mark.spec("JOB-34", "JOB-51", "JOB-52")
async def test_a_worker_dispatches_what_is_due_and_prunes_afterwards(db: Database) -> None:
    """One loop does all of it; there is no scheduler process."""
    schedule = nightly()
    await one(db, schedule, datetime.now(UTC) - 3 * DAY)
    await put(db, "old")
    await execute(db, "UPDATE jobs SET state = 'Succeeded', state_changed_at = now() - interval '40 days'")
    worker = Worker(db, QUICK, handlers(nothing), schedules=[schedule])
    task = asyncio.create_task(worker.run())

    async def settled() -> bool:
        found = await rows(db, "SELECT idempotency_key, state FROM jobs")
        return len(found) == 1 and found[0][0].startswith("work/nightly@") and found[0][1] == "Succeeded"

    await until(settled)
    worker.stop()
    await task


@pytest.mark.spec("JOB-33", "JOB-34", "JOB-52")
async def test_a_schedule_that_fails_stops_no_other_and_nothing_is_pruned_then(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """One account's id does not fit the table; the next schedule in order is dispatched all the same."""
    broken = Schedule("broken/nightly", parse_recurrence("Every 00:01:00"), VerifyMailbox("x" * 200), "x" * 200)
    schedules = [broken, nightly()]
    await dispatch(db, schedules, settings=QUICK, now=SEEN)
    (result,) = await dispatch(db, schedules, settings=QUICK, now=MORNING)
    assert (result.schedule_id, result.outcome) == ("work/nightly", Dispatch.DISPATCHED)
    assert "a schedule is not dispatched" in caplog.messages
    await execute(db, "UPDATE jobs SET state = 'Succeeded', state_changed_at = now() - interval '40 days'")
    worker = Worker(db, QUICK, handlers(nothing), schedules=[broken])
    task = asyncio.create_task(worker.run())
    await put(db, "beacon")
    await until(lambda: succeeded(db, 2))
    worker.stop()
    await task


async def succeeded(db: Database, count: int) -> bool:
    """Whether so many jobs have succeeded and are still there."""
    return await rows(db, "SELECT count(*) FROM jobs WHERE state = 'Succeeded'") == [(count,)]
