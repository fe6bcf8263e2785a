"""Stored mail that takes over a new identity after a UIDVALIDITY change: ids, octets and all that was derived stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from mailkeep.db import Connection, Database, load_queries
from mailkeep.mailbox.model import AccountId, Flags, FolderId, Uid, UidValidity
from mailkeep.threads import lock_account

_SQL: Final = load_queries("mailkeep.mailbox")
PASS_ROWS: Final = 2_000
"""Rows of one transaction."""


@dataclass(frozen=True, slots=True)
class NewIdentity:
    """The row that a message is, and what the server says of it now. `flags` None: not observed."""

    stored_email_id: UUID
    uid: Uid
    size_octets: int
    flags: Flags | None


async def has_earlier_identities(db: Database, folder_id: FolderId, *, uid_validity: UidValidity) -> bool:
    """Whether the folder holds mail, tombstones included, of another UIDVALIDITY."""
    async with db.connection() as connection:
        values = {"folder_id": folder_id, "uid_validity": uid_validity}
        row = await (await connection.execute(_SQL["has_other_uid_validity"], values)).fetchone()
    return bool(row and row[0])


async def unmistakable_identities(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity
) -> dict[tuple[str, int], UUID]:
    """Rows of another UIDVALIDITY whose Message-ID and size no other such row of the folder has, by that pair."""
    async with db.connection() as connection:
        values = {"folder_id": folder_id, "uid_validity": uid_validity}
        cursor = await connection.execute(_SQL["unmistakable_identities"], values)
        return {(row[1], row[2]): row[0] for row in await cursor.fetchall()}


async def relink(
    db: Database,
    account_id: AccountId,
    *,
    uid_validity: UidValidity,
    identities: Sequence[NewIdentity],
    now: datetime,
) -> None:
    """Give rows their new identities, PASS_ROWS to a transaction. Each UID must be free in its folder."""
    for first in range(0, len(identities), PASS_ROWS):
        chunk = identities[first : first + PASS_ROWS]
        await db.redo(partial(_relink, account_id=account_id, uid_validity=uid_validity, identities=chunk, now=now))


async def _relink(
    connection: Connection,
    *,
    account_id: AccountId,
    uid_validity: UidValidity,
    identities: Sequence[NewIdentity],
    now: datetime,
) -> None:
    await lock_account(connection, account_id)
    await write_identities(connection, uid_validity, now, identities=identities)


async def write_identities(
    connection: Connection, uid_validity: UidValidity, now: datetime, *, identities: Sequence[NewIdentity]
) -> None:
    """One statement for all, within the caller's transaction."""
    flags = [one.flags if one.flags is not None else Flags() for one in identities]
    await connection.execute(
        _SQL["relink"],
        {
            "uid_validity": uid_validity,
            "now": now,
            "ids": [one.stored_email_id for one in identities],
            "uids": [one.uid for one in identities],
            "sizes": [one.size_octets for one in identities],
            "is_observed": [one.flags is not None for one in identities],
            "seen": [one.seen for one in flags],
            "answered": [one.answered for one in flags],
            "flagged": [one.flagged for one in flags],
            "draft": [one.draft for one in flags],
            "deleted": [one.deleted for one in flags],
            "keywords": [" ".join(one.keywords) for one in flags],
            "labels": ["\n".join(one.labels) for one in flags],
        },
    )
