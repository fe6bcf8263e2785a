"""What each folder holds against what its server last said: the proof that nothing is lost silently."""

from __future__ import annotations

from typing import Final

from mailkeep.db import Database, load_queries
from mailkeep.mailbox.model import AccountId, ContentAvailability, FolderStatus, LastProof, SpecialUse

_SQL: Final = load_queries("mailkeep.mailbox")


async def stored_count(db: Database, account_id: AccountId, *, alias: str | None = None) -> int:
    """How many messages are stored of an account, or under one alias: tombstones and older bindings included."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["count_of_scope"], {"account_id": account_id, "alias": alias or ""})
        row = await cursor.fetchone()
        return int(row[0]) if row else 0


async def folder_status(db: Database, account_id: AccountId) -> list[FolderStatus]:
    """The state of the newest binding of every alias, by alias. Counted in SQL at the moment of asking."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["folder_status"], {"account_id": account_id})
        return [
            FolderStatus(
                folder_id=row[0],
                alias=row[1],
                remote_path=row[2],
                special_use=SpecialUse(row[3]) if row[3] is not None else None,
                server=row[4],
                observed_at=row[5],
                synchronized_at=row[6],
                stored=row[7],
                unreadable=row[8],
                tombstoned=row[9],
                skipped_by_reason={
                    reason: count
                    for reason, count in (
                        (ContentAvailability.EXCEEDED_SIZE_LIMIT, row[10]),
                        (ContentAvailability.AWAITING_STORAGE_HEADROOM, row[11]),
                    )
                    if count
                },
                quarantined=row[12],
                damaged=row[13],
                unrepairable=row[14],
                proof=None if row[15] is None else LastProof(*row[15:19]),
                retained=row[19],
            )
            for row in await cursor.fetchall()
        ]
