"""Writing messages (section 4): everything is checked and built first, then one transaction inserts or nothing does.

A message, its row in lists and its event are one statement, so that no crash can leave a part. The rows of a batch go
in sorted by mailbox and key: two batches with keys in common wait for each other instead of deadlocking (INBOX-38).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from mailkeep_inbox.bounds import MAX_FRAME_BYTES, MAX_LIST_ATTACHMENTS, MAX_SEARCH_TEXT_CHARACTERS
from mailkeep_inbox.calls import outcome_of
from mailkeep_inbox.checks import (
    assert_mailbox_scope,
    require_key,
    require_message_id,
    require_text,
    require_triage,
)
from mailkeep_inbox.errors import MailboxRangeError, MailboxScopeError
from mailkeep_inbox.event_log import logged_event, trim_event_log
from mailkeep_inbox.events import MailboxEventBus, publish_mailbox_event
from mailkeep_inbox.frames import FrameBody, FrameHeaders, build_mail_frame, decode_body, decode_headers
from mailkeep_inbox.handle import Handle, refuse_announcing, writing
from mailkeep_inbox.keys import generate_mailbox_message_id, mailbox_key, row_ids
from mailkeep_inbox.model import Direction, MailboxEventOp, MailboxRef, MailboxScope, PendingEvent
from mailkeep_inbox.refs import refs_json, require_refs
from mailkeep_inbox.search_terms import indexed_text
from mailkeep_inbox.statements import statement

logger = logging.getLogger("mailkeep_inbox")

MAX_STATEMENT_BYTES: Final = 16 * 1_048_576
MAX_STATEMENT_ROWS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageArgs:
    """A message as a host writes it (INBOX-26). Triage words are stored as given."""

    address: str
    from_address: str
    subject: str
    body: str
    message_key: str | None = None
    message_id: str | None = None
    direction: Direction | str = Direction.INBOUND
    in_reply_to: str | None = None
    references: Sequence[str] = ()
    refs: Sequence[MailboxRef] = ()
    priority: str | None = None
    classification: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMessageArgs(MessageArgs):
    """The same with its mailbox."""

    tenant_id: str
    principal_id: str


@dataclass(frozen=True, slots=True)
class ScopedMessage:
    """One item of a conversation batch: the scope is the only source of the ids (INBOX-37)."""

    scope: MailboxScope
    args: MessageArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    """Something of another system that reaches a principal: known by its source and its id there (INBOX-36)."""

    scope: MailboxScope
    source: str
    external_id: str
    address: str
    from_address: str
    subject: str
    body: str
    message_id: str | None = None
    direction: Direction | str = Direction.INBOUND
    in_reply_to: str | None = None
    references: Sequence[str] = ()
    refs: Sequence[MailboxRef] = ()
    priority: str | None = None
    classification: str | None = None
    status: str | None = None

    def as_message(self) -> ScopedMessage:
        """The message to write, its key made of source and external id."""
        require_text("source", self.source)
        require_text("external_id", self.external_id)
        values = {name: getattr(self, name) for name in MessageArgs.__slots__ if name != "message_key"}
        return ScopedMessage(
            self.scope, MessageArgs(message_key=mailbox_key.inbox(self.source, self.external_id), **values)
        )


@dataclass(frozen=True, slots=True)
class WrittenMessage:
    """A new message; `events` are for the owner of the transaction, published already when a bus was given."""

    id: str
    events: tuple[PendingEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    """What became of an item: `id` is None when its key was known, and then there is no event."""

    message_key: str
    id: str | None
    events: tuple[PendingEvent, ...] = ()


Enqueue: TypeAlias = Callable[[str, InboxItem], "Awaitable[object] | object"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row ready to insert, every cache read from the frame itself (INBOX-30)."""

    scope: MailboxScope
    address: str
    raw: bytes
    headers: FrameHeaders | None
    body: FrameBody
    message_key: str
    direction: Direction = Direction.INBOUND
    refs: tuple[MailboxRef, ...] = ()
    priority: str | None = None
    classification: str | None = None
    status: str | None = None
    id: str = field(default_factory=row_ids.next)

    def parameters(self) -> dict[str, object]:
        """The values of the insert by column."""
        headers = self.headers
        subject = None if headers is None else headers.subject
        from_address = None if headers is None else headers.from_
        files = [file.as_wire() for file in self.body.attachments[:MAX_LIST_ATTACHMENTS]]
        return {
            "id": self.id,
            "tenant_id": self.scope.tenant_id,
            "principal_id": self.scope.principal_id,
            "address": self.address,
            "direction": str(self.direction),
            "raw": self.raw,
            "subject": subject,
            "from_address": from_address,
            "message_id": None if headers is None else headers.message_id,
            "in_reply_to": None if headers is None else headers.in_reply_to,
            "reference_list": json.dumps(headers.references) if headers and headers.references else None,
            "message_key": self.message_key,
            "refs": refs_json(self.refs),
            "priority": self.priority,
            "classification": self.classification,
            "status": self.status,
            "snippet": self.body.snippet,
            "attachments": json.dumps(files, ensure_ascii=False) if files else None,
            "body_text": self.body.text[:MAX_SEARCH_TEXT_CHARACTERS] or None,
            "search_text": indexed_text(subject=subject, from_address=from_address, body=self.body.text),
        }


