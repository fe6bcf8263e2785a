"""The work that the product does as jobs, through the same calls as its commands."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.jobs import rows, until
from support.mail import conversation
from support.store import inbox, store

from mailkeep import background as module
from mailkeep.background import Background
from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.errors import JobQueueFull
from mailkeep.imap import PauseReason
from mailkeep.jobs import RederiveStoredMail, VerifyMailbox, Worker
from mailkeep.mailbox import AccountId, rederivation_runs
from mailkeep.mailbox import rederive as rederiving
from mailkeep.sync.pauses import write_pause

pytestmark = pytest.mark.anyio
ANN = {"account_id": "ann", "display_name": "Ann", "kind": "local"}
WORK = {
    "account_id": "work",
    "display_name": "Work",
    "host": "imap.example.com",
    "port": 993,
    "user_name": "w",
    "secrets": {"password": "env:X"},
}


def background(db: Database, tmp_path: Path, **jobs: object) -> Background:
    """The product's background work around one local account."""
    settings = Settings.model_validate({"mail_synchronization": {"accounts": [ANN]}, "jobs": jobs})
    return Background(db, lambda: settings, tmp_path, lambda: datetime.now(UTC))


async def work(db: Database, product: Background) -> None:
    """Work until nothing waits or runs."""
    worker = Worker(db, product.settings.jobs, product.handlers())
    task = asyncio.create_task(worker.run())

    async def done() -> bool:
        return await rows(db, "SELECT count(*) FROM jobs WHERE state IN ('Pending', 'Claimed')") == [(0,)]

    await until(done)
    worker.stop()
    await task


@pytest.mark.spec("JOB-12", "JOB-B13", "JOB-1")
async def test_rederiving_runs_as_a_chain_of_segments_with_keys_of_their_own(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each segment ends at its time budget and enqueues the next; the walk reads every message once."""
    monkeypatch.setattr(module, "BUDGET_SHARE", 0.0)
    monkeypatch.setattr(rederiving, "BATCH_EMAILS", 2)
    monkeypatch.setattr(rederiving, "BATCHES_PER_PASS", 1)
    await store(db, await inbox(db), *conversation(6))
    product = background(db, tmp_path)
    await product.ask(RederiveStoredMail("ann"))
    await work(db, product)
    (run,) = await rederivation_runs(db, AccountId("ann"))
    assert run.ended_at is not None
    assert run.rederived == 6
    keys = [row[0] for row in await rows(db, "SELECT idempotency_key FROM jobs ORDER BY id")]
    assert keys[1:] == [f"ann/*/{run.run_id}#{number}" for number in range(1, len(keys))]
    assert len(keys) >= 4
    assert await rows(db, "SELECT DISTINCT state FROM jobs") == [("Succeeded",)]
    assert (await rows(db, "SELECT progress_done, result_counts FROM jobs ORDER BY id DESC LIMIT 1")) == [
        (6, {"rederived": 6, "unreadable": 0, "missing_content": 0})
    ]
    # A segment that is run again finds its walk over and asks for nothing.
    count = len(keys)
    async with db.connection() as connection:
        await connection.execute("UPDATE jobs SET state = 'Pending' WHERE idempotency_key = %s", (keys[1],))
    await work(db, product)
    assert await rows(db, "SELECT count(*) FROM jobs") == [(count,)]


@pytest.mark.spec("JOB-29", "JOB-33")
async def test_verifying_an_account_that_has_no_server_stops_for_good(db: Database, tmp_path: Path) -> None:
    """A refusal is permanent and names its code."""
    product = background(db, tmp_path)
    await product.ask(VerifyMailbox("ann"))
    await work(db, product)
    assert await rows(db) == [("DeadLettered", 1, "ConfigurationRefused 12001")]


@pytest.mark.spec("JOB-B11", "JOB-29")
async def test_a_server_that_asked_for_patience_gets_it_from_jobs_as_well(db: Database, tmp_path: Path) -> None:
    """The job comes back when the pause is over, not by its own backoff."""
    now = datetime.now(UTC)
    write_pause(tmp_path, "work", (PauseReason.QUOTA_EXHAUSTED, now + timedelta(hours=2)), now=now)
    settings = Settings.model_validate({"mail_synchronization": {"accounts": [WORK]}})
    product = Background(db, lambda: settings, tmp_path, lambda: datetime.now(UTC))
    await product.ask(VerifyMailbox("work"))
    worker = Worker(db, settings.jobs, product.handlers())
    task = asyncio.create_task(worker.run())

    put_off = "SELECT count(*) FROM jobs WHERE state = 'Pending' AND attempt_count = 1"
    await until(lambda: equals(db, put_off, [(1,)]))
    worker.stop()
    await task
    waits = "SELECT last_failure_reason, available_at - now() > interval '110 minutes' FROM jobs"
    assert await rows(db, waits) == [("AskedToComeBack 22001", True)]


@pytest.mark.spec("JOB-29", "JOB-30")
async def test_a_process_that_lacks_the_account_leaves_the_job_to_others(db: Database, tmp_path: Path) -> None:
    """It is put off and not given up: another process may have the settings that this one lacks."""
    product = background(db, tmp_path)
    await product.ask(VerifyMailbox("elsewhere"))
    worker = Worker(db, product.settings.jobs, product.handlers())
    task = asyncio.create_task(worker.run())
    put_off = "SELECT count(*) FROM jobs WHERE state = 'Pending' AND attempt_count = 1"
    await until(lambda: equals(db, put_off, [(1,)]))
    worker.stop()
    await task
    assert await rows(db) == [("Pending", 1, "AccountNotAccessible 53001")]


async def equals(db: Database, sql: str, expected: list[object]) -> bool:
    """Whether a query answers that."""
    return await rows(db, sql) == expected


@pytest.mark.spec("JOB-19")
async def test_a_person_who_asks_of_a_full_queue_is_told(db: Database, tmp_path: Path) -> None:
    """A coded error, and nothing is written."""
    product = background(db, tmp_path, max_queue_depth_per_type=1)
    await product.ask(RederiveStoredMail("ann"))
    with pytest.raises(JobQueueFull):
        await product.ask(RederiveStoredMail("ann"))
    assert len(await rows(db)) == 1


@pytest.mark.spec("JOB-51")
def test_a_declaration_without_an_account_is_one_schedule_for_each_it_makes_sense_for(tmp_path: Path) -> None:
    """An account that imports fill has nothing to verify."""
    declared = [
        {"name": "nightly", "recurrence": "Daily at 03:00", "job": "verify-mailbox", "jitter": "1h"},
        {"name": "monthly", "recurrence": "Monthly on 1 at 04:00", "job": "rederive-stored-mail", "folder": "inbox"},
    ]
    settings = Settings.model_validate(
        {"mail_synchronization": {"accounts": [ANN, WORK]}, "jobs": {"schedules": declared}}
    )
    product = Background(None, lambda: settings, tmp_path, lambda: datetime.now(UTC))  # type: ignore[arg-type]
    schedules = {schedule.schedule_id: schedule for schedule in product.schedules()}
    assert sorted(schedules) == ["ann/monthly", "work/monthly", "work/nightly"]
    assert schedules["work/nightly"].jitter == timedelta(hours=1)
    assert schedules["ann/monthly"].payload == RederiveStoredMail("ann", "INBOX")
