"""Content that was found damaged and is to be fetched again (SYNC-120), and why it could not be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from mailkeep.db import Database, load_queries
from mailkeep.mailbox.isolation import PRODUCT_VERSION
from mailkeep.mailbox.model import AccountId, FolderId, Uid, UidValidity

_SQL: Final = load_queries("mailkeep.mailbox")


class RepairObstacle(StrEnum):
    """Why an attempt left the content as it was. The request stays, and is tried again when the damage is met anew."""

    GONE_FROM_SERVER = "GoneFromServer"
    EXCEEDED_SIZE_LIMIT = "ExceededSizeLimit"
    FETCH_REFUSED = "FetchRefused"
    FETCH_INCOMPLETE = "FetchIncomplete"
    STORAGE_REFUSED = "StorageRefused"


async def folders_to_mend(db: Database, account_id: AccountId) -> frozenset[FolderId]:
    """The folders of an account in which something waits for a repair, or for another attempt by this build."""
    async with db.connection() as connection:
        values = {"account_id": account_id, "version": PRODUCT_VERSION}
        cursor = await connection.execute(_SQL["folders_to_mend"], values)
        return frozenset(row[0] for row in await cursor.fetchall())


async def awaiting_repair(db: Database, folder_id: FolderId, *, uid_validity: UidValidity, limit: int) -> list[Uid]:
    """Messages on the server whose stored content is damaged, ascending, at most `limit`.

    Storing their octets through `store_batch` writes onto the same rows and clears the requests.
    """
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "limit": limit}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["awaiting_repair"], values)
        return [row[0] for row in await cursor.fetchall()]


async def note_repair_attempts(
    db: Database,
    folder_id: FolderId,
    *,
    uid_validity: UidValidity,
    obstacles: Mapping[Uid, RepairObstacle],
    now: datetime,
) -> None:
    """Record what stood in the way of repairs."""
    if not obstacles:
        return
    values = {
        "folder_id": folder_id,
        "uid_validity": uid_validity,
        "uids": list(obstacles),
        "outcomes": [obstacle.value for obstacle in obstacles.values()],
        "now": now,
    }
    async with db.connection() as connection:
        await connection.execute(_SQL["note_repair_attempts"], values)
