"""Messages that we moved or copied, met again where the server put them (spec MUT section 8: MUT-44 to MUT-46, MUT-49).

A relocation's placement carries the row it is about over to the new occurrence. A copy's is an ordinary arrival whose
provenance is known. One whose relocation has not ended, and may still leave its source in place, is held back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Final
from uuid import UUID

from mailkeep.config import AuthoredDeleteDisposition
from mailkeep.db import Connection, Database, load_queries
from mailkeep.mailbox import (
    AccountId,
    Disposition,
    Flags,
    FolderBinding,
    NewPlace,
    Uid,
    UidValidity,
    carry,
    dispose,
    lock_retained,
)
from mailkeep.mutations.model import Mutation, Stage, convergence_lease
from mailkeep.threads import lock_account

_SQL: Final = load_queries("mailkeep.mutations")
PLACEMENTS_AT_ONCE: Final = 100_000
CARRIED_AT_ONCE: Final = 100
"""Rows of one transaction: each has its search document written anew, which takes as long as its text is."""


class Treatment(Enum):
    """What is done about a placement."""

    CARRY = "the message goes over with its row"
    HOLD = "it is passed over until its relocation has ended"
    ORDINARY = "it is a message of its own"
    ARRIVED = "it is stored already"
    LOST = "it was in the folder that bore this name before its UIDVALIDITY changed"


@dataclass(frozen=True, slots=True)
class ExpectedPlacement:
    """A message that the server said to be in a folder, and that was not met there yet."""

    mutation_id: UUID
    stored_email_id: UUID
    mutation: Mutation
    stage: Stage
    requires_source_removal: bool
    is_source_gone: bool
    uid: Uid
    is_stored: bool
    is_lost: bool

    @property
    def treatment(self) -> Treatment:
        if self.is_lost:
            return Treatment.LOST
        if self.is_stored:
            return Treatment.ARRIVED
        if self.mutation is Mutation.COPY:
            return Treatment.ORDINARY
        if self.is_source_gone or self.stage is Stage.COMPLETED or not self.requires_source_removal:
            return Treatment.CARRY
        return Treatment.ORDINARY if self.stage.is_terminal else Treatment.HOLD


@dataclass(frozen=True, slots=True)
class Expectations:
    """The remote paths at which placements are to be met, and whether somebody waits for one that has no name."""

    paths: frozenset[str]
    waits_in_vain: bool


async def expectations(db: Database, account_id: AccountId) -> Expectations:
    """What the account's changes still have to be seen of."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["expectations"], {"account_id": account_id})
        found = await cursor.fetchall()
    return Expectations(
        paths=frozenset(path for path, is_named in found if is_named),
        waits_in_vain=not all(is_named for _, is_named in found),
    )


@dataclass(frozen=True, slots=True)
class Expected:
    """What is to be met in a folder, ascending; the last UID that is stored of it; and whether a copy or move into it
    is unanswered."""

    placements: tuple[ExpectedPlacement, ...]
    highest_stored: int
    is_under_way: bool


async def expected_placements(
    db: Database, binding: FolderBinding, *, uid_validity: UidValidity, through: int
) -> Expected:
    """The placements in a folder up to a UID that are to be settled; one query, mostly without an answer."""
    values = {
        "account_id": binding.account_id,
        "path": binding.remote_path,
        "folder_id": binding.folder_id,
        "uid_validity": uid_validity,
        "through": through,
        "limit": PLACEMENTS_AT_ONCE,
    }
    async with db.connection() as connection:
        rows = await (await connection.execute(_SQL["expected_placements"], values)).fetchall()
    found = tuple(
        ExpectedPlacement(id_, email, Mutation(mutation), Stage(stage), removes, is_source_gone, Uid(uid), *rest)
        for _, _, id_, email, mutation, stage, removes, is_source_gone, uid, *rest in rows
        if id_ is not None
    )
    return Expected(found, rows[0][0] or 0, rows[0][1])


