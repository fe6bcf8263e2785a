"""What a failure means and when to try again. Pure (docs/spec/jobs.md section 6)."""

from __future__ import annotations

import errno
import random
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import psycopg

from mailkeep.config import JobsSettings, JobType
from mailkeep.errors import MailkeepError
from mailkeep.jobs.model import FailureClassification, RetryAfter

MAX_EXPONENT: Final = 16
REASON_CHARACTERS: Final = 128
LONGEST_WAIT: Final = timedelta(days=1)
"""What a handler may ask for at most: a provider's nonsense should not put a job off for years."""
_REPEATABLE: Final = (
    ConnectionError,
    TimeoutError,
    EOFError,  # a stream that ended early, asyncio's too
    socket.gaierror,
    socket.herror,
    ssl.SSLError,
    psycopg.OperationalError,
    RetryAfter,
)
_NETWORK_ERRORS: Final = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})


@dataclass(frozen=True, slots=True)
class TypePolicy:
    """The bounds of one type: the section's, overridden by the type's own (JOB-B11). None means no bound."""

    execution_timeout: timedelta
    max_attempts: int
    retry_base_delay: timedelta
    retry_max_delay: timedelta
    max_queue_depth: int
    max_concurrent_jobs: int
    max_concurrent_everywhere: int | None
    max_concurrent_per_account: int | None
    retention: timedelta


def policy_of(settings: JobsSettings, job_type: JobType) -> TypePolicy:
    """What holds for a type of work."""
    own = next((one for one in settings.types if one.job is job_type), None)
    defaults = {
        "execution_timeout": settings.execution_timeout,
        "max_attempts": settings.max_attempts,
        "retry_base_delay": settings.retry_base_delay,
        "retry_max_delay": settings.retry_max_delay,
        "max_queue_depth": settings.max_queue_depth_per_type,
        "max_concurrent_jobs": settings.max_concurrent_jobs_per_type,
        "max_concurrent_everywhere": None,
        "max_concurrent_per_account": None,
        "retention": settings.retention,
    }
    overrides = {} if own is None else {key: getattr(own, key) for key in defaults if getattr(own, key) is not None}
    return TypePolicy(**{**defaults, **overrides})


def classify(error: BaseException) -> FailureClassification:
    """Transient when the error, or whatever caused it, may pass by itself; the unknown is permanent (JOB-29)."""
    if any(_may_pass(one) for one in chain(error)):
        return FailureClassification.TRANSIENT
    return FailureClassification.PERMANENT


def reason(error: BaseException) -> str:
    """Type and code of the first error of ours in the chain, else the type: never a message (JOB-32)."""
    for one in chain(error):
        if isinstance(one, MailkeepError):
            return f"{type(one).__name__} {one.code}"[:REASON_CHARACTERS]
    return type(error).__name__[:REASON_CHARACTERS]


def asked_delay(error: BaseException) -> timedelta | None:
    """The wait that the handler asked for, if it did, within a day."""
    asked = next((one.delay for one in chain(error) if isinstance(one, RetryAfter)), None)
    return None if asked is None else min(max(asked, timedelta(0)), LONGEST_WAIT)


def retry_delay(policy: TypePolicy, attempt: int, *, draw: random.Random) -> timedelta:
    """How long to wait after failed attempt number `attempt`, drawn from the upper half of its ceiling (JOB-31)."""
    exponent = min(attempt - 1, MAX_EXPONENT)
    ceiling = min(policy.retry_base_delay * 2**exponent, policy.retry_max_delay)
    delay: timedelta = ceiling * draw.uniform(0.5, 1.0)
    return delay


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error, the members of a group, and what caused each, outermost first."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        cause = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        waiting += [cause] if cause is not None else []


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, MailkeepError):
        return error.retryable
    return isinstance(error, _REPEATABLE) or (isinstance(error, OSError) and error.errno in _NETWORK_ERRORS)
