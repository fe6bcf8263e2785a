"""What an operator sees of changes and decides about those that are stuck (MUT-36, MUT-B1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from psycopg.rows import dict_row

from mailkeep.db import Database, load_queries
from mailkeep.mutations.model import Lifecycle, Mutation, Stage
from mailkeep.mutations.pages import DEFAULT_PAGE, check_page_size, read_cursor, stamp_of, write_cursor
from mailkeep.mutations.views import changes_named, readable
from mailkeep.mutations.wishes import Change

_SQL: Final = load_queries("mailkeep.mutations")
_STAGES: Final = {
    Lifecycle.PENDING: [Stage.RECORDED],
    Lifecycle.CONVERGING: [Stage.PLACEMENT_ISSUED, Stage.PLACEMENT_CONFIRMED, Stage.SOURCE_FLAGGED_DELETED],
    Lifecycle.DEAD_LETTERED: [Stage.ABANDONED],
}


class Decision(StrEnum):
    """The answer to an operator's act; each is a normal result."""

    ACCEPTED = "Accepted"
    CHANGE_UNKNOWN = "ChangeUnknown"
    NOT_DEAD_LETTERED = "ChangeNotDeadLettered"
    OUTCOME_UNKNOWN = "ChangeOutcomeUnknown"
    """It may have happened: that has to be resolved before it may be tried again."""
    NOT_IN_DOUBT = "ChangeNotInDoubt"


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes, newest first, and the cursor of the page after them."""

    changes: tuple[Change, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes are listed; without a lifecycle all that are not completed."""

    account_id: str | None = None
    lifecycle: Lifecycle | None = None
    mutation: Mutation | None = None


async def list_changes(
    db: Database, which: ChangeFilter | None = None, *, page_size: int = DEFAULT_PAGE, cursor: str | None = None
) -> ChangePage:
    """One page of changes, the last recorded first. Rows that mean nothing to this build are left out, with a warning.

    Raises PageSizeRefused, CursorForeign and CursorForOtherFilters.
    """
    check_page_size(page_size)
    wanted = which or ChangeFilter()
    stamp = stamp_of(wanted.account_id, wanted.lifecycle, wanted.mutation)
    before, before_id = read_cursor("changes", stamp, cursor)
    stages = [one for named in _STAGES.values() for one in named]
    values = {
        "account_id": wanted.account_id,
        "mutation": None if wanted.mutation is None else wanted.mutation.value,
        "stages": [one.value for one in (_STAGES.get(wanted.lifecycle, []) if wanted.lifecycle else stages)],
        "before": before,
        "before_id": before_id,
        "limit": page_size + 1,
    }
    name = "list_completed" if wanted.lifecycle is Lifecycle.COMPLETED else "list_outstanding"
    async with db.connection() as connection, connection.cursor(row_factory=dict_row) as rows:
        await rows.execute(_SQL[name], values)
        found = await rows.fetchall()
    page = found[:page_size]
    following = None
    if len(found) > page_size:
        following = write_cursor("changes", stamp, page[-1]["recorded_at"], page[-1]["id"])
    return ChangePage(tuple(readable(page)), following)


async def show_change(db: Database, change_id: UUID) -> Change | None:
    """One change, whatever became of it; None for an unknown id."""
    return next(iter(await changes_named(db, [change_id])), None)


async def show_changes(db: Database, change_ids: Sequence[UUID]) -> list[Change]:
    """Changes by their ids, in that order; those that are no more are left out."""
    return await changes_named(db, change_ids)


async def retry_change(db: Database, change_id: UUID, *, now: datetime) -> Decision:
    """Let an abandoned change be attempted again from the stage it was abandoned at, its attempts counted anew.

    One that may have happened has to be resolved first. The code stays until another ending replaces it.
    """
    if await _decided(db, "retry_change", change_id, now=now):
        return Decision.ACCEPTED
    found = await show_change(db, change_id)
    if found is None:
        return Decision.CHANGE_UNKNOWN
    if found.record.stage is not Stage.ABANDONED:
        return Decision.NOT_DEAD_LETTERED
    return Decision.OUTCOME_UNKNOWN


async def resolve_change(db: Database, change_id: UUID, *, landed: bool, now: datetime) -> Decision:
    """Say what became of a move or copy whose answer was lost.

    One that landed is completed, or goes on with removing the message from where it was when it began as a copy. One
    that did not is abandoned as never sent, so that `retry_change` may follow.
    """
    if await _decided(db, "resolve_landed" if landed else "resolve_not_landed", change_id, now=now):
        return Decision.ACCEPTED
    found = await show_change(db, change_id)
    return Decision.CHANGE_UNKNOWN if found is None else Decision.NOT_IN_DOUBT


async def _decided(db: Database, name: str, change_id: UUID, *, now: datetime) -> bool:
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL[name], {"id": change_id, "now": now})
        row = await cursor.fetchone()
        if row is not None:
            await connection.execute(_SQL["announce"], {"account_id": row[0]})
    return row is not None
