"""Keeping stored mail in line with its server: what is known, flags, disappearances (SYNC-69 to SYNC-79)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from mailkeep.config import AuthoredDeleteDisposition
from mailkeep.db import Connection, Database, load_queries
from mailkeep.mailbox.model import AccountId, Disposition, FlagChange, Flags, FolderId, Gone, Uid, UidValidity
from mailkeep.mailbox.relink import has_earlier_identities

_SQL: Final = load_queries("mailkeep.mailbox")
DEFAULT_PAGE: Final = 10_000
PASS_ROWS: Final = 5_000
"""Rows that one transaction changes at most, so that none nears the statement's time limit."""

Explain = Callable[
    [Connection, FolderId, Sequence[Gone], datetime], Awaitable[Mapping[UUID, AuthoredDeleteDisposition]]
]
"""Which of these messages, gone from a folder, went by changes of our own, and what becomes of their copies then.

Called in the transaction that applies it, with the rows locked.
"""


async def filter_unknown(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, uids: Sequence[Uid]
) -> list[Uid]:
    """Those of `uids` that are neither stored, tombstones included, nor quarantined; ascending."""
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "uids": list(uids)}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["unknown_uids"], values)
        return [row[0] for row in await cursor.fetchall()]


async def local_uids(db: Database, folder_id: FolderId, *, uid_validity: UidValidity) -> list[Uid]:
    """The UIDs that were on the server when last looked, ascending."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["local_uids"], {"folder_id": folder_id, "uid_validity": uid_validity})
        return [row[0] for row in await cursor.fetchall()]


async def recent_uids(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, max_octets: int, limit: int
) -> list[Uid]:
    """The newest messages that are here whole, of at most so many octets each."""
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "max_octets": max_octets, "limit": limit}
    async with db.connection() as connection:
        return [row[0] for row in await (await connection.execute(_SQL["recent_uids"], values)).fetchall()]


async def highest_uid(db: Database, folder_id: FolderId, *, uid_validity: UidValidity) -> int:
    """The highest UID of all that was on the server when last looked; 0 when nothing is stored."""
    async with db.connection() as connection:
        values = {"folder_id": folder_id, "uid_validity": uid_validity}
        row = await (await connection.execute(_SQL["highest_uid"], values)).fetchone()
        return 0 if row is None else int(row[0])


async def local_flags(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, after_uid: int = 0, limit: int = DEFAULT_PAGE
) -> dict[Uid, Flags | None]:
    """The last observed flags of the next `limit` messages after `after_uid`, in UID order.

    None stands for a message that nobody observed yet. An empty answer ends the walk.
    """
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "after_uid": after_uid, "limit": limit}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["local_flags"], values)
        return {row[0]: _flags(row[2:]) if row[1] else None for row in await cursor.fetchall()}


async def apply_flags(
    db: Database,
    folder_id: FolderId,
    *,
    uid_validity: UidValidity,
    observed: Mapping[Uid, Flags],
    observed_at: datetime,
    touched: Collection[Uid] = (),
) -> list[FlagChange]:
    """Write what the server said, one transaction per PASS_ROWS messages; what changed by it.

    Rows that say so already are not rewritten, rows observed later than `observed_at` and tombstones are left alone
    (SYNC-78), UIDs that are not stored are ignored. Of `touched` rows the moment of a reading is kept even if it brings
    nothing new: it ends what a change of our own before it can explain (MUT-50).
    """
    changes: list[FlagChange] = []
    listed = sorted(observed.items())
    for first in range(0, len(listed), PASS_ROWS):
        chunk = listed[first : first + PASS_ROWS]
        values = {
            "folder_id": folder_id,
            "uid_validity": uid_validity,
            "observed_at": observed_at,
            "touched": list(touched),
            "uids": [uid for uid, _ in chunk],
            "seen": [flags.seen for _, flags in chunk],
            "answered": [flags.answered for _, flags in chunk],
            "flagged": [flags.flagged for _, flags in chunk],
            "draft": [flags.draft for _, flags in chunk],
            "deleted": [flags.deleted for _, flags in chunk],
            "keywords": [" ".join(flags.keywords) for _, flags in chunk],
            "labels": ["\n".join(flags.labels) for _, flags in chunk],
        }
        for row in await db.redo(partial(_apply_flags, values=values)):
            before = None if row[2] is None else _flags(row[3:])
            if before != observed[row[1]]:
                changes.append(FlagChange(row[0], row[1], before, observed[row[1]]))
    return changes


def _flags(columns: Sequence[Any]) -> Flags:
    """From the flags of a row and its arrays of keywords and labels."""
    seen, answered, flagged, draft, deleted, keywords, labels = columns
    return Flags(seen, answered, flagged, draft, deleted, tuple(keywords), tuple(labels))


async def _apply_flags(connection: Connection, *, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    return await (await connection.execute(_SQL["apply_flags"], values)).fetchall()


async def apply_removals(
    db: Database,
    folder_id: FolderId,
    *,
    uid_validity: UidValidity,
    uids: Sequence[Uid],
    disposition: Disposition,
    observed_at: datetime,
    explain: Explain | None = None,
) -> int:
    """Dispose of messages that are gone from the server, PASS_ROWS to a transaction; how many rows that were.

    By `disposition`, except those that `explain` has another one for (SYNC-80). A row observed later than `observed_at`
    is left alone (SYNC-78), and so is one that was found gone before. Their quarantine entries go too.
    """
    scope = {"folder_id": folder_id, "uid_validity": uid_validity, "observed_at": observed_at}
    gone = 0
    for first in range(0, len(uids), PASS_ROWS):
        values = {**scope, "uids": list(uids[first : first + PASS_ROWS])}
        statements = ("lock_gone", "leave_quarantine")
        gone += await db.redo(
            partial(_remove, statements=statements, values=values, disposition=disposition, explain=explain)
        )
    return gone


async def retire_other_uid_validities(
    db: Database,
    folder_id: FolderId,
    *,
    uid_validity: UidValidity,
    disposition: Disposition,
    observed_at: datetime,
    explain: Explain | None = None,
) -> int:
    """Dispose of what is left under another UIDVALIDITY, as `apply_removals` does; how many rows that were.

    Only after a complete pass over the recreated folder: until then such rows may still be re-linked (case 4). Works in
    passes of PASS_ROWS rows, each its own transaction; interrupted, it goes on where it was.
    """
    if not await has_earlier_identities(db, folder_id, uid_validity=uid_validity):
        return 0  # the usual case costs two looks at an index, not a walk over the folder
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "observed_at": observed_at, "limit": PASS_ROWS}
    statements = ("lock_other_uid_validities", "leave_quarantine_of_other_uid_validities")
    total = 0
    while count := await db.redo(
        partial(_remove, statements=statements, values=values, disposition=disposition, explain=explain)
    ):
        total += count
    return total


async def awaiting_content(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, limit: int
) -> list[tuple[Uid, int]]:
    """UID and reported size of messages whose octets wait for storage room, in UID order (SYNC-68)."""
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "limit": limit}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["awaiting_content"], values)
        return [(row[0], row[1]) for row in await cursor.fetchall()]


async def folders_awaiting_content(db: Database, account_id: AccountId) -> dict[FolderId, int]:
    """The folders of an account with such a queue, and the size of its smallest message, 0 when unreported."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["folders_awaiting_content"], {"account_id": account_id})
        return {row[0]: row[1] for row in await cursor.fetchall()}


