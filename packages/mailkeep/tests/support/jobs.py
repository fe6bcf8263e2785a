"""Jobs in tests: requests to enqueue, handlers that count, rows as they are, and worker processes that may be killed.

Run as a process, `python -m support.jobs DSN MODE`, it works at jobs until SIGTERM. Every handler writes the run into the
table `job_runs` that `create_run_table` makes; MODE says what it does then: `count` nothing, `hang` waits for ever after
saying `hanging` and says `cancelled` when that ends, `die` kills its own process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from mailkeep.config import JobsSettings, JobType
from mailkeep.db import Database
from mailkeep.jobs import Enqueued, Handler, JobRequest, RunningJob, VerifyMailbox, Worker, enqueue_now

TESTS = Path(__file__).parents[1]
VERIFY = JobType.VERIFY_MAILBOX
QUICK = JobsSettings.model_validate(
    {"lease_duration": "2s", "execution_timeout": "1s", "poll_interval": "1s", "retry_base_delay": "1s"}
)
Run = Callable[[RunningJob], Awaitable[Mapping[str, int] | None]]


def request(key: str, *, account: str | None = "work", **more: Any) -> JobRequest:
    """Work of the verifying type under a key."""
    return JobRequest(key, VerifyMailbox(account or "none"), account_id=account, **more)


async def put(
    db: Database, key: str, *, settings: JobsSettings = QUICK, account: str | None = "work", **more: Any
) -> Enqueued:
    """Enqueue it."""
    now = more.pop("now", None)
    return await enqueue_now(db, request(key, account=account, **more), settings=settings, now=now)


def handlers(run: Run) -> tuple[Handler, ...]:
    """The same work for every type of this build."""
    return tuple(Handler(job_type, run, "it only counts") for job_type in JobType)


async def nothing(job: RunningJob) -> None:
    """A handler without any work."""


async def rows(
    db: Database, sql: str = "SELECT state, attempt_count, last_failure_reason FROM jobs ORDER BY id"
) -> list[Any]:
    """What a query answers."""
    async with db.connection() as connection:
        return await (await connection.execute(sql)).fetchall()


async def execute(db: Database, sql: str, *values: Any) -> None:
    """Change the database behind the queue's back."""
    async with db.connection() as connection:
        await connection.execute(sql, values)


async def until(condition: Callable[[], Awaitable[bool]], *, seconds: float = 30) -> None:
    """Wait for something that another task or process brings about."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 -- another process brings it about
            await asyncio.sleep(0.02)


async def run_until_idle(db: Database, settings: JobsSettings, run: Run, **more: Any) -> None:
    """Work in this process until nothing waits or runs that is due."""
    worker = Worker(db, settings, handlers(run), **more)
    task = asyncio.create_task(worker.run())

    async def idle() -> bool:
        found = await rows(
            db,
            "SELECT count(*) FROM jobs WHERE state = 'Claimed' OR state = 'Pending' AND available_at <= clock_timestamp()",
        )
        return bool(found == [(0,)])

    try:
        await until(idle)
    finally:
        worker.stop()
        await task


async def many(db: Database, count: int, *, account: str = "work", prefix: str = "job") -> None:
    """Waiting jobs, put there in one statement."""
    await execute(db, "INSERT INTO mailbox_accounts VALUES (%s) ON CONFLICT DO NOTHING", account)
    await execute(
        db,
        """
        INSERT INTO jobs (id, job_type, idempotency_key, payload, mailbox_account_id, priority, state, available_at,
            enqueued_at, state_changed_at, attempt_count)
        SELECT gen_random_uuid(), %s, %s || n, jsonb_build_object('account_id', %s::text, 'folder_alias', null,
            'fill', false), %s, 10, 'Pending', now() - interval '1 hour', now(), now(), 0
        FROM generate_series(1, %s) AS n
        """,
        VERIFY.value,
        f"{account}{prefix}",
        account,
        account,
        count,
    )


def create_run_table(dsn: str) -> None:
    """Where worker processes write down what they ran."""
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE job_runs (account text, pid int)")


@contextmanager
def worker_process(dsn: str, mode: str = "count") -> Iterator[subprocess.Popen[bytes]]:
    """A worker process, killed with the block if it has not ended."""
    process = subprocess.Popen([sys.executable, "-m", "support.jobs", dsn, mode], stdout=subprocess.PIPE, cwd=TESTS)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def main(dsn: str, mode: str) -> None:
    async with Database(dsn) as db:

        async def run(job: RunningJob) -> None:
            await execute(
                db, "INSERT INTO job_runs (account, pid) VALUES (%s, %s)", job.payload.account_id, os.getpid()
            )
            if mode == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if mode == "hang":
                print("hanging", flush=True)
                try:
                    await asyncio.Event().wait()
                finally:
                    print("cancelled", flush=True)

        room = {"max_concurrent_jobs": 8, "max_concurrent_jobs_per_type": 8, "batch_size": 8}
        settings = QUICK.model_copy(update=room)
        if mode == "hang":
            # Renewed, so that only the end of the process ends its hold.
            settings = settings.model_copy(update={"execution_timeout": timedelta(hours=1)})
        worker = Worker(db, settings, handlers(run))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        print("ready", flush=True)
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
