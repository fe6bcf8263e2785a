"""Recurring work: which occasions are due, and one job for each (docs/spec/jobs.md section 10)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final
from uuid import UUID

from mailkeep.config import JobsSettings
from mailkeep.config.recurrence import Recurrence
from mailkeep.db import Database
from mailkeep.errors import DatabaseUnavailable
from mailkeep.jobs import telemetry
from mailkeep.jobs.model import AlreadyEnqueued, Created, JobRequest, Payload
from mailkeep.jobs.queries import advance_schedule, enqueue, read_clock, read_schedules, seed_schedule

log = logging.getLogger(__name__)
JITTER_STEPS: Final = 1 << 32


class Dispatch(StrEnum):
    """What a pass made of one schedule."""

    SEEDED = "seeded"
    PAUSED = "paused"
    NOT_DUE = "not_due"
    PREVIOUS_RUN_IN_FLIGHT = "previous_run_in_flight"
    DISPATCHED = "dispatched"
    ALREADY_DISPATCHED = "already_dispatched"
    REFUSED_AT_CAPACITY = "refused_at_capacity"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A declared schedule of one account. `schedule_id` is made of our own names: account and schedule name."""

    schedule_id: str
    recurrence: Recurrence
    payload: Payload
    account_id: str | None
    jitter: timedelta = timedelta(0)
    until: datetime | None = None

    def starts_at(self, occasion: datetime) -> datetime:
        """When the job of an occasion may begin: always the same part of the jitter later, the same everywhere."""
        digest = hashlib.sha256(self.schedule_id.encode()).digest()
        return occasion + self.jitter * (int.from_bytes(digest[:4], "big") / JITTER_STEPS)

    def next_start(self, now: datetime) -> datetime | None:
        """When the job of the next occasion may begin; None when no occasion is to come."""
        occasion = self.recurrence.following(now)
        if occasion is None or (self.until is not None and occasion > self.until):
            return None
        return self.starts_at(occasion)

    def key(self, occasion: datetime) -> str:
        """The key names the occasion and not the moment of noticing (JOB-48)."""
        return f"{self.schedule_id}@{occasion:%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The outcome for one schedule. `skipped` occasions made no job and never will."""

    schedule_id: str
    outcome: Dispatch
    occasion: datetime | None = None
    job_id: UUID | None = None
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """What the database knows of a schedule."""

    observed_from: datetime
    last_occurrence_at: datetime | None
    last_job_id: UUID | None
    paused_at: datetime | None
    is_last_job_under_way: bool

    @property
    def counted_from(self) -> datetime:
        """Occasions up to here are settled."""
        return self.last_occurrence_at or self.observed_from


async def schedule_states(db: Database, ids: Sequence[str]) -> dict[str, ScheduleState]:
    """The states of those schedules that were ever met, by id."""
    async with db.connection() as connection:
        return {key: ScheduleState(*row) for key, row in (await read_schedules(connection, ids)).items()}


async def dispatch(
    db: Database, schedules: Sequence[Schedule], *, settings: JobsSettings, now: datetime | None = None
) -> tuple[Dispatched, ...]:
    """One pass over the declared schedules, in their order: the latest due occasion of each becomes a job (JOB-47).

    A schedule that fails is logged and left out of the answer; the others go on (JOB-33). Raises DatabaseUnavailable.
    """
    if not schedules:
        return ()
    async with db.connection() as connection:
        instant = await read_clock(connection, now)
    states = await schedule_states(db, [schedule.schedule_id for schedule in schedules])
    results = []
    for schedule in schedules:
        try:
            result = await _dispatch_one(
                db, schedule, state=states.get(schedule.schedule_id), settings=settings, now=instant
            )
        except DatabaseUnavailable:
            raise
        except Exception as error:
            log.error("a schedule is not dispatched", extra={"error": type(error).__name__})  # noqa: TRY400
            continue
        telemetry.count_dispatch(schedule.payload.JOB_TYPE, result.outcome.value, skipped=result.skipped)
        results.append(result)
    return tuple(results)


@lru_cache(maxsize=4096)
def _following(recurrence: Recurrence, counted_from: datetime) -> datetime | None:
    """The first occasion that is not settled. Kept, since every pass asks for it until it is due."""
    return recurrence.following(counted_from)


async def _dispatch_one(
    db: Database, schedule: Schedule, *, state: ScheduleState | None, settings: JobsSettings, now: datetime
) -> Dispatched:
    schedule_id = schedule.schedule_id
    if state is None:
        async with db.connection() as connection:
            await seed_schedule(connection, schedule_id, now=now)
        return Dispatched(schedule_id, Dispatch.SEEDED)
    if state.paused_at is not None:
        return Dispatched(schedule_id, Dispatch.PAUSED)
    until = now if schedule.until is None else min(now, schedule.until)
    following = _following(schedule.recurrence, state.counted_from)
    due = schedule.recurrence.due(state.counted_from, until) if following is not None and following <= until else None
    if due is None:
        return Dispatched(schedule_id, Dispatch.NOT_DUE)
    # The job and the note of it commit together; another process that does the same finds the key (JOB-50).
    async with db.connection() as connection:
        if state.is_last_job_under_way:
            await advance_schedule(connection, schedule_id, occasion=due.latest, job_id=None, now=now)
            return Dispatched(schedule_id, Dispatch.PREVIOUS_RUN_IN_FLIGHT, due.latest, None, due.count)
        request = JobRequest(
            key=schedule.key(due.latest),
            payload=schedule.payload,
            account_id=schedule.account_id,
            available_at=max(schedule.starts_at(due.latest), now),
        )
        answer = await enqueue(connection, request, settings=settings, now=now)
        job_id = answer.id if isinstance(answer, (Created, AlreadyEnqueued)) else None
        await advance_schedule(connection, schedule_id, occasion=due.latest, job_id=job_id, now=now)
    if job_id is None:
        return Dispatched(schedule_id, Dispatch.REFUSED_AT_CAPACITY, due.latest, None, due.count)
    outcome = Dispatch.DISPATCHED if isinstance(answer, Created) else Dispatch.ALREADY_DISPATCHED
    return Dispatched(schedule_id, outcome, due.latest, job_id, due.count - 1)
