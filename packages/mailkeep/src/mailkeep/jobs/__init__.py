"""Durable background work: a queue in PostgreSQL, workers on any machine, schedules that fill it.

`enqueue` writes work down in the caller's transaction, `Worker` runs it, `dispatch` turns due occasions into jobs; the
rest is what operators see and decide. The handlers are given by whoever wires the process, never by this package.
"""

from mailkeep.jobs.attempt import Handler, RunningJob
from mailkeep.jobs.model import (
    AlreadyEnqueued,
    Created,
    Enqueued,
    JobRequest,
    JobState,
    Payload,
    Priority,
    RederiveStoredMail,
    RefusedAtCapacity,
    RetryAfter,
    RetryQuarantinedMail,
    VerifyMailbox,
)
from mailkeep.jobs.operate import (
    Decision,
    JobPage,
    JobRow,
    Stopped,
    cancel_job,
    count_stopped,
    drop_job,
    held_by,
    job_type_named,
    list_jobs,
    pause_schedule,
    pause_type,
    paused_types,
    resume_type,
    retry_job,
    retry_stopped,
    show_job,
)
from mailkeep.jobs.queries import enqueue, enqueue_now, queue_depth, stopped_count
from mailkeep.jobs.schedules import Schedule, ScheduleState, dispatch, schedule_states
from mailkeep.jobs.worker import Worker

__all__ = [
    "AlreadyEnqueued",
    "Created",
    "Decision",
    "Enqueued",
    "Handler",
    "JobPage",
    "JobRequest",
    "JobRow",
    "JobState",
    "Payload",
    "Priority",
    "RederiveStoredMail",
    "RefusedAtCapacity",
    "RetryAfter",
    "RetryQuarantinedMail",
    "RunningJob",
    "Schedule",
    "ScheduleState",
    "Stopped",
    "VerifyMailbox",
    "Worker",
    "cancel_job",
    "count_stopped",
    "dispatch",
    "drop_job",
    "enqueue",
    "enqueue_now",
    "held_by",
    "job_type_named",
    "list_jobs",
    "pause_schedule",
    "pause_type",
    "paused_types",
    "queue_depth",
    "resume_type",
    "retry_job",
    "retry_stopped",
    "schedule_states",
    "show_job",
    "stopped_count",
]