async def _remove(
    connection: Connection,
    *,
    statements: tuple[str, str],
    values: dict[str, Any],
    disposition: Disposition,
    explain: Explain | None,
) -> int:
    """One transaction: lock what is gone, ask why, dispose of it; how many rows that were."""
    lock, leave_quarantine = statements
    cursor = await connection.execute(_SQL[lock], values)
    gone = [Gone(*row) for row in await cursor.fetchall()]
    explained = await explain(connection, values["folder_id"], gone, values["observed_at"]) if gone and explain else {}
    usual = AuthoredDeleteDisposition(disposition.value)
    fates: dict[AuthoredDeleteDisposition, list[UUID]] = {}
    for one in gone:
        fates.setdefault(explained.get(one.stored_email_id, usual), []).append(one.stored_email_id)
    for fate, ids in fates.items():
        await dispose(connection, ids, fate, observed_at=values["observed_at"])
    await connection.execute(_SQL[leave_quarantine], values)
    return len(gone)


async def dispose(
    connection: Connection, ids: Sequence[UUID], fate: AuthoredDeleteDisposition, *, observed_at: datetime
) -> None:
    """Erase copies of messages that are gone from the server, hide them, or keep them readable."""
    if fate is AuthoredDeleteDisposition.ERASE_LOCAL_COPY:
        await connection.execute(_SQL["erase"], {"ids": ids})
        return
    is_retained = fate is AuthoredDeleteDisposition.RETAIN_LOCAL_COPY
    await connection.execute(_SQL["bury"], {"ids": ids, "is_retained": is_retained, "observed_at": observed_at})


async def lock_retained(connection: Connection, ids: Collection[UUID]) -> list[UUID]:
    """Those of `ids` whose copies are kept readable although their messages are gone from the server."""
    cursor = await connection.execute(_SQL["lock_retained"], {"ids": sorted(ids)})
    return [row[0] for row in await cursor.fetchall()]
