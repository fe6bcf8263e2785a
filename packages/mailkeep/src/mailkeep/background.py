"""The work that runs as jobs: one handler per type, and the schedules that the settings declare.

Each handler does what an operator's command does, through the same call, and may run twice: see `why_repeatable`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from mailkeep.config import AccountKind, AccountSettings, JobType, ScheduleSettings, Settings
from mailkeep.config.recurrence import parse_recurrence
from mailkeep.db import Database, uuid7
from mailkeep.errors import AccountNotAccessible, ConfigurationRefused, FilterRefused, JobQueueFull, MailkeepError
from mailkeep.imap import AskedToComeBack
from mailkeep.jobs import (
    Handler,
    JobRequest,
    Payload,
    Priority,
    RederiveStoredMail,
    RefusedAtCapacity,
    RetryAfter,
    RetryQuarantinedMail,
    RunningJob,
    Schedule,
    VerifyMailbox,
    enqueue_now,
    job_type_named,
    pause_schedule,
    pause_type,
    resume_type,
    schedule_states,
)
from mailkeep.mailbox import AccountId, RederivationRun, rederivation_runs, rederive_pass, request_rederivation
from mailkeep.sync import Access, open_resources, read_pauses, reading_limits, retry_quarantined
from mailkeep.upkeep import folder_alias, verify

BUDGET_SHARE = 0.5
"""The part of an attempt's time after which a segment ends and the next one is enqueued (JOB-12)."""
ELSEWHERE_PAUSE = timedelta(minutes=1)
"""How long a job of an account that this process does not know is left to the others."""


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """A declared schedule: what it last did, and when the job of its next occasion may begin."""

    schedule: str
    recurrence: str
    job: str
    last_occasion: datetime | None
    last_job: UUID | None
    paused_at: datetime | None
    next: datetime | None


