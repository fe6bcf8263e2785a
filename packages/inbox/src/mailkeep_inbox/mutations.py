"""What an owner does with messages (section 10): one scoped statement each, its event logged by the same statement.

Only inbound messages change. Rows are locked in the order of their ids, so that overlapping bulk actions wait for each
other instead of deadlocking. What is out of scope, absent or refused by a guard is the same answer: no match.
"""

# ruff: noqa: A002, S608 -- the contract names the argument `id`; SQL is made of literal parts

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import TextClause, text

from mailkeep_inbox.bounds import MAX_BULK, MAX_FILTER_ACTION, MAX_LABELS
from mailkeep_inbox.checks import assert_mailbox_scope, require_filter, require_limit, require_triage, row_ids
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.event_log import logged_event, trim_event_log
from mailkeep_inbox.handle import Handle, writing
from mailkeep_inbox.list_sql import NOW, filter_condition, view_condition
from mailkeep_inbox.lists import NO_FILTER, filter_parameters, scope_parameters
from mailkeep_inbox.model import (
    EVERY_MESSAGE,
    LATEST,
    UNSET,
    MailboxAction,
    MailboxEventOp,
    MailboxFilter,
    MailboxScope,
    MailboxView,
    PendingEvent,
    Unset,
)
from mailkeep_inbox.statements import statement


class _Change(NamedTuple):
    """`sets` is applied to rows that satisfy `guard`; `pending` are those it would really change."""

    sets: str
    guard: str
    pending: str