@dataclass(frozen=True, slots=True)
class Inserted:
    """A row that is new, and its event."""

    id: str
    event: PendingEvent


async def write_mailbox_message(
    db: Handle, args: WriteMessageArgs, bus: MailboxEventBus | None = None
) -> WrittenMessage | None:
    """Write one message; `None` when its key was known and nothing changed.

    Raises MailboxRangeError for arguments, MailboxScopeError for a principal of another tenant, and the driver's
    integrity error for an id that the control plane lacks.
    """
    scope = MailboxScope(args.tenant_id, args.principal_id)
    refuse_announcing(db, bus=bus)
    row = _row(scope, args, now=datetime.now(UTC))
    (delivered,) = await _insert_and_publish(db, [row], bus)
    return None if delivered.id is None else WrittenMessage(delivered.id, delivered.events)


async def write_mailbox_messages(
    db: Handle, items: Sequence[ScopedMessage], *, bus: MailboxEventBus | None = None
) -> list[DeliveredMessage]:
    """Write a conversation, to any mailboxes, in one transaction or not at all; results in the order of the items."""
    refuse_announcing(db, bus=bus)
    for item in items:
        if isinstance(item.args, WriteMessageArgs):
            raise MailboxRangeError("args must not carry ids: the scope of the item is their only source")
    now = datetime.now(UTC)
    return await _insert_and_publish(db, [_row(item.scope, item.args, now=now) for item in items], bus)


async def deliver_inbox_items(
    db: Handle, items: Sequence[InboxItem], *, bus: MailboxEventBus | None = None, enqueue: Enqueue | None = None
) -> list[DeliveredMessage]:
    """Deliver items of other systems, all or none; a retry of the same items is a no-op (INBOX-36).

    After the commit, for each new message in the order of the items: its event, then `enqueue(id, item)`. What either
    raises is logged with the id and costs nothing else.
    """
    refuse_announcing(db, bus=bus, enqueue=enqueue)
    for item in items:
        assert_mailbox_scope(item.scope)
    now = datetime.now(UTC)
    rows = [_row(message.scope, message.args, now=now) for message in [item.as_message() for item in items]]
    delivered = await _insert_and_publish(db, rows, None)
    for item, outcome in zip(items, delivered, strict=True):
        await publish(bus, outcome.events)
        if outcome.id is not None and enqueue is not None:
            await _enqueue(enqueue, outcome.id, item)
    return delivered


async def insert_rows(connection: AsyncConnection, rows: Sequence[Row]) -> list[Inserted | None]:
    """Insert inside the caller's transaction; `None` for a known key. Of two rows with one key the first wins."""
    order = sorted(range(len(rows)), key=lambda place: _lock_order(rows[place]))
    found: dict[str, Inserted] = {}
    last: dict[MailboxScope, int] = {}
    for chunk in _chunks([rows[place] for place in order]):
        columns: dict[str, list[object]] = {}
        for row in chunk:
            for name, value in row.parameters().items():
                columns.setdefault(name, []).append(value)
        scopes = {row.id: row.scope for row in chunk}
        for new in await connection.execute(statement("insert_messages"), columns):
            event = logged_event(scopes[new.id], new.id, MailboxEventOp.CREATE, new.horizon)
            found[new.id] = Inserted(new.id, event)
            last[event.scope] = new.seq
    await trim_event_log(connection, list(last), list(last.values()))
    return [found.get(row.id) for row in rows]


async def publish(bus: MailboxEventBus | None, events: Iterable[PendingEvent]) -> None:
    """Tell the bus, event by event, best effort."""
    if bus is not None:
        for pending in events:
            await publish_mailbox_event(bus, pending.scope, pending.event)


