"""The worker loop in this process: endings of attempts, leases, capacity, announcements."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from support.jobs import QUICK, Run, execute, handlers, nothing, put, rows, run_until_idle, until

from mailkeep.config import JobsSettings, JobType
from mailkeep.db import Database
from mailkeep.errors import CommandRefused, DatabaseUnavailable, MailServerUnavailable, MigrationMissing
from mailkeep.jobs import (
    RederiveStoredMail,
    RetryAfter,
    RunningJob,
    Stopped,
    Worker,
    attempt,
    enqueue_now,
    pause_type,
    queries,
    resume_type,
    retry_stopped,
    telemetry,
)
from mailkeep.jobs import worker as worker_module
from mailkeep.jobs.model import AttemptOutcome, ClaimedJob, FailureClassification, JobRequest
from mailkeep.jobs.policy import policy_of
from mailkeep.jobs.schedules import Dispatch

pytestmark = pytest.mark.anyio
SECRET = "ann@example.com"


class Working:
    """A worker beside the test: `async with Working(db, run) as worker`."""

    def __init__(self, db: Database, run: Run, settings: JobsSettings = QUICK) -> None:
        self.worker = Worker(db, settings, handlers(run))

    async def __aenter__(self) -> Worker:
        self.task = asyncio.create_task(self.worker.run())
        return self.worker

    async def __aexit__(self, *_: object) -> None:
        self.worker.stop()
        await self.task


def in_state(db: Database, state: str) -> Any:
    """A condition: all jobs are in that state."""

    async def reached() -> bool:
        return {row[0] for row in await rows(db)} == {state}

    return reached


@pytest.mark.spec("JOB-30", "JOB-32", "JOB-33")
async def test_a_permanent_failure_stops_a_job_at_once_and_only_that_job(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Type and code are kept, never the text; the next job runs."""
    caplog.set_level(logging.DEBUG)

    async def fail(job: RunningJob) -> None:
        if job.payload.account_id == "bad":
            raise ValueError(SECRET) from CommandRefused(SECRET)

    await put(db, "bad", account="bad")
    await put(db, "good", account="good")
    await run_until_idle(db, QUICK, fail)
    found = await rows(
        db, "SELECT state, attempt_count, last_failure_classification, last_failure_reason FROM jobs ORDER BY id"
    )
    assert found == [("DeadLettered", 1, "Permanent", "CommandRefused 24002"), ("Succeeded", 1, None, None)]
    assert SECRET not in caplog.text
    assert SECRET not in str(await rows(db, "SELECT * FROM jobs"))


@pytest.mark.spec("JOB-30", "JOB-31")
async def test_a_transient_failure_waits_and_is_given_up_when_its_attempts_are_spent(db: Database) -> None:
    """Only `available_at` moves; at the bound it is dead-lettered as transient."""
    settings = QUICK.model_copy(update={"max_attempts": 2})

    async def fail(job: RunningJob) -> None:
        raise MailServerUnavailable("away")

    await put(db, "job")
    await run_until_idle(db, settings, fail)
    waiting = "SELECT state, attempt_count, available_at > state_changed_at FROM jobs"
    assert await rows(db, waiting) == [("Pending", 1, True)]
    await execute(db, "UPDATE jobs SET available_at = now()")
    await run_until_idle(db, settings, fail)
    assert await rows(db) == [("DeadLettered", 2, "MailServerUnavailable 22001")]


@pytest.mark.spec("JOB-B11")
async def test_a_handler_may_say_when_to_come_back(db: Database) -> None:
    """The wait it asks for is the wait it gets."""

    async def patient(job: RunningJob) -> None:
        raise RetryAfter(timedelta(hours=3))

    await put(db, "job")
    await run_until_idle(db, QUICK, patient)
    waiting = "SELECT state, available_at - state_changed_at = interval '3 hours' FROM jobs"
    assert await rows(db, waiting) == [("Pending", True)]


@pytest.mark.spec("JOB-26", "JOB-B3")
async def test_an_unreadable_payload_concerns_its_own_job_alone(db: Database) -> None:
    """One dead letter, four successes."""
    for number in range(5):
        await put(db, f"k{number}")
    await execute(db, """UPDATE jobs SET payload = '{"who": 1}' WHERE idempotency_key = 'k2'""")
    await run_until_idle(db, QUICK, nothing)
    assert [row[0] for row in await rows(db)].count("Succeeded") == 4
    assert ("DeadLettered", 1, "PayloadUnreadable") in await rows(db)


UNHURRIED = QUICK.model_copy(update={"execution_timeout": timedelta(hours=1)})
"""Leases of two seconds and attempts of any length, so that nothing but the lease can end one."""


