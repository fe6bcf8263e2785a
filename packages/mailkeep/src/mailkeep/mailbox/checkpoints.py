"""Checkpoints: how far a folder is synchronized, advanced by compare-and-set (SYNC-51, SYNC-56, SYNC-57, SYNC-128)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Final

from mailkeep.db import Database, load_queries
from mailkeep.errors import ConcurrencyConflict
from mailkeep.mailbox.model import AccountId, Checkpoint, FolderId, Uid, UidValidity

_SQL: Final = load_queries("mailkeep.mailbox")


async def load_checkpoint(db: Database, folder_id: FolderId) -> Checkpoint | None:
    """The folder's checkpoint; None before the first. One of another UIDVALIDITY than the session's is no progress."""
    async with db.connection() as connection:
        row = await (await connection.execute(_SQL["checkpoint"], {"folder_id": folder_id})).fetchone()
    return None if row is None else Checkpoint(*row)


async def load_checkpoints(db: Database, account_id: AccountId) -> dict[FolderId, Checkpoint]:
    """The checkpoints of all folders of an account in one question."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["account_checkpoints"], {"account_id": account_id})
        return {row[0]: Checkpoint(*row[1:]) for row in await cursor.fetchall()}


async def recommit_checkpoints(
    db: Database, unchanged: Mapping[FolderId, Checkpoint], *, now: datetime
) -> frozenset[FolderId]:
    """Note for many folders at once that nothing changed in them; those whose checkpoint is still the given one.

    A folder that is missing from the answer was advanced by another run.
    """
    if not unchanged:
        return frozenset()
    values = {
        "now": now,
        "folder_ids": list(unchanged),
        "uid_validities": [checkpoint.uid_validity for checkpoint in unchanged.values()],
        "last_seen_uids": [checkpoint.last_seen_uid for checkpoint in unchanged.values()],
    }
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["recommit_checkpoints"], values)
        return frozenset(row[0] for row in await cursor.fetchall())


async def advance_checkpoint(
    db: Database, folder_id: FolderId, *, expected: Checkpoint | None, new: Checkpoint
) -> None:
    """Replace `expected` by `new` in a transaction of its own, tried once.

    Compared are UIDVALIDITY and last UID. `synchronized_at`, `remote_observed_at` and, within one UIDVALIDITY,
    `reconciled_through_modseq` keep the later value. Raises ConcurrencyConflict when another run was faster or the row
    is gone, ValueError when `new` would go back within one UIDVALIDITY.
    """
    is_same_epoch = expected is not None and expected.uid_validity == new.uid_validity
    if expected is not None and is_same_epoch and (expected.last_seen_uid or 0) > (new.last_seen_uid or 0):
        raise ValueError("a checkpoint never moves back within one UIDVALIDITY")
    values = {"folder_id": folder_id, **asdict(new)}
    if expected is not None:
        values["expected_uid_validity"] = expected.uid_validity
        values["expected_last_seen_uid"] = expected.last_seen_uid
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["add_checkpoint" if expected is None else "advance_checkpoint"], values)
        if await cursor.fetchone() is None:
            raise ConcurrencyConflict("another run advanced this folder's checkpoint first")


async def count_blocked_attempt(db: Database, folder_id: FolderId, *, uid_validity: UidValidity, uid: Uid) -> int:
    """Count an attempt at the message in front of which the folder stands; how many in a row there were at this one.

    0 where the checkpoint is another one by now.
    """
    values = {"folder_id": folder_id, "uid_validity": uid_validity, "uid": uid}
    async with db.connection() as connection:
        row = await (await connection.execute(_SQL["count_blocked_attempt"], values)).fetchone()
    return 0 if row is None else int(row[0])


async def rewind(db: Database, account_id: AccountId, *, alias: str | None) -> int:
    """Delete the checkpoints of an account, or of one alias; how many there were (SYNC-128).

    The next run walks those folders from their first message. It stores onto the rows that are here, so nothing is
    erased or doubled; a run in flight raises ConcurrencyConflict at its next advance. Not for accounts filled by
    imports, whose checkpoints say which UIDs are taken.
    """
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["rewind"], {"account_id": account_id, "alias": alias or ""})
        return cursor.rowcount
