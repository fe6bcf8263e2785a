"""Activation with its estimate, and cancellation (FIND-67 to FIND-70, FIND-73)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from mailkeep.config import EmbeddingsSettings
from mailkeep.db import Connection, Database, load_queries
from mailkeep.embeddings.calls import Model
from mailkeep.embeddings.identity import ProfileIdentity
from mailkeep.embeddings.index import create_index
from mailkeep.embeddings.profiles import Profile, Registration, begin_building, cancel_building, living_profiles
from mailkeep.embeddings.spend import SpendState, read_spend
from mailkeep.errors import ReindexRefused, VectorIndexRefused
from mailkeep.mailbox import FolderId
from mailkeep.passages import uncut_mail

log = logging.getLogger(__name__)
_SQL: Final = load_queries("mailkeep.embeddings")
CHARACTERS_PER_TOKEN: Final = 4


class Outcome(StrEnum):
    """What a cancellation came to."""

    CANCELLED = "Cancelled"
    NOTHING_BUILDING = "NothingBuilding"


class Prospect(StrEnum):
    """What an activation would do."""

    WOULD_START = "WouldStartReindex"
    WOULD_RESUME = "WouldResumeReindex"
    ALREADY_SERVING = "AlreadyServing"
    OTHER_BUILDING = "DifferentReindexRunning"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What embedding is outstanding; the instruction before each passage is counted, uncut mail is foretold.

    `uncut_emails` are among the outstanding ones: of them passages and characters are estimated.
    """

    searchable_emails: int
    embedded_emails: int
    outstanding_emails: int
    outstanding_passages: int
    outstanding_characters: int
    uncut_emails: int

    @property
    def approximate_tokens(self) -> int:
        """Characters in fours, rounded up (FIND-67)."""
        return -(-self.outstanding_characters // CHARACTERS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What an activation would do and cost."""

    prospect: Prospect
    estimate: Estimate
    spend: SpendState
    is_metered: bool

    @property
    def exceeds_ceiling(self) -> bool:
        """Whether the whole would not fit into one period, its ceiling taken as if nothing were spent (FIND-68)."""
        ceiling = self.spend.ceiling
        return self.is_metered and ceiling is not None and self.estimate.outstanding_characters > ceiling


async def estimate_for(
    connection: Connection, identity: ProfileIdentity, folder_ids: Sequence[FolderId], *, ceiling: int
) -> Estimate:
    """Count what has no vector in a space yet."""
    known = await (await connection.execute(_SQL["known_profile"], {"fingerprint": identity.fingerprint})).fetchone()
    values = {
        "id": None if known is None else known[0],
        "instruction": len(identity.passage_instruction or ""),
        "limit": identity.input_character_limit,
        "folder_ids": list(folder_ids),
    }
    row = await (await connection.execute(_SQL["workload"], values)).fetchone()
    searchable, embedded, outstanding, passages, characters = row if row is not None else (0, 0, 0, 0, 0)
    uncut = await uncut_mail(connection, folder_ids, ceiling=ceiling)
    instructions = uncut.passages * len(identity.passage_instruction or "")
    return Estimate(
        searchable_emails=searchable + uncut.emails,
        embedded_emails=embedded,
        outstanding_emails=outstanding + uncut.emails,
        outstanding_passages=passages + uncut.passages,
        outstanding_characters=characters + uncut.characters + instructions,
        uncut_emails=uncut.emails,
    )


async def forecast(
    db: Database, settings: EmbeddingsSettings, model: Model, folder_ids: Sequence[FolderId], *, now: datetime
) -> Forecast:
    """What activating the declared model would do; nothing is changed and nobody asked."""
    async with db.connection() as connection:
        active, building = await living_profiles(connection)
        estimate = await estimate_for(connection, model.identity, folder_ids, ceiling=settings.max_characters_per_email)
    fingerprint = model.identity.fingerprint
    if active is not None and active.fingerprint == fingerprint:
        prospect = Prospect.ALREADY_SERVING
    elif building is None:
        prospect = Prospect.WOULD_START
    else:
        prospect = Prospect.WOULD_RESUME if building.fingerprint == fingerprint else Prospect.OTHER_BUILDING
    spend = await read_spend(db, settings, now=now)
    return Forecast(prospect, estimate, spend, model.chain.is_metered)


async def activate(
    db: Database, settings: EmbeddingsSettings, model: Model, folder_ids: Sequence[FolderId], *, now: datetime
) -> tuple[Registration, Profile]:
    """Begin to build the declared model's vectors, or say why there is nothing to begin.

    The estimate is counted anew, whatever was shown before. Raises ReindexRefused (63001) when it is above the whole
    ceiling of a period or when another profile is being built. A refused index fails nothing (FIND-76).
    """
    outlook = await forecast(db, settings, model, folder_ids, now=now)
    if outlook.prospect is Prospect.WOULD_START and outlook.exceeds_ceiling:
        raise ReindexRefused(
            f"the estimate is {outlook.estimate.outstanding_characters} characters, above the period's ceiling of "
            f"{outlook.spend.ceiling} (embeddings.max_input_characters_per_period); nothing was started"
        )
    registration, profile = await begin_building(db, model.identity, now=now)
    if registration is Registration.OTHER_BUILDING:
        raise ReindexRefused("another model is being built; cancel that first: mailkeep embeddings cancel")
    if registration is not Registration.ALREADY_SERVING:
        await ensure_index(db, profile)
    return registration, profile


async def ensure_index(db: Database, profile: Profile) -> None:
    """Make the profile's index where that is allowed; a refusal is reported and leaves exact search."""
    try:
        await create_index(db, profile)
    except VectorIndexRefused as error:
        log.warning("vector index refused", extra={"profile": str(profile.id), "failure_code": error.code})


async def cancel(db: Database, *, now: datetime) -> Outcome:
    """End the building; what is read stays. Its vectors are removed by the next pass of the stage."""
    cancelled = await db.redo(lambda connection: cancel_building(connection, now=now))
    return Outcome.NOTHING_BUILDING if cancelled is None else Outcome.CANCELLED
