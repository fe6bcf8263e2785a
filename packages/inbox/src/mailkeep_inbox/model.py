"""The values that go in and out: scopes, messages as listed, pages, events. Frozen, and free of I/O.

Python names are snake_case; `as_wire` gives the camelCase of JSON, absent optional fields left out (INBOX-9).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

EVERY_MESSAGE: Final = "*"
"""The id in the event of an action over a filter: several messages changed, fetch the list again."""


class Unset(Enum):
    """The type of UNSET."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""An argument that was not given, where `None` means "clear" (INBOX-78)."""


class Direction(StrEnum):
    """Who a stored message came from: others, or the owner of the mailbox."""

    INBOUND = "inbound"
    OUTBOUND = "outbound"


Directions: TypeAlias = Literal["inbound", "outbound", "all"]


class MailboxView(StrEnum):
    """Disjoint shelves, but for `unread`, which is part of `all` (INBOX-59)."""

    ALL = "all"
    UNREAD = "unread"
    ARCHIVED = "archived"
    TRASH = "trash"
    SNOOZED = "snoozed"
    SENT = "sent"


class MailboxSort(StrEnum):
    """The order of a list (INBOX-60)."""

    DATE = "date"
    PRIORITY = "priority"


class MailboxAction(StrEnum):
    """What bulk requests may ask, and the name under which the single verbs are published (INBOX-79)."""

    MARK_READ = "mark_read"
    MARK_UNREAD = "mark_unread"
    TRASH = "trash"
    ARCHIVE = "archive"
    RESTORE = "restore"


class MailboxEventOp(StrEnum):
    """What happened to a message (INBOX-90)."""

    CREATE = "create"
    MARK_READ = "mark_read"
    MARK_UNREAD = "mark_unread"
    TRASH = "trash"
    ARCHIVE = "archive"
    RESTORE = "restore"
    ENRICH = "enrich"
    ASSIGN = "assign"
    SNOOZE = "snooze"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class MailboxScope:
    """One mailbox. Ids are opaque and never trimmed: `" acme"` is another tenant than `"acme"` (INBOX-25)."""

    tenant_id: str
    principal_id: str


@dataclass(frozen=True, slots=True)
class MailboxEvent:
    """A nudge, not data. `position` is where a reader of the event log may resume; it is no part of the JSON."""

    id: str
    op: MailboxEventOp
    position: str | None = None

    def as_wire(self) -> dict[str, str]:
        """The JSON object, keys in the order of the contract (INBOX-93)."""
        return {"type": "mailbox", "id": self.id, "op": str(self.op)}


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """An event and its mailbox: whoever owns the transaction publishes it after the outermost commit (INBOX-7)."""

    scope: MailboxScope
    event: MailboxEvent


