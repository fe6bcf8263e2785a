"""The table of routes: method, path below the mount, handler, and what the OpenAPI document says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mailkeep_inbox import shapes
from mailkeep_inbox.bounds import DEFAULT_PAGE, MAX_ID_CHARACTERS, MAX_PAGE, MAX_QUERY_CHARACTERS
from mailkeep_inbox.http import changing, reading
from mailkeep_inbox.http.changing import Handler
from mailkeep_inbox.shapes import Schema
from mailkeep_inbox.vocabulary import MailboxVocabulary

ROOT: Final = "/me/inbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row. `refusals` are the statuses besides success; `parameters` names those of `parameter_shapes`."""

    name: str
    method: str
    path: str
    handler: Handler
    summary: str
    success: Schema
    body: Schema | None = None
    parameters: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()
    media_type: str = "application/json"


_FILTERS: Final = ("priority", "status", "classification", "assignee", "label")
_LIST: Final = ("limit", "view", "sort", *_FILTERS, "cursor")
_ONE: Final = (400, 403, 404)
_ONE_WITH_BODY: Final = (400, 403, 404, 413)
_SEVERAL: Final = (400, 403, 413)


def _verb(name: str, verb: str, handler: Handler, summary: str) -> Operation:
    return Operation(
        name=name, method="POST", path=f"{ROOT}/{{id}}/{verb}", handler=handler, summary=summary,
        success=shapes.DONE, parameters=("id",), refusals=_ONE,
    )  # fmt: skip


def _change(name: str, path: str, handler: Handler, summary: str, body: Schema) -> Operation:
    return Operation(
        name=name, method="POST", path=f"{ROOT}/{{id}}/{path}", handler=handler, summary=summary,
        success=shapes.DONE, body=body, parameters=("id",), refusals=_ONE_WITH_BODY,
    )  # fmt: skip


# Fixed paths stand before those with an id: routers take the first that matches.
OPERATIONS: Final = (
    Operation(
        name="listMailbox", method="GET", path=ROOT, handler=reading.list_messages, summary="List my inbox",
        success=shapes.page_of(shapes.ITEM), parameters=_LIST, refusals=(400,),
    ),
    Operation(
        name="countUnreadMailbox", method="GET", path=f"{ROOT}/unread-count", handler=reading.count_unread,
        summary="Count my unread messages", success=shapes.UNREAD,
    ),
    Operation(
        name="streamMailboxEvents", method="GET", path=f"{ROOT}/events", handler=reading.stream_events,
        summary="Stream my live events", success=shapes.TEXT, refusals=(403,), media_type="text/event-stream",
    ),
    Operation(
        name="readMailboxThread", method="GET", path=f"{ROOT}/thread", handler=reading.read_thread,
        summary="Read the conversation about one thing", success=shapes.page_of(shapes.THREAD_ITEM),
        parameters=("kind", "ref", "direction", "limit", "cursor"), refusals=(400,),
    ),
    Operation(
        name="searchMailbox", method="GET", path=f"{ROOT}/search", handler=reading.search_messages,
        summary="Search my inbox", success=shapes.page_of(shapes.HIT),
        parameters=("q", "limit", "view", *_FILTERS, "cursor"), refusals=(400,),
    ),
    Operation(
        name="getMailboxMessage", method="GET", path=f"{ROOT}/{{id}}", handler=reading.read_message,
        summary="Read one message", success=shapes.DETAIL, parameters=("id",), refusals=_ONE,
    ),
    Operation(
        name="downloadMailboxAttachment", method="GET", path=f"{ROOT}/{{id}}/attachments/{{part}}",
        handler=reading.download_attachment, summary="Download an attachment",
        success={"type": "string", "format": "binary"}, parameters=("id", "part"), refusals=_ONE, media_type="*/*",
    ),
    Operation(
        name="bulkChangeMailbox", method="POST", path=f"{ROOT}/bulk", handler=changing.bulk,
        summary="Change up to 50 messages", success=shapes.BULK_RESULT, body=shapes.BULK, refusals=_SEVERAL,
    ),
    Operation(
        name="bulkChangeMailboxByFilter", method="POST", path=f"{ROOT}/bulk-by-filter",
        handler=changing.bulk_by_filter, summary="Change everything that a view and its filters show",
        success=shapes.UPDATED, body=shapes.FILTERED_ACTION, refusals=_SEVERAL,
    ),
    Operation(
        name="markAllMailboxRead", method="POST", path=f"{ROOT}/mark-all-read", handler=changing.mark_all_read,
        summary="Mark everything in my inbox as read", success=shapes.UPDATED, refusals=(400, 403),
    ),
    _verb("markMailboxMessageRead", "read", changing.read, "Mark a message as read"),
    _verb("markMailboxMessageUnread", "unread", changing.unread, "Mark a message as unread"),
    _verb("trashMailboxMessage", "trash", changing.trash, "Move a message to the trash"),
    _verb("archiveMailboxMessage", "archive", changing.archive, "Archive a message"),
    _verb("restoreMailboxMessage", "restore", changing.restore, "Bring a message back to the inbox"),
    _change("enrichMailboxMessage", "enrich", changing.enrich, "Set triage words", shapes.ENRICHMENT),
    _change("assignMailboxMessage", "assign", changing.assign, "Assign a message", shapes.ASSIGNMENT),
    _change("snoozeMailboxMessage", "snooze", changing.snooze, "Put a message off until later", shapes.SNOOZE),
    _change("labelMailboxMessage", "labels", changing.label, "Add and remove labels", shapes.LABELS),
)  # fmt: skip


def parameter_shapes(vocabulary: MailboxVocabulary) -> dict[str, dict[str, Any]]:
    """Every parameter as OpenAPI describes it; the host's words in the host's order (INBOX-89)."""
    ref_part = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}
    query = {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARACTERS}
    directions = {"type": "string", "enum": ["inbound", "outbound", "all"], "default": "all"}
    return {
        "limit": _parameter("limit", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": DEFAULT_PAGE}),
        "view": _parameter("view", shapes.VIEW | {"default": "all"}),
        "sort": _parameter("sort", {"type": "string", "enum": ["date", "priority"], "default": "date"}),
        "priority": _parameter("priority", {"type": "string", "enum": list(vocabulary.priorities)}),
        "status": _parameter("status", {"type": "string", "enum": list(vocabulary.statuses)}),
        "classification": _parameter("classification", shapes.TRIAGE),
        "assignee": _parameter("assignee", shapes.TRIAGE),
        "label": _parameter("label", shapes.TRIAGE),
        "cursor": _parameter("cursor", shapes.TEXT),
        "q": _parameter("q", query, required=True),
        "kind": _parameter("kind", ref_part, required=True),
        "ref": _parameter("id", ref_part, required=True),
        "direction": _parameter("direction", directions),
        "id": _parameter("id", {"type": "string", "format": "uuid", "pattern": shapes.UUID}, place="path"),
        "part": _parameter("part", {"type": "integer", "minimum": 0, "maximum": 1_000_000}, place="path"),
    }


def _parameter(name: str, schema: Schema, *, place: str = "query", required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required or place == "path", "schema": dict(schema)}