@pytest.mark.spec("JOB-23", "JOB-24")
async def test_a_job_longer_than_its_lease_is_renewed(db: Database) -> None:
    """At half its duration, while the handler runs: nobody else may take the job meanwhile."""

    async def long(job: RunningJob) -> None:
        before = await rows(db, "SELECT lease_expires_at FROM jobs")

        async def renewed_twice() -> bool:
            later = await rows(db, "SELECT lease_expires_at FROM jobs")
            return bool(later[0][0] - before[0][0] > UNHURRIED.lease_duration * 0.75)

        await until(renewed_twice)

    await put(db, "job")
    await run_until_idle(db, UNHURRIED, long)
    assert await rows(db) == [("Succeeded", 1, None)]


@pytest.mark.spec("JOB-23")
async def test_a_job_longer_than_its_time_is_cut(db: Database) -> None:
    """It is cancelled, counts as failed for a reason that may pass, and waits for another attempt."""

    async def endless(job: RunningJob) -> None:
        await asyncio.Event().wait()

    await put(db, "job")
    await run_until_idle(db, QUICK, endless)
    found = await rows(db, "SELECT state, attempt_count, last_failure_reason, last_failure_classification FROM jobs")
    assert found == [("Pending", 1, "ExecutionTimeout", "Transient")]


@pytest.mark.spec("JOB-23", "JOB-22")
async def test_a_refused_renewal_cancels_the_handler_and_writes_nothing(db: Database) -> None:
    """The row belongs to whoever took it."""
    cancelled, started = asyncio.Event(), asyncio.Event()

    async def wait(job: RunningJob) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await put(db, "job")
    async with Working(db, wait, UNHURRIED):
        await started.wait()
        await execute(db, "UPDATE jobs SET lease_owner = 'other', lease_expires_at = now() + interval '1 hour'")
        async with asyncio.timeout(10):
            await cancelled.wait()
    assert await rows(db, "SELECT state, lease_owner, attempt_count FROM jobs") == [("Claimed", "other", 1)]


@pytest.mark.spec("JOB-28")
@pytest.mark.parametrize("ending", ["cancelled", "own error", "finished"])
async def test_a_stopping_process_releases_what_runs_and_completes_what_finished(db: Database, ending: str) -> None:
    """Shutdown is asked for before the failure; the attempt is given back."""
    started = asyncio.Event()

    async def work(job: RunningJob) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ending == "finished":
                return
            if ending == "own error":
                raise ValueError from None
            raise

    await put(db, "job")
    async with Working(db, work):
        await started.wait()
    assert await rows(db) == [("Succeeded", 1, None) if ending == "finished" else ("Pending", 0, None)]


@pytest.mark.spec("JOB-35", "JOB-27", "JOB-36", "JOB-B4")
async def test_a_saturated_type_holds_no_shared_room_and_nothing_is_claimed_ahead(db: Database) -> None:
    """A hundred jobs of one type hang; one of another type runs all the same, and no job is held without a slot."""
    hang, ran = asyncio.Event(), asyncio.Event()

    async def work(job: RunningJob) -> None:
        if isinstance(job.payload, RederiveStoredMail):
            ran.set()
        else:
            await hang.wait()

    settings = JobsSettings.model_validate({"batch_size": 100, "poll_interval": "1s"})
    for number in range(100):
        await put(db, f"k{number}", settings=settings)
    async with Working(db, work, settings):
        claimed = "SELECT count(*) FROM jobs WHERE state = 'Claimed'"
        await until(lambda: equals(db, claimed, [(2,)]))
        await enqueue_now(db, JobRequest("other", RederiveStoredMail("work")), settings=settings)
        async with asyncio.timeout(5):
            await ran.wait()
        assert await rows(db, claimed + " AND job_type = 'verify-mailbox'") == [(2,)]
        hang.set()


@pytest.mark.spec("JOB-27", "JOB-35")
async def test_a_process_holds_no_more_jobs_than_it_has_room_for(db: Database) -> None:
    """Two types that would each take two share the three places of the process."""
    hang = asyncio.Event()

    async def work(job: RunningJob) -> None:
        await hang.wait()

    settings = JobsSettings.model_validate({"batch_size": 100, "max_concurrent_jobs": 3, "poll_interval": "1s"})
    for number in range(5):
        await put(db, f"k{number}", settings=settings)
        await enqueue_now(db, JobRequest(f"r{number}", RederiveStoredMail("work")), settings=settings)
    claimed = "SELECT count(*) FROM jobs WHERE state = 'Claimed'"
    async with Working(db, work, settings) as worker:
        await until(lambda: equals(db, claimed, [(3,)]))
        for _ in range(2):  # once more with every place taken; the second pass begins when the first is over
            worker._woken.set()
            await until(lambda: idle(worker))
        assert await rows(db, claimed) == [(3,)]
        hang.set()


