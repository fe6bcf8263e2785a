"""An ordered chain of endpoints into one vector space (FIND-77, FIND-78), and how it last behaved (ASK-73)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from mailkeep.errors import EmbeddingProviderFailed
from mailkeep.providers.model import RETRYABLE, Embedder, FailureClass, Purpose, Vector
from mailkeep.providers.vectors import usable_vectors

log = logging.getLogger(__name__)


class ProviderState(StrEnum):
    """What the last real call says of the provider."""

    UNOBSERVED = "Unobserved"
    SERVING = "Serving"
    UNAVAILABLE = "Unavailable"
    MISCONFIGURED = "Misconfigured"


@dataclass(frozen=True, slots=True)
class Health:
    """A state and since when it is known; `failure_class` of the call that failed."""

    state: ProviderState = ProviderState.UNOBSERVED
    observed_at: datetime | None = None
    failure_class: FailureClass | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the last call failed."""
        return self.state in (ProviderState.UNAVAILABLE, ProviderState.MISCONFIGURED)


class EmbeddingChain:
    """Asks the first endpoint, and the next one when it fails; a wrong shape is nobody else's to mend."""

    def __init__(
        self,
        embedders: Sequence[Embedder],
        *,
        dimension: int,
        normalize: bool,
        allow_trim: bool,
        now: Callable[[], datetime],
    ) -> None:
        self._embedders: Final = tuple(embedders)
        self._dimension = dimension
        self._normalize = normalize
        self._allow_trim = allow_trim
        self._now = now
        self.health = Health()

    @property
    def is_metered(self) -> bool:
        """Whether any endpoint costs something."""
        return any(embedder.is_metered for embedder in self._embedders)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """One usable vector for each text. Raises the EmbeddingProviderFailed of the last endpoint asked."""
        billed = False
        for position, embedder in enumerate(self._embedders, start=1):
            try:
                found = await embedder.embed(texts, purpose)
                vectors = usable_vectors(
                    found,
                    count=len(texts),
                    dimension=self._dimension,
                    allow_trim=self._allow_trim,
                    normalize=self._normalize,
                    alias=embedder.alias,
                )
            except EmbeddingProviderFailed as error:
                kind = FailureClass(error.failure_class)
                billed = error.may_be_billed = billed or error.may_be_billed
                is_last = position == len(self._embedders)
                if is_last or kind is FailureClass.VECTOR_SHAPE_UNEXPECTED:
                    self._observe(ProviderState.UNAVAILABLE if kind in RETRYABLE else ProviderState.MISCONFIGURED, kind)
                    raise
                log.info("embedding endpoint failed", extra={"endpoint": embedder.alias, "failure_class": kind.value})
            else:
                self._observe(ProviderState.SERVING, None)
                return vectors
        raise AssertionError("a chain has at least one endpoint")

    async def close(self) -> None:
        """Close every endpoint."""
        for embedder in self._embedders:
            await embedder.close()

    def _observe(self, state: ProviderState, failure_class: FailureClass | None) -> None:
        former, self.health = self.health.state, Health(state, self._now(), failure_class)
        if state is former or (former is ProviderState.UNOBSERVED and state is ProviderState.SERVING):
            return
        level = logging.INFO if state is ProviderState.SERVING else logging.WARNING
        log.log(level, "embedding provider changed", extra={"from_state": former.value, "to_state": state.value})
