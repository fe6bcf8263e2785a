"""What one process holds of embeddings: the models it can compute with, and the calls that faces make."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from mailkeep.config import Settings
from mailkeep.db import Database, load_queries
from mailkeep.embeddings import lifecycle
from mailkeep.embeddings.calls import Model, built_in_model, declared_model
from mailkeep.embeddings.index import has_index
from mailkeep.embeddings.lifecycle import Forecast, Outcome
from mailkeep.embeddings.meaning import Meaning, SemanticState, is_recent_failure
from mailkeep.embeddings.profiles import Profile, Registration, living_profiles
from mailkeep.embeddings.report import Coverage, EmbeddingReport
from mailkeep.embeddings.spend import read_spend, settle
from mailkeep.errors import EmbeddingCeilingReached, EmbeddingProviderFailed, EmbeddingsNotDeclared
from mailkeep.passages import embedding_folders
from mailkeep.providers import FailureClass, Health, ProviderState, Purpose

_SQL: Final = load_queries("mailkeep.embeddings")


class Embeddings:
    """The declared model, and the built-in one for a generation that it made before another was declared."""

    def __init__(self, settings: Settings, db: Database, home: Path, *, now: Callable[[], datetime]) -> None:
        self._settings = settings
        self._db = db
        self._now = now
        self.declared: Final = declared_model(settings, db, home, now=now)
        self._built_in = self.declared if not settings.embeddings.endpoints else built_in_model(settings, db, now=now)
        self.next_pass_at: datetime | None = None

    def follow(self, settings: Settings) -> None:
        """Go by this snapshot from now on; the model is the one of the start."""
        self._settings = settings

    def model_for(self, profile: Profile) -> Model | None:
        """Whoever computes in a profile's space; None when nobody here does, which is then waited for (FIND-66)."""
        for model in (self.declared, self._built_in):
            if model is not None and model.identity.fingerprint == profile.fingerprint:
                return model
        return None

    async def close(self) -> None:
        """Close connections to endpoints."""
        if self.declared is not None:
            await self.declared.chain.close()

    async def state(self) -> SemanticState:
        """Whether searches can go by meaning, without asking any provider."""
        return (await self._ready())[0]

    async def meaning(self, query_text: str) -> Meaning:
        """The vector of a query under the profile that is read, where there is one; never a failure (FIND-51).

        The query is prepared like a passage. While a failure is younger than a minute, nobody is asked.
        """
        state, profile, model, health = await self._ready()
        if profile is None or model is None:
            return Meaning(state)
        if is_recent_failure(health, now=self._now()):
            return Meaning(SemanticState.DEGRADED)
        try:
            # A typed text can hold halves of characters, which no encoding takes.
            text = query_text.encode("utf-8", "replace").decode()
            answer = await model.embed([text], Purpose.QUERY)
        except (EmbeddingProviderFailed, EmbeddingCeilingReached):
            return Meaning(SemanticState.DEGRADED)
        async with self._db.connection() as connection:
            await settle(connection, answer.reservation)
        return Meaning(SemanticState.AVAILABLE, profile, answer.vectors[0])

    async def forecast(self) -> Forecast:
        """What an activation would do and cost. Raises EmbeddingsNotDeclared."""
        model, folder_ids = self._declared(), await embedding_folders(self._db, self._settings)
        return await lifecycle.forecast(self._db, self._settings.embeddings, model, folder_ids, now=self._now())

    async def activate(self) -> tuple[Registration, Profile]:
        """Begin to build the declared model's vectors. Raises EmbeddingsNotDeclared and ReindexRefused."""
        model, folder_ids = self._declared(), await embedding_folders(self._db, self._settings)
        return await lifecycle.activate(self._db, self._settings.embeddings, model, folder_ids, now=self._now())

    async def cancel(self) -> Outcome:
        """End the building, if there is any; the generation that is read stays."""
        return await lifecycle.cancel(self._db, now=self._now())

    async def report(self) -> EmbeddingReport:
        """All that the status says; asks no provider."""
        async with self._db.connection() as connection:
            active, building = await living_profiles(connection)
            refused = await (await connection.execute(_SQL["failures"])).fetchone()
        declared = None if self.declared is None else self.declared.identity
        living = {profile.fingerprint for profile in (active, building) if profile is not None}
        return EmbeddingReport(
            declared=declared,
            activation_outstanding=declared is not None and declared.fingerprint not in living,
            serving=await self._coverage(active),
            building=await self._coverage(building),
            refused_emails=0 if refused is None else refused[0],
            health=await self._health(),
            spend=await read_spend(self._db, self._settings.embeddings, now=self._now()),
            next_pass_at=self.next_pass_at,
        )

    def _declared(self) -> Model:
        if self.declared is None:
            raise EmbeddingsNotDeclared(
                "no model is declared; install mailkeep[local-embeddings], or name an endpoint in embeddings.endpoints"
            )
        return self.declared

    async def _ready(self) -> tuple[SemanticState, Profile | None, Model | None, Health]:
        async with self._db.connection() as connection:
            active, _ = await living_profiles(connection)
        health = await self._health()
        if active is None:
            return SemanticState.INACTIVE, None, None, health
        model = self.model_for(active)
        if model is None:
            return SemanticState.DEGRADED, active, None, health
        return (SemanticState.DEGRADED if health.is_failing else SemanticState.AVAILABLE), active, model, health

    async def _health(self) -> Health:
        async with self._db.connection() as connection:
            row = await (await connection.execute(_SQL["health"])).fetchone()
        if row is None:
            return Health()
        return Health(ProviderState(row[0]), row[2], None if row[1] is None else FailureClass(row[1]))

    async def _coverage(self, profile: Profile | None) -> Coverage | None:
        if profile is None:
            return None
        folder_ids = await embedding_folders(self._db, self._settings)
        async with self._db.connection() as connection:
            estimate = await lifecycle.estimate_for(
                connection,
                profile.identity,
                folder_ids,
                ceiling=self._settings.embeddings.max_characters_per_email,
            )
        return Coverage(profile, estimate, await has_index(self._db, profile))
