"""One attempt at one job, from payload to recorded ending (docs/spec/jobs.md section 6)."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from mailkeep.config import JobType
from mailkeep.db import Database
from mailkeep.errors import MailkeepError
from mailkeep.jobs import queries, telemetry
from mailkeep.jobs.model import AttemptOutcome, ClaimedJob, FailureClassification, Payload
from mailkeep.jobs.payloads import decode
from mailkeep.jobs.policy import TypePolicy, asked_delay, classify, reason, retry_delay

log = logging.getLogger(__name__)

RECORD_PAUSE: Final = timedelta(milliseconds=250)
RECORD_LONGEST_PAUSE: Final = timedelta(seconds=5)
"""How far apart an ending is written while the database is away; each pause is twice the one before."""
STOP_PATIENCE: Final = timedelta(seconds=10)
"""How long a handler may take to end after it was cancelled; nothing is written then, and its lease lapses."""


class RunningJob:
    """What a handler sees of its attempt: the payload, and how long it has."""

    def __init__(self, db: Database, claimed: ClaimedJob, payload: Payload, *, time_budget: timedelta) -> None:
        self.payload = payload
        self.time_budget = time_budget
        self._db = db
        self._claimed = claimed

    async def report(self, done: int, total: int | None = None) -> None:
        """Say how far it is, in counts that whoever enqueued it may read (JOB-B13)."""
        await queries.report_progress(self._db, self._claimed, done=done, total=total)


@dataclass(frozen=True, slots=True)
class Handler:
    """The work of one type; `run` gives counts to keep, or None. `why_repeatable` says why a second run is harmless.

    Execution is at least once: a crash repeats it (JOB-1).
    """

    job_type: JobType
    run: Callable[[RunningJob], Awaitable[Mapping[str, int] | None]]
    why_repeatable: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, and as what the job was given up if it was."""

    outcome: AttemptOutcome
    dead_lettered_as: FailureClassification | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claimed job with everything its attempt goes by. `stopping` is set when the process ends."""

    db: Database
    job: ClaimedJob
    handler: Handler
    policy: TypePolicy
    lease: timedelta
    stopping: asyncio.Event
    draw: random.Random
    held_until: float
    """When the lease lapses unless it is renewed, by this process's monotonic clock."""

    async def run(self) -> Ending:
        """Run the job and record how that ended; nothing that the handler raises leaves this (JOB-33)."""
        try:
            payload = decode(self.job.job_type, self.job.document)
        except ValueError:
            return await self._give_up(
                FailureClassification.PERMANENT, "PayloadUnreadable", outcome=AttemptOutcome.HANDLER_FAILED
            )
        if self.stopping.is_set():
            return await self._release()
        if time.monotonic() >= self.held_until:  # the process slept; another may have the job by now (JOB-27)
            return Ending(AttemptOutcome.LEASE_LOST)
        running = RunningJob(self.db, self.job, payload, time_budget=self.policy.execution_timeout)
        work = asyncio.ensure_future(self.handler.run(running))
        lease = asyncio.create_task(self._hold_lease())
        stop = asyncio.create_task(self.stopping.wait())
        try:
            timeout = self.policy.execution_timeout.total_seconds()
            await asyncio.wait({work, lease, stop}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            was_finished = work.done()
            if not was_finished:
                work.cancel()
                await asyncio.wait({work}, timeout=STOP_PATIENCE.total_seconds())
            return await self._settle(work, was_finished=was_finished, is_lost=lease.done())
        finally:
            for task in (work, lease, stop):
                task.cancel()

    async def _settle(
        self, work: asyncio.Future[Mapping[str, int] | None], *, was_finished: bool, is_lost: bool
    ) -> Ending:
        """What the state of the work comes to; shutdown is asked for before its failure (JOB-28)."""
        if not work.done():
            log.error("a job does not end when it is cancelled", extra={"job_type": self.job.job_type.value})
            if is_lost or self.stopping.is_set():
                return Ending(AttemptOutcome.LEASE_LOST)
            # It may still be at it: the next attempt begins no sooner than a lapsed lease would let it.
            return await self._fail(
                TimeoutError(), "ExecutionTimeout", outcome=AttemptOutcome.TIMED_OUT, not_before=self.lease
            )
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if is_lost:
            return Ending(AttemptOutcome.LEASE_LOST)
        if error is None and (was_finished or self.stopping.is_set()):
            complete = partial(queries.complete, self.db, self.job, result=work.result())
            return Ending(await self._record(complete, AttemptOutcome.SUCCEEDED))
        if self.stopping.is_set():
            return await self._release()
        if not was_finished:
            return await self._fail(TimeoutError(), "ExecutionTimeout", outcome=AttemptOutcome.TIMED_OUT)
        assert error is not None
        return await self._fail(error, reason(error), outcome=AttemptOutcome.HANDLER_FAILED)

    async def _fail(
        self, error: BaseException, why: str, *, outcome: AttemptOutcome, not_before: timedelta = timedelta(0)
    ) -> Ending:
        classification = classify(error)
        if classification is FailureClassification.PERMANENT or self.job.attempt >= self.policy.max_attempts:
            return await self._give_up(classification, why, outcome=outcome)
        delay = asked_delay(error) or retry_delay(self.policy, self.job.attempt, draw=self.draw)
        delay = max(delay, not_before)
        retry = partial(
            queries.schedule_retry, self.db, self.job, delay=delay, classification=classification, reason=why
        )
        ended = await self._record(retry, outcome)
        if ended is outcome:
            telemetry.count_retry(self.job.job_type)
        return Ending(ended)

    async def _give_up(self, classification: FailureClassification, why: str, *, outcome: AttemptOutcome) -> Ending:
        write = partial(queries.dead_letter, self.db, self.job, classification=classification, reason=why)
        ended = await self._record(write, outcome)
        if ended is not outcome:
            return Ending(ended)
        telemetry.count_dead_letter(self.job.job_type, classification)
        return Ending(outcome, classification)

    async def _release(self) -> Ending:
        release = partial(queries.release, self.db, self.job)
        return Ending(await self._record(release, AttemptOutcome.RELEASED_FOR_SHUTDOWN))

    async def _record(self, write: Callable[[], Awaitable[bool]], outcome: AttemptOutcome) -> AttemptOutcome:
        """Write the ending while the job is still this attempt's.

        Tried again while the database is away, for as long as a lease: the work is done, and would be done once more.
        """
        ends, pause = time.monotonic() + self.lease.total_seconds(), RECORD_PAUSE
        while True:
            try:
                return outcome if await write() else AttemptOutcome.LEASE_LOST
            except MailkeepError as error:
                log.warning("the end of a job is not recorded yet", extra={"failure_code": error.code})
            if time.monotonic() + pause.total_seconds() >= ends:
                return AttemptOutcome.LEASE_LOST
            await asyncio.sleep(pause.total_seconds())
            pause = min(pause * 2, RECORD_LONGEST_PAUSE)

    async def _hold_lease(self) -> None:
        """Renew at half the lease; return when that is refused. A renewal that errs proves nothing (JOB-23)."""
        while True:
            await asyncio.sleep(self.lease.total_seconds() / 2)
            try:
                if not await queries.renew(self.db, self.job, lease=self.lease):
                    return
            except Exception as error:
                log.warning("a job's lease was not renewed", extra={"error": type(error).__name__})
