"""The shapes of everything on the wire, as JSON Schema: the OpenAPI document shows them, the routes check by them.

`conforms` knows the few keywords used here and no others. A text is always one that PostgreSQL can hold (INBOX-16).
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from mailkeep_inbox.bounds import MAX_LABELS, MAX_TRIAGE_CHARACTERS
from mailkeep_inbox.checks import is_storable
from mailkeep_inbox.events import is_mailbox_event
from mailkeep_inbox.model import Direction, MailboxAction, MailboxEventOp, MailboxView

Schema: TypeAlias = dict[str, Any]

_STORABLE: Final = r"^[^\u0000]*$"
UUID: Final = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def record(required: tuple[str, ...], **properties: Schema) -> Schema:
    """An object. Unknown keys are allowed: newer senders add some."""
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def list_of(items: Schema, **bounds: int) -> Schema:
    """An array."""
    return {"type": "array", "items": items} | bounds


TEXT: Final[Schema] = {"type": "string"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
NUMBER: Final[Schema] = {"type": "integer", "minimum": 0}
TRIAGE: Final[Schema] = {"type": "string", "maxLength": MAX_TRIAGE_CHARACTERS, "pattern": _STORABLE}
TRIAGE_OR_NULL: Final[Schema] = TRIAGE | {"type": ["string", "null"]}
LABEL: Final[Schema] = TRIAGE | {"pattern": r"^[^\u0000]*[^\s\u0000][^\u0000]*$"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
MOMENT_OR_NULL: Final[Schema] = {"type": ["string", "null"], "format": "date-time"}
ACTION: Final[Schema] = {"type": "string", "enum": [str(action) for action in MailboxAction]}
VIEW: Final[Schema] = {"type": "string", "enum": [str(view) for view in MailboxView]}
_DIRECTION: Final[Schema] = {"type": "string", "enum": [str(direction) for direction in Direction]}

REF: Final = record(("kind", "id"), kind=TEXT, id=TEXT, label=TEXT)
ATTACHMENT: Final = record(("part", "mediaType", "size"), part=NUMBER, name=TEXT, mediaType=TEXT, size=NUMBER)
_ITEM_FIELDS: Final[dict[str, Schema]] = {
    "id": TEXT, "from": TEXT, "fromDisplay": TEXT, "to": list_of(TEXT), "subject": TEXT, "date": MOMENT,
    "read": BOOLEAN, "messageId": TEXT, "inReplyTo": TEXT, "snippet": TEXT, "attachments": list_of(ATTACHMENT),
    "refs": list_of(REF), "priority": TEXT, "classification": TEXT, "status": TEXT, "assignee": TEXT,
    "labels": list_of(TEXT), "snoozedUntil": MOMENT, "direction": _DIRECTION,
}  # fmt: skip
_ITEM_REQUIRED: Final = ("id", "from", "to", "date", "read", "messageId")
ITEM: Final = record(_ITEM_REQUIRED, **_ITEM_FIELDS)
DETAIL: Final = record((*_ITEM_REQUIRED, "body"), **_ITEM_FIELDS, body=TEXT)
HIGHLIGHT: Final = record(
    ("field", "text", "marks"),
    field={"type": "string", "enum": ["subject", "from", "body"]},
    text=TEXT,
    marks=list_of(list_of(NUMBER, minItems=2, maxItems=2)),
)
HIT: Final = record((*_ITEM_REQUIRED, "highlights"), **_ITEM_FIELDS, highlights=list_of(HIGHLIGHT))
THREAD_ITEM: Final = record(
    ("id", "messageId", "references", "fromAddress", "createdAt", "read", "archived", "parentId"),
    id=TEXT, messageId=TEXT, inReplyTo=TEXT, references=list_of(TEXT), fromAddress=TEXT, subject=TEXT, createdAt=TEXT,
    read=BOOLEAN, archived=BOOLEAN, direction=_DIRECTION, parentId={"type": ["string", "null"]},
)  # fmt: skip
EVENT: Final = record(
    ("type", "id"),
    type={"type": "string", "enum": ["mailbox"]},
    id=TEXT,
    op={"type": "string", "enum": [str(op) for op in MailboxEventOp]},
)
ERROR: Final = record(("error",), error=TEXT)
UNREAD: Final = record(("unread",), unread=NUMBER)
UPDATED: Final = record(("updated",), updated=NUMBER)
DONE: Final = record(("id", "ok"), id=TEXT, ok={"type": "boolean", "enum": [True]})
BULK_RESULT: Final = record(
    ("updated", "results"), updated=NUMBER, results=list_of(record(("id", "ok"), id=TEXT, ok=BOOLEAN))
)

ENRICHMENT: Final = record((), priority=TRIAGE_OR_NULL, classification=TRIAGE_OR_NULL, status=TRIAGE_OR_NULL)
ASSIGNMENT: Final = record(("assignee",), assignee=TRIAGE_OR_NULL)
BULK: Final = record(("action", "ids"), action=ACTION, ids=list_of(TEXT))
SNOOZE: Final = record(("until",), until=MOMENT_OR_NULL)
LABELS: Final = record((), add=list_of(LABEL, maxItems=MAX_LABELS), remove=list_of(LABEL, maxItems=MAX_LABELS))
FILTER: Final = record(
    (), priority=TRIAGE, classification=TRIAGE, status=TRIAGE, assignee=TRIAGE, label=TRIAGE
)  # fmt: skip
FILTERED_ACTION: Final = record(("action",), action=ACTION, view=VIEW, filter=FILTER, before=MOMENT)


def page_of(items: Schema) -> Schema:
    """A page: messages, and a cursor when more follow."""
    return record(("messages",), messages=list_of(items), nextCursor=TEXT)


def conforms(value: object, schema: Schema) -> bool:
    """Whether a decoded JSON value has the shape."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if value is None:
        return "null" in types
    if isinstance(value, bool):
        return "boolean" in types and _is_listed(value, schema)
    if isinstance(value, int):
        return "integer" in types and value >= schema.get("minimum", value)
    if isinstance(value, str):
        return "string" in types and _is_listed(value, schema) and _is_text(value, schema)
    if isinstance(value, list):
        return "array" in types and _is_array(value, schema)
    return isinstance(value, dict) and "object" in types and _is_record(value, schema)


