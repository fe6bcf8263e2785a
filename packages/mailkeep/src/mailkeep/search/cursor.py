"""Cursors: where a walk through the timeline stands, bound to the result set that it walks (FIND-23..25).

The text is unpadded base64url of `1.<microseconds since 0001-01-01, or ->.<32 hex id>.<fingerprint>`. It is not signed:
it holds nothing that its bearer lacks, and it selects nothing outside the bearer's own scope.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from mailkeep.errors import CursorForeign, CursorForOtherFilters
from mailkeep.search.model import Direction, Filters

MAX_CURSOR_CHARACTERS: Final = 512

_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_TEXT: Final = re.compile(r"1\.(?P<position>[0-9]{1,18}|-)\.(?P<id>[0-9a-f]{32})\.(?P<fingerprint>[A-Za-z0-9_-]{22})")


@dataclass(frozen=True, slots=True)
class Boundary:
    """The last row of a page: its instant in UTC, None when undated, and its id."""

    received_at: datetime | None
    email_id: UUID


def encode_cursor(boundary: Boundary, fingerprint: str) -> str:
    """The cursor that continues behind the boundary."""
    position = "-" if boundary.received_at is None else str((boundary.received_at - _EPOCH) // _MICROSECOND)
    return _base64url(f"1.{position}.{boundary.email_id.hex}.{fingerprint}".encode())


def decode_cursor(text: str, *, fingerprint: str) -> Boundary:
    """The boundary in a cursor of this result set.

    Raises CursorForeign for anything this module did not write, CursorForOtherFilters for another result set's.
    """
    match = None
    if len(text) <= MAX_CURSOR_CHARACTERS and text.isascii():
        try:
            octets = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            match = _TEXT.fullmatch(octets.decode("ascii"))
        except (binascii.Error, UnicodeDecodeError):
            match = None
    if match is None or (match["position"] != "-" and int(match["position"]) > _LAST):
        raise CursorForeign("The cursor was not issued by this listing.")
    if match["fingerprint"] != fingerprint:
        raise CursorForOtherFilters("The cursor belongs to a request with other filters.")
    position = match["position"]
    received_at = None if position == "-" else _EPOCH + int(position) * _MICROSECOND
    return Boundary(received_at=received_at, email_id=UUID(match["id"]))


def fingerprint_of(
    filters: Filters,
    *,
    direction: Direction,
    include_junk_mail: bool,
    folders: Iterable[tuple[str, str]] | None,
    accounts: Iterable[str],
) -> str:
    """What a cursor is bound to: 22 characters over every filter, the direction, the junk answer and the scope.

    `filters` are the normalized ones. `folders` are the (account, alias) pairs that the request's folder names resolved
    to, None when it named none; `accounts` the resolved account ids. Page size, withheld and junk folders do not count,
    so that an operator's change narrows later pages without ending walks (FIND-24).
    """
    digest = hashlib.sha256()
    for part in (*_parts(filters), direction.value, _flag(include_junk_mail)):
        _feed(digest.update, part)
    _feed_list(digest.update, [[account] for account in sorted(set(accounts))])
    _feed_list(digest.update, None if folders is None else [list(pair) for pair in sorted(set(folders))])
    return _base64url(digest.digest()[:16])


def _parts(filters: Filters) -> Iterator[str | None]:
    """Every filter as text; groups with their counts, so that no two filters give the same sequence."""
    yield from (
        filters.sender_address,
        filters.recipient_address,
        None if filters.subject_fragment is None else filters.subject_fragment.upper(),
        _instant(filters.received_on_or_after),
        _instant(filters.received_before),
        _flag(filters.is_remotely_seen),
        _flag(filters.is_remotely_flagged),
        filters.keyword,
        _flag(filters.has_attachments),
        filters.cc_address,
        filters.sender_text,
        filters.recipient_text,
        filters.cc_text,
        _number(filters.size_at_least),
        _number(filters.size_below),
        _flag(filters.is_remotely_answered),
        _flag(filters.is_remotely_draft),
        filters.attachment_name,
        None if filters.thread_id is None else filters.thread_id.hex,
        _number(len(filters.any_of)),
        _number(len(filters.excluding)),
    )
    for group in (*filters.any_of, filters.excluding):
        yield _number(len(group))
        for one in group:
            yield from _parts(one)


def _feed_list(update: Callable[[bytes], object], rows: list[list[str]] | None) -> None:
    if rows is None:
        update(b"\x00")
        return
    update(b"\x01" + len(rows).to_bytes(4, "big"))
    for row in rows:
        for part in row:
            _feed(update, part)


def _feed(update: Callable[[bytes], object], part: str | None) -> None:
    """A presence mark, then the length, then the octets: separators alone would be ambiguous."""
    if part is None:
        update(b"\x00")
        return
    octets = part.encode("utf-8", "surrogatepass")
    update(b"\x01" + len(octets).to_bytes(4, "big") + octets)


def _instant(value: datetime | None) -> str | None:
    return None if value is None else str((value - _EPOCH) // _MICROSECOND)


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _flag(value: bool | None) -> str | None:
    return None if value is None else ("true" if value else "false")


def _base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")
