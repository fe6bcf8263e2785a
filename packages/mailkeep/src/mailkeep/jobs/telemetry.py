"""What the queue tells the operator's telemetry: spans, links to whatever enqueued, counters (JOB-42, JOB-43).

Only the OpenTelemetry interface is used: without a provider in the process nothing is recorded or sent. Labels are the
job's type, an outcome and a classification; never a key, an id, an account or a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import metrics, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mailkeep.config import JobType
from mailkeep.jobs.model import AttemptOutcome, ClaimedJob, FailureClassification

PARENT_CHARACTERS = 55
STATE_CHARACTERS = 512
_PROPAGATOR = TraceContextTextMapPropagator()
_ERRORS = frozenset({AttemptOutcome.HANDLER_FAILED, AttemptOutcome.TIMED_OUT})

_meter = metrics.get_meter("mailkeep.jobs")
_attempts = _meter.create_counter("jobs.attempts", description="Attempts by how they ended.")
_durations = _meter.create_histogram("jobs.attempt.duration", unit="s", description="How long attempts took.")
_retries = _meter.create_counter("jobs.retries", description="Attempts that will be followed by another.")
_dead_letters = _meter.create_counter("jobs.dead_letters", description="Jobs given up; alert on any.")
_depth = _meter.create_gauge("jobs.queue.depth", description="Waiting jobs, counted up to the bound.")
_dispatches = _meter.create_counter("jobs.schedule.dispatches", description="Schedules acted on, by outcome.")
_skipped = _meter.create_counter("jobs.schedule.skipped_occurrences", description="Occasions that made no job.")


def active_trace() -> tuple[str | None, str | None]:
    """The W3C context of the caller as traceparent and tracestate; None where there is none or it does not fit."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    parent, state = carrier.get("traceparent"), carrier.get("tracestate")
    if parent is None or len(parent) > PARENT_CHARACTERS:
        return None, None
    return parent, state if state and len(state) <= STATE_CHARACTERS else None


class AttemptSpan:
    """The span of one attempt; `end` is told how it ended."""

    def __init__(self, span: trace.Span, job_type: JobType) -> None:
        self._span = span
        self._job_type = job_type

    def end(
        self, outcome: AttemptOutcome, *, seconds: float, dead_lettered_as: FailureClassification | None = None
    ) -> None:
        """Count the attempt and close its description."""
        self._span.set_attribute("job.outcome", outcome.value)
        if dead_lettered_as is not None:
            self._span.set_attribute("job.failure.classification", dead_lettered_as.value)
        if outcome in _ERRORS:
            self._span.set_status(trace.StatusCode.ERROR)
        labels = {"job.type": self._job_type.value, "job.outcome": outcome.value}
        _attempts.add(1, labels)
        _durations.record(seconds, labels)


@contextmanager
def attempt_span(job: ClaimedJob) -> Iterator[AttemptSpan]:
    """A span of its own for an attempt, linked to the trace that enqueued it: that one may have ended hours ago."""
    links = [] if (link := _link(job)) is None else [link]
    attributes = {"job.type": job.job_type.value, "job.attempt": job.attempt}
    tracer = trace.get_tracer("mailkeep.jobs")
    with tracer.start_as_current_span(
        "run_job", links=links, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        yield AttemptSpan(span, job.job_type)


def _link(job: ClaimedJob) -> trace.Link | None:
    """The enqueuer's span; None where nothing usable is stored."""
    if job.trace_parent is None:
        return None
    carrier = {"traceparent": job.trace_parent, **({"tracestate": job.trace_state} if job.trace_state else {})}
    context = trace.get_current_span(_PROPAGATOR.extract(carrier)).get_span_context()
    return trace.Link(context) if context.is_valid and context.is_remote else None


def count_retry(job_type: JobType) -> None:
    """Another attempt will follow."""
    _retries.add(1, {"job.type": job_type.value})


def count_dead_letter(job_type: JobType, classification: FailureClassification) -> None:
    """A job was given up."""
    _dead_letters.add(1, {"job.type": job_type.value, "job.failure.classification": classification.value})


def publish_depth(job_type: JobType, depth: int) -> None:
    """How many jobs of a type wait; an emptied type reports 0, one never measured is absent."""
    _depth.set(depth, {"job.type": job_type.value})


def count_dispatch(job_type: JobType, outcome: str, *, skipped: int) -> None:
    """A schedule was acted on."""
    _dispatches.add(1, {"job.type": job_type.value, "job.schedule.outcome": outcome})
    if skipped:
        _skipped.add(skipped, {"job.type": job_type.value})