@dataclass(frozen=True, slots=True)
class Background:
    """What the handlers work with."""

    db: Database
    current: Callable[[], Settings]
    home: Path
    now: Callable[[], datetime]
    access: Access | None = None

    @property
    def settings(self) -> Settings:
        """The snapshot of this moment (SYNC-2)."""
        return self.current()

    def handlers(self) -> tuple[Handler, ...]:
        """One handler for each type of this build."""
        return (
            Handler(
                JobType.REDERIVE_STORED_MAIL,
                self._rederive,
                "a message read twice is written the same twice, and the walk goes on from its stored position",
            ),
            Handler(
                JobType.RETRY_QUARANTINED_MAIL,
                self._retry_quarantined,
                "a message that left the quarantine is not in it any more",
            ),
            Handler(JobType.VERIFY_MAILBOX, self._verify, "comparing changes nothing, and what was filled is no hole"),
        )

    def schedules(self) -> tuple[Schedule, ...]:
        """What the settings declare, one schedule for each account that a declaration reaches."""
        return tuple(
            _schedule(declared, account)
            for declared in self.settings.jobs.schedules
            for account in self.settings.mail_synchronization.accounts
            if _reaches(declared, account)
        )

    async def schedule_reports(self) -> tuple[ScheduleReport, ...]:
        """The declared schedules as they stand, in declared order."""
        declared = self.schedules()
        texts = {one.name: one.recurrence for one in self.settings.jobs.schedules}
        states = await schedule_states(self.db, [schedule.schedule_id for schedule in declared])
        reports = []
        for schedule in declared:
            state = states.get(schedule.schedule_id)
            reports.append(
                ScheduleReport(
                    schedule=schedule.schedule_id,
                    recurrence=texts[schedule.schedule_id.removeprefix(f"{schedule.account_id}/")],
                    job=schedule.payload.JOB_TYPE.value,
                    last_occasion=None if state is None else state.last_occurrence_at,
                    last_job=None if state is None else state.last_job_id,
                    paused_at=None if state is None else state.paused_at,
                    next=schedule.next_start(self.now()),
                )
            )
        return tuple(reports)

    async def pause(self, name: str) -> None:
        """Start no more jobs of a type anywhere, or let a schedule make none. Raises FilterRefused for neither."""
        if self._schedule_of(name) is not None:
            await pause_schedule(self.db, name, paused=True)
        else:
            await pause_type(self.db, self._type_named(name))

    async def resume(self, name: str) -> None:
        """Go on with a type or a schedule. Raises FilterRefused for neither."""
        if self._schedule_of(name) is not None:
            await pause_schedule(self.db, name, paused=False)
        else:
            await resume_type(self.db, self._type_named(name))

    async def run_now(self, schedule_id: str) -> UUID:
        """Ask for the work of a schedule now, whatever its occasions. Raises FilterRefused and JobQueueFull."""
        schedule = self._schedule_of(schedule_id)
        if schedule is None:
            raise FilterRefused("the settings declare no schedule of that name")
        return await self.ask(schedule.payload)

    def _type_named(self, name: str) -> JobType:
        try:
            return JobType(name)
        except ValueError:
            known = [*JobType, *(schedule.schedule_id for schedule in self.schedules())]
            raise FilterRefused(
                f"there is no type of job and no schedule of that name; there are: {', '.join(known)}"
            ) from None

    def _schedule_of(self, schedule_id: str) -> Schedule | None:
        return next((one for one in self.schedules() if one.schedule_id == schedule_id), None)

    async def ask_for(self, kind: str, account: AccountSettings, *, folder: str | None, fill: bool = False) -> UUID:
        """Ask for a type of work by its name. Raises FilterRefused, ConfigurationRefused and JobQueueFull."""
        job_type = job_type_named(kind)
        if not applies_to(job_type, account):
            raise ConfigurationRefused("that account has no server; only re-deriving makes sense for it")
        if fill and job_type is not JobType.VERIFY_MAILBOX:
            raise ConfigurationRefused(f"fill means nothing for {job_type.value}")
        payload = payload_of(job_type, account.account_id, folder=folder_alias(folder), fill=fill)
        return await self.ask(payload)

    async def ask(self, payload: Payload) -> UUID:
        """Enqueue for somebody who waits, ahead of ordinary work; the job's id. Raises JobQueueFull (JOB-19)."""
        key = f"{payload.account_id}/asked#{uuid7(self.now())}"
        request = JobRequest(key, payload, account_id=payload.account_id, priority=Priority.INTERACTIVE)
        answer = await enqueue_now(self.db, request, settings=self.settings.jobs)
        if isinstance(answer, RefusedAtCapacity):
            raise JobQueueFull("too many jobs of that type wait already; see: mailkeep jobs list --state pending")
        return answer.id

    async def _rederive(self, job: RunningJob) -> Mapping[str, int]:
        payload = job.payload
        assert isinstance(payload, RederiveStoredMail)
        run = await self._run_of(payload)
        ends = time.monotonic() + job.time_budget.total_seconds() * BUDGET_SHARE
        limits = reading_limits(self.settings.mail_synchronization)
        while run is not None and run.ended_at is None:
            run = await rederive_pass(self.db, run, limits=limits, now=self.now)
            await job.report(run.rederived + run.unreadable + run.missing_content)
            if run.ended_at is None and time.monotonic() >= ends:
                await self._next_segment(payload, run)
                break
        if run is None:
            return {}
        return {"rederived": run.rederived, "unreadable": run.unreadable, "missing_content": run.missing_content}

    async def _run_of(self, payload: RederiveStoredMail) -> RederivationRun | None:
        """The run that a segment works at; the first one asks for it. None when a later request replaced it."""
        account_id = AccountId(payload.account_id)
        if payload.run_id is None:
            return await request_rederivation(self.db, account_id, alias=payload.folder_alias, now=self.now())
        runs = await rederivation_runs(self.db, account_id)
        return next((run for run in runs if str(run.run_id) == payload.run_id), None)

    async def _next_segment(self, payload: RederiveStoredMail, run: RederivationRun) -> None:
        following = replace(payload, run_id=str(run.run_id), segment=payload.segment + 1)
        key = f"{payload.account_id}/{payload.folder_alias or '*'}/{run.run_id}#{following.segment}"
        request = JobRequest(key, following, account_id=payload.account_id)
        answer = await enqueue_now(self.db, request, settings=self.settings.jobs)
        if isinstance(answer, RefusedAtCapacity):
            raise JobQueueFull("the next segment finds no room in the queue; this one is tried again")

    async def _retry_quarantined(self, job: RunningJob) -> Mapping[str, int]:
        payload = job.payload
        assert isinstance(payload, RetryQuarantinedMail)
        account = self._account(payload.account_id)
        async with open_resources(self.db, self.settings, self.home, access=self.access) as resources:
            with self._heeding(account.account_id):
                folders = await retry_quarantined(resources, account.account_id, alias=payload.folder_alias)
        return {
            "stored": sum(folder.arrivals.stored for folder in folders),
            "gone": sum(folder.gone for folder in folders),
        }

    async def _verify(self, job: RunningJob) -> Mapping[str, int]:
        payload = job.payload
        assert isinstance(payload, VerifyMailbox)
        account = self._account(payload.account_id)
        (result,) = await verify(
            self.db,
            self.settings,
            self.home,
            [account],
            alias=payload.folder_alias,
            fill=payload.fill,
            access=self.access,
        )
        if isinstance(result.proof, MailkeepError):
            with self._heeding(account.account_id):
                raise result.proof
        folders = [folder.counts for folder in result.proof.folders]
        return {
            "folders": len(folders),
            "holes": sum(counts.holes for counts in folders),
            "filled": sum(counts.filled for counts in folders),
            "unproven": len(result.proof.unproven),
        }

    @contextmanager
    def _heeding(self, account_id: str) -> Iterator[None]:
        """Where the server asked to be left alone, let the job come back when that is over (JOB-B11)."""
        try:
            yield
        except AskedToComeBack as error:
            pause = read_pauses(self.home, now=self.now()).get(account_id)
            if pause is None:
                raise
            raise RetryAfter(pause[1] - self.now()) from error

    def _account(self, account_id: str) -> AccountSettings:
        """The account of a job. Where these settings lack it another process may have it, so the job is tried again."""
        account = self.settings.account(account_id)
        if account is None:
            unknown = AccountNotAccessible("the account of this job is not configured here")
            raise RetryAfter(ELSEWHERE_PAUSE) from unknown
        return account


