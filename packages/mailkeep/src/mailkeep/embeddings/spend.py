"""What embedding costs: reserved before each call, settled or given back after it (FIND-90 to FIND-92, Beyond 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

from mailkeep.config import EmbeddingsSettings
from mailkeep.db import Connection, Database, load_queries
from mailkeep.errors import EmbeddingCeilingReached

_SQL: Final = load_queries("mailkeep.embeddings")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ORPHANED_AFTER: Final = timedelta(hours=1)
"""No call lasts so long: a reservation as old is of a process that died."""


@dataclass(frozen=True, slots=True)
class SpendState:
    """One period: its bounds, what it has cost in characters, and the ceiling (None: none)."""

    period_starts_at: datetime
    period_ends_at: datetime
    consumed: int
    ceiling: int | None

    @property
    def remaining(self) -> int | None:
        """What may be spent yet; None without a ceiling."""
        return None if self.ceiling is None else max(0, self.ceiling - self.consumed)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Characters put aside for one call; None as id is a call that costs nothing."""

    id: UUID | None
    characters: int


FREE: Final = Reservation(None, 0)


def period_start(now: datetime, length: timedelta) -> datetime:
    """The beginning of the window of that length that `now` lies in, counted from 1970 in UTC."""
    return _EPOCH + ((now - _EPOCH) // length) * length


async def read_spend(db: Database, settings: EmbeddingsSettings, *, now: datetime) -> SpendState:
    """The present period."""
    starts = period_start(now, settings.spend_period)
    async with db.connection() as connection:
        row = await (await connection.execute(_SQL["consumed"], {"period": starts})).fetchone()
    return SpendState(
        period_starts_at=starts,
        period_ends_at=starts + settings.spend_period,
        consumed=0 if row is None else row[0],
        ceiling=settings.max_input_characters_per_period or None,
    )


async def reserve(db: Database, settings: EmbeddingsSettings, characters: int, *, now: datetime) -> Reservation:
    """Put characters aside for one call. Any remainder admits a whole call; without one EmbeddingCeilingReached."""
    reservation = Reservation(uuid4(), characters)
    values = {
        "id": reservation.id,
        "period": period_start(now, settings.spend_period),
        "characters": characters,
        "ceiling": settings.max_input_characters_per_period,
        "now": now,
    }

    async def put_aside(connection: Connection) -> bool:
        if await (await connection.execute(_SQL["reserve"], values)).fetchone() is None:
            return False
        await connection.execute(_SQL["note_reservation"], values)
        return True

    if not await db.redo(put_aside):
        raise EmbeddingCeilingReached("the period's ceiling of characters is reached")
    return reservation


async def settle(connection: Connection, reservation: Reservation) -> None:
    """The call was answered, or may have been: its characters are spent. In the transaction of its vectors."""
    if reservation.id is not None:
        await connection.execute(_SQL["settle"], {"id": reservation.id})


async def release(connection: Connection, reservation: Reservation) -> None:
    """The call was surely not answered: its characters are free again."""
    if reservation.id is not None:
        await connection.execute(_SQL["release"], {"id": reservation.id})


async def forget_orphans(db: Database, *, now: datetime) -> None:
    """Drop reservations of processes that died in a call; their characters stay spent: they may have been billed."""
    async with db.connection() as connection:
        await connection.execute(_SQL["forget_orphans"], {"before": now - ORPHANED_AFTER})
