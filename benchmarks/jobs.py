"""No-op jobs drained by eight processes, beside procrastinate in the same run; claims beside a million finished rows.

Both start with all jobs enqueued and both give each process as many slots. Counted from the moment when every process
is ready until the last job is recorded; processor seconds of the workers are what a busy machine does not distort.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from mailkeep.config import JobsSettings, JobType
from mailkeep.db import Database, embedded
from mailkeep.db.schema import migrate
from mailkeep.jobs import Handler, RunningJob, Worker, queries
from mailkeep.jobs.policy import policy_of

from .figure import Figure
from .process import processor_seconds

JOBS = int(os.environ.get("MAILKEEP_BENCH_JOBS", "20000"))
PROCESSES = 8
SLOTS = 4
FINISHED = int(os.environ.get("MAILKEEP_BENCH_FINISHED", "1000000"))
CLAIMS = 200
DRAIN_SECONDS = 900
SETTINGS = JobsSettings.model_validate(
    {
        "max_concurrent_jobs": SLOTS,
        "max_concurrent_jobs_per_type": SLOTS,
        "batch_size": SLOTS,
        "max_queue_depth_per_type": 1_000_000,
    }
)
VERIFY = JobType.VERIFY_MAILBOX
FILL = """
INSERT INTO jobs (id, job_type, idempotency_key, payload, mailbox_account_id, priority, state, available_at,
    enqueued_at, state_changed_at, attempt_count)
SELECT gen_random_uuid(), %(job_type)s, %(prefix)s || n,
    '{"account_id": "a", "folder_alias": null, "fill": false}', NULL, 10, %(state)s,
    now() - interval '1 hour', now(), now(), 0
FROM generate_series(1, %(count)s) AS n
"""
OURS_LEFT = "SELECT count(*) FROM jobs WHERE state IN ('Pending', 'Claimed')"
THEIRS_LEFT = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


def measure() -> Iterator[Figure]:
    """Yield the rate of draining, the processor time of the workers for it, and what finished rows cost a claim."""
    with tempfile.TemporaryDirectory() as home:
        server = embedded.start(Path(home))
        try:
            theirs = _drain(_their_database(server.dsn), "theirs", THEIRS_LEFT)
            ours = _drain(_our_database(server.dsn, "jobs_drain"), "ours", OURS_LEFT)
            yield Figure(f"jobs_drained_per_second_{JOBS}", JOBS / ours[0], "1/s", "procrastinate", JOBS / theirs[0])
            yield Figure(f"jobs_drain_worker_cpu_{JOBS}", ours[1], "s", "procrastinate", theirs[1])
            empty, full = asyncio.run(_claims(_our_database(server.dsn, "jobs_claim", jobs=0)))
            yield Figure(f"jobs_claim_beside_{FINISHED}_finished", full, "ms", "beside none", empty)
        finally:
            server.close()


def _our_database(server_dsn: str, name: str, *, jobs: int = JOBS) -> str:
    dsn = _created(server_dsn, name)
    asyncio.run(migrate(dsn))
    with psycopg.connect(dsn, autocommit=True) as connection:
        _fill(connection, "job", "Pending", jobs)
        connection.execute("VACUUM ANALYZE jobs")
    return dsn


def _their_database(server_dsn: str) -> str:
    dsn = _created(server_dsn, "jobs_rival")
    app = _rival(dsn)

    async def fill() -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            task = app.tasks["nothing"]
            for first in range(0, JOBS, 1000):
                await task.batch_defer_async(*({} for _ in range(min(1000, JOBS - first))))

    asyncio.run(fill())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE procrastinate_jobs")
    return dsn


def _created(server_dsn: str, name: str) -> str:
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return psycopg.conninfo.make_conninfo(server_dsn, dbname=name)


def _fill(connection: psycopg.Connection[Any], prefix: str, state: str, count: int) -> None:
    connection.execute(FILL, {"job_type": VERIFY.value, "prefix": prefix, "state": state, "count": count})


def _drain(dsn: str, whose: str, left: str) -> tuple[float, float]:
    """Seconds from the start signal until nothing is left, and the workers' processor seconds in that time."""
    command = [sys.executable, "-m", "benchmarks.jobs", whose, dsn]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
        before = sum(processor_seconds(worker.pid) for worker in workers)
        started = time.perf_counter()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(b"go\n")
            worker.stdin.flush()
        with psycopg.connect(dsn, autocommit=True) as connection:
            _wait(lambda: connection.execute(left).fetchone() == (0,))
        seconds = time.perf_counter() - started
        return seconds, sum(processor_seconds(worker.pid) for worker in workers) - before
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


def _wait(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + DRAIN_SECONDS
    while not condition():
        if time.monotonic() > ends:
            raise RuntimeError("the queue was not drained")
        time.sleep(0.05)


async def _claims(dsn: str) -> tuple[float, float]:
    """Milliseconds of a claim of one job from a short queue, beside no finished row and beside FINISHED of them."""
    async with Database(dsn) as db:
        empty = await _claim_time(db, dsn, "a")
        with psycopg.connect(dsn, autocommit=True) as connection:
            _fill(connection, "finished", "Succeeded", FINISHED)
            connection.execute("VACUUM ANALYZE jobs")
        return empty, await _claim_time(db, dsn, "b")


async def _claim_time(db: Database, dsn: str, prefix: str) -> float:
    """The median; each claimed job is completed outside the measured time."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        _fill(connection, prefix, "Pending", CLAIMS)
        connection.execute("VACUUM ANALYZE jobs")
    times = []
    for _ in range(CLAIMS):
        started = time.perf_counter()
        claim = await queries.claim(
            db, {VERIFY: 1}, policies={VERIFY: policy_of(SETTINGS, VERIFY)}, limit=1, lease=SETTINGS.lease_duration
        )
        times.append((time.perf_counter() - started) * 1000)
        (job,) = claim.jobs
        await queries.complete(db, job)
    return sorted(times)[CLAIMS // 2]


def _rival(dsn: str) -> Any:
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))

    @app.task(name="nothing")
    async def nothing() -> None:
        pass

    return app


async def _our_worker(dsn: str) -> None:
    async def nothing(job: RunningJob) -> None:
        del job

    handlers = [Handler(job_type, nothing, "it does nothing") for job_type in JobType]
    async with Database(dsn) as db:
        await _announced()
        await Worker(db, SETTINGS, handlers).run()


async def _their_worker(dsn: str) -> None:
    app = _rival(dsn)
    async with app.open_async():
        await _announced()
        with contextlib.suppress(asyncio.CancelledError):
            await app.run_worker_async(concurrency=SLOTS, install_signal_handlers=False)


async def _announced() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run({"ours": _our_worker, "theirs": _their_worker}[sys.argv[1]](sys.argv[2]))
