"""How many changes of each account wait, are under way or are stuck, and since when: one query for all accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mailkeep.db import Database, load_queries

_SQL: Final = load_queries("mailkeep.mutations")


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The unfinished and the dead-lettered changes of an account; `oldest_at` of those that are unfinished."""

    pending: int = 0
    converging: int = 0
    dead_lettered: int = 0
    oldest_at: datetime | None = None

    @property
    def unfinished(self) -> int:
        """Those that will still be attempted."""
        return self.pending + self.converging


async def change_counts(db: Database, account_ids: Sequence[str]) -> dict[str, ChangeCounts]:
    """The counts of each account that has any."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["change_counts"], {"account_ids": list(account_ids)})
        return {row[0]: ChangeCounts(*row[1:]) for row in await cursor.fetchall()}
