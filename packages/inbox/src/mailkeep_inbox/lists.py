"""Reading a mailbox: pages of a list, the unread count, one message by its msg-id (sections 7 to 9).

A page reads the columns that were copied when the message was written, never a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row

from mailkeep_inbox.bounds import DEFAULT_PAGE, MAX_PAGE
from mailkeep_inbox.checks import (
    assert_mailbox_scope,
    is_storable,
    require_directions,
    require_filter,
    require_limit,
)
from mailkeep_inbox.cursors import (
    MailboxCursor,
    assert_mailbox_cursor,
    canonical_mailbox_filter,
    canonical_mailbox_priorities,
    decode_mailbox_cursor,
    encode_mailbox_cursor,
)
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.handle import Handle, reading
from mailkeep_inbox.list_sql import filter_condition, item_by_id, page_by_date, page_by_priority, sides_of
from mailkeep_inbox.model import (
    LATEST,
    Direction,
    Directions,
    Key,
    MailboxFilter,
    MailboxItem,
    MailboxPage,
    MailboxScope,
    MailboxSort,
    MailboxView,
)
from mailkeep_inbox.refs import StoredLists
from mailkeep_inbox.sender_displays import ResolveSenderDisplays, attach_from_display
from mailkeep_inbox.statements import statement
from mailkeep_inbox.vocabulary import assert_mailbox_priorities

NO_FILTER = MailboxFilter()
_FIRST = Key(LATEST, "")


async def list_user_mailbox(
    db: Handle,
    scope: MailboxScope,
    *,
    priorities: Sequence[str],
    limit: int = DEFAULT_PAGE,
    view: MailboxView | str = MailboxView.ALL,
    sort: MailboxSort | str = MailboxSort.DATE,
    filter: MailboxFilter = NO_FILTER,  # noqa: A002 -- the contract's name
    cursor: str | None = None,
    direction: Directions = "inbound",
    resolve_sender_displays: ResolveSenderDisplays | None = None,
) -> MailboxPage:
    """A page of one mailbox, newest first, or most urgent first in the order of `priorities`.

    A cursor is taken back only by the list that gave it: another view, sort, filter, direction or, under the sort by
    priority, another order of priorities raises MailboxCursorError (INBOX-67).
    """
    assert_mailbox_scope(scope)
    assert_mailbox_priorities(priorities)
    require_limit(limit, maximum=MAX_PAGE)
    require_filter(filter)
    wanted = wanted_cursor(view, sort, filter, priorities, require_directions(direction))
    place = None
    if cursor is not None:
        place = decode_mailbox_cursor(cursor)
        assert_mailbox_cursor(place, wanted, ranks=len(priorities))
    is_ranked = wanted.sort is MailboxSort.PRIORITY
    compose = page_by_priority if is_ranked else page_by_date
    query = compose(wanted.view, wanted.direction, filter_condition(filter), has_cursor=place is not None)
    parameters = scope_parameters(scope) | filter_parameters(filter) | {"limit": limit + 1}
    if is_ranked:
        parameters |= {"priorities": list(priorities), "unlisted": len(priorities)}
    if place is not None:
        parameters |= {"created_at": place.key.created_at, "id": place.key.id}
        parameters |= {"rank": place.rank} if is_ranked else {}
    async with reading(db) as connection:
        rows = (await connection.execute(query, parameters)).all()
    items = items_of(rows[:limit])
    following = None
    if len(rows) > limit:
        last = rows[limit - 1]
        rank = last.rank if is_ranked else None
        following = encode_mailbox_cursor(replace(wanted, key=Key(last.created_at, last.id), rank=rank))
    labelled = await attach_from_display(items, tenant_id=scope.tenant_id, resolve=resolve_sender_displays)
    return MailboxPage(labelled, following)


async def count_unread_active_mailbox(db: Handle, scope: MailboxScope) -> int:
    """Messages that are unread, neither archived nor in the trash nor asleep (INBOX-81)."""
    assert_mailbox_scope(scope)
    async with reading(db) as connection:
        return int((await connection.execute(statement("count_unread"), scope_parameters(scope))).scalar_one())


async def read_mailbox_message_by_message_id(
    db: Handle, scope: MailboxScope, message_id: str, *, direction: Directions = "inbound"
) -> MailboxItem | None:
    """The oldest message of this mailbox that carries exactly this msg-id, as listed (INBOX-75)."""
    assert_mailbox_scope(scope)
    directions = sides_of(require_directions(direction))
    if not isinstance(message_id, str) or not is_storable(message_id):
        return None
    parameters = scope_parameters(scope) | {"message_id": message_id, "directions": list(directions)}
    async with reading(db) as connection:
        found = await connection.scalar(statement("find_by_message_id"), parameters)
        if found is None:
            return None
        rows = (
            await connection.execute(item_by_id(directions=directions), scope_parameters(scope) | {"id": found})
        ).all()
    return items_of(rows)[0] if rows else None


def wanted_cursor(
    view: MailboxView | str,
    sort: MailboxSort | str,
    chosen: MailboxFilter,
    priorities: Sequence[str],
    direction: Directions,
) -> MailboxCursor:
    """The list as a cursor of it would describe it. Raises MailboxRangeError for an unknown view or sort."""
    if view not in set(MailboxView):
        raise MailboxRangeError("invalid inbox view")
    if sort not in set(MailboxSort):
        raise MailboxRangeError("invalid inbox sort")
    is_ranked = sort == MailboxSort.PRIORITY
    return MailboxCursor(
        key=_FIRST,
        view=MailboxView(view),
        sort=MailboxSort(sort),
        filter=canonical_mailbox_filter(chosen),
        direction=direction,
        priorities=canonical_mailbox_priorities(priorities) if is_ranked else None,
    )


def scope_parameters(scope: MailboxScope) -> dict[str, Any]:
    """The parameters of every statement about one mailbox."""
    return {"tenant_id": scope.tenant_id, "principal_id": scope.principal_id}


def filter_parameters(chosen: MailboxFilter) -> dict[str, Any]:
    """The parameters of a filter's condition."""
    values = {name: getattr(chosen, name) for name in MailboxFilter.__slots__}
    return {name: value for name, value in values.items() if value is not None}


def items_of(rows: Sequence[Row[Any]]) -> list[MailboxItem]:
    """Rows of a list as values; malformed refs are dropped and told once (INBOX-58)."""
    stored = StoredLists()
    items = [_item(row, stored) for row in rows]
    stored.report()
    return items


def aware(moment: datetime) -> datetime:
    """A column's moment with the zone it is in."""
    return moment.replace(tzinfo=UTC)


def _item(row: Row[Any], stored: StoredLists) -> MailboxItem:
    return MailboxItem(
        id=row.id,
        from_=row.from_address or "",
        to=(row.address,),
        date=aware(row.created_at),
        read=row.read_at is not None,
        message_id=row.message_id or row.id,
        direction=Direction(row.direction),
        subject=row.subject,
        in_reply_to=row.in_reply_to,
        refs=stored.refs(row.id, row.refs),
        priority=row.priority,
        classification=row.classification,
        status=row.status,
        assignee=row.assignee,
        snippet=row.snippet,
        attachments=stored.attachments(row.id, row.attachments),
        labels=tuple(row.labels or ()),
        snoozed_until=None if row.snoozed_until is None else aware(row.snoozed_until),
    )


__all__ = [
    "count_unread_active_mailbox",
    "list_user_mailbox",
    "read_mailbox_message_by_message_id",
]
