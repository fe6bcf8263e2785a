"""Settings of background work: how much of it runs, how it is repeated, and what recurs (docs/spec/jobs.md)."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator
from pydantic_core import PydanticCustomError

from mailkeep.config.recurrence import parse_recurrence
from mailkeep.config.values import Duration, Section, printable, refuse

_SECOND = timedelta(seconds=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
RETENTION_FLOOR = _DAY
"""A finished job keeps its key at least this long: longer than any trigger could repeat it (JOB-52)."""


class JobType(StrEnum):
    """The kinds of background work of this build; the value is at once the stored value, log word and metric label.

    A row of any other type belongs to another build and is left alone (JOB-8, JOB-9).
    """

    REDERIVE_STORED_MAIL = "rederive-stored-mail"
    RETRY_QUARANTINED_MAIL = "retry-quarantined-mail"
    VERIFY_MAILBOX = "verify-mailbox"


def _recurrence(text: str) -> str:
    try:
        parse_recurrence(text)
    except ValueError as error:
        raise PydanticCustomError("recurrence", "{reason}", {"reason": str(error)}) from None
    return text


def _name(text: str) -> str:
    if not printable(text) or text != text.strip() or any(character in text for character in "/@"):
        raise PydanticCustomError("schedule_name", "should be a word or two on one line, without / and @")
    return text


class JobTypeSettings(Section):
    """What differs for one type of work; whatever is left out follows the section."""

    job: JobType = Field(description="The type this is about.")
    execution_timeout: Duration | None = Field(
        default=None, ge=_SECOND, le=_HOUR, description="Longest attempt; below `lease_duration`."
    )
    max_attempts: int | None = Field(default=None, ge=1, le=20, description="Attempts before it is given up.")
    retry_base_delay: Duration | None = Field(
        default=None, ge=_SECOND, le=_HOUR, description="Wait after the first failed attempt; doubles each time."
    )
    retry_max_delay: Duration | None = Field(
        default=None, ge=_SECOND, le=_DAY, description="Longest wait between attempts."
    )
    max_queue_depth: int | None = Field(default=None, ge=1, le=1_000_000, description="Waiting jobs of the type.")
    max_concurrent_jobs: int | None = Field(default=None, ge=1, le=32, description="At the same time in one process.")
    max_concurrent_everywhere: int | None = Field(
        default=None, ge=1, le=10_000, description="At the same time in all processes together; no bound when left out."
    )
    max_concurrent_per_account: int | None = Field(
        default=None, ge=1, le=10_000, description="At the same time for one account, in all processes together."
    )
    retention: Duration | None = Field(
        default=None, ge=RETENTION_FLOOR, le=timedelta(days=3650), description="How long finished jobs are kept."
    )


class ScheduleSettings(Section):
    """Work that recurs, for one account or for each of them."""

    name: Annotated[str, AfterValidator(_name)] = Field(
        min_length=1, max_length=64, description="Its name; a new name is a new schedule."
    )
    recurrence: Annotated[str, AfterValidator(_recurrence)] = Field(
        max_length=512,
        description="When: `Every 06:00:00`, `Daily at 03:00 Europe/Warsaw`, `Weekly on Mon, Thu at 03:00`, "
        "`Monthly on last at 03:00`, UTC without a zone; or an RRULE after its DTSTART, as calendars write it.",
    )
    job: JobType = Field(description="What.")
    account: str | None = Field(
        default=None, min_length=1, max_length=128, description="The account, by id; every one when left out."
    )
    folder: str | None = Field(default=None, min_length=1, max_length=128, description="Only the folder of this alias.")
    fill: bool = Field(default=False, description="`verify-mailbox` only: also fetch what is missing.")
    jitter: Duration = Field(
        default=timedelta(0),
        ge=timedelta(0),
        le=_DAY,
        description="Each account starts up to this much later, always by the same part of it.",
    )
    until: AwareDatetime | None = Field(default=None, description="No occasion after this instant, with its offset.")

    @model_validator(mode="after")
    def _fill_is_for_verifying(self) -> Self:
        if self.fill and self.job is not JobType.VERIFY_MAILBOX:
            refuse([("fill", f"means nothing for {self.job.value}")])
        return self


class JobsSettings(Section):
    """Background work (spec JOB section 12)."""

    enabled: bool = Field(default=True, description="Whether this process works at jobs; they wait for another if not.")
    batch_size: int = Field(default=5, ge=1, le=100, description="Jobs taken by one claim at most.")
    max_concurrent_jobs: int = Field(default=4, ge=1, le=32, description="Jobs at the same time in one process.")
    max_concurrent_jobs_per_type: int = Field(
        default=2, ge=1, le=32, description="Of these, jobs of one type; not above `max_concurrent_jobs`."
    )
    max_queue_depth_per_type: int = Field(
        default=10_000, ge=1, le=1_000_000, description="Waiting jobs of one type before more are refused."
    )
    lease_duration: Duration = Field(
        default=timedelta(minutes=5),
        ge=2 * _SECOND,
        le=_HOUR,
        description="How long a job is held without a sign of life; then another process takes it.",
    )
    execution_timeout: Duration = Field(
        default=timedelta(minutes=2), ge=_SECOND, le=_HOUR, description="Longest attempt; below `lease_duration`."
    )
    max_attempts: int = Field(default=5, ge=1, le=20, description="Attempts before a job is given up.")
    retry_base_delay: Duration = Field(
        default=timedelta(seconds=30), ge=_SECOND, le=_HOUR, description="Wait after the first failure; doubles."
    )
    retry_max_delay: Duration = Field(
        default=timedelta(minutes=30), ge=_SECOND, le=_DAY, description="Longest wait; not below `retry_base_delay`."
    )
    poll_interval: Duration = Field(
        default=timedelta(seconds=10),
        ge=_SECOND,
        le=timedelta(minutes=10),
        description="How often is looked for work and due schedules when nothing is announced.",
    )
    retention: Duration = Field(
        default=timedelta(days=30),
        ge=RETENTION_FLOOR,
        le=timedelta(days=3650),
        description="How long finished and dropped jobs are kept, and with them the knowledge that they ran.",
    )
    types: tuple[JobTypeSettings, ...] = Field(default=(), description="What differs for one type of work.")
    schedules: tuple[ScheduleSettings, ...] = Field(default=(), description="Work that recurs.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        defects: list[tuple[str, str]] = []
        if self.execution_timeout >= self.lease_duration:
            defects.append(("execution_timeout", "is not below lease_duration"))
        if self.retry_max_delay < self.retry_base_delay:
            defects.append(("retry_max_delay", "is below retry_base_delay"))
        if self.max_concurrent_jobs_per_type > self.max_concurrent_jobs:
            defects.append(("max_concurrent_jobs_per_type", "is above max_concurrent_jobs"))
        for position, one in enumerate(self.types):
            defects += [(f"types[{position}].{key}", text) for key, text in self._type_defects(one)]
        for key in ("types", "schedules"):
            names = [getattr(one, "job" if key == "types" else "name") for one in getattr(self, key)]
            defects += [
                (f"{key}[{position}]", "appears twice")
                for position, name in enumerate(names)
                if name in names[:position]
            ]
        refuse(defects)
        return self

    def _type_defects(self, one: JobTypeSettings) -> list[tuple[str, str]]:
        defects = []
        if one.execution_timeout is not None and one.execution_timeout >= self.lease_duration:
            defects.append(("execution_timeout", "is not below lease_duration"))
        if (one.retry_max_delay or self.retry_max_delay) < (one.retry_base_delay or self.retry_base_delay):
            defects.append(("retry_max_delay", "is below retry_base_delay"))
        if one.max_concurrent_jobs is not None and one.max_concurrent_jobs > self.max_concurrent_jobs:
            defects.append(("max_concurrent_jobs", "is above that of the section"))
        return defects