async def require_principals(connection: AsyncConnection, scopes: Iterable[MailboxScope]) -> None:
    """Raise MailboxScopeError for a known principal of another tenant; unknown ones fail their key (INBOX-15)."""
    wanted = set(scopes)
    ids = sorted({scope.principal_id for scope in wanted})
    rows = await connection.execute(statement("principals_of_ids"), {"ids": ids})
    tenants = {row.id: row.tenant_id for row in rows}
    for scope in wanted:
        if tenants.get(scope.principal_id, scope.tenant_id) != scope.tenant_id:
            raise MailboxScopeError("the principal belongs to another tenant")


def _row(scope: MailboxScope, args: MessageArgs, *, now: datetime) -> Row:
    """Check and build (INBOX-27): scope, identifiers, field sizes, frame, size of the frame."""
    assert_mailbox_scope(scope)
    if args.direction not in set(Direction):
        raise MailboxRangeError("direction must be inbound or outbound")
    direction = Direction(args.direction)
    for name in ("message_id", "in_reply_to"):
        if (value := getattr(args, name)) is not None:
            require_message_id(name, value)
    if isinstance(args.references, str):
        raise MailboxRangeError("references must be a list")
    references = [require_message_id("references", token) for token in args.references]
    for name in ("address", "from_address", "subject", "body"):
        require_text(name, getattr(args, name))
    for name in ("priority", "classification", "status"):
        require_triage(name, getattr(args, name))
    _require_sizes(args)
    message_id = args.message_id or generate_mailbox_message_id(args.from_address)
    if args.message_key is None:
        key = mailbox_key.transport(message_id, scope.principal_id, direction)
    else:
        key = require_key("message_key", args.message_key)
    refs = require_refs(args.refs, key=key)
    raw = build_mail_frame(
        from_address=args.from_address,
        to=args.address,
        subject=args.subject,
        body=args.body,
        message_id=message_id,
        date=now,
        in_reply_to=args.in_reply_to,
        references=references,
    )
    if len(raw) > MAX_FRAME_BYTES:
        raise MailboxRangeError(f"the frame must be at most {MAX_FRAME_BYTES} bytes")
    return Row(
        scope=scope,
        address=args.address,
        raw=raw,
        headers=decode_headers(raw),
        body=decode_body(raw),
        message_key=key,
        direction=direction,
        refs=refs,
        priority=args.priority,
        classification=args.classification,
        status=args.status,
    )


def _require_sizes(args: MessageArgs) -> None:
    """A field that alone fills a frame cannot fit with headers (INBOX-27)."""
    for name in ("address", "from_address", "subject", "body"):
        if len(getattr(args, name).encode()) >= MAX_FRAME_BYTES:
            raise MailboxRangeError(f"{name} must be below {MAX_FRAME_BYTES} bytes")


async def _insert_and_publish(db: Handle, rows: Sequence[Row], bus: MailboxEventBus | None) -> list[DeliveredMessage]:
    if not rows:
        return []
    async with writing(db) as connection:
        await require_principals(connection, (row.scope for row in rows))
        inserted = await insert_rows(connection, rows)
    for new in inserted:
        await publish(bus, () if new is None else (new.event,))
    return [
        DeliveredMessage(row.message_key, None if new is None else new.id, () if new is None else (new.event,))
        for row, new in zip(rows, inserted, strict=True)
    ]


async def _enqueue(enqueue: Enqueue, message_id: str, item: InboxItem) -> None:
    try:
        await outcome_of(enqueue(message_id, item))
    except Exception as failure:
        logger.error("mailbox enqueue failed: id=%s error=%s", message_id, type(failure).__name__)  # noqa: TRY400 -- a traceback may hold mail


def _lock_order(row: Row) -> tuple[str, str, str]:
    return row.scope.tenant_id, row.scope.principal_id, row.message_key


def _chunks(rows: Sequence[Row]) -> Iterable[list[Row]]:
    """Statements of bounded size."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        if chunk and (len(chunk) == MAX_STATEMENT_ROWS or size + len(row.raw) > MAX_STATEMENT_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += len(row.raw)
    if chunk:
        yield chunk


__all__ = [
    "DeliveredMessage",
    "InboxItem",
    "MessageArgs",
    "ScopedMessage",
    "WriteMessageArgs",
    "WrittenMessage",
    "deliver_inbox_items",
    "write_mailbox_message",
    "write_mailbox_messages",
]
