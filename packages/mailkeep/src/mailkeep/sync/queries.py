"""The few questions synchronization asks the database itself; everything else goes through the mail store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mailkeep.db import Database, load_queries
from mailkeep.errors import AccountHeldElsewhere
from mailkeep.mailbox import FolderId, UidValidity

_SQL = load_queries("mailkeep.sync")


@asynccontextmanager
async def account_lease(db: Database, account_id: str) -> AsyncIterator[None]:
    """Be the only process that synchronizes this account, until the end of the block or of the process (case 28).

    Raises AccountHeldElsewhere and DatabaseUnavailable.
    """
    async with db.lease(f"mailkeep synchronizes {account_id}") as is_owner:
        if not is_owner:
            raise AccountHeldElsewhere("another mailkeep process is synchronizing this account")
        yield


async def content_size(db: Database) -> int:
    """Octets on disk of all stored content."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["content_size"])
        row = await cursor.fetchone()
        return int(row[0]) if row else 0


async def known_within(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, ranges: Sequence[tuple[int, int]]
) -> list[int]:
    """UIDs within the ranges, both ends included, that are stored and not buried, or quarantined; ascending."""
    values = {
        "folder_id": folder_id,
        "uid_validity": uid_validity,
        "lows": [low for low, _ in ranges],
        "highs": [high for _, high in ranges],
    }
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["known_within"], values)
        return [row[0] for row in await cursor.fetchall()]