_ACTIONS: Final[dict[MailboxAction, _Change]] = {
    MailboxAction.MARK_READ: _Change(f"read_at = COALESCE(m.read_at, {NOW})", "true", "m.read_at IS NULL"),
    MailboxAction.MARK_UNREAD: _Change(
        "read_at = NULL", "m.archived_at IS NULL AND m.trashed_at IS NULL", "m.read_at IS NOT NULL"
    ),
    MailboxAction.ARCHIVE: _Change(
        f"archived_at = COALESCE(m.archived_at, {NOW}), trashed_at = NULL, snoozed_until = NULL",
        "m.trashed_at IS NULL",
        "m.archived_at IS NULL",
    ),
    MailboxAction.TRASH: _Change(
        f"trashed_at = COALESCE(m.trashed_at, {NOW}), archived_at = NULL, snoozed_until = NULL",
        "true",
        "m.trashed_at IS NULL",
    ),
    MailboxAction.RESTORE: _Change(
        "archived_at = NULL, trashed_at = NULL", "true", "(m.archived_at IS NOT NULL OR m.trashed_at IS NOT NULL)"
    ),
}
_SNOOZE: Final = _Change(
    "snoozed_until = CAST(:until AS timestamp)", "m.archived_at IS NULL AND m.trashed_at IS NULL", "true"
)
_LABEL: Final = _Change(
    """labels = NULLIF(ARRAY(
        SELECT DISTINCT label FROM unnest(COALESCE(m.labels, ARRAY[]::text[]) || CAST(:add AS text[])) AS label
        WHERE label <> ALL (CAST(:remove AS text[])) ORDER BY label
    ), ARRAY[]::text[])""",
    "true",
    "true",
)


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of one requested id."""

    id: str
    ok: bool


async def mark_mailbox_message_read(
    db: Handle,
    scope: MailboxScope,
    id: str,
    *,
    events: list[PendingEvent] | None = None,
) -> bool:
    """Mark as read; a repeat keeps the first moment. Whether a message matched (INBOX-76, INBOX-77)."""
    return await _single(db, scope, MailboxAction.MARK_READ, id, events)


async def mark_mailbox_message_unread(
    db: Handle,
    scope: MailboxScope,
    id: str,
    *,
    events: list[PendingEvent] | None = None,
) -> bool:
    """Mark as unread; refused for what is archived or in the trash."""
    return await _single(db, scope, MailboxAction.MARK_UNREAD, id, events)


async def archive_mailbox_message(
    db: Handle,
    scope: MailboxScope,
    id: str,
    *,
    events: list[PendingEvent] | None = None,
) -> bool:
    """Put into the archive; refused for what is in the trash."""
    return await _single(db, scope, MailboxAction.ARCHIVE, id, events)


async def trash_mailbox_message(
    db: Handle,
    scope: MailboxScope,
    id: str,
    *,
    events: list[PendingEvent] | None = None,
) -> bool:
    """Put into the trash, out of the archive too."""
    return await _single(db, scope, MailboxAction.TRASH, id, events)


async def restore_mailbox_message(
    db: Handle,
    scope: MailboxScope,
    id: str,
    *,
    events: list[PendingEvent] | None = None,
) -> bool:
    """Put back into the inbox, from the trash or the archive."""
    return await _single(db, scope, MailboxAction.RESTORE, id, events)


async def assign_mailbox_message(
    db: Handle,
    scope: MailboxScope,
    id: str,
    *,
    assignee: str | None,
    events: list[PendingEvent] | None = None,
) -> bool:
    """Set or clear the assignee, a word of the host's; the message stays in its owner's mailbox (INBOX-78)."""
    require_triage("assignee", assignee)
    change = _Change("assignee = CAST(:assignee AS text)", "true", "true")
    changed = await _change(db, scope, change, MailboxEventOp.ASSIGN, [id], {"assignee": assignee}, events)
    return bool(changed)


async def enrich_mailbox_message(
    db: Handle,
    scope: MailboxScope,
    id: str,
    *,
    priority: str | Unset | None = UNSET,
    classification: str | Unset | None = UNSET,
    status: str | Unset | None = UNSET,
    events: list[PendingEvent] | None = None,
) -> bool:
    """Set the words that are given, clear those given as None, leave the others; none given is an error (INBOX-78)."""
    assert_mailbox_scope(scope)
    given = {"priority": priority, "classification": classification, "status": status}
    words = {name: require_triage(name, value) for name, value in given.items() if not isinstance(value, Unset)}
    if not words:
        raise MailboxRangeError("enrichment must set at least one of priority, classification, status")
    change = _Change(", ".join(f"{name} = CAST(:{name} AS text)" for name in words), "true", "true")
    return bool(await _change(db, scope, change, MailboxEventOp.ENRICH, [id], words, events))


async def snooze_mailbox_message(
    db: Handle,
    scope: MailboxScope,
    id: str,
    *,
    until: datetime | None,
    events: list[PendingEvent] | None = None,
) -> bool:
    """Take out of inbox and unread count until an aware moment, `None` to wake it; refused when put away already.

    Nothing has to run at that moment: lists and count compare with the clock, and the message is back where it was.
    """
    if until is not None and (until.tzinfo is None or until.utcoffset() is None):
        raise MailboxRangeError("until must be a moment with a time zone")
    moment = None if until is None else until.astimezone(UTC).replace(tzinfo=None)
    return bool(await _change(db, scope, _SNOOZE, MailboxEventOp.SNOOZE, [id], {"until": moment}, events))


async def label_mailbox_message(
    db: Handle,
    scope: MailboxScope,
    id: str,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    events: list[PendingEvent] | None = None,
) -> bool:
    """Add and remove labels; a message holds at most 50, and one that would hold more does not match."""
    for label in (*add, *remove):
        require_triage("label", label)
        if not label.strip():
            raise MailboxRangeError("a label must not be blank")
    if (not add and not remove) or len(add) > MAX_LABELS or len(remove) > MAX_LABELS:
        raise MailboxRangeError(f"give 1 to {MAX_LABELS} labels")
    parameters = {"add": list(add), "remove": list(remove), "most": MAX_LABELS}
    guard = f"COALESCE(cardinality({_LABEL.sets.removeprefix('labels = ')}), 0) <= :most"
    change = _LABEL._replace(guard=guard)
    return bool(await _change(db, scope, change, MailboxEventOp.LABEL, [id], parameters, events))


async def apply_mailbox_bulk_action(
    db: Handle,
    scope: MailboxScope,
    action: MailboxAction | str,
    ids: Sequence[str],
    *,
    events: list[PendingEvent] | None = None,
) -> list[BulkResult]:
    """One action on at most 50 messages; a result for every id asked, in that order (INBOX-79)."""
    assert_mailbox_scope(scope)
    chosen = _require_action(action)
    if isinstance(ids, str) or len(ids) > MAX_BULK:
        raise MailboxRangeError(f"bulk mailbox action accepts at most {MAX_BULK} ids")
    if not ids:
        return []
    changed = await _change(db, scope, _ACTIONS[chosen], MailboxEventOp(chosen), ids, {}, events)
    return [BulkResult(each, each in changed) for each in ids]


async def apply_mailbox_action_to_filter(
    db: Handle,
    scope: MailboxScope,
    action: MailboxAction | str,
    *,
    view: MailboxView | str = MailboxView.ALL,
    filter: MailboxFilter = NO_FILTER,
    before: datetime | None = None,
    limit: int = MAX_FILTER_ACTION,
    events: list[PendingEvent] | None = None,
) -> int:
    """One action on what a view shows; how many messages it changed, at most `limit`: repeat until it is less.

    `before` spares what came after an aware moment, as the page that the owner saw. One event stands for all of them,
    with the id `*`.
    """
    assert_mailbox_scope(scope)
    require_filter(filter)
    require_limit(limit, maximum=MAX_FILTER_ACTION)
    chosen = _require_action(action)
    if view not in set(MailboxView):
        raise MailboxRangeError("invalid inbox view")
    if before is not None and before.tzinfo is None:
        raise MailboxRangeError("before must be a moment with a time zone")
    moment = LATEST if before is None else before.astimezone(UTC).replace(tzinfo=None)
    query = _filter_statement(chosen, MailboxView(view), filter_condition(filter))
    parameters = scope_parameters(scope) | filter_parameters(filter) | {"before": moment, "limit": limit}
    async with writing(db) as connection:
        count = int((await connection.execute(query, parameters)).scalar_one())
        if count:
            row = (await connection.execute(statement("log_event"), scope_parameters(scope) | {
                "message_id": EVERY_MESSAGE, "op": str(chosen)})).one()  # fmt: skip
            await trim_event_log(connection, [scope], [row.seq])
            pending = logged_event(scope, EVERY_MESSAGE, chosen, row.horizon)
    if count and events is not None:
        events.append(pending)
    return count


async def mark_all_mailbox_read(
    db: Handle, scope: MailboxScope, *, before: datetime | None = None, events: list[PendingEvent] | None = None
) -> int:
    """Mark everything unread in the inbox as read, at most 10,000 a call; how many that were."""
    return await apply_mailbox_action_to_filter(
        db, scope, MailboxAction.MARK_READ, view=MailboxView.UNREAD, before=before, events=events
    )


async def _single(
    db: Handle, scope: MailboxScope, action: MailboxAction, row_id: str, events: list[PendingEvent] | None
) -> bool:
    return bool(await _change(db, scope, _ACTIONS[action], MailboxEventOp(action), [row_id], {}, events))


async def _change(
    db: Handle,
    scope: MailboxScope,
    change: _Change,
    op: MailboxEventOp,
    ids: Sequence[str],
    parameters: dict[str, Any],
    events: list[PendingEvent] | None,
) -> set[str]:
    """Apply a change and log it; the ids that matched. Events are given in the order of `ids`, each once."""
    assert_mailbox_scope(scope)
    asked = row_ids(ids)
    if not asked:
        return set()
    values = scope_parameters(scope) | parameters | {"ids": asked, "op": str(op)}
    async with writing(db) as connection:
        rows = (await connection.execute(_change_statement(change.sets, change.guard), values)).all()
        await trim_event_log(connection, [scope] * len(rows), [row.seq for row in rows])
    horizons = {row.message_id: row.horizon for row in rows}
    if events is not None:
        events += [logged_event(scope, each, op, horizons[each]) for each in dict.fromkeys(asked) if each in horizons]
    return set(horizons)


@cache
def _change_statement(sets: str, guard: str) -> TextClause:
    return text(f"""
