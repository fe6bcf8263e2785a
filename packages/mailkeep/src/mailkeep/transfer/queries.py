"""What imports ask the database themselves; everything else goes through the mail store."""

from __future__ import annotations

from typing import Final

from mailkeep.db import Database, load_queries
from mailkeep.mailbox import FolderId

_SQL: Final = load_queries("mailkeep.transfer")


async def held_digests(db: Database, folder_id: FolderId) -> set[bytes]:
    """SHA-256 of every message whose octets the folder holds; 32 octets each, so a million take some 80 MB."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["held_digests"], {"folder_id": folder_id})
        return {bytes(row[0]) for row in await cursor.fetchall()}
