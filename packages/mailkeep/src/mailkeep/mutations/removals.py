"""Messages found gone, against our own deletions and relocations that explain it (spec MUT-47, MUT-48, MUT-53)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.config import AuthoredDeleteDisposition
from mailkeep.db import Connection, Database, load_queries
from mailkeep.mailbox import FolderId, Gone, UidValidity
from mailkeep.mutations.model import Stage

_SQL: Final = load_queries("mailkeep.mutations")


@dataclass(frozen=True, slots=True)
class SourceRemoval:
    """A change whose source was found gone."""

    stored_email_id: UUID
    stage: Stage
    requires_source_removal: bool
    local_disposition: AuthoredDeleteDisposition | None
    stage_changed_at: datetime

    @property
    def is_ours(self) -> bool:
        """Whether the change itself may have removed the source: not before its removing command went out, and not when
        it was given up (MUT-54)."""
        if self.stage in (Stage.PLACEMENT_ISSUED, Stage.PLACEMENT_CONFIRMED):
            return not self.requires_source_removal
        return self.stage in (Stage.SOURCE_FLAGGED_DELETED, Stage.COMPLETED)


async def explain_removals(
    connection: Connection, folder_id: FolderId, gone: Sequence[Gone], now: datetime
) -> Mapping[UUID, AuthoredDeleteDisposition]:
    """Note which changes these disappearances are the source half of, and what becomes of their local copies.

    In the transaction that applies it (`mailbox.Explain`). A message that was moved into the mirror and has not been
    met there waits readable. One that no change of ours removed is not in the answer.
    """
    values = {
        "folder_id": folder_id,
        "ids": [one.stored_email_id for one in gone],
        "uid_validities": [one.uid_validity for one in gone],
        "uids": [one.uid for one in gone],
        "now": now,
    }
    cursor = await connection.execute(_SQL["note_source_removals"], values)
    removals = [_removal(row) for row in await cursor.fetchall()]
    if not removals:
        return {}
    ids = sorted({one.stored_email_id for one in removals})
    cursor = await connection.execute(_SQL["awaiting_placement"], {"ids": ids})
    waiting = {row[0] for row in await cursor.fetchall()}
    return {
        **decided(removals),
        **dict.fromkeys(waiting, AuthoredDeleteDisposition.RETAIN_LOCAL_COPY),
    }


def decided(removals: Sequence[SourceRemoval]) -> dict[UUID, AuthoredDeleteDisposition]:
    """What the changes themselves say of the local copies. Pure. Of several the completed, then the latest decides."""
    ordered = sorted(removals, key=lambda one: (one.stage is Stage.COMPLETED, one.stage_changed_at))
    return {
        one.stored_email_id: one.local_disposition
        for one in ordered
        if one.is_ours and one.local_disposition is not None
    }


async def moved_out(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, ranges: Sequence[tuple[int, int]]
) -> int:
    """How many messages within these UIDs were carried to their placements before their source was seen gone."""
    values = {
        "folder_id": folder_id,
        "uid_validity": uid_validity,
        "lows": [low for low, _ in ranges],
        "highs": [high for _, high in ranges],
    }
    async with db.connection() as connection:
        return (await connection.execute(_SQL["moved_out"], values)).rowcount


def _removal(row: tuple[UUID, str, bool, str | None, datetime]) -> SourceRemoval:
    disposition = None if row[3] is None else AuthoredDeleteDisposition(row[3])
    return SourceRemoval(row[0], Stage(row[1]), row[2], disposition, row[4])
