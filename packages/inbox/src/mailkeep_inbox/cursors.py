"""Cursors: opaque texts that hold a place in an order, bound to the list that minted them (section 8, INBOX-69).

Everything in them is checked before any of it can reach the server. A cursor holds no secret and is not signed: the
scope always comes from the caller, so a forged one only names another place in the caller's own mailbox.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from mailkeep_inbox.bounds import MAX_CURSOR_CHARACTERS, MAX_ID_CHARACTERS
from mailkeep_inbox.checks import is_storable
from mailkeep_inbox.errors import MailboxCursorError
from mailkeep_inbox.model import Directions, Key, MailboxFilter, MailboxRef, MailboxSort, MailboxView

_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_MOMENT_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
_UNESCAPED: Final = "-_.!~*'()"
_MALFORMED: Final = "malformed cursor"
_MAX_BINDING: Final = 1_024
MAX_RANK: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxCursor:
    """A place in a list. `rank` and `priorities` belong to the sort by priority, `query` to a search."""

    key: Key
    view: MailboxView
    sort: MailboxSort
    filter: str
    direction: Directions = "inbound"
    rank: int | None = None
    priorities: str | None = None
    query: str | None = None


def canonical_mailbox_filter(chosen: MailboxFilter) -> str:
    """`key=value` in the order priority, classification, status, assignee, label, joined by `&` (INBOX-63)."""
    values = [(name, getattr(chosen, name)) for name in ("priority", "classification", "status", "assignee", "label")]
    return fingerprint("&".join(f"{name}={_escaped(value)}" for name, value in values if value is not None))


def canonical_mailbox_priorities(priorities: Sequence[str]) -> str:
    """The host's order as one text, commas within a word escaped."""
    return fingerprint(",".join(_escaped(word) for word in priorities))


def fingerprint(text: str) -> str:
    """The text itself; a digest of one so long that a cursor holding it could not be taken back."""
    return text if len(text) <= _MAX_BINDING else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def encode_mailbox_cursor(cursor: MailboxCursor) -> str:
    """The text of a cursor."""
    fields: dict[str, Any] = {
        "createdAt": wire_moment(cursor.key.created_at),
        "id": cursor.key.id,
        "view": str(cursor.view),
        "sort": str(cursor.sort),
        "filter": cursor.filter,
    }
    if cursor.sort is MailboxSort.PRIORITY:
        fields |= {"rank": cursor.rank, "priorities": cursor.priorities}
    if cursor.direction != "inbound":
        fields["direction"] = cursor.direction
    if cursor.query is not None:
        fields["query"] = cursor.query
    return _encode(fields)


def decode_mailbox_cursor(text: str) -> MailboxCursor:
    """The cursor in a text. Raises MailboxCursorError("malformed cursor") for anything this library never minted."""
    fields = _decode(text)
    view, sort = _text(fields, "view"), _text(fields, "sort")
    direction = fields.get("direction", "inbound")
    query = fields.get("query")
    if (
        view not in set(MailboxView)
        or sort not in set(MailboxSort)
        or direction not in ("inbound", "outbound", "all")
        or not (query is None or isinstance(query, str))
    ):
        raise MailboxCursorError(_MALFORMED)
    rank = priorities = None
    if sort == MailboxSort.PRIORITY:
        priorities = _text(fields, "priorities")
        rank = fields.get("rank")
        most = MAX_RANK if priorities.startswith("sha256:") else priorities.count(",") + 1
        if type(rank) is not int or not 0 <= rank <= most:
            raise MailboxCursorError(_MALFORMED)
    return MailboxCursor(
        key=_key(fields),
        view=MailboxView(view),
        sort=MailboxSort(sort),
        filter=_text(fields, "filter"),
        direction=direction,
        rank=rank,
        priorities=priorities,
        query=query,
    )


def assert_mailbox_cursor(cursor: MailboxCursor, wanted: MailboxCursor, *, ranks: int = 0) -> None:
    """Raise MailboxCursorError unless the cursor was minted for the list that `wanted` describes (INBOX-67).

    `ranks` is the greatest rank that list knows: the number of its priorities.
    """
    mismatch = (
        ("view", cursor.view != wanted.view or cursor.direction != wanted.direction),
        ("sort", cursor.sort != wanted.sort),
        ("filter", cursor.filter != wanted.filter),
        ("priority ordering", cursor.priorities != wanted.priorities),
        ("search", cursor.query != wanted.query),
    )
    for name, differs in mismatch:
        if differs:
            raise MailboxCursorError(f"cursor does not match inbox {name}")
    if cursor.rank is not None and cursor.rank > ranks:
        raise MailboxCursorError(_MALFORMED)


def encode_thread_cursor(key: Key, ref: MailboxRef, direction: Directions) -> str:
    """The text of a place in a conversation."""
    fields = {"createdAt": wire_moment(key.created_at), "id": key.id, "ref": _ref_text(ref)}
    return _encode(fields if direction == "inbound" else fields | {"direction": direction})


def decode_thread_cursor(text: str, ref: MailboxRef, direction: Directions) -> Key:
    """The place in a text. Raises MailboxCursorError, also when it belongs to another ref (INBOX-68)."""
    fields = _decode(text)
    if _text(fields, "ref") != _ref_text(ref) or fields.get("direction", "inbound") != direction:
        raise MailboxCursorError("cursor does not match thread")
    return _key(fields)


def wire_moment(moment: datetime) -> str:
    """A column's moment with its microseconds: cutting to milliseconds would strand rows (INBOX-64)."""
    return f"{moment.isoformat(timespec='microseconds')}Z"


def _ref_text(ref: MailboxRef) -> str:
    return fingerprint(json.dumps([ref.kind, ref.id], ensure_ascii=False, separators=(",", ":")))


def _escaped(value: str) -> str:
    return quote(value, safe=_UNESCAPED)


def _encode(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _decode(text: str) -> dict[str, Any]:
    if not isinstance(text, str) or len(text) > MAX_CURSOR_CHARACTERS or not _ALPHABET.fullmatch(text):
        raise MailboxCursorError(_MALFORMED)
    try:
        octets = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        fields = json.loads(octets.decode("utf-8"))
    except (binascii.Error, ValueError, RecursionError):
        raise MailboxCursorError(_MALFORMED) from None
    if not isinstance(fields, dict) or base64.urlsafe_b64encode(octets).rstrip(b"=").decode() != text:
        raise MailboxCursorError(_MALFORMED)
    return fields


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise MailboxCursorError(_MALFORMED)
    return value


def _key(fields: dict[str, Any]) -> Key:
    moment, row_id = _text(fields, "createdAt"), _text(fields, "id")
    if not _MOMENT.fullmatch(moment) or not 0 < len(row_id) <= MAX_ID_CHARACTERS or not is_storable(row_id):
        raise MailboxCursorError(_MALFORMED)
    try:
        return Key(datetime.strptime(moment, _MOMENT_FORMAT), row_id)  # noqa: DTZ007 -- columns are UTC without zone
    except ValueError:
        raise MailboxCursorError(_MALFORMED) from None