def _is_listed(value: object, schema: Schema) -> bool:
    return "enum" not in schema or value in schema["enum"]


def _is_text(value: str, schema: Schema) -> bool:
    if not is_storable(value) or len(value) > schema.get("maxLength", len(value)):
        return False
    return "pattern" not in schema or re.search(schema["pattern"], value, re.DOTALL) is not None


def _is_array(value: list[Any], schema: Schema) -> bool:
    is_sized = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
    return is_sized and all(conforms(item, schema["items"]) for item in value)


def _is_record(value: dict[str, Any], schema: Schema) -> bool:
    return all(name in value for name in schema.get("required", ())) and all(
        conforms(value[name], shape) for name, shape in schema["properties"].items() if name in value
    )


def is_mailbox_item(value: object) -> bool:
    """A message as listed."""
    return conforms(value, ITEM)


def is_mailbox_detail(value: object) -> bool:
    """A message whole."""
    return conforms(value, DETAIL)


def is_mailbox_page(value: object) -> bool:
    """The answer of the list."""
    return conforms(value, page_of(ITEM))


def is_mailbox_thread_page(value: object) -> bool:
    """The answer of the thread route."""
    return conforms(value, page_of(THREAD_ITEM))


def is_mailbox_bulk_result(value: object) -> bool:
    """The answer of the bulk route."""
    return conforms(value, BULK_RESULT)


__all__ = [
    "conforms",
    "is_mailbox_bulk_result",
    "is_mailbox_detail",
    "is_mailbox_event",
    "is_mailbox_item",
    "is_mailbox_page",
    "is_mailbox_thread_page",
]
