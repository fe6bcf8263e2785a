"""What the queue tells the operator's telemetry: spans, links to whatever enqueued, counters (JOB-42, JOB-43).

Spans go to whatever OpenTelemetry provider the process has, and nowhere without one; counters stand at `/metrics` of
`mailkeep serve`. Labels are the job's type, an outcome and a classification; never a key, an id, an account or reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mailkeep.config import JobType
from mailkeep.jobs.model import AttemptOutcome, ClaimedJob, FailureClassification

PARENT_CHARACTERS = 55
STATE_CHARACTERS = 512
_PROPAGATOR = TraceContextTextMapPropagator()
_ERRORS = frozenset({AttemptOutcome.HANDLER_FAILED, AttemptOutcome.TIMED_OUT})

_REGISTRY: Final = CollectorRegistry(auto_describe=False)
_DURATIONS: Final = (0.01, 0.1, 1, 5, 10, 30, 60, 120, 300, 900, 3600)

ATTEMPTS: Final = Counter(
    "mailkeep_jobs_attempts", "Attempts by how they ended.", ["type", "outcome"], registry=_REGISTRY
)
DURATION: Final = Histogram(
    "mailkeep_jobs_attempt_duration_seconds",
    "How long attempts took.",
    ["type", "outcome"],
    buckets=_DURATIONS,
    registry=_REGISTRY,
)
RETRIES: Final = Counter(
    "mailkeep_jobs_retries", "Attempts that will be followed by another.", ["type"], registry=_REGISTRY
)
DEAD_LETTERS: Final = Counter(
    "mailkeep_jobs_dead_letters", "Jobs given up; alert on any.", ["type", "classification"], registry=_REGISTRY
)
DEPTH: Final = Gauge(
    "mailkeep_jobs_queue_depth", "Waiting jobs of all processes, counted up to the bound.", ["type"], registry=_REGISTRY
)
STOPPED: Final = Gauge(
    "mailkeep_jobs_stopped",
    "Jobs of all processes that wait for an operator's decision, counted up to the bound.",
    ["type"],
    registry=_REGISTRY,
)
DISPATCHES: Final = Counter(
    "mailkeep_jobs_schedule_dispatches", "Schedules acted on, by outcome.", ["type", "outcome"], registry=_REGISTRY
)
SKIPPED: Final = Counter(
    "mailkeep_jobs_schedule_skipped_occurrences", "Occasions that made no job.", ["type"], registry=_REGISTRY
)


def render_metrics() -> bytes:
    """All signals in the text format of Prometheus."""
    return generate_latest(_REGISTRY)


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
        ATTEMPTS.labels(self._job_type.value, outcome.value).inc()
        DURATION.labels(self._job_type.value, outcome.value).observe(seconds)


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
    RETRIES.labels(job_type.value).inc()


def count_dead_letter(job_type: JobType, classification: FailureClassification) -> None:
    """A job was given up."""
    DEAD_LETTERS.labels(job_type.value, classification.value).inc()


def publish_depth(job_type: JobType, depth: int, *, stopped: int) -> None:
    """How many jobs of a type wait and how many have stopped; an emptied type reports 0, an unmeasured one nothing."""
    DEPTH.labels(job_type.value).set(depth)
    STOPPED.labels(job_type.value).set(stopped)


def count_dispatch(job_type: JobType, outcome: str, *, skipped: int) -> None:
    """A schedule was acted on."""
    DISPATCHES.labels(job_type.value, outcome).inc()
    if skipped:
        SKIPPED.labels(job_type.value).inc(skipped)
