"""Stored mail that goes over to another folder of the server: its id, octets and derived data stay (SYNC-81)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.db import Connection, load_queries
from mailkeep.mailbox.model import Flags, FolderBinding, Uid, UidValidity

_SQL: Final = load_queries("mailkeep.mailbox")


@dataclass(frozen=True, slots=True)
class NewPlace:
    """The row that a message is, and where in its new folder it lies. `flags` None: the server told none."""

    stored_email_id: UUID
    uid: Uid
    flags: Flags | None


async def carry(
    connection: Connection,
    binding: FolderBinding,
    *,
    uid_validity: UidValidity,
    places: Sequence[NewPlace],
    observed_at: datetime,
) -> set[UUID]:
    """Give rows their new occurrences, within the caller's transaction; the ids of those that got theirs.

    The caller holds `threads.lock_account`, under which all rows of the account are stored, and the rows. One whose
    place another row has already stays where it is.
    """
    flags = [one.flags if one.flags is not None else Flags() for one in places]
    cursor = await connection.execute(
        _SQL["carry"],
        {
            "folder_id": binding.folder_id,
            "uid_validity": uid_validity,
            "observed_at": observed_at,
            "ids": [one.stored_email_id for one in places],
            "uids": [one.uid for one in places],
            "is_observed": [one.flags is not None for one in places],
            "seen": [one.seen for one in flags],
            "answered": [one.answered for one in flags],
            "flagged": [one.flagged for one in flags],
            "draft": [one.draft for one in flags],
            "deleted": [one.deleted for one in flags],
            "keywords": [" ".join(one.keywords) for one in flags],
            "labels": ["\n".join(one.labels) for one in flags],
        },
    )
    carried = {row[0] for row in await cursor.fetchall()}
    scope = {"folder_id": binding.folder_id, "uid_validity": uid_validity}
    await connection.execute(_SQL["carry_documents"], {**scope, "ids": sorted(carried)})
    await connection.execute(_SQL["leave_quarantine"], {**scope, "uids": [one.uid for one in places]})
    return carried
