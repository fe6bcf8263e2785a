"""One call to a model: paced, reserved before and settled after (FIND-79, FIND-91, FIND-93)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from mailkeep.config import EmbeddingEndpointSettings, EmbeddingsSettings, EndpointKind, Settings
from mailkeep.db import Database, load_queries
from mailkeep.embeddings import metrics
from mailkeep.embeddings.identity import ProfileIdentity, declared_identity, local_identity, prepared
from mailkeep.embeddings.spend import FREE, Reservation, release, reserve, settle
from mailkeep.errors import EmbeddingProviderFailed
from mailkeep.providers import (
    DeterministicEmbedder,
    Embedder,
    EmbeddingChain,
    EndpointEmbedder,
    Guard,
    Health,
    LocalEmbedder,
    Pacer,
    Purpose,
    Vector,
    local_version,
)

_SQL: Final = load_queries("mailkeep.embeddings")


@dataclass(frozen=True, slots=True)
class Answer:
    """Vectors in the order of their texts, and what they cost; the caller settles it with what it stores."""

    vectors: list[Vector]
    reservation: Reservation


class Model:
    """A vector space and whoever computes in it, for one process."""

    def __init__(
        self,
        db: Database,
        settings: EmbeddingsSettings,
        identity: ProfileIdentity,
        chain: EmbeddingChain,
        *,
        query_instruction: str | None,
        now: Callable[[], datetime],
    ) -> None:
        self.identity: Final = identity
        self.chain: Final = chain
        self._db = db
        self._settings = settings
        self._query_instruction = query_instruction
        self._now = now
        self._pacer = Pacer(settings.max_requests_per_minute)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Answer:
        """Embed texts, at most `max_passages_per_request`.

        Raises EmbeddingCeilingReached before anything is sent, and EmbeddingProviderFailed; of a call that failed only
        what may be billed stays counted. When this is cancelled, the reservation stays, for the same reason.
        """
        if len(texts) > self._settings.max_passages_per_request:
            raise ValueError("a batch over the bound is refused, not split")
        inputs = self._inputs(texts, purpose)
        await self._pacer.wait()
        reservation = await self._reserved(sum(map(len, inputs)))
        began = time.monotonic()
        try:
            vectors = await self.chain.embed(inputs, purpose)
        except EmbeddingProviderFailed as error:
            await asyncio.shield(self._failed(reservation, error))
            raise
        metrics.DURATION.observe(time.monotonic() - began)
        metrics.CONSUMED.inc(reservation.characters)
        await self._note_health()
        return Answer(vectors, reservation)

    def _inputs(self, texts: Sequence[str], purpose: Purpose) -> list[str]:
        instruction = self.identity.passage_instruction
        if purpose is Purpose.QUERY and self._query_instruction is not None:
            instruction = self._query_instruction
        limit = self.identity.input_character_limit
        length = len(instruction or "")
        metrics.TRUNCATED.inc(sum(1 for text in texts if len(text) + length > limit))
        return [prepared(text, instruction=instruction, limit=limit) for text in texts]

    async def _reserved(self, characters: int) -> Reservation:
        if not self.chain.is_metered:
            return FREE
        return await reserve(self._db, self._settings, characters, now=self._now())

    async def _failed(self, reservation: Reservation, error: EmbeddingProviderFailed) -> None:
        async with self._db.connection() as connection:
            if error.may_be_billed:
                await settle(connection, reservation)
            else:
                await release(connection, reservation)
        await self._note_health()

    async def _note_health(self) -> None:
        health: Health = self.chain.health
        async with self._db.connection() as connection:
            await connection.execute(
                _SQL["note_health"],
                {
                    "state": health.state.value,
                    "failure_class": None if health.failure_class is None else health.failure_class.value,
                    "at": health.observed_at,
                },
            )


def declared_model(settings: Settings, db: Database, home: Path, *, now: Callable[[], datetime]) -> Model | None:
    """The model that the settings declare; None where they name none and the built-in one is not installed."""
    section = settings.embeddings
    if not section.endpoints:
        return built_in_model(settings, db, now=now) if section.use_built_in_model else None
    first = section.endpoints[0]
    chain = EmbeddingChain(
        [_embedder(endpoint, settings, home) for endpoint in section.endpoints],
        dimension=first.dimension,
        normalize=first.normalize_vectors,
        allow_trim=section.allow_trim_vectors,
        now=now,
    )
    return Model(db, section, declared_identity(first), chain, query_instruction=first.query_instruction, now=now)


def built_in_model(settings: Settings, db: Database, *, now: Callable[[], datetime]) -> Model | None:
    """The built-in model, where it is installed."""
    version = local_version()
    if version is None:
        return None
    identity = local_identity(version)
    chain = EmbeddingChain([LocalEmbedder()], dimension=identity.dimension, normalize=True, allow_trim=False, now=now)
    return Model(db, settings.embeddings, identity, chain, query_instruction=None, now=now)


def _embedder(endpoint: EmbeddingEndpointSettings, settings: Settings, home: Path) -> Embedder:
    if endpoint.kind is EndpointKind.DETERMINISTIC:
        return DeterministicEmbedder(endpoint.alias, endpoint.dimension)
    guard = Guard(endpoint.alias, settings.resilience.ai_provider_invocation)
    return EndpointEmbedder(endpoint, settings.embeddings, home, guard=guard)