async def is_converging(db: Database, account_id: AccountId) -> bool:
    """Whether some process carries out changes of the account at this moment."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["is_converging"], {"lease": convergence_lease(account_id)})
        row = await cursor.fetchone()
    return bool(row and row[0])


async def met_placements(
    db: Database, binding: FolderBinding, *, uid_validity: UidValidity, low: int, high: int
) -> list[Uid]:
    """The relocations that were met already within these UIDs."""
    values = {
        "account_id": binding.account_id,
        "path": binding.remote_path,
        "uid_validity": uid_validity,
        "low": low,
        "high": high,
    }
    async with db.connection() as connection:
        return [row[0] for row in await (await connection.execute(_SQL["met_placements"], values)).fetchall()]


async def carry_placed(
    db: Database,
    binding: FolderBinding,
    *,
    uid_validity: UidValidity,
    placements: Sequence[ExpectedPlacement],
    flags: Mapping[Uid, Flags | None],
    now: datetime,
) -> set[Uid]:
    """Carry the rows of relocations over to their placements; the UIDs at which that came about.

    `flags` are what the server just said of each (None: nothing). What loses a race is left to be discovered.
    """
    carried: set[Uid] = set()
    for first in range(0, len(placements), CARRIED_AT_ONCE):
        ids = [one.mutation_id for one in placements[first : first + CARRIED_AT_ONCE]]
        carried |= await db.redo(
            partial(_carry, binding=binding, uid_validity=uid_validity, ids=ids, flags=flags, now=now)
        )
    return carried


async def _carry(
    connection: Connection,
    *,
    binding: FolderBinding,
    uid_validity: UidValidity,
    ids: Sequence[UUID],
    flags: Mapping[Uid, Flags | None],
    now: datetime,
) -> set[Uid]:
    await lock_account(connection, binding.account_id)
    cursor = await connection.execute(_SQL["lock_carriable"], {"ids": ids})
    newest: dict[UUID, tuple[UUID, Uid]] = {}
    for mutation_id, stored_email_id, uid in await cursor.fetchall():
        newest.setdefault(stored_email_id, (mutation_id, uid))
    if not newest:
        return set()
    places = [NewPlace(email, uid, flags.get(uid)) for email, (_, uid) in newest.items()]
    carried = await carry(connection, binding, uid_validity=uid_validity, places=places, observed_at=now)
    settled = [mutation for email, (mutation, _) in newest.items() if email in carried]
    await connection.execute(_SQL["settle_carried"], {"ids": settled, "now": now})
    return {uid for email, (_, uid) in newest.items() if email in carried}


async def settle_placements(
    db: Database, mutation_ids: Sequence[UUID], *, disposition: Disposition, now: datetime
) -> None:
    """These placements need not be looked for any more; messages that waited for nothing else are disposed of."""
    if mutation_ids:
        await db.redo(partial(_settle, ids=list(mutation_ids), disposition=disposition, now=now))


async def _settle(connection: Connection, *, ids: list[UUID], disposition: Disposition, now: datetime) -> None:
    cursor = await connection.execute(_SQL["settle_placements"], {"ids": ids, "now": now})
    await _release(connection, {row[0] for row in await cursor.fetchall()}, disposition=disposition, now=now)


async def release_waiting(db: Database, account_id: AccountId, *, disposition: Disposition, now: datetime) -> int:
    """Dispose of messages that wait for a placement which nobody will name any more (MUT-49); how many."""
    return await db.redo(partial(_release_waiting, account_id=account_id, disposition=disposition, now=now))


async def _release_waiting(
    connection: Connection, *, account_id: AccountId, disposition: Disposition, now: datetime
) -> int:
    values = {"account_id": account_id, "limit": PLACEMENTS_AT_ONCE}
    cursor = await connection.execute(_SQL["waiting_in_vain"], values)
    return await _release(connection, {row[0] for row in await cursor.fetchall()}, disposition=disposition, now=now)


async def _release(connection: Connection, ids: set[UUID], *, disposition: Disposition, now: datetime) -> int:
    """Those of `ids` that no placement is left for go the way of any disappearance, unless we decided about them."""
    if not ids:
        return 0
    retained = await lock_retained(connection, ids)
    for statement in ("awaiting_placement", "disposed_by_us"):
        cursor = await connection.execute(_SQL[statement], {"ids": retained})
        kept = {row[0] for row in await cursor.fetchall()}
        retained = [one for one in retained if one not in kept]
    await dispose(connection, retained, AuthoredDeleteDisposition(disposition.value), observed_at=now)
    return len(retained)