def payload_of(job_type: JobType, account_id: str, *, folder: str | None, fill: bool) -> Payload:
    """The payload of a type of work for an account; `fill` counts for verifying only."""
    match job_type:
        case JobType.REDERIVE_STORED_MAIL:
            return RederiveStoredMail(account_id, folder)
        case JobType.RETRY_QUARANTINED_MAIL:
            return RetryQuarantinedMail(account_id, folder)
        case JobType.VERIFY_MAILBOX:
            return VerifyMailbox(account_id, folder, fill=fill)


def applies_to(job_type: JobType, account: AccountSettings) -> bool:
    """Whether a type of work makes sense for an account: one that imports fill has no server to ask."""
    return job_type is JobType.REDERIVE_STORED_MAIL or account.kind is AccountKind.IMAP


def _reaches(declared: ScheduleSettings, account: AccountSettings) -> bool:
    return declared.account in (None, account.account_id) and applies_to(declared.job, account)


def _schedule(declared: ScheduleSettings, account: AccountSettings) -> Schedule:
    folder = None if declared.folder is None else declared.folder.strip().upper()
    return Schedule(
        schedule_id=f"{account.account_id}/{declared.name}",
        recurrence=parse_recurrence(declared.recurrence),
        payload=payload_of(declared.job, account.account_id, folder=folder, fill=declared.fill),
        account_id=account.account_id,
        jitter=declared.jitter,
        until=declared.until,
    )
