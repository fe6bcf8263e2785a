"""One parser per response we ask for. Octets in, values out; no socket, no state.

Each takes the pieces of one untagged response (text, literal, text, ...), beginning after the response's name. What a
server left out is None; what it sent without being asked is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from mailkeep.config import SpecialUse
from mailkeep.imap.lexer import Unreadable, Value, parse_values
from mailkeep.imap.model import MAX_MODSEQ, MAX_UID, FolderState, RemoteFolder
from mailkeep.imap.names import display_name, key_of_octets
from mailkeep.imap.uidset import UidSet

_ROLES = {
    "\\ARCHIVE": SpecialUse.ARCHIVE,
    "\\DRAFTS": SpecialUse.DRAFTS,
    "\\SENT": SpecialUse.SENT,
    "\\JUNK": SpecialUse.JUNK,
    "\\TRASH": SpecialUse.TRASH,
    "\\ALL": SpecialUse.ALL,
    "\\FLAGGED": SpecialUse.FLAGGED,
    "\\IMPORTANT": SpecialUse.IMPORTANT,
}
_MONTHS = {name: number for number, name in enumerate(b"jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_INTERNALDATE = re.compile(rb"\s*(\d{1,2})-([A-Za-z]{3})-(\d{4}) (\d\d):(\d\d):(\d\d)(?: ([+-])(\d\d)(\d\d))?")
_CODE = re.compile(rb"\[([A-Za-z0-9-]+)(?: ([^\]]*))?\]")
_VANISHED = re.compile(rb"(\(EARLIER\) )?([0-9:,]+) *", re.IGNORECASE)
_DIGITS = re.compile(rb"\d+")
_GMAIL_ID = re.compile(rb"\d{1,20}")
LABELS_ITEM = b"X-GM-LABELS"
LABEL_PREFIX = "X-GM-LABELS "  # no flag has a blank, so labels can travel with flags and cannot be taken for one
MAX_DIGITS = 19  # of the largest number there is, a mod-sequence; Python refuses to read numbers of thousands of digits

# Nearly every server answers in the order of asking. These two shapes are most of a first synchronization, so they are
# read in one match; whatever differs in any way goes through the lexer.
_USUAL_METADATA = re.compile(
    rb'\(UID (\d{1,10}) FLAGS \(([^()"{}]*)\) INTERNALDATE "([^"]*)" RFC822\.SIZE (\d{1,18})\)'
)
_USUAL_CONTENT = re.compile(rb"\(UID (\d{1,10}) BODY\[(?:HEADER)?\] \{\d+\}")
_METADATA_NAMES = frozenset({b"UID", b"FLAGS", b"INTERNALDATE", b"RFC822.SIZE"})
_CONTENT_NAMES = frozenset({b"UID", b"BODY[]"})

Interned = dict[bytes | tuple[str, ...], tuple[str, ...]]
"""Flag lists met so far, by their octets and by themselves, so that equal ones are one value in memory."""


@dataclass(frozen=True, slots=True)
class FetchItem:
    """One FETCH response. `body` is the octets of whatever BODY section was asked; absent items are None.

    `flags` ends with Gmail's labels, each behind LABEL_PREFIX; `names` tells whether the response spoke of labels.
    """

    uid: int | None
    size: int | None
    internaldate: datetime | None
    flags: tuple[str, ...] | None
    body: bytes | None
    names: frozenset[bytes]
    gmail_message_id: str | None = None
    gmail_thread_id: str | None = None


def parse_fetch(pieces: Sequence[bytes], start: int, interned: Interned) -> FetchItem:
    """The items of `(NAME value NAME value ...)`. Equal flag lists share one tuple through `interned`."""
    if len(pieces) == 1 and (match := _USUAL_METADATA.fullmatch(pieces[0], start)):
        flags = interned.get(match[2])
        if flags is None:
            flags = interned[match[2]] = _interned_flags(match[2].split(), interned)
        return FetchItem(int(match[1]), int(match[4]), _internaldate(match[3]), flags, None, _METADATA_NAMES)
    if len(pieces) == 3 and pieces[2] == b")" and (match := _USUAL_CONTENT.fullmatch(pieces[0], start)):
        return FetchItem(int(match[1]), None, None, None, pieces[1], _CONTENT_NAMES)
    return _parse_any_fetch(pieces, start, interned)


def _parse_any_fetch(pieces: Sequence[bytes], start: int, interned: Interned) -> FetchItem:
    values = parse_values(pieces, start)
    if len(values) != 1 or not isinstance(values[0], list) or len(values[0]) % 2:
        raise Unreadable("a FETCH response is not one list of pairs")
    found: dict[bytes, Value] = {}
    for index in range(0, len(values[0]), 2):
        name = values[0][index]
        if not isinstance(name, bytes):
            raise Unreadable("a FETCH item has no name")
        found[name.upper()] = values[0][index + 1]
    body = next((value for name, value in found.items() if name.startswith(b"BODY[")), None)
    return FetchItem(
        uid=_number(found.get(b"UID"), MAX_UID),
        size=_number(found.get(b"RFC822.SIZE"), MAX_MODSEQ),
        internaldate=_internaldate(found.get(b"INTERNALDATE")),
        flags=_flags(found.get(b"FLAGS"), found.get(LABELS_ITEM), interned),
        body=body if isinstance(body, bytes) else None,
        names=frozenset(found),
        gmail_message_id=_gmail_id(found.get(b"X-GM-MSGID")),
        gmail_thread_id=_gmail_id(found.get(b"X-GM-THRID")),
    )


def parse_list(pieces: Sequence[bytes], start: int) -> RemoteFolder:
    """`(attributes) delimiter name`, the name an atom, a quoted string or a literal (RFC 9051 §7.3.1)."""
    values = parse_values(pieces, start)
    if len(values) < 3 or not isinstance(values[0], list) or not isinstance(values[2], bytes):
        raise Unreadable("a LIST response lacks a part")
    if any(not isinstance(extra, list) for extra in values[3:]):
        raise Unreadable("a LIST response goes on after the name")
    delimiter = values[1]
    if isinstance(delimiter, list) or (delimiter is not None and len(delimiter) != 1):
        raise Unreadable("a LIST response has no usable delimiter")
    name = values[2]
    if not name or any(octet < 32 or octet == 127 for octet in name):
        raise Unreadable("a folder cannot be named")
    attributes = frozenset(_text(value).upper() for value in values[0] if isinstance(value, bytes))
    path = "INBOX" if name.upper() == b"INBOX" else key_of_octets(name)
    roles = {_ROLES[attribute] for attribute in attributes if attribute in _ROLES}
    if path == "INBOX":
        roles.add(SpecialUse.INBOX)
    return RemoteFolder(path, _text(delimiter) if delimiter else None, attributes, frozenset(roles))


def parse_status(pieces: Sequence[bytes], start: int) -> tuple[str, FolderState]:
    """`name (ITEM number ...)`; items nobody asked for are passed over."""
    values = parse_values(pieces, start)
    if len(values) != 2 or not isinstance(values[0], bytes) or not isinstance(values[1], list):
        raise Unreadable("a STATUS response is not a name and a list")
    name, items = values[0], values[1]
    found = {
        key.upper(): items[index + 1]
        for index, key in enumerate(items[:-1])
        if index % 2 == 0 and isinstance(key, bytes)
    }
    return "INBOX" if name.upper() == b"INBOX" else key_of_octets(name), FolderState(
        messages=_number(found.get(b"MESSAGES"), MAX_UID),
        uid_next=_positive(found.get(b"UIDNEXT"), MAX_UID),
        uid_validity=_positive(found.get(b"UIDVALIDITY"), MAX_UID),
        highest_modseq=_positive(found.get(b"HIGHESTMODSEQ"), MAX_MODSEQ),
    )


def parse_search(text: bytes) -> list[int]:
    """The numbers of a SEARCH response; the `(MODSEQ n)` that may follow them is not one of them."""
    return [int(word) for word in text.split(b"(", 1)[0].split() if word.isdigit() and len(word) <= MAX_DIGITS]


def parse_esearch(text: bytes) -> UidSet:
    """The ALL item of an ESEARCH response; a response without one found nothing (RFC 4731 §3.1)."""
    words = text.upper().split()
    if b"ALL" not in words[:-1]:
        return UidSet()
    try:
        return UidSet.parse(_text(words[words.index(b"ALL") + 1]))
    except ValueError as error:
        raise Unreadable("an ESEARCH response has no readable set") from error


def parse_vanished(text: bytes) -> tuple[bool, UidSet]:
    """Whether the UIDs went before the question was asked (EARLIER), and which (RFC 7162 §3.2.10). Raises Unreadable.

    A set with a `*` in it, as a server that mistakes sequence numbers for UIDs may write, is not readable.
    """
    match = _VANISHED.fullmatch(text)
    if match is None:
        raise Unreadable("a VANISHED response is not a set of UIDs")
    try:
        gone = UidSet.parse(_text(match[2]))
    except ValueError as error:
        raise Unreadable("a VANISHED response has no readable set") from error
    if gone.ranges[0][0] < 1 or (gone.highest or 0) > MAX_UID:
        raise Unreadable("a VANISHED response names UIDs that cannot be")
    return match[1] is not None, gone


def parse_namespaces(pieces: Sequence[bytes], start: int) -> tuple[str, ...]:
    """The prefixes of all namespaces, personal first (RFC 2342 §5). What cannot be read is left out."""
    return tuple(
        key_of_octets(entry[0])
        for group in parse_values(pieces, start)
        if isinstance(group, list)
        for entry in group
        if isinstance(entry, list) and entry and isinstance(entry[0], bytes)
    )


def response_code(text: bytes) -> tuple[bytes, bytes]:
    """The code and its argument at the beginning of a status text, upper-cased name, empty when there is none.

    The human text after the bracket may be missing (seen from Gmail), though RFC 3501 demands it.
    """
    match = _CODE.match(text.lstrip())
    return (match[1].upper(), match[2] or b"") if match else (b"", b"")


def code_number(argument: bytes, maximum: int) -> int | None:
    """The number of a response code such as UIDNEXT; 0 and what does not fit mean that there is none."""
    match = _DIGITS.match(argument.strip())
    return _positive(match[0], maximum) if match else None


def _number(value: Value, maximum: int) -> int | None:
    if isinstance(value, bytes) and value.isdigit() and len(value) <= MAX_DIGITS and (number := int(value)) <= maximum:
        return number
    return None  # absent, NIL, or the -1 that Exchange sends for "unknown"


def _positive(value: Value, maximum: int) -> int | None:
    return _number(value, maximum) or None


def _text(octets: bytes) -> str:
    return octets.decode("latin-1")


def _flags(value: Value, labels: Value, interned: Interned) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    flags = _interned_flags([flag for flag in value if isinstance(flag, bytes)], interned)
    if not isinstance(labels, list) or not labels:
        return flags
    flags += tuple(LABEL_PREFIX + display_name(_text(label)) for label in labels if isinstance(label, bytes) and label)
    return interned.setdefault(flags, flags)


def _gmail_id(value: Value) -> str | None:
    """An unsigned 64-bit number, as its digits."""
    return _text(value) if isinstance(value, bytes) and _GMAIL_ID.fullmatch(value) else None


def _interned_flags(names: Sequence[bytes], interned: Interned) -> tuple[str, ...]:
    flags = tuple(_text(name) for name in names if name.upper() != b"\\RECENT")
    return interned.setdefault(flags, flags)


def _internaldate(value: Value) -> datetime | None:
    """Aware UTC; None when it is missing, malformed or out of the range of dates."""
    match = _INTERNALDATE.match(value) if isinstance(value, bytes) else None
    if match is None or match[2].lower() not in _MONTHS:
        return None
    offset = timedelta(hours=int(match[8] or 0), minutes=int(match[9] or 0))
    try:
        zone = timezone(-offset if match[7] == b"-" else offset)
        moment = datetime(
            int(match[3]),
            _MONTHS[match[2].lower()],
            int(match[1]),
            int(match[4]),
            int(match[5]),
            int(match[6]),
            0,
            zone,
        )
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
