"""The event log: written with each change, bounded per mailbox, read by streams and buses that broke off.

A position is `<transaction>.<seq>`: everything after it may be new. Transactions commit in another order than their
numbers, so a position that is safe to keep is a horizon: the oldest transaction still open when it was taken. Reading
after it repeats some events and misses none that the log holds; clients take events as nudges and bear repeats.

The log keeps the newest 1,000 events of a mailbox (a few more between two trimmings). The last event trimmed stays as
a mark, so that a reader who comes from before it is told to fetch its list again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from mailkeep_inbox.bounds import MAX_EVENTS_PER_MAILBOX
from mailkeep_inbox.checks import assert_mailbox_scope, require_limit
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.handle import Handle, reading, writing
from mailkeep_inbox.model import MailboxEvent, MailboxEventOp, MailboxScope, PendingEvent
from mailkeep_inbox.statements import statement

_POSITION: Final = re.compile(r"(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})", re.ASCII)
_MAX_INTEGER: Final = 2**63 - 1
TRIM_EVERY: Final = 128
"""Events of all mailboxes between two trimmings, on average over mailboxes."""
MAX_EVENT_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in order. `next` goes into the following read; `is_complete` is False when some are gone for good.

    `seqs` tells the events apart, one number each, for readers that go back to a horizon and must not repeat.
    `horizon` is the position to keep once every page is read: the one of the first page.
    """

    events: tuple[PendingEvent, ...]
    next: str
    has_more: bool
    is_complete: bool
    seqs: tuple[int, ...]
    horizon: str


class _Place(NamedTuple):
    transaction_id: int
    seq: int

    def __str__(self) -> str:
        return f"{self.transaction_id}.{self.seq}"


def logged_event(scope: MailboxScope, message_id: str, op: str, horizon: int) -> PendingEvent:
    """An event as its writer hands it on."""
    return PendingEvent(scope, MailboxEvent(message_id, MailboxEventOp(op), str(_Place(horizon, 0))))


async def mailbox_event_position(db: Handle) -> str:
    """Where a new reader stands. Taken before its first look at the list, it lets nothing slip in between."""
    async with reading(db) as connection:
        horizon = await connection.scalar(statement("event_position"))
    return f"{horizon}.0"


async def read_mailbox_events(db: Handle, scope: MailboxScope, *, after: str, limit: int = 100) -> EventPage:
    """Events of one mailbox after a position. Raises MailboxRangeError for what is no position."""
    assert_mailbox_scope(scope)
    parameters = {"tenant_id": scope.tenant_id, "principal_id": scope.principal_id}
    return await _read(db, "read_events", parameters, after, limit)


async def read_events_of_all_mailboxes(db: Handle, *, after: str, limit: int = 500) -> EventPage:
    """Events of every mailbox after a position: for a bus that reconnects, never for one principal's eyes.

    Not complete as soon as any mailbox was trimmed since that position.
    """
    return await _read(db, "read_all_events", {}, after, limit)


async def prune_mailbox_events(db: Handle, *, older_than: timedelta) -> int:
    """Remove what is older, leaving each mailbox its mark; how many went. For mailboxes that nobody writes to."""
    cutoff = datetime.now(UTC).replace(tzinfo=None) - older_than
    async with writing(db) as connection:
        return int((await connection.execute(statement("age_events"), {"cutoff": cutoff})).scalar_one())


async def trim_event_log(connection: AsyncConnection, scopes: Sequence[MailboxScope], last_seqs: Sequence[int]) -> None:
    """Called by writers inside their transaction: trims the mailboxes whose turn it is."""
    due = {scope for scope, seq in zip(scopes, last_seqs, strict=True) if seq % TRIM_EVERY == 0}
    for scope in sorted(due, key=lambda each: (each.tenant_id, each.principal_id)):
        await connection.execute(
            statement("trim_events"),
            {"tenant_id": scope.tenant_id, "principal_id": scope.principal_id, "keep": MAX_EVENTS_PER_MAILBOX},
        )


def _place(position: str) -> _Place:
    found = _POSITION.fullmatch(position) if isinstance(position, str) else None
    place = None if found is None else _Place(int(found[1]), int(found[2]))
    if place is None or max(place) > _MAX_INTEGER:
        raise MailboxRangeError("malformed event position")
    return place


async def _read(db: Handle, name: str, scope: dict[str, Any], after: str, limit: int) -> EventPage:
    require_limit(limit, maximum=MAX_EVENT_PAGE)
    place = _place(after)
    parameters = scope | {"transaction_id": place.transaction_id, "seq": place.seq, "limit": limit + 1}
    async with reading(db) as connection:
        rows = (await connection.execute(statement(name), parameters)).all()
    head = rows[0]
    found = [row for row in rows if row.seq is not None]
    events = tuple(
        logged_event(MailboxScope(row.tenant_id, row.principal_id), row.message_id, row.op, row.event_horizon)
        for row in found[:limit]
    )
    has_more = len(found) > limit
    last = found[limit - 1] if has_more else None
    # A position from the future is another database's, restored since.
    reaches_back = place.transaction_id <= head.ceiling and (
        head.floor_seq is None or place >= (head.floor_transaction, head.floor_seq)
    )
    following = _Place(head.horizon, 0) if last is None else _Place(last.transaction_id, last.seq)
    seqs = tuple(row.seq for row in found[:limit])
    return EventPage(events, str(following), has_more, reaches_back, seqs, str(_Place(head.horizon, 0)))


__all__ = [
    "MAX_EVENT_PAGE",
    "EventPage",
    "mailbox_event_position",
    "prune_mailbox_events",
    "read_events_of_all_mailboxes",
    "read_mailbox_events",
    "trim_event_log",
]