WITH chosen AS (
    SELECT m.id FROM mailbox.mailbox AS m
    WHERE m.id = ANY(CAST(:ids AS text[])) AND m.tenant_id = CAST(:tenant_id AS text)
        AND m.principal_id = CAST(:principal_id AS text) AND m.direction = 'inbound' AND {guard}
    ORDER BY m.id FOR UPDATE
), changed AS (
    UPDATE mailbox.mailbox AS m SET {sets} FROM chosen WHERE m.id = chosen.id RETURNING m.id
)
INSERT INTO mailbox.mailbox_event (tenant_id, principal_id, message_id, op)
SELECT CAST(:tenant_id AS text), CAST(:principal_id AS text), changed.id, CAST(:op AS text) FROM changed
RETURNING message_id, seq, horizon""")


@cache
def _filter_statement(action: MailboxAction, view: MailboxView, chosen_filter: str) -> TextClause:
    change = _ACTIONS[action]
    return text(f"""
WITH found AS (
    SELECT m.id FROM mailbox.mailbox AS m
    WHERE m.tenant_id = CAST(:tenant_id AS text) AND m.principal_id = CAST(:principal_id AS text)
        AND m.direction = 'inbound' AND {view_condition(view)}{chosen_filter}
        AND m.created_at < CAST(:before AS timestamp) AND {change.guard} AND {change.pending}
    LIMIT :limit
), chosen AS (
    SELECT m.id FROM mailbox.mailbox AS m
    WHERE m.id IN (SELECT id FROM found) AND {change.guard} AND {change.pending} ORDER BY m.id FOR UPDATE
), changed AS (
    UPDATE mailbox.mailbox AS m SET {change.sets} FROM chosen WHERE m.id = chosen.id RETURNING 1
)
SELECT count(*) FROM changed""")


def _require_action(action: MailboxAction | str) -> MailboxAction:
    if action not in set(MailboxAction):
        raise MailboxRangeError("unknown mailbox action")
    return MailboxAction(action)
