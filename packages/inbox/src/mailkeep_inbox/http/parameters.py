"""Query parameters and path segments, checked in the order of the contract (INBOX-83, INBOX-84)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from mailkeep_inbox.bounds import DEFAULT_PAGE, MAX_PAGE, MAX_QUERY_CHARACTERS
from mailkeep_inbox.checks import is_storable, require_filter
from mailkeep_inbox.cursors import MailboxCursor, assert_mailbox_cursor, decode_mailbox_cursor, fingerprint
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.http.answers import Refusal
from mailkeep_inbox.lists import wanted_cursor
from mailkeep_inbox.model import MailboxFilter, MailboxSort, MailboxView
from mailkeep_inbox.vocabulary import MailboxVocabulary

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DECIMAL: Final = re.compile(r"0*([1-9][0-9]*)", re.ASCII)
_RAW_BYTE: Final = re.compile(rb"[\x80-\xff]")
MAX_PART: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """A list as asked for."""

    limit: int
    view: MailboxView
    sort: MailboxSort
    filter: MailboxFilter
    cursor: str | None


def first_values(request: Request) -> dict[str, str]:
    """The first occurrence of each. Octets that are no UTF-8 become lone surrogates, which no check passes."""
    octets = _RAW_BYTE.sub(lambda found: b"%%%02X" % found[0][0], request.scope["query_string"])
    values: dict[str, str] = {}
    for name, value in parse_qsl(octets.decode("ascii"), keep_blank_values=True, errors="surrogateescape"):
        values.setdefault(name, value)
    return values


def list_request(values: dict[str, str], vocabulary: MailboxVocabulary) -> ListRequest:
    """Limit, view, sort, filters and cursor, in this order; the first fault refuses the request with 400."""
    limit = limit_of(values)
    view = _word(values, "view", MailboxView, MailboxView.ALL)
    sort = _word(values, "sort", MailboxSort, MailboxSort.DATE)
    chosen = filter_of(values, vocabulary)
    wanted = wanted_cursor(view, sort, chosen, vocabulary.priorities, "inbound")
    cursor = _cursor(values, wanted, ranks=len(vocabulary.priorities))
    return ListRequest(limit=limit, view=MailboxView(view), sort=MailboxSort(sort), filter=chosen, cursor=cursor)


def search_request(values: dict[str, str], vocabulary: MailboxVocabulary) -> tuple[str, ListRequest]:
    """The words and the list they are looked for in; searches are always newest first."""
    query = values.get("q", "")
    if not is_storable(query) or not 0 < len(query) <= MAX_QUERY_CHARACTERS:
        raise Refusal(400, f"a search needs 1 to {MAX_QUERY_CHARACTERS} characters")
    limit = limit_of(values)
    view = _word(values, "view", MailboxView, MailboxView.ALL)
    chosen = filter_of(values, vocabulary)
    wanted = wanted_cursor(view, MailboxSort.DATE, chosen, (), "inbound")
    cursor = _cursor(values, replace(wanted, query=fingerprint(query)))
    asked = ListRequest(limit=limit, view=MailboxView(view), sort=MailboxSort.DATE, filter=chosen, cursor=cursor)
    return query, asked


def limit_of(values: dict[str, str]) -> int:
    """Plain ASCII decimal from 1 to 200; refused above, never clamped."""
    if "limit" not in values:
        return DEFAULT_PAGE
    found = _DECIMAL.fullmatch(values["limit"])
    if found is None:
        raise Refusal(400, "limit must be a positive integer")
    if len(found[1]) > len(str(MAX_PAGE)) or int(found[1]) > MAX_PAGE:
        raise Refusal(400, f"limit must be at most {MAX_PAGE}")
    return int(found[1])


def filter_of(values: dict[str, str], vocabulary: MailboxVocabulary) -> MailboxFilter:
    """Equalities; priority and status must be words of the host, the others free text (INBOX-83)."""
    if "priority" in values and values["priority"] not in vocabulary.priorities:
        raise Refusal(400, "unknown priority")
    if "status" in values and values["status"] not in vocabulary.statuses:
        raise Refusal(400, "unknown status")
    chosen = MailboxFilter(**{name: values[name] for name in MailboxFilter.__slots__ if name in values})
    try:
        require_filter(chosen)
    except MailboxRangeError:
        raise Refusal(400, "invalid inbox filter") from None
    return chosen


def message_id_of(request: Request) -> str:
    """The id in the path, in canonical form."""
    message_id = str(request.path_params["id"])
    if not is_uuid(message_id):
        raise Refusal(400, "Message id must be a UUID")
    return message_id


def part_of(request: Request) -> int:
    """The number of an attachment in the path."""
    text = str(request.path_params["part"])
    found = re.fullmatch(r"[0-9]{1,7}", text, re.ASCII)
    if found is None or int(text) > MAX_PART:
        raise Refusal(400, "attachment part must be a number")
    return int(text)


def is_uuid(value: str) -> bool:
    """8-4-4-4-12 hexadecimal digits; the nil one too."""
    return _UUID.fullmatch(value) is not None


def moment_of(value: object, text: str) -> datetime:
    """An RFC 3339 moment with its zone; anything else is refused with `text`."""
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) and value.isascii() else "")
        if moment.tzinfo is not None:
            moment.timestamp()
            return moment.astimezone()
    except (ValueError, OverflowError):
        pass
    raise Refusal(400, text)


def _word(values: dict[str, str], name: str, words: type[MailboxView] | type[MailboxSort], default: str) -> str:
    word = values.get(name, default)
    if word not in set(words):
        raise Refusal(400, f"invalid inbox {name}")
    return word


def _cursor(values: dict[str, str], wanted: MailboxCursor, *, ranks: int = 0) -> str | None:
    text = values.get("cursor")
    if text is not None:
        assert_mailbox_cursor(decode_mailbox_cursor(text), wanted, ranks=ranks)
    return text