async def idle(worker: Worker) -> bool:
    """Whether a pass has taken up what it was woken for."""
    return not worker._woken.is_set()


@pytest.mark.spec("JOB-34", "JOB-33")
async def test_schedules_are_looked_at_once_a_poll_and_a_failing_part_stops_no_other(
    db: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever fails in a pass is named by its type; jobs go on, and announcements make no extra look."""
    looks = 0

    async def broken(*_: Any, **__: Any) -> None:
        nonlocal looks
        looks += 1
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(worker_module, "dispatch", broken)
    async with Working(db, nothing, JobsSettings.model_validate({"poll_interval": "10m"})):
        await until(lambda: listening(db))
        for key in ("a", "b", "c"):
            await put(db, key)
            await until(in_state(db, "Succeeded"), seconds=10)
    assert looks == 1
    assert "schedules are not dispatched" in caplog.messages
    assert SECRET not in caplog.text


async def equals(db: Database, sql: str, expected: list[Any]) -> bool:
    """Whether a query answers that."""
    return await rows(db, sql) == expected


LISTENERS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'mailkeep listener' AND query LIKE 'LISTEN%'"


async def listening(db: Database) -> bool:
    """Whether a worker hears announcements."""
    return bool(await rows(db, LISTENERS))


@pytest.mark.spec("JOB-B7")
async def test_an_announcement_starts_work_long_before_the_next_poll(db: Database) -> None:
    """With ten minutes between polls a job runs at once, also after the announcements' connection was cut."""
    settings = JobsSettings.model_validate({"poll_interval": "10m"})
    async with Working(db, nothing, settings):
        await until(lambda: listening(db))
        await put(db, "a")
        await until(in_state(db, "Succeeded"), seconds=10)
        await rows(db, f"SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) AS found")
        await until(lambda: listening(db))
        await put(db, "b")
        await until(in_state(db, "Succeeded"), seconds=20)


@pytest.mark.spec("JOB-34")
async def test_a_lost_announcement_costs_one_poll_at_most(db: Database) -> None:
    """Polling is the floor: a row that nobody announced runs all the same."""
    async with Working(db, nothing):
        await put(db, "a")
        await until(in_state(db, "Succeeded"))
        await execute(db, "UPDATE jobs SET state = 'Pending', attempt_count = 0")
        await until(in_state(db, "Succeeded"), seconds=5)


@pytest.mark.spec("JOB-33")
async def test_a_cut_of_every_connection_costs_no_job(db: Database) -> None:
    """The endings are written when the database is there again, or the lease lapses and the job runs once more."""
    cut = asyncio.Event()

    async def work(job: RunningJob) -> None:
        if not cut.is_set():
            cut.set()
            with psycopg.connect(db.dsn, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    for number in range(10):
        await put(db, f"k{number}")
    async with Working(db, work):

        async def done() -> bool:
            with psycopg.connect(db.dsn) as connection:
                states = connection.execute("SELECT DISTINCT state FROM jobs").fetchall()
            return states == [("Succeeded",)]

        await until(done)
    assert cut.is_set()


@pytest.mark.spec("JOB-37")
async def test_a_process_with_jobs_disabled_claims_nothing_and_says_so_once(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows wait for another process."""
    caplog.set_level(logging.INFO, logger="mailkeep.jobs")
    await put(db, "job")
    disabled = Worker(db, QUICK.model_copy(update={"enabled": False}), handlers(nothing))
    idle = asyncio.create_task(disabled.run())
    async with Working(db, nothing):
        await until(in_state(db, "Succeeded"))
    assert [record.message for record in caplog.records].count("no jobs are worked at in this process") == 1
    disabled.stop()
    await idle


@pytest.mark.spec("JOB-B8")
async def test_a_paused_type_starts_nothing_until_it_is_resumed(db: Database) -> None:
    """Other types go on; resuming announces what waits."""
    await pause_type(db, JobType.VERIFY_MAILBOX)
    await put(db, "paused")
    await enqueue_now(db, JobRequest("other", RederiveStoredMail("work")), settings=QUICK)
    async with Working(db, nothing, JobsSettings.model_validate({"poll_interval": "10m"})):
        await until(lambda: equals(db, "SELECT state FROM jobs WHERE idempotency_key = 'other'", [("Succeeded",)]))
        assert await rows(db, "SELECT state FROM jobs WHERE idempotency_key = 'paused'") == [("Pending",)]
        assert await resume_type(db, JobType.VERIFY_MAILBOX)
        await until(in_state(db, "Succeeded"))


@pytest.mark.spec("JOB-23", "JOB-24")
async def test_a_job_that_will_not_end_fails_by_its_time_and_waits_as_long_as_its_lease(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still be at it; its room is free for others, and the next attempt begins no sooner than without a word."""
    monkeypatch.setattr(attempt, "STOP_PATIENCE", timedelta(milliseconds=50))
    end = asyncio.Event()

    async def stubborn(job: RunningJob) -> None:
        while job.payload.account_id == "stubborn" and not end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await end.wait()

    settings = JobsSettings.model_validate(
        {"lease_duration": "1h", "execution_timeout": "1s", "max_concurrent_jobs": 1, "max_concurrent_jobs_per_type": 1}
    )
    await put(db, "a", account="stubborn")
    await put(db, "b")
    async with Working(db, stubborn, settings):
        try:
            await until(lambda: equals(db, "SELECT state FROM jobs WHERE idempotency_key = 'b'", [("Succeeded",)]))
            waits = "SELECT state, last_failure_reason, available_at - state_changed_at >= interval '1 hour' FROM jobs"
            assert await rows(db, waits + " WHERE idempotency_key = 'a'") == [("Pending", "ExecutionTimeout", True)]
        finally:
            end.set()


@pytest.mark.spec("JOB-27", "JOB-B4")
async def test_a_job_whose_lease_lapsed_before_it_began_is_not_started(db: Database) -> None:
    """A process that slept between claim and start leaves the job to whoever takes it."""
    await put(db, "job")
    settings, started = QUICK, asyncio.Event()
    policy = policy_of(settings, JobType.VERIFY_MAILBOX)
    taken = await queries.claim(
        db,
        {JobType.VERIFY_MAILBOX: 1},
        policies={JobType.VERIFY_MAILBOX: policy},
        limit=1,
        lease=settings.lease_duration,
    )

    async def run(job: RunningJob) -> None:
        started.set()

    before = await rows(db, "SELECT * FROM jobs")
    late = attempt.Attempt(
        db=db,
        job=taken.jobs[0],
        handler=handlers(run)[0],
        policy=policy,
        lease=settings.lease_duration,
        stopping=asyncio.Event(),
        draw=random.Random(),
        held_until=time.monotonic(),
    )
    assert (await late.run()).outcome is AttemptOutcome.LEASE_LOST
    assert not started.is_set()
    assert await rows(db, "SELECT * FROM jobs") == before


@pytest.mark.spec("JOB-33", "JOB-28")
async def test_an_ending_is_written_when_the_database_is_back(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of the server is longer than a moment: work that is done is not done again for it."""
    monkeypatch.setattr(attempt, "RECORD_PAUSE", timedelta(milliseconds=1))
    failures, complete = iter(range(8)), queries.complete

    async def away(*values: Any, **more: Any) -> bool:
        if next(failures, None) is not None:
            raise DatabaseUnavailable("restarting")
        return await complete(*values, **more)

    monkeypatch.setattr(queries, "complete", away)
    await put(db, "job")
    await run_until_idle(db, QUICK, nothing)
    assert await rows(db) == [("Succeeded", 1, None)]


@pytest.mark.spec("JOB-B8", "JOB-B7")
async def test_a_bulk_retry_wakes_the_workers(db: Database) -> None:
    """With ten minutes between polls the jobs run at once."""
    await put(db, "job")
    await execute(db, "UPDATE jobs SET state = 'DeadLettered'")
    async with Working(db, nothing, JobsSettings.model_validate({"poll_interval": "10m"})):
        await until(lambda: listening(db))
        await put(db, "beacon", account="other")
        await until(lambda: equals(db, "SELECT count(*) FROM jobs WHERE state = 'Succeeded'", [(1,)]))
        assert await retry_stopped(db, Stopped(JobType.VERIFY_MAILBOX), expected=1) == 1
        await until(in_state(db, "Succeeded"), seconds=10)


@pytest.mark.spec("JOB-B13")
async def test_progress_and_result_are_kept_as_counts(db: Database) -> None:
    """Whoever enqueued reads them from the row."""

    async def work(job: RunningJob) -> dict[str, int]:
        await job.report(3, 10)
        return {"holes": 2}

    await put(db, "job")
    await run_until_idle(db, QUICK, work)
    assert await rows(db, "SELECT progress_done, progress_total, result_counts FROM jobs") == [(3, 10, {"holes": 2})]


@pytest.mark.spec("JOB-42", "JOB-43")
async def test_the_attempts_span_links_to_the_enqueuer_and_names_nothing_private(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link and not a parent; garbage is treated as absent; failures are errors, releases are not."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    with provider.get_tracer("test").start_as_current_span("cause") as cause:
        await put(db, "private-key", account="private-account")
    await put(db, "other", account="other")
    await execute(db, "UPDATE jobs SET enqueued_trace_parent = 'garbage' WHERE idempotency_key = 'other'")

    async def fail(job: RunningJob) -> None:
        raise ValueError(SECRET)

    await run_until_idle(db, QUICK, fail)
    found = [span for span in spans.get_finished_spans() if span.name == "run_job"]
    assert sorted(len(span.links) for span in found) == [0, 1]
    (linked,) = [span for span in found if span.links]
    assert linked.links[0].context.trace_id == cause.get_span_context().trace_id
    assert linked.parent is None
    assert linked.attributes is not None
    assert dict(linked.attributes) == {
        "job.type": "verify-mailbox",
        "job.attempt": 1,
        "job.outcome": "handler_failed",
        "job.failure.classification": "Permanent",
    }
    assert not linked.status.is_ok
    text = "".join(span.to_json() for span in found)
    assert not any(word in text for word in ("private", SECRET))


@pytest.mark.spec("JOB-43", "JOB-34")
async def test_what_prometheus_reads_counts_by_closed_words(db: Database) -> None:
    """Attempts, dead letters and the depth of the queue; no key, account, id or reason is a label."""

    def read() -> dict[tuple[str, frozenset[str]], float]:
        families = text_string_to_metric_families(telemetry.render_metrics().decode())
        return {(one.name, frozenset(one.labels.values())): one.value for family in families for one in family.samples}

    async def fail(job: RunningJob) -> None:
        if job.payload.account_id == "private":
            raise ValueError(SECRET)

    before = read()
    await put(db, "private-key", account="private")
    await put(db, "good")
    await run_until_idle(db, QUICK, fail)
    of_kind = frozenset({JobType.VERIFY_MAILBOX.value})

    async def measured() -> bool:
        found = read()
        return (found["mailkeep_jobs_queue_depth", of_kind], found["mailkeep_jobs_stopped", of_kind]) == (0, 1)

    async with Working(db, nothing):
        await until(measured)
    after = read()
    kind = JobType.VERIFY_MAILBOX.value
    for name, labels in (
        ("mailkeep_jobs_attempts_total", {kind, "succeeded"}),
        ("mailkeep_jobs_attempts_total", {kind, "handler_failed"}),
        ("mailkeep_jobs_dead_letters_total", {kind, "Permanent"}),
    ):
        assert after[name, frozenset(labels)] - before.get((name, frozenset(labels)), 0) == 1
    words = {
        label for _, labels in after for label in labels if not label.replace(".", "").isdigit() and label != "+Inf"
    }
    assert words <= {*JobType, *AttemptOutcome, *FailureClassification, *Dispatch}


@pytest.mark.spec("JOB-43")
@pytest.mark.parametrize("outcome", AttemptOutcome)
def test_only_failures_are_errors_of_a_span(outcome: AttemptOutcome, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart does not look like breakage; a classification is there when the job was given up and only then."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    job = ClaimedJob(uuid4(), JobType.VERIFY_MAILBOX, "work", {}, 1, "owner", None, None)
    with telemetry.attempt_span(job) as span:
        span.end(outcome, seconds=1.0)
    (found,) = spans.get_finished_spans()
    is_failure = outcome in (AttemptOutcome.HANDLER_FAILED, AttemptOutcome.TIMED_OUT)
    assert (found.status.status_code is trace.StatusCode.ERROR) == is_failure
    assert set(found.attributes or {}) == {"job.type", "job.attempt", "job.outcome"}


@pytest.mark.spec("JOB-4")
async def test_a_worker_installs_no_schema_and_none_starts_without_the_queues_migration(db: Database) -> None:
    """The tables come with the product's migrations: a database that lacks them is refused, not mended."""
    catalogue = "SELECT oid, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    before = await rows(db, catalogue)
    await put(db, "job")
    await run_until_idle(db, QUICK, nothing)
    assert await rows(db, catalogue) == before
    await execute(db, "DROP TABLE jobs, job_schedules, job_type_pauses")
    await execute(db, "DELETE FROM schema_migrations WHERE id = '0008_jobs'")
    with pytest.raises(MigrationMissing):
        await Database(db.dsn).__aenter__()
    assert await rows(db, "SELECT to_regclass('jobs')") == [(None,)]
