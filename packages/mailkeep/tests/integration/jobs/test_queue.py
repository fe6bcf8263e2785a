"""Enqueuing, claiming and the endings of attempts, against PostgreSQL."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.jobs import QUICK, VERIFY, execute, many, put, request, rows

from mailkeep.config import JobsSettings, JobType
from mailkeep.db import Database
from mailkeep.errors import JobKeyRefused, JobPayloadTooLarge
from mailkeep.jobs import (
    AlreadyEnqueued,
    Created,
    Priority,
    RederiveStoredMail,
    RefusedAtCapacity,
    VerifyMailbox,
    enqueue,
    enqueue_now,
    pause_type,
    queries,
    resume_type,
)
from mailkeep.jobs.model import FailureClassification, JobRequest
from mailkeep.jobs.policy import policy_of
from mailkeep.mailbox import AccountId, erase_account

pytestmark = pytest.mark.anyio
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=5)


async def claim(
    db: Database, *, limit: int = 10, room: int = 10, now: datetime | None = None, settings: JobsSettings = QUICK
) -> queries.Claim:
    """Claim jobs of all types as a worker does."""
    policies = {job_type: policy_of(settings, job_type) for job_type in JobType}
    return await queries.claim(db, dict.fromkeys(JobType, room), policies=policies, limit=limit, lease=LEASE, now=now)


@pytest.mark.spec("JOB-14", "JOB-1")
async def test_fifty_racing_enqueues_of_one_key_write_one_row(db: Database) -> None:
    """One answer says created, all others name the same job."""
    answers = await asyncio.gather(*(put(db, "one") for _ in range(50)))
    assert sum(isinstance(answer, Created) for answer in answers) == 1
    assert len({answer.id for answer in answers if not isinstance(answer, RefusedAtCapacity)}) == 1
    assert await rows(db, "SELECT count(*) FROM jobs") == [(1,)]


@pytest.mark.spec("JOB-10")
@pytest.mark.parametrize("key", ["", "  ", "a\nb", "x" * 257, "a\x7f", "a\x85b", "a\u2028b", "a\ud800"])
async def test_a_key_is_one_printable_line(db: Database, key: str) -> None:
    """Operators read keys, so a key that cannot be shown is refused and nothing is written."""
    with pytest.raises(JobKeyRefused):
        await put(db, key)
    assert await rows(db) == []
    await put(db, " trimmed ")
    assert await rows(db, "SELECT idempotency_key FROM jobs") == [("trimmed",)]


@pytest.mark.spec("JOB-11")
async def test_a_payload_larger_than_references_is_refused(db: Database) -> None:
    """Size is the alarm for content that is being copied in; nothing is written."""
    async with db.connection() as connection:
        with pytest.raises(JobPayloadTooLarge):
            await enqueue(connection, JobRequest("big", VerifyMailbox("ä" * 2048)), settings=QUICK)
    assert await rows(db) == []


@pytest.mark.spec("JOB-15")
@pytest.mark.parametrize("state", ["Succeeded", "DeadLettered", "Dropped"])
async def test_a_job_that_is_over_keeps_its_key(db: Database, state: str) -> None:
    """Repeating it answers with the old one."""
    first = await put(db, "once")
    await execute(db, "UPDATE jobs SET state = %s", state)
    again = await put(db, "once")
    assert isinstance(first, Created)
    assert again == AlreadyEnqueued(first.id)


@pytest.mark.spec("JOB-16", "JOB-51")
async def test_a_deferred_job_is_claimed_from_its_instant_on(db: Database) -> None:
    """There is no timer: the claim looks at the instant."""
    await put(db, "later", available_at=NOON + timedelta(minutes=1), now=NOON)
    assert (await claim(db, now=NOON + timedelta(seconds=59))).jobs == ()
    assert len((await claim(db, now=NOON + timedelta(minutes=1))).jobs) == 1


@pytest.mark.spec("JOB-17", "JOB-18")
async def test_a_full_queue_refuses_new_keys_and_answers_known_ones(db: Database) -> None:
    """The bound counts what waits, of the type alone, and holds where no worker is enabled."""
    small = JobsSettings.model_validate({"max_queue_depth_per_type": 2, "enabled": False})
    first = await put(db, "a", settings=small)
    await put(db, "b", settings=small)
    assert await put(db, "c", settings=small) == RefusedAtCapacity()
    assert isinstance(first, Created)
    assert await put(db, "a", settings=small) == AlreadyEnqueued(first.id)
    assert len((await claim(db, limit=1)).jobs) == 1
    assert isinstance(await put(db, "c", settings=small), Created)


@pytest.mark.spec("JOB-17")
async def test_measuring_the_depth_reads_no_further_than_the_bound(db: Database) -> None:
    """The cost does not grow with what waits."""
    await many(db, 3000)
    plan = await explain(db, "measure_depth", {"job_type": VERIFY.value, "bound": 50, "now": None})
    assert "Seq Scan" not in plan
    assert "rows=50.00" in plan or "rows=50 " in plan


@pytest.mark.spec("JOB-B6", "JOB-B5", "JOB-7")
async def test_a_job_commits_or_vanishes_with_its_callers_transaction(db: Database) -> None:
    """Also for an account that no run has met yet: its row is made in the same transaction."""
    async with db.connection() as connection:
        await enqueue(connection, request("lost", account="sends-only"), settings=QUICK)
        await connection.rollback()
    assert await rows(db, "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM mailbox_accounts)") == [(0, 0)]
    await put(db, "kept", account="sends-only")
    assert await rows(db, "SELECT mailbox_account_id FROM jobs") == [("sends-only",)]


@pytest.mark.spec("JOB-5")
async def test_erasing_an_account_erases_its_jobs_and_no_others(db: Database) -> None:
    """A job is personal data by its account and is reached by that column."""
    await put(db, "a", account="work")
    await put(db, "b", account="home")
    await erase_account(db, AccountId("work"))
    assert await rows(db, "SELECT idempotency_key FROM jobs") == [("b",)]


@pytest.mark.spec("JOB-20", "JOB-2", "JOB-3", "JOB-21", "JOB-25")
async def test_a_claim_stamps_the_oldest_and_is_committed(db: Database) -> None:
    """Owner, expiry and attempt are written with the selection, and no transaction stays open."""
    for second in range(3):
        await put(db, f"k{second}", now=NOON + timedelta(seconds=second))
    taken = await claim(db, limit=2, now=NOON + timedelta(minutes=1))
    assert [job.attempt for job in taken.jobs] == [1, 1]
    found = await rows(
        db, "SELECT idempotency_key, state, lease_owner, lease_expires_at, attempt_count FROM jobs ORDER BY id"
    )
    expires = NOON + timedelta(minutes=1) + LEASE
    owner = taken.jobs[0].owner
    assert found == [
        ("k0", "Claimed", owner, expires, 1),
        ("k1", "Claimed", owner, expires, 1),
        ("k2", "Pending", None, None, 0),
    ]
    (other,) = (await claim(db, now=NOON + timedelta(minutes=1))).jobs
    assert other.owner != owner
    assert await rows(
        db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    ) == [(0,)]


@pytest.mark.spec("JOB-20")
async def test_racing_claims_are_disjoint_and_miss_nothing(db: Database) -> None:
    """Eight claims at once take eight disjoint sets without waiting for one another."""
    await many(db, 64)
    taken = await asyncio.gather(*(claim(db, limit=8) for _ in range(8)))
    ids = [job.id for one in taken for job in one.jobs]
    assert len(ids) == len(set(ids)) == 64


@pytest.mark.spec("JOB-22", "JOB-24", "JOB-21")
@pytest.mark.parametrize("ending", ["renew", "complete", "retry", "dead_letter", "release", "progress"])
async def test_an_attempt_whose_lease_was_taken_over_writes_nothing(db: Database, ending: str) -> None:
    """The lease lapses, the next claim takes the row with one more attempt, and the late attempt changes nothing."""
    await put(db, "job", now=NOON)
    (late,) = (await claim(db, now=NOON)).jobs
    assert (await claim(db, now=NOON + LEASE - timedelta(seconds=1))).jobs == ()
    (current,) = (await claim(db, now=NOON + LEASE)).jobs
    assert (current.id, current.attempt) == (late.id, 2)
    before = await rows(db, "SELECT * FROM jobs")
    assert await write(db, ending, late) is False
    assert await rows(db, "SELECT * FROM jobs") == before
    assert await write(db, ending, current) is True


@pytest.mark.spec("JOB-28")
async def test_a_released_job_gets_its_attempt_back(db: Database) -> None:
    """Three rolling restarts spend no attempt."""
    await put(db, "job", now=NOON)
    for _ in range(3):
        (job,) = (await claim(db, now=NOON)).jobs
        assert job.attempt == 1
        assert await queries.release(db, job, now=NOON)
    assert await rows(db) == [("Pending", 0, None)]


@pytest.mark.spec("JOB-25", "JOB-B2")
async def test_a_job_that_crashed_every_attempt_is_dead_lettered_by_the_claim(db: Database) -> None:
    """Otherwise a job that kills its process would run for ever."""
    await put(db, "job", now=NOON)
    now = NOON
    for attempt in range(1, QUICK.max_attempts + 1):
        (job,) = (await claim(db, now=now)).jobs
        assert job.attempt == attempt
        now += LEASE
    last = await claim(db, now=now)
    assert (last.jobs, last.crashed) == ((), (VERIFY,))
    assert await rows(db) == [("DeadLettered", QUICK.max_attempts, "AttemptsExhaustedByCrash")]
    assert await rows(db, "SELECT last_failure_classification, lease_owner FROM jobs") == [("Transient", None)]


@pytest.mark.spec("JOB-9")
async def test_a_job_of_an_unknown_type_is_left_alone(db: Database) -> None:
    """Another build put it there and will run it."""
    await put(db, "job")
    await execute(db, "UPDATE jobs SET job_type = 'classify-email-spam'")
    before = await rows(db, "SELECT * FROM jobs")
    assert (await claim(db)).jobs == ()
    assert await rows(db, "SELECT * FROM jobs") == before


@pytest.mark.spec("JOB-B9")
async def test_accounts_take_turns_whatever_the_backlog_of_one(db: Database) -> None:
    """A mailbox with a long backlog that came first does not starve another, counting what already runs."""
    await many(db, 500, account="big")
    for name in ("small", "tiny"):
        await put(db, name, account=name)
    taken = await claim(db, limit=4)
    assert sorted(job.account_id or "" for job in taken.jobs) == ["big", "big", "small", "tiny"]
    await put(db, "late", account="small")
    (following,) = (await claim(db, limit=1)).jobs
    assert following.account_id == "small"


@pytest.mark.spec("JOB-B9")
async def test_interactive_work_goes_first(db: Database) -> None:
    """Somebody waits for it."""
    await many(db, 200)
    await put(db, "asked", account="zz", priority=Priority.INTERACTIVE)
    (first,) = (await claim(db, limit=1)).jobs
    assert first.account_id == "zz"


@pytest.mark.spec("JOB-B9")
async def test_interactive_work_of_a_type_takes_its_ordinary_work_not_along(db: Database) -> None:
    """Kinds of work take turns behind it."""
    for number in range(3):
        await put(db, f"verify{number}")
        priority = Priority.ORDINARY if number else Priority.INTERACTIVE
        work = JobRequest(f"read{number}", RederiveStoredMail("work"), account_id="work", priority=priority)
        await enqueue_now(db, work, settings=QUICK)
    taken = await claim(db, limit=2)
    assert sorted(job.job_type for job in taken.jobs) == [JobType.REDERIVE_STORED_MAIL, VERIFY]


@pytest.mark.spec("JOB-2", "JOB-20")
async def test_the_oldest_goes_first_however_long_the_backlog(db: Database) -> None:
    """Also behind more jobs than a claim looks at."""
    await many(db, 200)
    oldest = await put(db, "oldest", available_at=datetime.now(UTC) - timedelta(hours=2))
    assert isinstance(oldest, Created)
    assert [job.id for job in (await claim(db, limit=1)).jobs] == [oldest.id]


@pytest.mark.spec("JOB-B9", "JOB-B10")
@pytest.mark.parametrize("bound", ["max_concurrent_everywhere", "max_concurrent_per_account"])
async def test_bounds_across_processes_are_exact_under_races(db: Database, bound: str) -> None:
    """Ten racing claims together take no more than the bound; what ends makes room."""
    settings = JobsSettings.model_validate({"types": [{"job": VERIFY.value, bound: 3}]})
    await many(db, 30)
    taken = await asyncio.gather(*(claim(db, limit=2, settings=settings) for _ in range(10)))
    jobs = [job for one in taken for job in one.jobs]
    assert len(jobs) == 3
    await queries.complete(db, jobs[0])
    assert len((await claim(db, settings=settings)).jobs) == 1


@pytest.mark.spec("JOB-6", "JOB-20")
async def test_a_claim_reads_the_front_of_the_queue_and_no_finished_row(db: Database) -> None:
    """With many finished rows and a backlog the plan walks the partial index, and few pages."""
    await many(db, 50_000)
    await execute(db, "UPDATE jobs SET state = 'Succeeded'")
    await many(db, 3000, prefix="waiting")
    await execute(db, "UPDATE jobs SET available_at = available_at WHERE false")
    async with db.connection() as connection:
        await connection.set_autocommit(True)
        await connection.execute("VACUUM ANALYZE jobs")
        await connection.set_autocommit(False)
    policies = {"types": [VERIFY.value], "rooms": [4], "max_attempts": [5], "everywhere": [None], "per_account": [None]}
    values = {**policies, "limit": 4, "contenders": 64, "owner": "test", "lease": LEASE, "now": None}
    plan = await explain(db, "claim", values)
    assert "ix_jobs_claimable" in plan
    assert "Seq Scan on jobs" not in plan
    buffers = int(plan.split("Buffers: shared hit=")[1].split()[0].rstrip("\n"))
    assert buffers < 600, plan


@pytest.mark.spec("JOB-B9", "JOB-20")
async def test_a_claim_among_many_accounts_reads_little_of_each(db: Database) -> None:
    """Two hundred accounts with long backlogs: the fronts are looked at, not everything that could be taken."""
    accounts = "INSERT INTO mailbox_accounts SELECT 'a' || n FROM generate_series(1, 200) AS n"
    await execute(db, accounts)
    await many(db, 14_000)
    await execute(db, "UPDATE jobs SET mailbox_account_id = 'a' || 1 + (hashtext(idempotency_key) & 127)")
    async with db.connection() as connection:
        await connection.set_autocommit(True)
        await connection.execute("VACUUM ANALYZE jobs")
        await connection.set_autocommit(False)
    policies = {"types": [VERIFY.value], "rooms": [4], "max_attempts": [5], "everywhere": [None], "per_account": [None]}
    values = {**policies, "limit": 4, "contenders": 64, "owner": "test", "lease": LEASE, "now": None}
    plan = await explain(db, "claim", values)
    buffers = int(plan.split("Buffers: shared hit=")[1].split()[0].rstrip("\n"))
    assert buffers < 4000, plan
    taken = await claim(db, limit=4)
    assert len({job.account_id for job in taken.jobs}) == 4


@pytest.mark.spec("JOB-B8", "JOB-24")
async def test_a_paused_type_keeps_lapsed_jobs_until_it_is_resumed(db: Database) -> None:
    """Nobody takes them over or gives them up meanwhile, and nothing of their attempts is lost."""
    await put(db, "job", now=NOON)
    await claim(db, now=NOON)
    await pause_type(db, VERIFY)
    assert await claim(db, now=NOON + 9 * LEASE) == queries.Claim((), ())
    await resume_type(db, VERIFY)
    (job,) = (await claim(db, now=NOON + 9 * LEASE)).jobs
    assert job.attempt == 2


@pytest.mark.spec("JOB-52", "JOB-B1")
async def test_pruning_takes_old_finished_jobs_in_portions_and_nothing_else(db: Database) -> None:
    """Only Succeeded and Dropped rows older than the retention go, a bounded number at a time."""
    for state in ("Succeeded", "Dropped", "Pending", "Claimed", "DeadLettered"):
        for number in range(3):
            await put(db, f"{state}{number}", now=NOON)
        await execute(db, "UPDATE jobs SET state = %s WHERE idempotency_key LIKE %s", state, f"{state}%")
    kept, now = timedelta(days=30), NOON + timedelta(days=30, seconds=1)
    assert await queries.prune(db, VERIFY, retention=kept, limit=4, now=NOON + kept) == 0
    assert await queries.prune(db, VERIFY, retention=kept, limit=4, now=now) == 4
    assert await queries.prune(db, VERIFY, retention=kept, limit=4, now=now) == 2
    left = await rows(db, "SELECT DISTINCT state FROM jobs ORDER BY 1")
    assert left == [("Claimed",), ("DeadLettered",), ("Pending",)]
    with pytest.raises(ValueError, match="retention"):
        JobsSettings.model_validate({"retention": "1h"})


@pytest.mark.spec("JOB-24")
async def test_without_an_instant_the_databases_clock_counts(db: Database) -> None:
    """A machine whose clock is wrong neither loses leases nor takes them: expiry is the database's time plus the lease."""
    await put(db, "job")
    await claim(db)
    (held,) = await rows(db, "SELECT lease_expires_at - clock_timestamp() FROM jobs")
    assert timedelta() < LEASE - held[0] < timedelta(seconds=30)


async def write(db: Database, ending: str, job: Any) -> bool:
    """One of the writes that an attempt may make."""
    failure = {"classification": FailureClassification.TRANSIENT, "reason": "Test"}
    match ending:
        case "renew":
            return await queries.renew(db, job, lease=LEASE)
        case "complete":
            return await queries.complete(db, job)
        case "retry":
            return await queries.schedule_retry(db, job, delay=LEASE, **failure)
        case "dead_letter":
            return await queries.dead_letter(db, job, **failure)
        case "release":
            return await queries.release(db, job)
        case _:
            return await queries.report_progress(db, job, done=1, total=2)


async def explain(db: Database, name: str, values: dict[str, Any]) -> str:
    """The plan of one of our statements as it was carried out, then rolled back."""
    async with db.connection() as connection:
        cursor = await connection.execute("EXPLAIN (ANALYZE, BUFFERS) " + queries._SQL[name], values)
        plan = "\n".join(row[0] for row in await cursor.fetchall())
        await connection.rollback()
    return plan
