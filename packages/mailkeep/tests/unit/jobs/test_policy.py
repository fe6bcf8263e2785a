"""Failures and delays, payloads, settings: the decisions that need no database."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from pydantic import ValidationError

from mailkeep.background import Background
from mailkeep.config import JobsSettings, JobType, Settings
from mailkeep.errors import AccountHeldElsewhere, CommandRefused, ConfigurationRefused, MailServerUnavailable
from mailkeep.jobs import Handler, RederiveStoredMail, RetryAfter, RetryQuarantinedMail, VerifyMailbox
from mailkeep.jobs.model import FailureClassification, Payload
from mailkeep.jobs.payloads import PAYLOADS, decode, encode
from mailkeep.jobs.policy import classify, policy_of, reason, retry_delay
from mailkeep.jobs.worker import handlers_by_type

TRANSIENT, PERMANENT = FailureClassification.TRANSIENT, FailureClassification.PERMANENT


def wrapped(error: BaseException, depth: int) -> BaseException:
    """The error as the cause of others."""
    for number in range(depth):
        try:
            raise ValueError(f"ann@example.com {number}") from error  # noqa: TRY301 -- a chain is wanted
        except ValueError as outer:
            error = outer
    return error


@pytest.mark.spec("JOB-29")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MailServerUnavailable("x"), TRANSIENT),
        (AccountHeldElsewhere("x"), TRANSIENT),
        (ConnectionResetError(), TRANSIENT),
        (TimeoutError(), TRANSIENT),
        (EOFError(), TRANSIENT),
        (psycopg.OperationalError(), TRANSIENT),
        (OSError(113, "no route"), TRANSIENT),
        (RetryAfter(timedelta(seconds=1)), TRANSIENT),
        (CommandRefused("x"), PERMANENT),
        (FileNotFoundError(), PERMANENT),
        (KeyError("x"), PERMANENT),
    ],
)
def test_what_may_pass_is_transient_and_the_unknown_is_permanent(
    error: BaseException, expected: FailureClassification
) -> None:
    """Alone, deep in a chain, or in a group."""
    assert classify(error) is expected
    assert classify(wrapped(error, 3)) is expected
    assert classify(BaseExceptionGroup("many", [error])) is expected


@pytest.mark.spec("JOB-32")
def test_a_reason_names_types_and_codes_and_never_a_message() -> None:
    """The first error of ours down the chain, else the outermost type; cut, never refused."""
    assert reason(wrapped(MailServerUnavailable("ann@example.com"), 3)) == "MailServerUnavailable 22001"
    assert reason(wrapped(KeyError("ann@example.com"), 2)) == "ValueError"
    assert len(reason(type("X" * 300, (Exception,), {})())) == 128


@pytest.mark.spec("JOB-31")
def test_delays_lie_in_the_upper_half_of_a_doubling_capped_ceiling() -> None:
    """Over many draws, for every attempt up to the cap of the exponent."""
    policy = policy_of(JobsSettings(), JobType.VERIFY_MAILBOX)
    draw = random.Random(7)
    for attempt in (1, 2, 3, 6, 7, 17, 400):
        ceiling = min(timedelta(seconds=30) * 2 ** min(attempt - 1, 16), timedelta(minutes=30))
        drawn = [retry_delay(policy, attempt, draw=draw) for _ in range(1000)]
        assert ceiling / 2 <= min(drawn) < ceiling * 0.51
        assert ceiling * 0.99 < max(drawn) <= ceiling


@pytest.mark.spec("JOB-B11")
def test_a_type_overrides_what_it_names_and_follows_the_section_otherwise() -> None:
    """Its own bound where it has one."""
    settings = JobsSettings.model_validate({"types": [{"job": "verify-mailbox", "max_attempts": 9, "retention": "2d"}]})
    verify, other = (policy_of(settings, kind) for kind in (JobType.VERIFY_MAILBOX, JobType.REDERIVE_STORED_MAIL))
    assert (verify.max_attempts, verify.retention) == (9, timedelta(days=2))
    assert verify.execution_timeout == other.execution_timeout == timedelta(minutes=2)
    assert (other.max_attempts, other.retention) == (5, timedelta(days=30))


@pytest.mark.spec("JOB-8", "JOB-26")
@pytest.mark.parametrize(
    "payload",
    [RederiveStoredMail("a", None, "r", 3), RetryQuarantinedMail("a", "INBOX"), VerifyMailbox("a", None, fill=True)],
)
def test_a_payload_is_read_back_as_written_and_nothing_else_is(payload: Payload) -> None:
    """One payload class per type; a missing, added or mistyped field makes a document unreadable."""
    document = json.loads(encode(payload))
    assert decode(payload.JOB_TYPE, document) == payload
    assert set(PAYLOADS) == set(JobType)
    broken: list[Any] = [None, [], {}, {**document, "extra": 1}, {**document, "account_id": 1}]
    for one in broken:
        with pytest.raises(ValueError, match="payload"):
            decode(payload.JOB_TYPE, one)


@pytest.mark.spec("JOB-23", "JOB-31", "JOB-35")
@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"execution_timeout": "5m"}, "execution_timeout"),
        ({"retry_base_delay": "1h"}, "retry_max_delay"),
        ({"max_concurrent_jobs": 1}, "max_concurrent_jobs_per_type"),
        ({"types": [{"job": "verify-mailbox", "execution_timeout": "5m"}]}, "execution_timeout"),
        ({"types": [{"job": "verify-mailbox"}, {"job": "verify-mailbox"}]}, "twice"),
    ],
)
def test_an_inverted_pair_of_settings_is_refused_by_name(section: dict[str, Any], named: str) -> None:
    """A process with such settings does not start."""
    with pytest.raises(ValidationError) as refused:
        JobsSettings.model_validate(section)
    assert named in json.dumps(refused.value.errors(), default=str)


async def _nothing(job: object) -> None:
    del job


@pytest.mark.spec("JOB-13", "JOB-1")
def test_every_type_has_exactly_one_handler_that_says_why_it_may_run_twice(tmp_path: Any) -> None:
    """Two, none, or one that does not say are refused at the start; the product's own are complete."""
    background = Background(None, Settings, tmp_path, None)  # type: ignore[arg-type]
    handlers = background.handlers()
    assert set(handlers_by_type(handlers, JobsSettings())) == set(JobType)
    silent = Handler(JobType.VERIFY_MAILBOX, _nothing, " ")  # type: ignore[arg-type]
    speaking = [handler for handler in handlers if handler.job_type is not silent.job_type]
    for wrong in ([*handlers, handlers[0]], handlers[:1], [*speaking, silent]):
        with pytest.raises(ConfigurationRefused):
            handlers_by_type(wrong, JobsSettings())
    assert handlers_by_type(handlers[:1], JobsSettings.model_validate({"enabled": False}))
