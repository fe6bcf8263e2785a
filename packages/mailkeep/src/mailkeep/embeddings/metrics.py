"""The signals of embedding (FIND-94), in this process. Numbers and closed words only: no content, address or id."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_REGISTRY: Final = CollectorRegistry(auto_describe=False)
_DURATIONS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300)

OUTSTANDING: Final = Gauge(
    "mailkeep_embedding_backfill_outstanding", "Messages without all vectors, counted once a sweep.", registry=_REGISTRY
)
MESSAGES: Final = Counter("mailkeep_embedding_messages", "Messages by outcome.", ["outcome"], registry=_REGISTRY)
PASSAGES: Final = Counter("mailkeep_embedding_message_passages", "Passages that got a vector.", registry=_REGISTRY)
DURATION: Final = Histogram(
    "mailkeep_embedding_message_duration_seconds", "Time of one call.", buckets=_DURATIONS, registry=_REGISTRY
)
CONSUMED: Final = Counter(
    "mailkeep_embedding_budget_consumed", "Characters that count against the ceiling.", registry=_REGISTRY
)
TRUNCATED: Final = Counter(
    "mailkeep_embedding_input_truncated", "Inputs cut to the profile's limit.", registry=_REGISTRY
)
OMITTED: Final = Counter(
    "mailkeep_embedding_input_omitted", "Vectors left out since their passage went meanwhile.", registry=_REGISTRY
)
RUNS: Final = Counter("mailkeep_embedding_backfill_runs", "Passes by how they ended.", ["ending"], registry=_REGISTRY)
SWITCHES: Final = Counter(
    "mailkeep_embedding_generation_switches", "Generations that began to be read.", registry=_REGISTRY
)
REMOVED: Final = Counter(
    "mailkeep_embedding_generation_removed", "Vectors of former generations removed.", registry=_REGISTRY
)


def render_metrics() -> bytes:
    """All signals in the text format of Prometheus."""
    return generate_latest(_REGISTRY)
