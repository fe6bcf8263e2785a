"""What operators see and decide."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from support.jobs import QUICK, VERIFY, execute, nothing, put, rows, run_until_idle

from mailkeep.config import JobType
from mailkeep.db import Database
from mailkeep.errors import CursorForeign, CursorForOtherFilters, FilterRefused, PageSizeRefused
from mailkeep.jobs import (
    Created,
    Decision,
    JobState,
    Stopped,
    cancel_job,
    count_stopped,
    drop_job,
    job_type_named,
    list_jobs,
    retry_job,
    retry_stopped,
    show_job,
)
from mailkeep.jobs.model import AlreadyEnqueued

pytestmark = pytest.mark.anyio


async def stopped(db: Database, count: int, *, reason: str = "ValueError") -> list[Created]:
    """That many dead letters, all stopped at one instant."""
    made = [await put(db, f"{reason}{number}") for number in range(count)]
    await execute(
        db,
        "UPDATE jobs SET state = 'DeadLettered', attempt_count = 5, last_failure_reason = %s, "
        "last_failure_classification = 'Permanent', state_changed_at = '2026-03-01Z' WHERE idempotency_key LIKE %s",
        reason,
        f"{reason}%",
    )
    return [job for job in made if isinstance(job, Created)]


@pytest.mark.spec("JOB-39")
async def test_pages_over_equal_instants_show_each_stopped_job_once(db: Database) -> None:
    """Newest first, then by id; a cursor holds for its filters alone."""
    made = await stopped(db, 7)
    seen, cursor = [], None
    while True:
        page = await list_jobs(db, page_size=3, cursor=cursor)
        seen += [job.id for job in page.jobs]
        cursor = page.next_cursor or cursor
        if page.next_cursor is None:
            break
    assert seen == sorted((job.id for job in made), reverse=True)
    with pytest.raises(CursorForOtherFilters):
        await list_jobs(db, cursor=cursor, account_id="home")
    for foreign in ("x", "e30=", ""):
        with pytest.raises(CursorForeign):
            await list_jobs(db, cursor=foreign)
    for size in (0, 201):
        with pytest.raises(PageSizeRefused):
            await list_jobs(db, page_size=size)
    with pytest.raises(FilterRefused):
        job_type_named("classify-email-spam")
    assert (await list_jobs(db, job_type=JobType.REDERIVE_STORED_MAIL)).jobs == ()
    assert len((await list_jobs(db, job_type=VERIFY, account_id="work")).jobs) == 7
    assert (await list_jobs(db, account_id="home")).jobs == ()


@pytest.mark.spec("JOB-9", "JOB-38")
async def test_a_stopped_job_is_inert_and_an_unknown_types_is_not_shown(db: Database) -> None:
    """It is not claimed and keeps key, attempts and failure; a row of another build is in no list."""
    (job,) = await stopped(db, 1)
    await put(db, "next")
    await run_until_idle(db, QUICK, nothing)
    found = await show_job(db, job.id)
    assert found is not None
    assert (found.state, found.attempts, found.reason, found.key) == (
        JobState.DEAD_LETTERED,
        5,
        "ValueError",
        "ValueError0",
    )
    await execute(db, "UPDATE jobs SET job_type = 'dispatch-held-send'")
    assert (await list_jobs(db)).jobs == ()
    assert await show_job(db, job.id) is None
    assert await retry_job(db, job.id) is Decision.JOB_UNKNOWN


@pytest.mark.spec("JOB-40")
async def test_a_retried_job_runs_again_under_its_id_and_a_dropped_one_refuses_its_key(db: Database) -> None:
    """Attempts begin at none, the failure stays until it is replaced."""
    again, never = await stopped(db, 2)
    assert await retry_job(db, again.id) is Decision.ACCEPTED
    row = "SELECT state, attempt_count, last_failure_reason FROM jobs WHERE idempotency_key = 'ValueError0'"
    assert await rows(db, row) == [("Pending", 0, "ValueError")]
    assert await drop_job(db, never.id) is Decision.ACCEPTED
    await run_until_idle(db, QUICK, nothing)
    assert await rows(db, row) == [("Succeeded", 1, "ValueError")]
    assert await put(db, "ValueError1") == AlreadyEnqueued(never.id)
    assert await rows(db, "SELECT state FROM jobs WHERE idempotency_key = 'ValueError1'") == [("Dropped",)]


@pytest.mark.spec("JOB-41")
async def test_racing_decisions_have_one_winner(db: Database) -> None:
    """The others are told that it has not stopped any more; an unknown id is an answer too."""
    (job,) = await stopped(db, 1)
    answers = await asyncio.gather(*(act(db, job.id) for act in (retry_job, drop_job) * 5))
    assert answers.count(Decision.ACCEPTED) == 1
    assert set(answers) == {Decision.ACCEPTED, Decision.JOB_NOT_DEAD_LETTERED}
    await execute(db, "DELETE FROM jobs")
    assert await drop_job(db, job.id) is Decision.JOB_UNKNOWN


@pytest.mark.spec("JOB-B8")
async def test_a_bulk_retry_takes_exactly_what_was_counted(db: Database) -> None:
    """By type, reason and span; another number than the confirmed one changes nothing."""
    await stopped(db, 3)
    await stopped(db, 2, reason="KeyError")
    which = Stopped(VERIFY, "ValueError")
    count, until = await count_stopped(db, which)
    assert count == 3
    bounded = Stopped(VERIFY, "ValueError", until=until)
    assert await retry_stopped(db, bounded, expected=2) is None
    assert len((await list_jobs(db)).jobs) == 5
    assert await retry_stopped(db, Stopped(VERIFY, None, since=until + timedelta(days=1)), expected=0) == 0
    assert await retry_stopped(db, bounded, expected=3) == 3
    assert {job.reason for job in (await list_jobs(db)).jobs} == {"KeyError"}


@pytest.mark.spec("JOB-B8")
async def test_waiting_jobs_are_listed_and_cancelled(db: Database) -> None:
    """One that waits may be given up; what is over may not, and is in no list."""
    job = await put(db, "waits")
    assert isinstance(job, Created)
    assert [one.id for one in (await list_jobs(db, state=JobState.PENDING)).jobs] == [job.id]
    assert (await list_jobs(db, state=JobState.CLAIMED)).jobs == ()
    assert await cancel_job(db, job.id) is Decision.ACCEPTED
    assert await cancel_job(db, job.id) is Decision.JOB_NOT_PENDING
    assert await rows(db) == [("Dropped", 0, None)]
    assert [one.id for one in (await list_jobs(db, state=JobState.DROPPED)).jobs] == [job.id]
    assert (await list_jobs(db, state=JobState.SUCCEEDED)).jobs == ()
