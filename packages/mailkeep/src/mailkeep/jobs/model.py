"""What a job is: its states, its payloads, what enqueuing answers, and a job in the hands of an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import ClassVar
from uuid import UUID

from mailkeep.config import JobType


class JobState(StrEnum):
    """Where a job stands, as stored."""

    PENDING = "Pending"
    CLAIMED = "Claimed"
    SUCCEEDED = "Succeeded"
    DEAD_LETTERED = "DeadLettered"
    DROPPED = "Dropped"


class Priority(IntEnum):
    """Who waits: lower goes first."""

    INTERACTIVE = 0
    ORDINARY = 10


class FailureClassification(StrEnum):
    """Whether another attempt may succeed."""

    TRANSIENT = "Transient"
    PERMANENT = "Permanent"


class AttemptOutcome(StrEnum):
    """How an attempt ended; a metric label."""

    SUCCEEDED = "succeeded"
    RELEASED_FOR_SHUTDOWN = "released_for_shutdown"
    LEASE_LOST = "lease_lost"
    TIMED_OUT = "timed_out"
    HANDLER_FAILED = "handler_failed"


class RetryAfter(Exception):  # noqa: N818  -- it asks for something, nothing may be wrong
    """Raised by a handler that knows when to come back; the attempt counts, the wait is the one given (JOB-B11)."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__("asked for patience")
        self.delay = delay


@dataclass(frozen=True, slots=True)
class RederiveStoredMail:
    """Read stored mail of an account or of one folder again. `run_id` is None until the first segment asked for it."""

    JOB_TYPE: ClassVar = JobType.REDERIVE_STORED_MAIL
    account_id: str
    folder_alias: str | None = None
    run_id: str | None = None
    segment: int = 0


@dataclass(frozen=True, slots=True)
class RetryQuarantinedMail:
    """Fetch and store again what waits in an account's quarantine."""

    JOB_TYPE: ClassVar = JobType.RETRY_QUARANTINED_MAIL
    account_id: str
    folder_alias: str | None = None


@dataclass(frozen=True, slots=True)
class VerifyMailbox:
    """Compare an account, or one folder, with its server; with `fill` fetch what is missing."""

    JOB_TYPE: ClassVar = JobType.VERIFY_MAILBOX
    account_id: str
    folder_alias: str | None = None
    fill: bool = False


Payload = RederiveStoredMail | RetryQuarantinedMail | VerifyMailbox


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Work to write down. The type is that of the payload; `available_at` None is at once, later defers it (JOB-16).

    `key` names this one execution for ever, made of the product's own names only (JOB-10).
    """

    key: str
    payload: Payload
    account_id: str | None = None
    available_at: datetime | None = None
    priority: Priority = Priority.ORDINARY

    @property
    def job_type(self) -> JobType:
        """The type of the payload."""
        return self.payload.JOB_TYPE


@dataclass(frozen=True, slots=True)
class Created:
    """The job was written down."""

    id: UUID


@dataclass(frozen=True, slots=True)
class AlreadyEnqueued:
    """The key is known: that execution waits, runs or is over, and is not asked for again (JOB-15)."""

    id: UUID


@dataclass(frozen=True, slots=True)
class RefusedAtCapacity:
    """Too many jobs of the type wait; nothing was written (JOB-17)."""


Enqueued = Created | AlreadyEnqueued | RefusedAtCapacity


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that an attempt holds. `document` is its payload as stored, which may turn out unreadable."""

    id: UUID
    job_type: JobType
    account_id: str | None
    document: object
    attempt: int
    owner: str
    trace_parent: str | None
    trace_state: str | None
