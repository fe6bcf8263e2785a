"""The signals of carrying changes out, in this process: by mutation, account and folder alias, never a path (MUT-67).

A move and its fallback look alike here; which commands were sent is told by the debug log alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from opentelemetry import trace
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mailkeep.mutations.model import Lifecycle, Mutation, Stage

_REGISTRY: Final = CollectorRegistry(auto_describe=False)
_DURATIONS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LABELS: Final = ["mutation", "account", "folder"]

CHANGES: Final = Counter(
    "mailkeep_mailbox_mutations", "Attempts at changes, by how they ended.", [*_LABELS, "outcome"], registry=_REGISTRY
)
DURATION: Final = Histogram(
    "mailkeep_mailbox_mutation_duration_seconds",
    "Time of one attempt.",
    _LABELS,
    buckets=_DURATIONS,
    registry=_REGISTRY,
)
LOST_ENTRIES: Final = Counter(
    "mailkeep_mailbox_mutation_audit_refused_appends", "Audit entries that could not be appended.", registry=_REGISTRY
)


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What is not completed of one account: how many of a mutation and lifecycle, and since when the oldest waits."""

    mutation: Mutation
    lifecycle: Lifecycle
    count: int
    oldest_at: datetime


class _OutstandingCollector(Collector):
    """Each account's last answer, replaced whole: a group that emptied is gone (MUT-42)."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[datetime, Sequence[Outstanding]]] = {}

    def replace(self, account_id: str, groups: Sequence[Outstanding], *, now: datetime) -> None:
        self._known[account_id] = (now, tuple(groups))

    def collect(self) -> Iterable[Metric]:
        labels = ["account", "mutation", "lifecycle"]
        count = GaugeMetricFamily("mailkeep_mailbox_mutations_outstanding", "Changes not completed.", labels=labels)
        age = GaugeMetricFamily(
            "mailkeep_mailbox_mutations_oldest_outstanding_age_seconds", "Age of the oldest of them.", labels=labels
        )
        for account_id, (asked_at, groups) in self._known.items():
            for group in groups:
                values = [account_id, group.mutation.value, group.lifecycle.value]
                count.add_metric(values, group.count)
                age.add_metric(values, max((asked_at - group.oldest_at).total_seconds(), 0))
        return [count, age]


OUTSTANDING: Final = _OutstandingCollector()
_REGISTRY.register(OUTSTANDING)


def grouped(rows: Iterable[tuple[str, str, int, datetime]]) -> list[Outstanding]:
    """Rows of mutation, stage, count and oldest, by mutation and lifecycle. Words of a later build are left out."""
    groups: dict[tuple[Mutation, Lifecycle], Outstanding] = {}
    for name, stage, count, oldest in rows:
        try:
            key = (Mutation(name), Lifecycle.of(Stage(stage)))
        except ValueError:
            continue
        before = groups.get(key)
        groups[key] = Outstanding(
            *key,
            count + (before.count if before else 0),
            min(oldest, before.oldest_at) if before else oldest,
        )
    return list(groups.values())


@dataclass(slots=True)
class Stopwatch:
    """The span and the time of the attempts of one batch, one of each for every change in it."""

    account_id: str
    mutation: Mutation
    folder: str
    begun: float
    begun_ns: int

    @classmethod
    def start(cls, account_id: str, mutation: Mutation, folder: str) -> Stopwatch:
        return cls(account_id, mutation, folder, time.monotonic(), time.time_ns())

    def end(self, outcomes: Mapping[str, int]) -> None:
        """Count the changes of the batch by outcome."""
        labels = (self.mutation.value, self.account_id, self.folder)
        seconds = time.monotonic() - self.begun
        for outcome in _each(outcomes):
            CHANGES.labels(*labels, outcome).inc()
            DURATION.labels(*labels).observe(seconds)
            span = trace.get_tracer("mailkeep.mutations").start_span(
                "change_mailbox", start_time=self.begun_ns, attributes={"mutation": labels[0], "outcome": outcome}
            )
            span.end()


def _each(outcomes: Mapping[str, int]) -> Iterator[str]:
    for outcome, count in outcomes.items():
        for _ in range(count):
            yield outcome


def render_metrics() -> bytes:
    """All signals in the text format of Prometheus."""
    return generate_latest(_REGISTRY)
