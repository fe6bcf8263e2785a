"""The stage `embeddings`: vectors for passages that have none, the switch of generations, removal of former vectors.

New mail and stored mail take one way: a walk by id over messages with passages that lack a vector of the profile being
built, or else of the one being read (FIND-83 to FIND-89). The walk's position is committed with the vectors. At its end
it is forgotten; until the next full walk only mail behind the end is looked at, since new mail has the highest ids.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from mailkeep.config import Settings
from mailkeep.db import Connection, Database, load_queries
from mailkeep.embeddings import metrics
from mailkeep.embeddings.calls import Answer, Model
from mailkeep.embeddings.index import drop_index, has_index, vector_literal
from mailkeep.embeddings.lifecycle import ensure_index
from mailkeep.embeddings.profiles import (
    REMOVAL_BATCH,
    Profile,
    living_profiles,
    remove_vectors,
    superseded_with_vectors,
    switch,
)
from mailkeep.embeddings.runtime import Embeddings
from mailkeep.embeddings.spend import forget_orphans, period_start, settle
from mailkeep.errors import EmbeddingCeilingReached, EmbeddingProviderFailed, VectorIndexRefused
from mailkeep.mailbox import FolderId
from mailkeep.passages import embedding_folders
from mailkeep.providers import FailureClass, Purpose
from mailkeep.stages import PassOutcome, StageCounts

log = logging.getLogger(__name__)
_SQL: Final = load_queries("mailkeep.embeddings")
_START: Final = UUID(int=0)
_OWN_FAULT: Final = frozenset({FailureClass.REQUEST_REFUSED, FailureClass.VECTOR_SHAPE_UNEXPECTED})
"""Classes that a single message can be to blame for."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage without a vector."""

    email_id: UUID
    chunk_id: UUID
    text: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request carries; `passed` is the last message that has nothing left after it, if there is one."""

    pieces: tuple[Piece, ...]
    passed: UUID | None


class EmbeddingStage:
    """See `mailkeep.stages.Stage`; `embeddings` is the process's own, shared with its searches."""

    name: Final = "embeddings"

    def __init__(self, db: Database, settings: Settings, embeddings: Embeddings) -> None:
        self._db = db
        self._settings = settings
        self._embeddings = embeddings
        self._swept_at: datetime | None = None
        self._swept_to = _START
        self._swept_profile: UUID | None = None
        self._walks_all = True
        self._without_index: set[UUID] = set()

    def follow(self, settings: Settings) -> None:
        """Go by this snapshot from the next pass on."""
        self._settings = settings

    async def run_pass(self, now: datetime) -> PassOutcome:
        """Remove some former vectors, else embed some messages, else switch."""
        outcome = await self._pass(now)
        self._embeddings.next_pass_at = outcome.next_due
        return outcome

    async def count(self) -> StageCounts:
        """Messages with passages, by whether the profile of interest covers them; all zero without a profile."""
        report = await self._embeddings.report()
        coverage = report.building or report.serving
        if coverage is None:
            return StageCounts(0, 0, 0)
        failed = min(report.refused_emails, coverage.estimate.outstanding_emails)
        return StageCounts(
            done=coverage.estimate.embedded_emails,
            outstanding=coverage.estimate.outstanding_emails - failed,
            failed=failed,
        )

    async def _pass(self, now: datetime) -> PassOutcome:
        if not self._settings.embedding_backfill.enabled:
            return PassOutcome()
        await forget_orphans(self._db, now=now)
        if await self._remove_former() >= REMOVAL_BATCH:
            return PassOutcome(has_more=True, next_due=now)
        async with self._db.connection() as connection:
            active, building = await living_profiles(connection)
        target = building or active
        if target is None:
            return PassOutcome()
        model = self._embeddings.model_for(target)
        if model is None:
            log.warning("the declared model is not the profile's", extra={"profile": str(target.id)})
            metrics.RUNS.labels("DeclarationMismatch").inc()
            return self._later(now, self._settings.embedding_backfill.idle_sweep_interval)
        return await self._walk(target, model, is_building=building is not None, now=now)

    async def _walk(self, profile: Profile, model: Model, *, is_building: bool, now: datetime) -> PassOutcome:
        await self._ensure_index(profile)
        folder_ids = await embedding_folders(self._db, self._settings)
        after, last_cut = await self._begin(profile, now)
        section = self._settings.embedding_backfill
        done = 0
        refused: set[UUID] = set()
        for _ in range(section.max_batches_per_run):
            pieces = await self._outstanding(profile, folder_ids, after)
            if not pieces:
                self._note_walk(profile, max(after, last_cut), now)
                return await self._end_of_walk(
                    profile, folder_ids, is_building=is_building, done=done, failed=len(refused), now=now
                )
            for batch in _batches(pieces, self._settings.embeddings.max_passages_per_request):
                try:
                    refused |= await self._embed(profile, model, batch, now)
                except EmbeddingCeilingReached:
                    metrics.RUNS.labels("CeilingReached").inc()
                    return PassOutcome(done, len(refused), has_more=True, next_due=self._rollover(now))
                except EmbeddingProviderFailed as error:
                    return self._provider_failed(error, done=done, failed=len(refused), now=now)
                done += len({piece.email_id for piece in batch.pieces} - refused) if batch.passed else 0
                after = batch.passed or after
        metrics.RUNS.labels("Progress").inc()
        return PassOutcome(done, len(refused), has_more=True)

    async def _begin(self, profile: Profile, now: datetime) -> tuple[UUID, UUID]:
        """Where the walk goes on, and the last message that was cut by now.

        Behind the committed position, else behind the last walk over all mail while that is recent, else at the start.
        """
        async with self._db.connection() as connection:
            position = await (await connection.execute(_SQL["position"])).fetchone()
            last = await (await connection.execute(_SQL["last_cut"])).fetchone()
        last_cut: UUID = _START if last is None else last[0]
        if position is not None:
            return position[0], last_cut
        self._walks_all = (
            self._swept_at is None
            or self._swept_profile != profile.id
            or now - self._swept_at >= self._settings.embedding_backfill.idle_sweep_interval
        )
        return (_START if self._walks_all else self._swept_to), last_cut

    def _note_walk(self, profile: Profile, reached: UUID, now: datetime) -> None:
        """Remember that mail up to there was looked at, and when all of it was: hints, never the truth."""
        if self._walks_all:
            self._swept_at = now
        self._swept_profile, self._swept_to = profile.id, reached

    async def _outstanding(self, profile: Profile, folder_ids: Sequence[FolderId], after: UUID) -> list[Piece]:
        async with self._db.connection() as connection:
            cursor = await connection.execute(
                _SQL["outstanding"],
                {
                    "after": after,
                    "folder_ids": list(folder_ids),
                    "id": profile.id,
                    "emails": self._settings.embedding_backfill.batch_size,
                },
            )
            return [Piece(*row) for row in await cursor.fetchall()]

    async def _embed(self, profile: Profile, model: Model, batch: Batch, now: datetime) -> set[UUID]:
        """Embed and store a batch; the messages that are to blame for a refusal, found by trying each alone."""
        try:
            answer = await model.embed([piece.text for piece in batch.pieces], Purpose.PASSAGE)
        except EmbeddingProviderFailed as error:
            if FailureClass(error.failure_class) not in _OWN_FAULT:
                raise
            emails = {piece.email_id for piece in batch.pieces}
            if len(emails) == 1:
                await self._refuse(emails, error, batch.passed, now)
                return emails
            refused: set[UUID] = set()
            for single in _by_message(batch):
                refused |= await self._embed(profile, model, single, now)
            return refused
        await asyncio.shield(self._store(profile, batch, answer, now))
        return set()

    async def _store(self, profile: Profile, batch: Batch, answer: Answer, now: datetime) -> None:
        """Vectors, cost and position in one transaction; passages that went meanwhile are left out and still paid."""

        async def write(connection: Connection) -> int:
            chunks = [piece.chunk_id for piece in batch.pieces]
            await connection.execute(_SQL["lock_chunks"], {"chunks": chunks})
            cursor = await connection.execute(
                _SQL["store"],
                {
                    "id": profile.id,
                    "chunks": chunks,
                    "vectors": [vector_literal(one) for one in answer.vectors],
                    "now": now,
                },
            )
            await settle(connection, answer.reservation)
            emails = list({piece.email_id for piece in batch.pieces})
            await connection.execute(_SQL["forget_failures"], {"emails": emails})
            await _advance(connection, batch.passed, now)
            return cursor.rowcount

        stored = await self._db.redo(write)
        metrics.PASSAGES.inc(stored)
        metrics.OMITTED.inc(len(batch.pieces) - stored)
        if batch.passed is not None:
            metrics.MESSAGES.labels("Embedded").inc(len({piece.email_id for piece in batch.pieces}))

    async def _refuse(
        self, emails: set[UUID], error: EmbeddingProviderFailed, passed: UUID | None, now: datetime
    ) -> None:
        """Record a message that the provider refuses and step past it; the next full walk tries it again."""

        async def note(connection: Connection) -> None:
            values = {"emails": list(emails), "reason": error.failure_class, "now": now}
            await connection.execute(_SQL["note_failures"], values)
            await _advance(connection, passed or max(emails), now)

        await self._db.redo(note)
        metrics.MESSAGES.labels("Refused").inc(len(emails))

    def _provider_failed(self, error: EmbeddingProviderFailed, *, done: int, failed: int, now: datetime) -> PassOutcome:
        """The provider as a whole fails: the pass ends where it stands, and goes on there later."""
        metrics.RUNS.labels("ProviderFailed").inc()
        log.warning("embedding failed", extra={"stage": self.name, "failure_class": error.failure_class})
        section = self._settings.embedding_backfill
        wait = section.interval if error.retryable else section.idle_sweep_interval
        return PassOutcome(done, failed, has_more=True, next_due=now + wait)

    async def _end_of_walk(
        self,
        profile: Profile,
        folder_ids: Sequence[FolderId],
        *,
        is_building: bool,
        done: int,
        failed: int,
        now: datetime,
    ) -> PassOutcome:
        """Forget the position, and switch when nothing at all is outstanding (FIND-71)."""

        async def finish(connection: Connection) -> tuple[int, bool]:
            values = {"id": profile.id, "folder_ids": list(folder_ids)}
            counted = await (await connection.execute(_SQL["outstanding_emails"], values)).fetchone()
            await connection.execute(_SQL["forget_position"])
            switched = is_building and await switch(connection, profile, folder_ids=folder_ids, now=now)
            return (0 if counted is None else counted[0]), switched

        metrics.RUNS.labels("SweepCompleted").inc()
        if is_building or self._swept_at == now:  # counting reads all mail
            outstanding, switched = await self._db.redo(finish)
            metrics.OUTSTANDING.set(outstanding)
        else:
            switched = False
            await self._db.redo(lambda connection: connection.execute(_SQL["forget_position"]))
        if switched:
            metrics.SWITCHES.inc()
            log.info("generation switched", extra={"profile": str(profile.id)})
            return PassOutcome(done, failed, has_more=True, next_due=now)
        # A message refused just now is tried again by the next walk over all mail.
        return PassOutcome(done, failed, next_due=now + self._settings.embedding_backfill.idle_sweep_interval)

    async def _ensure_index(self, profile: Profile) -> None:
        """Make the index where a crash or a restore left the profile without; a refusal is not repeated."""
        if profile.id in self._without_index or await has_index(self._db, profile):
            return
        await ensure_index(self._db, profile)
        if not await has_index(self._db, profile):
            self._without_index.add(profile.id)

    async def _remove_former(self) -> int:
        """Drop the index of one superseded profile, then remove some of its vectors; how many (FIND-72)."""
        async with self._db.connection() as connection:
            former = await superseded_with_vectors(connection)
        for profile in former:
            try:
                await drop_index(self._db, profile)
            except VectorIndexRefused as error:
                log.warning("vector index refused", extra={"profile": str(profile.id), "failure_code": error.code})
            removed = await self._db.redo(partial(remove_vectors, profile=profile))
            metrics.REMOVED.inc(removed)
            if removed:
                return removed
        return 0

    def _later(self, now: datetime, wait: timedelta) -> PassOutcome:
        return PassOutcome(next_due=now + wait)

    def _rollover(self, now: datetime) -> datetime:
        length = self._settings.embeddings.spend_period
        return period_start(now, length) + length


async def _advance(connection: Connection, passed: UUID | None, now: datetime) -> None:
    if passed is not None:
        await connection.execute(_SQL["advance"], {"email": passed, "now": now})


def _batches(pieces: Sequence[Piece], limit: int) -> list[Batch]:
    """Requests of at most `limit` pieces in order; each passes the messages whose last piece it carries."""
    batches = []
    for start in range(0, len(pieces), limit):
        portion = tuple(pieces[start : start + limit])
        following = pieces[start + limit].email_id if start + limit < len(pieces) else None
        complete = [piece.email_id for piece in portion if piece.email_id != following]
        batches.append(Batch(portion, complete[-1] if complete else None))
    return batches


def _by_message(batch: Batch) -> list[Batch]:
    """A batch for each message of a batch."""
    groups = [tuple(group) for _, group in itertools.groupby(batch.pieces, key=lambda piece: piece.email_id)]
    return [
        Batch(group, group[0].email_id if batch.passed is not None and group[0].email_id <= batch.passed else None)
        for group in groups
    ]
