"""Workers as processes of their own: many at once, killed, stopped, and killed by their jobs."""

from __future__ import annotations

import os
import random
import signal
from contextlib import ExitStack

import pytest
from support.jobs import QUICK, create_run_table, execute, many, put, rows, until, worker_process

from mailkeep.db import Database

pytestmark = pytest.mark.anyio
JOBS = int(os.environ.get("MAILKEEP_JOBS", "2000"))
KILLED = JOBS // 4 if JOBS > 2000 else 300


@pytest.mark.spec("JOB-20", "JOB-36")
async def test_eight_processes_drain_a_queue_and_run_every_job_once(db: Database) -> None:
    """Nothing is run twice, nothing is left, and more than one process had a share."""
    create_run_table(db.dsn)
    await many(db, JOBS)
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(worker_process(db.dsn))
        await until(lambda: all_done(db), seconds=60 + JOBS / 50)
    assert await rows(db, "SELECT count(*), count(DISTINCT pid) > 1 FROM job_runs") == [(JOBS, True)]
    assert await rows(db, "SELECT state, attempt_count, count(*) FROM jobs GROUP BY 1, 2") == [("Succeeded", 1, JOBS)]


@pytest.mark.spec("JOB-24", "JOB-1", "JOB-25")
async def test_processes_killed_at_random_lose_no_job(db: Database) -> None:
    """Whatever a killed process held is run again when its lease lapses; no job is run more often than it was claimed."""
    create_run_table(db.dsn)
    await many(db, KILLED)
    draw = random.Random(11)
    with ExitStack() as stack:
        workers = [stack.enter_context(worker_process(db.dsn)) for _ in range(3)]
        for killed in range(4):
            await until(lambda share=KILLED // 5 * killed + KILLED // 10: ran(db, share))  # type: ignore[misc]
            victim = workers.pop(draw.randrange(len(workers)))
            victim.send_signal(signal.SIGKILL)
            workers.append(stack.enter_context(worker_process(db.dsn)))
        await until(lambda: all_done(db), seconds=60 + KILLED / 50)
    assert await rows(db, "SELECT DISTINCT state FROM jobs") == [("Succeeded",)]
    ((runs, attempts),) = await rows(
        db, "SELECT (SELECT count(*) FROM job_runs), (SELECT sum(attempt_count) FROM jobs)"
    )
    assert KILLED <= runs <= attempts


@pytest.mark.spec("JOB-24", "JOB-22")
async def test_a_job_of_a_killed_process_is_taken_over_with_one_more_attempt(db: Database) -> None:
    """Nobody needs telling: the lease lapses."""
    create_run_table(db.dsn)
    await put(db, "job")
    with worker_process(db.dsn, "hang") as hanging:
        assert hanging.stdout is not None
        assert [hanging.stdout.readline(), hanging.stdout.readline()] == [b"ready\n", b"hanging\n"]
        hanging.send_signal(signal.SIGKILL)
        with worker_process(db.dsn):
            await until(lambda: all_done(db))
    assert await rows(db) == [("Succeeded", 2, None)]


@pytest.mark.spec("JOB-22", "JOB-24", "JOB-21")
async def test_a_process_that_slept_past_its_lease_finds_it_lost_and_goes_on(db: Database) -> None:
    """Stopped in the middle of a job and woken when another has done it: it writes nothing, and works at the next."""
    create_run_table(db.dsn)
    await put(db, "job")
    with worker_process(db.dsn, "hang") as sleeper:
        assert sleeper.stdout is not None
        assert [sleeper.stdout.readline(), sleeper.stdout.readline()] == [b"ready\n", b"hanging\n"]
        sleeper.send_signal(signal.SIGSTOP)
        with worker_process(db.dsn):
            await until(lambda: all_done(db))
        done = await rows(db, "SELECT * FROM jobs")
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.stdout.readline() == b"cancelled\n"
        await put(db, "next", account="other")
        assert sleeper.stdout.readline() == b"hanging\n"
        assert await rows(db, "SELECT * FROM jobs WHERE idempotency_key = 'job'") == done
    assert await rows(db, "SELECT state, attempt_count FROM jobs WHERE idempotency_key = 'job'") == [("Succeeded", 2)]


@pytest.mark.spec("JOB-28")
async def test_a_stopped_process_gives_its_attempt_back(db: Database) -> None:
    """SIGTERM in the middle of the work: waiting again, available at once, no attempt spent; three times over."""
    create_run_table(db.dsn)
    await put(db, "job")
    for _ in range(3):
        with worker_process(db.dsn, "hang") as hanging:
            assert hanging.stdout is not None
            assert [hanging.stdout.readline(), hanging.stdout.readline()] == [b"ready\n", b"hanging\n"]
            hanging.send_signal(signal.SIGTERM)
            assert hanging.wait(20) == 0
        available = "SELECT state, attempt_count, available_at <= clock_timestamp(), lease_owner FROM jobs"
        assert await rows(db, available) == [("Pending", 0, True, None)]


@pytest.mark.spec("JOB-25", "JOB-B2")
async def test_a_job_that_kills_every_process_is_given_up(db: Database) -> None:
    """After as many attempts as any job gets, the next claim dead-letters it instead of handing it out."""
    create_run_table(db.dsn)
    await put(db, "poison")
    for _ in range(QUICK.max_attempts):
        with worker_process(db.dsn, "die") as dying:
            assert dying.wait(30) == -signal.SIGKILL
        await execute(db, "UPDATE jobs SET lease_expires_at = now()")  # time passes
    with worker_process(db.dsn, "die"):
        await until(lambda: all_done(db))
    assert await rows(db) == [("DeadLettered", QUICK.max_attempts, "AttemptsExhaustedByCrash")]
    assert await rows(db, "SELECT count(*) FROM job_runs") == [(QUICK.max_attempts,)]


async def all_done(db: Database) -> bool:
    """Whether nothing waits or runs."""
    return await rows(db, "SELECT count(*) FROM jobs WHERE state IN ('Pending', 'Claimed')") == [(0,)]


async def ran(db: Database, count: int) -> bool:
    """Whether that many runs have begun."""
    return bool((await rows(db, "SELECT count(*) FROM job_runs"))[0][0] >= count)
