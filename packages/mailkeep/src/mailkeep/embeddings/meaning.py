"""What a search gets of embeddings: whether they take part, and the vector of its query (FIND-50 to FIND-53)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from mailkeep.embeddings.profiles import Profile
from mailkeep.providers import Health, Vector

FAILURE_WINDOW: Final = timedelta(seconds=60)


class SemanticState(StrEnum):
    """Whether searches can go by meaning: no vectors at all, ready, or there but out of reach just now."""

    INACTIVE = "inactive"
    AVAILABLE = "available"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The state as this call saw it; profile and vector only where the query got one. It lives for one call."""

    state: SemanticState
    profile: Profile | None = None
    vector: Vector | None = None


def is_recent_failure(health: Health, *, now: datetime) -> bool:
    """Whether a recorded failure is so recent that nobody is asked; one without an instant counts as old (FIND-53)."""
    return health.is_failing and health.observed_at is not None and now - health.observed_at < FAILURE_WINDOW
