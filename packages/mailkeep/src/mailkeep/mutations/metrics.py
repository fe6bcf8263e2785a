"""The signals of changes, in this process. Closed words only: no account, folder or message (DATA-22)."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, generate_latest

REGISTRY: Final = CollectorRegistry(auto_describe=False)

RECOGNIZED: Final = Counter(
    "mailkeep_mailbox_observations",
    "What synchronization saw change on servers: what, and whether by us or by the mailbox's owner.",
    ["what", "author"],
    registry=REGISTRY,
)


def render_metrics() -> bytes:
    """All signals in the text format of Prometheus."""
    return generate_latest(REGISTRY)
