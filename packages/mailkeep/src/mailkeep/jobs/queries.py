"""The queue in the database: enqueue, claim, and what an attempt writes while the job is its own.

`now` is None in the product: every instant is then the database's, one clock for all machines, so that a process whose
own clock is wrong neither loses a lease early nor takes another's. Tests give an instant.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import pq

from mailkeep.config import JobsSettings, JobType
from mailkeep.db import Connection, Database, load_queries, uuid7
from mailkeep.errors import ConcurrencyConflict, JobKeyRefused
from mailkeep.jobs.model import (
    AlreadyEnqueued,
    ClaimedJob,
    Created,
    Enqueued,
    FailureClassification,
    JobRequest,
    JobState,
    RefusedAtCapacity,
)
from mailkeep.jobs.payloads import encode
from mailkeep.jobs.policy import TypePolicy, policy_of
from mailkeep.jobs.telemetry import active_trace

_SQL = load_queries("mailkeep.jobs")
KEY_CHARACTERS: Final = 256
CONTENDERS: Final = 64
"""Jobs read beyond those wanted: others may hold the first ones for a moment."""
TOKEN_OCTETS: Final = 12
KEY_READS: Final = 3
_UNFIT: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories that a key has none of: controls, lone surrogates, separators of lines."""
HOST_CHARACTERS: Final = 64
_PROCESS: Final = f"{socket.gethostname()[:HOST_CHARACTERS]}/{os.getpid()}"
"""Machine and process, for the eyes of operators; what follows it makes the owner one claim's (JOB-21)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one claim took, and the types of jobs that it dead-lettered because every attempt had crashed."""

    jobs: tuple[ClaimedJob, ...]
    crashed: tuple[JobType, ...]


@asynccontextmanager
async def statement(db: Database) -> AsyncIterator[Connection]:
    """A connection for single statements, each its own transaction: a third of the round trips."""
    async with db.connection() as connection:
        await connection.set_autocommit(True)
        try:
            yield connection
        finally:
            if connection.info.transaction_status == pq.TransactionStatus.IDLE:
                await connection.set_autocommit(False)


def checked_key(text: str) -> str:
    """A key as it is stored: trimmed. Raises JobKeyRefused for a blank, long or unprintable one (JOB-10)."""
    key = text.strip()
    if not key or len(key) > KEY_CHARACTERS or any(unicodedata.category(one) in _UNFIT for one in key):
        raise JobKeyRefused(f"a job's key is one line of 1 to {KEY_CHARACTERS} characters")
    return key


async def enqueue(
    connection: Connection, request: JobRequest, *, settings: JobsSettings, now: datetime | None = None
) -> Enqueued:
    """Write a job down in the caller's transaction, so that it commits with whatever caused it (JOB-B6).

    One execution is written once for ever (JOB-14, JOB-15). Raises JobPayloadTooLarge and JobKeyRefused, and leaves the
    answer RefusedAtCapacity to the caller, who states what that costs (JOB-19).
    """
    job_type, key = request.job_type, checked_key(request.key)
    payload = encode(request.payload)
    bound = policy_of(settings, job_type).max_queue_depth
    named = {"job_type": job_type.value, "key": key}
    cursor = await connection.execute(_SQL["measure_depth"], {"job_type": job_type.value, "bound": bound, "now": now})
    row = await cursor.fetchone()
    assert row is not None
    instant, depth = row
    if depth >= bound:
        found = await (await connection.execute(_SQL["find_key"], named)).fetchone()
        return RefusedAtCapacity() if found is None else AlreadyEnqueued(found[0])
    if request.account_id is not None:
        await connection.execute(_SQL["ensure_account"], {"account_id": request.account_id})
    trace_parent, trace_state = active_trace()
    values = {
        **named,
        "id": uuid7(instant),
        "payload": payload,
        "account_id": request.account_id,
        "priority": int(request.priority),
        "available_at": request.available_at or instant,
        "now": instant,
        "trace_parent": trace_parent,
        "trace_state": trace_state,
    }
    for _ in range(KEY_READS):
        written = await (await connection.execute(_SQL["insert_job"], values)).fetchone()
        if written is not None:
            return Created(written[0])
        found = await (await connection.execute(_SQL["find_key"], named)).fetchone()
        if found is not None:
            return AlreadyEnqueued(found[0])
    raise ConcurrencyConflict("the job of that key comes and goes")


async def enqueue_now(
    db: Database, request: JobRequest, *, settings: JobsSettings, now: datetime | None = None
) -> Enqueued:
    """`enqueue` in a transaction of its own."""
    async with db.connection() as connection:
        return await enqueue(connection, request, settings=settings, now=now)


async def queue_depth(db: Database, job_type: JobType, *, bound: int) -> int:
    """How many jobs of a type wait, counted no further than `bound`."""
    async with statement(db) as connection:
        values = {"job_type": job_type.value, "bound": bound, "now": None}
        row = await (await connection.execute(_SQL["measure_depth"], values)).fetchone()
    assert row is not None
    return int(row[1])


async def stopped_count(db: Database, job_type: JobType | None = None, *, bound: int) -> int:
    """How many jobs of a type (None: of all that this build knows) wait for a decision, counted no further."""
    types = [one.value for one in JobType] if job_type is None else [job_type.value]
    async with statement(db) as connection:
        row = await (await connection.execute(_SQL["measure_stopped"], {"types": types, "bound": bound})).fetchone()
    assert row is not None
    return int(row[0])


