"""What a folder holds by UID, for comparison with its server, and the record of the last comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from mailkeep.db import Database, load_queries
from mailkeep.mailbox.model import ContentAvailability, FolderId, Uid, UidValidity

_SQL: Final = load_queries("mailkeep.mailbox")


@dataclass(frozen=True, slots=True)
class ProofCounts:
    """server = stored + skipped + excluded_by_date + quarantined + holes; `surplus` is here and not on the server."""

    server: int
    stored: int
    skipped: int
    excluded_by_date: int
    quarantined: int
    holes: int
    surplus: int
    filled: int


async def header_only_uids(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity
) -> dict[Uid, ContentAvailability]:
    """Messages that are here by their header only, ascending, with the reason."""
    values = {"folder_id": folder_id, "uid_validity": uid_validity}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["header_only_uids"], values)
        return {row[0]: ContentAvailability(row[1]) for row in await cursor.fetchall()}


async def buried_uids(db: Database, folder_id: FolderId, *, uid_validity: UidValidity) -> list[Uid]:
    """Messages that are taken for gone from the server, ascending."""
    values = {"folder_id": folder_id, "uid_validity": uid_validity}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["buried_uids"], values)
        return [row[0] for row in await cursor.fetchall()]


async def unbury(db: Database, folder_id: FolderId, *, uid_validity: UidValidity, uids: Sequence[Uid]) -> int:
    """Show messages again that the server was seen to hold after all; how many."""
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "uids": list(uids)}
    async with db.connection() as connection:
        return (await connection.execute(_SQL["unbury"], values)).rowcount


async def record_proof(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, counts: ProofCounts, proved_at: datetime
) -> None:
    """Keep this comparison as the folder's last one."""
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "proved_at": proved_at, **asdict(counts)}
    async with db.connection() as connection:
        await connection.execute(_SQL["record_proof"], values)
