"""What an operator sees of the queue and decides about it (docs/spec/jobs.md section 8, JOB-B8)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from mailkeep.config import JobType
from mailkeep.db import Database, load_queries
from mailkeep.errors import CursorForeign, CursorForOtherFilters, FilterRefused, PageSizeRefused
from mailkeep.jobs.model import FailureClassification, JobState
from mailkeep.jobs.queries import statement

_SQL = load_queries("mailkeep.jobs")
MAX_PAGE: Final = 200
_NEWEST: Final = "infinity"
_LAST_ID: Final = UUID(int=(1 << 128) - 1)
_TYPES: Final = [job_type.value for job_type in JobType]
_LISTS: Final = {
    JobState.DEAD_LETTERED: "list_dead_lettered",
    JobState.PENDING: "list_under_way",
    JobState.CLAIMED: "list_under_way",
    JobState.SUCCEEDED: "list_ended",
    JobState.DROPPED: "list_ended",
}
"""The statement of each state: every one reads along an index of its own."""


class Decision(StrEnum):
    """The answer to an operator's act; each is a normal result (JOB-41)."""

    ACCEPTED = "Accepted"
    JOB_UNKNOWN = "JobUnknown"
    JOB_NOT_DEAD_LETTERED = "JobNotDeadLettered"
    JOB_NOT_PENDING = "JobNotPending"


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job as operators see it: everything but its payload."""

    id: UUID
    job_type: str
    state: JobState
    attempts: int
    classification: FailureClassification | None
    reason: str | None
    key: str
    account_id: str | None
    enqueued_at: datetime
    state_changed_at: datetime
    available_at: datetime
    lease_owner: str | None
    lease_expires_at: datetime | None
    progress_done: int | None
    progress_total: int | None
    result: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs in order, latest change first, and the cursor of the page after them."""

    jobs: tuple[JobRow, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Stopped:
    """Which stopped jobs a bulk act means: one type, perhaps one reason and a span of stopping."""

    job_type: JobType
    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def held_by(lease_owner: str) -> str:
    """Machine and process of an attempt, out of the token of its claim."""
    return lease_owner.rpartition("/")[0] or lease_owner


def job_type_named(text: str) -> JobType:
    """The type of that name. Raises FilterRefused for an unknown one."""
    try:
        return JobType(text)
    except ValueError:
        raise FilterRefused(f"there is no such type of job; there are: {', '.join(_TYPES)}") from None


async def list_jobs(
    db: Database,
    *,
    state: JobState = JobState.DEAD_LETTERED,
    job_type: JobType | None = None,
    account_id: str | None = None,
    page_size: int = 50,
    cursor: str | None = None,
) -> JobPage:
    """One page of the jobs in a state (JOB-39). Rows of types unknown to this build are not listed (JOB-9).

    Raises PageSizeRefused, CursorForeign and CursorForOtherFilters.
    """
    if not 1 <= page_size <= MAX_PAGE:
        raise PageSizeRefused(f"a page holds between 1 and {MAX_PAGE} jobs")
    stamp = _stamp(state, job_type, account_id)
    before, before_id = (_NEWEST, _LAST_ID) if cursor is None else _read_cursor(cursor, stamp)
    values = {
        "state": state.value,
        "types": _TYPES if job_type is None else [job_type.value],
        "account_id": account_id,
        "before": before,
        "before_id": before_id,
        "limit": page_size + 1,
    }
    async with statement(db) as connection:
        rows = [_row(found) for found in await (await connection.execute(_SQL[_LISTS[state]], values)).fetchall()]
    page = tuple(rows[:page_size])
    more = len(rows) > page_size
    return JobPage(page, _cursor(page[-1], stamp) if more else None)


async def show_job(db: Database, job_id: UUID) -> JobRow | None:
    """One job, whatever became of it; None for an unknown id, or a type unknown to this build."""
    async with statement(db) as connection:
        cursor = await connection.execute(_SQL["show_job"], {"id": job_id, "types": _TYPES})
        found = await cursor.fetchone()
    return None if found is None else _row(found)


async def retry_job(db: Database, job_id: UUID, *, now: datetime | None = None) -> Decision:
    """Let a stopped job run again under its key, from its first attempt; its failure stays until replaced (JOB-40)."""
    return await _decide(db, "retry_dead_letter", job_id, refusal=Decision.JOB_NOT_DEAD_LETTERED, now=now)


async def drop_job(db: Database, job_id: UUID, *, now: datetime | None = None) -> Decision:
    """Give a stopped job up; row and key stay, so that its trigger cannot enqueue it again (JOB-40)."""
    return await _decide(db, "drop_dead_letter", job_id, refusal=Decision.JOB_NOT_DEAD_LETTERED, now=now)


async def cancel_job(db: Database, job_id: UUID, *, now: datetime | None = None) -> Decision:
    """Give a job up that waits; one that runs is not interrupted."""
    return await _decide(db, "cancel_pending", job_id, refusal=Decision.JOB_NOT_PENDING, now=now)


async def count_stopped(db: Database, which: Stopped, *, now: datetime | None = None) -> tuple[int, datetime]:
    """How many jobs a bulk retry would take, and the instant up to which it then means them."""
    async with statement(db) as connection:
        cursor = await connection.execute(_SQL["count_dead_letters"], {**_bulk(which), "now": now})
        found = await cursor.fetchone()
    assert found is not None
    count, counted_at = found
    return int(count), which.until or counted_at


async def retry_stopped(db: Database, which: Stopped, *, expected: int, now: datetime | None = None) -> int | None:
    """Retry all of them if they are exactly as many as was confirmed; how many, None when the count has changed."""
    async with db.connection() as connection:
        values = {**_bulk(which), "now": now}
        taken = (await connection.execute(_SQL["retry_dead_letters"], values)).rowcount
        if taken != expected:
            await connection.rollback()
            return None
        await connection.execute(_SQL["announce"], {"job_type": which.job_type.value})
    return taken


async def pause_type(db: Database, job_type: JobType, *, now: datetime | None = None) -> None:
    """Claim no more jobs of the type in any process; those that run finish."""
    async with statement(db) as connection:
        await connection.execute(_SQL["pause_type"], {"job_type": job_type.value, "now": now})


async def resume_type(db: Database, job_type: JobType) -> bool:
    """Claim jobs of the type again; whether it was paused."""
    async with statement(db) as connection:
        cursor = await connection.execute(_SQL["resume_type"], {"job_type": job_type.value})
        return await cursor.fetchone() is not None


async def paused_types(db: Database) -> dict[str, datetime]:
    """The paused types and since when."""
    async with statement(db) as connection:
        return dict(await (await connection.execute(_SQL["paused_types"])).fetchall())


async def pause_schedule(db: Database, schedule_id: str, *, paused: bool, now: datetime | None = None) -> None:
    """Pause a schedule or let it go on; the occasions meanwhile are not made up for."""
    async with statement(db) as connection:
        values = {"schedule_id": schedule_id, "paused": paused, "now": now}
        await connection.execute(_SQL["pause_schedule"], values)


async def _decide(db: Database, name: str, job_id: UUID, *, refusal: Decision, now: datetime | None) -> Decision:
    async with statement(db) as connection:
        cursor = await connection.execute(_SQL[name], {"id": job_id, "types": _TYPES, "now": now})
        if await cursor.fetchone() is not None:
            return Decision.ACCEPTED
    return Decision.JOB_UNKNOWN if await show_job(db, job_id) is None else refusal


def _bulk(which: Stopped) -> dict[str, Any]:
    return {"job_type": which.job_type.value, "reason": which.reason, "since": which.since, "until": which.until}


def _row(found: tuple[Any, ...]) -> JobRow:
    classification = None if found[4] is None else FailureClassification(found[4])
    return JobRow(found[0], found[1], JobState(found[2]), found[3], classification, *found[5:])


def _stamp(state: JobState, job_type: JobType | None, account_id: str | None) -> str:
    filters = json.dumps([state.value, job_type, account_id])
    return hashlib.sha256(filters.encode()).hexdigest()[:16]


def _cursor(last: JobRow, stamp: str) -> str:
    text = json.dumps(["jobs", stamp, last.state_changed_at.isoformat(), str(last.id)])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _read_cursor(cursor: str, stamp: str) -> tuple[str, UUID]:
    try:
        kind, issued, before, before_id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        moment, last = datetime.fromisoformat(before), UUID(before_id)
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise CursorForeign("that cursor was not issued by this listing") from None
    if kind != "jobs" or moment.tzinfo is None:
        raise CursorForeign("that cursor was not issued by this listing")
    if issued != stamp:
        raise CursorForOtherFilters("that cursor belongs to a listing with other filters")
    return moment.isoformat(), last