@dataclass(frozen=True, slots=True)
class MailboxRef:
    """A thing of the host's that a message is about."""

    kind: str
    id: str
    label: str | None = None

    def as_wire(self) -> dict[str, str]:
        """As stored and as sent."""
        return present(kind=self.kind, id=self.id, label=self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxFilter:
    """Equalities, all of which must hold; `None` does not filter, an empty text does (INBOX-59)."""

    priority: str | None = None
    classification: str | None = None
    status: str | None = None
    assignee: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of a message. `part` is what `read_mailbox_attachment` takes; `size` counts decoded octets."""

    part: int
    name: str | None
    media_type: str
    size: int

    def as_wire(self) -> dict[str, Any]:
        """As stored and as sent."""
        return present(part=self.part, name=self.name, mediaType=self.media_type, size=self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxItem:
    """A message as listed (INBOX-56). `date` is aware and in UTC."""

    id: str
    from_: str
    to: tuple[str, ...]
    date: datetime
    read: bool
    message_id: str
    direction: Direction = Direction.INBOUND
    subject: str | None = None
    in_reply_to: str | None = None
    refs: tuple[MailboxRef, ...] = ()
    priority: str | None = None
    classification: str | None = None
    status: str | None = None
    assignee: str | None = None
    from_display: str | None = None
    snippet: str | None = None
    attachments: tuple[Attachment, ...] = ()
    labels: tuple[str, ...] = ()
    snoozed_until: datetime | None = None

    def as_wire(self) -> dict[str, Any]:
        """The JSON object of a list."""
        return {"id": self.id, "from": self.from_} | present(
            fromDisplay=self.from_display,
            to=list(self.to),
            subject=self.subject,
            date=wire_date(self.date),
            read=self.read,
            messageId=self.message_id,
            inReplyTo=self.in_reply_to,
            snippet=self.snippet,
            attachments=[attachment.as_wire() for attachment in self.attachments] or None,
            refs=[ref.as_wire() for ref in self.refs] or None,
            priority=self.priority,
            classification=self.classification,
            status=self.status,
            assignee=self.assignee,
            labels=list(self.labels) or None,
            snoozedUntil=None if self.snoozed_until is None else wire_date(self.snoozed_until),
            direction=None if self.direction is Direction.INBOUND else str(self.direction),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxDetail(MailboxItem):
    """One message whole, read from its frame (INBOX-55)."""

    body: str

    def as_wire(self) -> dict[str, Any]:
        """The JSON object of a detail."""
        return super(MailboxDetail, self).as_wire() | {"body": self.body}


@dataclass(frozen=True, slots=True)
class MailboxPage:
    """A page of a list; `next_cursor` exists only when more follows (INBOX-60)."""

    items: tuple[MailboxItem, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadItem:
    """A message in its conversation (INBOX-69). `created_at` has microseconds; `parent_id` is a row id."""

    id: str
    message_id: str
    in_reply_to: str | None
    references: tuple[str, ...]
    from_address: str
    subject: str | None
    created_at: str
    read: bool
    archived: bool
    direction: Direction
    parent_id: str | None

    def as_wire(self) -> dict[str, Any]:
        """The JSON object; `parentId` is the one field that may be null (INBOX-9)."""
        return present(
            id=self.id,
            messageId=self.message_id,
            inReplyTo=self.in_reply_to,
            references=list(self.references),
            fromAddress=self.from_address,
            subject=self.subject,
            createdAt=self.created_at,
            read=self.read,
            archived=self.archived,
            direction=None if self.direction is Direction.INBOUND else str(self.direction),
        ) | {"parentId": self.parent_id}


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """A page of a conversation, oldest first."""

    items: tuple[ThreadItem, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Highlight:
    """A piece of a field where a search matched; `marks` are (start, end) in characters of `text`."""

    field: Literal["subject", "from", "body"]
    text: str
    marks: tuple[tuple[int, int], ...]

    def as_wire(self) -> dict[str, Any]:
        """The JSON object."""
        return {"field": self.field, "text": self.text, "marks": [list(mark) for mark in self.marks]}


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A found message, as listed, and where it matched."""

    item: MailboxItem
    highlights: tuple[Highlight, ...]

    def as_wire(self) -> dict[str, Any]:
        """The JSON object of a list with `highlights` added."""
        return self.item.as_wire() | {"highlights": [highlight.as_wire() for highlight in self.highlights]}


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A page of hits, newest first."""

    items: tuple[SearchHit, ...]
    next_cursor: str | None


LATEST: Final = datetime.max  # noqa: DTZ901 -- as columns hold it, UTC without zone
EARLIEST: Final = datetime.min  # noqa: DTZ901 -- as columns hold it, UTC without zone


class Key(NamedTuple):
    """Where a row stands in date order: UTC without zone, as the column holds it, and the row's id."""

    created_at: datetime
    id: str


def present(**fields: Any) -> dict[str, Any]:
    """The fields that are not None, in order."""
    return {name: value for name, value in fields.items() if value is not None}


def wire_date(moment: datetime) -> str:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ` in UTC (INBOX-57)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