async def claim(
    db: Database,
    rooms: Mapping[JobType, int],
    *,
    policies: Mapping[JobType, TypePolicy],
    limit: int,
    lease: timedelta,
    now: datetime | None = None,
) -> Claim:
    """Take up to `limit` jobs, of each type no more than its room; each account in its turn, interactive work first.

    The claim is committed on return, and its token names this claim and not the process (JOB-21).
    """
    types = [job_type for job_type, room in rooms.items() if room > 0]
    if not types or limit < 1:
        return Claim((), ())
    values = {
        "types": [job_type.value for job_type in types],
        "rooms": [rooms[job_type] for job_type in types],
        "max_attempts": [policies[job_type].max_attempts for job_type in types],
        "everywhere": [policies[job_type].max_concurrent_everywhere for job_type in types],
        "per_account": [policies[job_type].max_concurrent_per_account for job_type in types],
        "limit": limit,
        "contenders": CONTENDERS,
        "owner": f"{_PROCESS}/{secrets.token_hex(TOKEN_OCTETS)}",
        "lease": lease,
        "now": now,
    }
    limited = [job_type.value for job_type in types if _is_limited(policies[job_type])]
    if limited:
        async with db.connection() as connection:
            await connection.execute(_SQL["hold_limited_types"], {"types": limited})
            rows = await (await connection.execute(_SQL["claim"], values)).fetchall()
    else:
        async with statement(db) as connection:
            rows = await (await connection.execute(_SQL["claim"], values)).fetchall()
    jobs = [ClaimedJob(row[1], JobType(row[2]), *row[3:]) for row in rows if row[0] == JobState.CLAIMED]
    crashed = tuple(JobType(row[2]) for row in rows if row[0] == JobState.DEAD_LETTERED)
    return Claim(tuple(jobs), crashed)


def _is_limited(policy: TypePolicy) -> bool:
    return policy.max_concurrent_everywhere is not None or policy.max_concurrent_per_account is not None


async def renew(db: Database, job: ClaimedJob, *, lease: timedelta, now: datetime | None = None) -> bool:
    """Hold the job for another lease; False when it is another attempt's by now."""
    return await _write(db, "renew", job, lease=lease, now=now)


async def report_progress(db: Database, job: ClaimedJob, *, done: int, total: int | None) -> bool:
    """Say how far the attempt is; False when the job is another attempt's by now."""
    return await _write(db, "progress", job, done=done, total=total)


async def complete(
    db: Database, job: ClaimedJob, *, result: Mapping[str, int] | None = None, now: datetime | None = None
) -> bool:
    """The attempt finished, with these counts; False and nothing written when the lease is lost (JOB-22)."""
    counts = None if result is None else json.dumps(dict(result))
    return await _write(db, "complete", job, result=counts, now=now)


async def schedule_retry(
    db: Database,
    job: ClaimedJob,
    *,
    delay: timedelta,
    classification: FailureClassification,
    reason: str,
    now: datetime | None = None,
) -> bool:
    """Let another attempt begin after `delay`; False when the lease is lost."""
    values = {"delay": delay, "classification": classification.value, "reason": reason, "now": now}
    return await _write(db, "retry", job, **values)


async def dead_letter(
    db: Database,
    job: ClaimedJob,
    *,
    classification: FailureClassification,
    reason: str,
    now: datetime | None = None,
) -> bool:
    """Stop trying; False when the lease is lost."""
    return await _write(db, "dead_letter", job, classification=classification.value, reason=reason, now=now)


async def release(db: Database, job: ClaimedJob, *, now: datetime | None = None) -> bool:
    """Give the job and its attempt back, as a stopping process does; False when the lease is lost."""
    return await _write(db, "release", job, now=now)


async def _write(db: Database, name: str, job: ClaimedJob, **values: Any) -> bool:
    async with statement(db) as connection:
        cursor = await connection.execute(_SQL[name], {"id": job.id, "owner": job.owner, **values})
        return await cursor.fetchone() is not None


async def prune(
    db: Database, job_type: JobType, *, retention: timedelta, limit: int, now: datetime | None = None
) -> int:
    """Remove up to `limit` jobs of a type that ended longer ago than `retention`; how many (JOB-B1)."""
    async with statement(db) as connection:
        values = {"job_type": job_type.value, "retention": retention, "limit": limit, "now": now}
        return (await connection.execute(_SQL["prune"], values)).rowcount


async def read_clock(connection: Connection, now: datetime | None = None) -> datetime:
    """The database's time, or the one given."""
    row = await (await connection.execute(_SQL["read_clock"], {"now": now})).fetchone()
    assert row is not None
    instant: datetime = row[0]
    return instant


async def read_schedules(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """By schedule: observed_from, last_occurrence_at, last_dispatched_job_id, paused_at, is that job under way."""
    cursor = await connection.execute(_SQL["read_schedules"], {"ids": list(ids)})
    return {row[0]: row[1:] for row in await cursor.fetchall()}


async def seed_schedule(connection: Connection, schedule_id: str, *, now: datetime) -> None:
    """Begin to observe a schedule at `now`."""
    await connection.execute(_SQL["seed_schedule"], {"schedule_id": schedule_id, "now": now})


async def advance_schedule(
    connection: Connection, schedule_id: str, *, occasion: datetime, job_id: UUID | None, now: datetime
) -> None:
    """Note the occasion that was acted on, and its job if there is one."""
    values = {"schedule_id": schedule_id, "occasion": occasion, "job_id": job_id, "now": now}
    await connection.execute(_SQL["advance_schedule"], values)
