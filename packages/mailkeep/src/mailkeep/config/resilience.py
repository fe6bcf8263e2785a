"""How patient mailkeep is with each kind of counterpart: `resilience.<class>` (spec SYNC-34, SYNC-35).

One section for each class of calls that this build makes, with that class's own defaults. `email_delivery` is no name
here before mailkeep delivers mail.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from mailkeep.config.values import Duration, Section, refuse

_DAY = timedelta(days=1)


class PipelineClass(StrEnum):
    """The kinds of calls that go through a pipeline."""

    MAILBOX_SESSION_ESTABLISHMENT = "mailbox_session_establishment"
    MAILBOX_DATA_RETRIEVAL = "mailbox_data_retrieval"
    DATABASE_COMMAND_EXECUTION = "database_command_execution"
    AI_PROVIDER_INVOCATION = "ai_provider_invocation"
    MAIL_AUTHORIZATION_SERVER_INVOCATION = "mail_authorization_server_invocation"


Attempts = Annotated[int, Field(ge=1, le=10, description="Attempts in all, the first included.")]
BaseDelay = Annotated[
    Duration,
    Field(ge=timedelta(0), le=_DAY, description="Wait before the second attempt; it doubles, and jitter is added."),
]
MaxDelay = Annotated[Duration, Field(ge=timedelta(0), le=_DAY, description="Longest wait between two attempts.")]
AttemptTimeout = Annotated[
    Duration, Field(gt=timedelta(milliseconds=10), le=_DAY, description="Longest time of one attempt.")
]
TotalTimeout = Annotated[
    Duration, Field(gt=timedelta(milliseconds=10), le=_DAY, description="Longest time of all attempts and waits.")
]
Ratio = Annotated[
    float, Field(ge=0.01, le=1, description="Share of failed attempts from which the circuit breaker opens.")
]
Throughput = Annotated[
    int, Field(ge=2, le=1000, description="Attempts within the window before the breaker says anything.")
]
Window = Annotated[
    Duration, Field(gt=timedelta(milliseconds=500), le=_DAY, description="Time over which the breaker counts attempts.")
]
Break = Annotated[
    Duration,
    Field(gt=timedelta(milliseconds=500), le=_DAY, description="How long nothing is attempted after it opened."),
]
Limit = Annotated[int, Field(ge=1, le=1000, description="Calls at the same time; more are rejected, never queued.")]


class PipelineSettings(Section):
    """One pipeline: attempts, waits, timeouts, circuit breaker and concurrency limit."""

    attempts: Attempts
    base_delay: BaseDelay
    max_delay: MaxDelay
    attempt_timeout: AttemptTimeout
    total_timeout: TotalTimeout
    breaker_failure_ratio: Ratio = 0.5
    breaker_minimum_throughput: Throughput
    breaker_sampling_window: Window
    breaker_break_duration: Break
    concurrency_limit: Limit

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        defects: list[tuple[str, str]] = []
        if self.attempt_timeout > self.total_timeout:
            defects.append(("attempt_timeout", "is above total_timeout"))
        if self.attempts > 1 and self.base_delay > self.max_delay:
            defects.append(("base_delay", "is above max_delay"))
        if self.attempts > 1 and self.max_delay > self.total_timeout:
            defects.append(("max_delay", "is above total_timeout"))
        refuse(defects)
        return self


class MailboxSessionEstablishment(PipelineSettings):
    """Connecting and signing in to a mail server."""

    attempts: Attempts = 3
    base_delay: BaseDelay = timedelta(seconds=2)
    max_delay: MaxDelay = timedelta(seconds=30)
    attempt_timeout: AttemptTimeout = timedelta(seconds=30)
    total_timeout: TotalTimeout = timedelta(minutes=2)
    breaker_minimum_throughput: Throughput = 5
    breaker_sampling_window: Window = timedelta(seconds=60)
    breaker_break_duration: Break = timedelta(seconds=30)
    concurrency_limit: Limit = 4


class MailboxDataRetrieval(PipelineSettings):
    """Questions to a mail server."""

    attempts: Attempts = 3
    base_delay: BaseDelay = timedelta(seconds=1)
    max_delay: MaxDelay = timedelta(seconds=15)
    attempt_timeout: AttemptTimeout = timedelta(seconds=60)
    total_timeout: TotalTimeout = timedelta(minutes=3)
    breaker_minimum_throughput: Throughput = 10
    breaker_sampling_window: Window = timedelta(seconds=30)
    breaker_break_duration: Break = timedelta(seconds=15)
    concurrency_limit: Limit = 8


class DatabaseCommandExecution(PipelineSettings):
    """Getting a connection of the database that works."""

    attempts: Attempts = 3
    base_delay: BaseDelay = timedelta(milliseconds=200)
    max_delay: MaxDelay = timedelta(seconds=2)
    attempt_timeout: AttemptTimeout = timedelta(seconds=15)
    total_timeout: TotalTimeout = timedelta(seconds=30)
    breaker_minimum_throughput: Throughput = 20
    breaker_sampling_window: Window = timedelta(seconds=30)
    breaker_break_duration: Break = timedelta(seconds=5)
    concurrency_limit: Limit = 256  # who waits for a connection; the pool bounds who has one


class AiProviderInvocation(PipelineSettings):
    """Asking an endpoint for vectors; a query is asked for once, since a person does not wait for a back-off."""

    attempts: Attempts = 3
    base_delay: BaseDelay = timedelta(seconds=2)
    max_delay: MaxDelay = timedelta(seconds=30)
    attempt_timeout: AttemptTimeout = timedelta(minutes=2)
    total_timeout: TotalTimeout = timedelta(minutes=5)
    breaker_minimum_throughput: Throughput = 5
    breaker_sampling_window: Window = timedelta(seconds=60)
    breaker_break_duration: Break = timedelta(seconds=30)
    concurrency_limit: Limit = 4


class MailAuthorizationServerInvocation(PipelineSettings):
    """Asking an authorization server for an access token."""

    attempts: Attempts = 3
    base_delay: BaseDelay = timedelta(milliseconds=500)
    max_delay: MaxDelay = timedelta(seconds=5)
    attempt_timeout: AttemptTimeout = timedelta(seconds=10)
    total_timeout: TotalTimeout = timedelta(seconds=30)
    breaker_minimum_throughput: Throughput = 10
    breaker_sampling_window: Window = timedelta(seconds=60)
    breaker_break_duration: Break = timedelta(seconds=30)
    concurrency_limit: Limit = 8


class ResilienceSettings(Section):
    """Attempts, waits, timeouts, circuit breakers and concurrency limits of calls to others."""

    mailbox_session_establishment: MailboxSessionEstablishment = Field(
        default=MailboxSessionEstablishment(), description="Connecting and signing in to a mail server."
    )
    mailbox_data_retrieval: MailboxDataRetrieval = Field(
        default=MailboxDataRetrieval(),
        description="Questions to a mail server. `attempt_timeout` is its longest silence, and no attempt begins after "
        "`total_timeout`: a large message may take as long as octets keep coming.",
    )
    database_command_execution: DatabaseCommandExecution = Field(
        default=DatabaseCommandExecution(),
        description="Getting a working connection of the database; a statement in a transaction is never repeated.",
    )
    ai_provider_invocation: AiProviderInvocation = Field(
        default=AiProviderInvocation(), description="Asking an endpoint for vectors."
    )
    mail_authorization_server_invocation: MailAuthorizationServerInvocation = Field(
        default=MailAuthorizationServerInvocation(), description="Asking an authorization server for an access token."
    )

    def of(self, kind: PipelineClass) -> PipelineSettings:
        """The settings of a class."""
        found: PipelineSettings = getattr(self, kind.value)
        return found
