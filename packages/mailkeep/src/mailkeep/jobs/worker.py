"""The loop of one worker process: claim, run, see to schedules (docs/spec/jobs.md sections 5 and 7).

Any number of these run at once, on any machine that reaches the database; the queue alone decides who takes what.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from mailkeep.config import JobsSettings, JobType
from mailkeep.db import Database
from mailkeep.errors import ConfigurationRefused, MailkeepError
from mailkeep.jobs import queries, telemetry
from mailkeep.jobs.attempt import Attempt, Handler
from mailkeep.jobs.model import ClaimedJob, FailureClassification
from mailkeep.jobs.policy import TypePolicy, policy_of
from mailkeep.jobs.schedules import Schedule, dispatch
from mailkeep.jobs.wakeup import listen

log = logging.getLogger(__name__)

REFILL_PAUSE: Final = timedelta(milliseconds=3)
"""Jobs that end together make room for one claim of several, which costs what a claim of one costs."""
PRUNE_BATCH: Final = 1000
PRUNE_BATCHES_PER_PASS: Final = 10
STOP_TIME: Final = timedelta(seconds=20)
"""How long attempts may take to record their endings at the end of the process."""


def handlers_by_type(handlers: Sequence[Handler], settings: JobsSettings) -> dict[JobType, Handler]:
    """The handlers by their type. Raises ConfigurationRefused for two of one type, or a type without one (JOB-13)."""
    found: dict[JobType, Handler] = {}
    for handler in handlers:
        if handler.job_type in found:
            raise ConfigurationRefused(f"two handlers claim the job type {handler.job_type.value}")
        if not handler.why_repeatable.strip():
            raise ConfigurationRefused(f"the handler of {handler.job_type.value} does not say why it may run twice")
        found[handler.job_type] = handler
    missing = [job_type.value for job_type in JobType if job_type not in found]
    if missing and found and settings.enabled:
        raise ConfigurationRefused(f"there is no handler for the job type {missing[0]}")
    return found


class Worker:
    """Works at jobs until `stop`; `run` returns when the endings of its attempts are recorded."""

    def __init__(
        self,
        db: Database,
        settings: JobsSettings,
        handlers: Sequence[Handler],
        *,
        schedules: Sequence[Schedule] = (),
        draw: random.Random | None = None,
    ) -> None:
        self._db = db
        self._settings = settings
        self._handlers = handlers_by_type(handlers, settings)
        self._schedules = tuple(schedules)
        self._policies: dict[JobType, TypePolicy] = {kind: policy_of(settings, kind) for kind in self._handlers}
        self._draw = draw or random.Random()  # noqa: S311 -- jitter, not a secret
        self._tasks: dict[asyncio.Task[None], JobType] = {}
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_constrained = False
        self._upkeep_due = 0.0

    def stop(self) -> None:
        """Claim nothing more and cancel what runs; those attempts are given back."""
        self._stopping.set()
        self._woken.set()

    async def run(self) -> None:
        """Work until `stop`. With nothing to do in this process it waits for that (JOB-37)."""
        if not self._settings.enabled or not self._handlers:
            log.info("no jobs are worked at in this process", extra={"enabled": self._settings.enabled})
            await self._stopping.wait()
            return
        listening = asyncio.create_task(listen(self._db, self._woken), name="job announcements")
        try:
            while not self._stopping.is_set():
                await self._pass()
        finally:
            self.stop()
            listening.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=STOP_TIME.total_seconds())
            await asyncio.gather(listening, return_exceptions=True)

    async def _pass(self) -> None:
        self._woken.clear()
        if self._stopping.is_set():
            return
        if time.monotonic() >= self._upkeep_due:
            self._upkeep_due = time.monotonic() + self._settings.poll_interval.total_seconds()
            # What is due is dispatched before anything is pruned, so that its key is still known (JOB-52).
            if await self._guarded("schedules are not dispatched", self._dispatch):
                await self._guarded("finished jobs are not pruned", self._prune)
            await self._guarded("the queue is not measured", self._measure)
        self._is_constrained = True
        if await self._guarded("jobs are not claimed", self._claim):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.poll_interval.total_seconds()):
                await self._woken.wait()

    async def _guarded(self, what: str, work: Callable[[], Awaitable[bool]]) -> bool:
        """One part of a pass; its failure is logged and stops nothing else (JOB-33)."""
        try:
            return await work()
        except MailkeepError as error:
            log.warning(what, extra={"failure_code": error.code})
        except Exception as error:
            log.error(what, extra={"error": type(error).__name__})  # noqa: TRY400 -- a traceback can hold values
        return False

    async def _dispatch(self) -> bool:
        done = await dispatch(self._db, self._schedules, settings=self._settings)
        return len(done) == len(self._schedules)

    async def _prune(self) -> bool:
        for job_type, policy in self._policies.items():
            for _ in range(PRUNE_BATCHES_PER_PASS):
                removed = await queries.prune(self._db, job_type, retention=policy.retention, limit=PRUNE_BATCH)
                if removed < PRUNE_BATCH:
                    break
        return True

    async def _measure(self) -> bool:
        for job_type, policy in self._policies.items():
            depth = await queries.queue_depth(self._db, job_type, bound=policy.max_queue_depth)
            stopped = await queries.stopped_count(self._db, job_type, bound=policy.max_queue_depth)
            telemetry.publish_depth(job_type, depth, stopped=stopped)
        return True

    async def _claim(self) -> bool:
        """Take what there is room for and start it; whether the next claim may follow at once."""
        running = Counter(self._tasks.values())
        # The room of the type counts first: a full type leaves the shared room to the others (JOB-35).
        rooms = {kind: policy.max_concurrent_jobs - running[kind] for kind, policy in self._policies.items()}
        held_until = time.monotonic() + self._settings.lease_duration.total_seconds()
        limit = min(self._settings.batch_size, self._settings.max_concurrent_jobs - len(self._tasks))
        claim = await queries.claim(
            self._db, rooms, policies=self._policies, limit=limit, lease=self._settings.lease_duration
        )
        for job_type in claim.crashed:
            telemetry.count_dead_letter(job_type, FailureClassification.TRANSIENT)
            log.error("a job ended every process that ran it", extra={"job_type": job_type.value})
        started = Counter(job.job_type for job in claim.jobs)
        for job in claim.jobs:
            task = asyncio.create_task(self._attempt(job, held_until), name=f"job {job.job_type.value}")
            self._tasks[task] = job.job_type
            task.add_done_callback(self._ended)
        is_full_batch = 0 < limit == len(claim.jobs) + len(claim.crashed)
        # A job that ends makes room that matters only where room was what was lacking.
        self._is_constrained = limit < 1 or is_full_batch or any(rooms[kind] <= started[kind] for kind in rooms)
        return is_full_batch and len(self._tasks) < self._settings.max_concurrent_jobs

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an attempt was not recorded", extra={"error": type(error).__name__})
        if self._is_constrained:
            asyncio.get_running_loop().call_later(REFILL_PAUSE.total_seconds(), self._woken.set)

    async def _attempt(self, job: ClaimedJob, held_until: float) -> None:
        started = time.monotonic()
        attempt = Attempt(
            db=self._db,
            job=job,
            handler=self._handlers[job.job_type],
            policy=self._policies[job.job_type],
            lease=self._settings.lease_duration,
            stopping=self._stopping,
            draw=self._draw,
            held_until=held_until,
        )
        with telemetry.attempt_span(job) as span:
            ending = await attempt.run()
            span.end(ending.outcome, seconds=time.monotonic() - started, dead_lettered_as=ending.dead_lettered_as)
        log.info(
            "job attempt",
            extra={"job_type": job.job_type.value, "attempt": job.attempt, "outcome": ending.outcome.value},
        )
