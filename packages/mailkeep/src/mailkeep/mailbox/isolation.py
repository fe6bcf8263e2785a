"""Messages of a server that are not in the store: named, with the reason, shown and retried, never lost silently."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Final

from mailkeep.db import Database, load_queries
from mailkeep.mailbox.model import FolderId, QuarantinedMessage, QuarantineReason, Uid, UidValidity

_SQL: Final = load_queries("mailkeep.mailbox")
MAX_DETAIL_CHARACTERS: Final = 128
PRODUCT_VERSION: Final = version("mailkeep")
"""The build that makes the attempts: what another one could not do is tried once more by this one."""


async def quarantine(
    db: Database,
    folder_id: FolderId,
    *,
    uid_validity: UidValidity,
    uid: Uid,
    reason: QuarantineReason,
    detail: str | None,
    size_octets: int | None,
    now: datetime,
) -> None:
    """Record that a message could not be fetched or stored, or that another attempt failed.

    `detail` is a code for operators (SQLSTATE, response code), never text of the server or of mail.
    """
    async with db.connection() as connection:
        await connection.execute(
            _SQL["quarantine"],
            {
                "folder_id": folder_id,
                "uid_validity": uid_validity,
                "uid": uid,
                "reason": reason.value,
                "detail": detail[:MAX_DETAIL_CHARACTERS] if detail is not None else None,
                "size_octets": size_octets,
                "now": now,
                "version": PRODUCT_VERSION,
            },
        )


async def quarantined(db: Database, folder_id: FolderId) -> list[QuarantinedMessage]:
    """What a folder has in quarantine, in UID order."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["quarantined"], {"folder_id": folder_id})
        return [
            QuarantinedMessage(
                folder_id=row[0],
                uid_validity=row[1],
                uid=row[2],
                reason=QuarantineReason(row[3]),
                detail=row[4],
                size_octets=row[5],
                attempt_count=row[6],
                first_seen_at=row[7],
                last_attempt_at=row[8],
            )
            for row in await cursor.fetchall()
        ]


async def release_quarantine(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, uids: Sequence[Uid]
) -> int:
    """Forget quarantined messages, because the server no longer has them or they are to be met anew; how many."""
    async with db.connection() as connection:
        cursor = await connection.execute(
            _SQL["leave_quarantine"], {"folder_id": folder_id, "uid_validity": uid_validity, "uids": list(uids)}
        )
        return cursor.rowcount


async def untried_quarantine(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, limit: int
) -> dict[Uid, int | None]:
    """What another build quarantined and this one has not tried yet: sizes by UID, ascending, at most `limit`."""
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "version": PRODUCT_VERSION, "limit": limit}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["untried_quarantine"], values)
        return {row[0]: row[1] for row in await cursor.fetchall()}
