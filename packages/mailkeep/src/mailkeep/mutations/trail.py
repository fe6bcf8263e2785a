"""Reading and erasing the audit trail: how changes ended, newest first, and a person's or an account's entries gone.

Entries are appended elsewhere and never change. Erasing is an act of its own, since nothing else removes an entry
before its time: it outlives the message that it says was deleted (MUT-63, MUT-66, MUT-B10).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from psycopg.rows import dict_row

from mailkeep.db import Database, load_queries
from mailkeep.errors import FilterRefused
from mailkeep.mutations.model import AuditOutcome, Mutation, RequesterOrigin
from mailkeep.mutations.pages import DEFAULT_PAGE, check_page_size, read_cursor, stamp_of, write_cursor

log = logging.getLogger(__name__)

_SQL: Final = load_queries("mailkeep.mutations")
ERASED_PER_PASS: Final = 5_000


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """How one change ended. No content of a message."""

    id: UUID
    mutation_record_id: UUID
    stored_email_id: UUID
    account_id: str
    mutation: Mutation
    outcome: AuditOutcome
    requester_origin: RequesterOrigin
    requester_identity: str
    source_folder_path: str
    source_uid_validity: int
    source_uid: int
    destination_folder_path: str | None
    placement_uid_validity: int | None
    placement_uid: int | None
    desired_seen_state: bool | None
    desired_flagged_state: bool | None
    keywords: tuple[str, ...] | None
    failure_code: int | None
    requested_at: datetime
    completed_at: datetime


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries, newest first. `left_out` of the page mean nothing to this build."""

    entries: tuple[AuditEntry, ...]
    next_cursor: str | None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries: of one account, perhaps of one mutation and a span, its beginning inclusive, its end not."""

    account_id: str
    mutation: Mutation | None = None
    since: datetime | None = None
    before: datetime | None = None


async def read_trail(
    db: Database, which: AuditFilter, *, page_size: int = DEFAULT_PAGE, cursor: str | None = None
) -> AuditPage:
    """One page of the trail.

    Raises PageSizeRefused, FilterRefused for instants without an offset, CursorForeign and CursorForOtherFilters.
    """
    check_page_size(page_size)
    if any(one is not None and one.tzinfo is None for one in (which.since, which.before)):
        raise FilterRefused("an instant needs its offset from UTC")
    stamp = stamp_of(which.account_id, which.mutation, _utc(which.since), _utc(which.before))
    before, before_id = read_cursor("audit", stamp, cursor)
    values = {
        "account_id": which.account_id,
        "mutation": None if which.mutation is None else which.mutation.value,
        "since": which.since,
        "until": which.before,
        "before": before,
        "before_id": before_id,
        "limit": page_size + 1,
    }
    async with db.connection() as connection, connection.cursor(row_factory=dict_row) as rows:
        await rows.execute(_SQL["read_trail"], values)
        found = await rows.fetchall()
    page = found[:page_size]
    entries = [entry for entry in map(_entry, page) if entry is not None]
    if len(entries) < len(page):
        log.warning("audit entries left out of an answer", extra={"uninterpretable": len(page) - len(entries)})
    following = None
    if len(found) > page_size:
        following = write_cursor("audit", stamp, page[-1]["completed_at"], page[-1]["id"])
    return AuditPage(tuple(entries), following, len(page) - len(entries))


async def erase_trail(db: Database, account_id: str, *, stored_email_ids: Sequence[UUID] | None = None) -> int:
    """Erase an account's entries, or those of the named messages alone; how many. In committed passes, resumable.

    The records of changes that have ended are told first that they leave no entry: what was erased would otherwise be
    taken for lost, and entered again.
    """
    erased = 0
    ids = None if stored_email_ids is None else list(stored_email_ids)
    while True:
        async with db.connection() as connection:
            values = {"account_id": account_id, "ids": ids, "limit": ERASED_PER_PASS}
            await connection.execute(_SQL["stop_auditing"], values)
            count = (await connection.execute(_SQL["erase_trail"], values)).rowcount
        erased += count
        if count < ERASED_PER_PASS:
            return erased


async def count_trail(db: Database, account_id: str, *, stored_email_ids: Sequence[UUID] | None = None) -> int:
    """How many entries `erase_trail` would erase."""
    ids = None if stored_email_ids is None else list(stored_email_ids)
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["count_trail"], {"account_id": account_id, "ids": ids})
        row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


def _utc(instant: datetime | None) -> datetime | None:
    return None if instant is None else instant.astimezone(UTC)


def _entry(row: Mapping[str, Any]) -> AuditEntry | None:
    """None for a row that means nothing to this build (DATA-6)."""
    keywords = row["keywords"]
    try:
        return AuditEntry(
            id=row["id"],
            mutation_record_id=row["mutation_record_id"],
            stored_email_id=row["stored_email_id"],
            account_id=row["mailbox_account_id"],
            mutation=Mutation(row["mutation"]),
            outcome=AuditOutcome(row["outcome"]),
            requester_origin=RequesterOrigin(row["requester_origin"]),
            requester_identity=row["requester_identity"],
            source_folder_path=row["source_folder_path"],
            source_uid_validity=row["source_uid_validity"],
            source_uid=row["source_uid"],
            destination_folder_path=row["destination_folder_path"],
            placement_uid_validity=row["placement_uid_validity"],
            placement_uid=row["placement_uid"],
            desired_seen_state=row["desired_seen_state"],
            desired_flagged_state=row["desired_flagged_state"],
            keywords=None if keywords is None else tuple(keywords),
            failure_code=row["failure_code"],
            requested_at=row["requested_at"],
            completed_at=row["completed_at"],
        )
    except ValueError:
        return None
