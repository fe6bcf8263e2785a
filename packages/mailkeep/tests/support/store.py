"""Shorthand for tests that store mail: a bound folder, arrivals, and looking at the rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from mailkeep.db import Database
from mailkeep.mailbox import (
    AccountId,
    Arrival,
    BatchOutcome,
    ContentAvailability,
    Flags,
    FolderBinding,
    Uid,
    UidValidity,
    bind_folder,
    store_batch,
)

NOW = datetime(2025, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)
INTERNALDATE = datetime(2024, 3, 5, 10, 0, tzinfo=UTC)
EPOCH = UidValidity(7)


async def inbox(db: Database, account_id: str = "ann", alias: str = "INBOX") -> FolderBinding:
    """A bound folder."""
    return await bind_folder(db, AccountId(account_id), alias=alias, remote_path=alias.title(), hierarchy_delimiter="/")


def arrival(uid: int, octets: bytes, **changes: Any) -> Arrival:
    """A message with its octets, no flags reported."""
    values = {"size_octets": len(octets), "internaldate": INTERNALDATE, "flags": None, "octets": octets}
    return Arrival(uid=Uid(uid), **{**values, **changes})


def header_only(
    uid: int, header: bytes, availability: ContentAvailability = ContentAvailability.EXCEEDED_SIZE_LIMIT, **changes: Any
) -> Arrival:
    """A message of which only the header was fetched."""
    values = {"size_octets": 99_000_000, "internaldate": INTERNALDATE, "flags": Flags()}
    return Arrival(uid=Uid(uid), octets=None, header_octets=header, availability=availability, **{**values, **changes})


async def store(
    db: Database,
    binding: FolderBinding,
    *octets: bytes,
    first_uid: int = 1,
    uid_validity: int = EPOCH,
    now: datetime = NOW,
    **changes: Any,
) -> BatchOutcome:
    """Store messages under consecutive UIDs as one batch."""
    arrivals = [arrival(uid, one, **changes) for uid, one in enumerate(octets, start=first_uid)]
    return await store_batch(db, binding, uid_validity=UidValidity(uid_validity), arrivals=arrivals, now=now)


async def rows(db: Database, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    async with db.connection() as connection:
        return await (await connection.execute(statement, values)).fetchall()


async def execute(db: Database, statement: str, values: Sequence[object] = ()) -> None:
    """Run a statement."""
    async with db.connection() as connection:
        await connection.execute(statement, values)
