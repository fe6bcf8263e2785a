"""Keyset pages, newest first: a cursor holds a place and what it is bound to, so that other filters refuse it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.errors import CursorForeign, CursorForOtherFilters, PageSizeRefused

MAX_PAGE: Final = 200
DEFAULT_PAGE: Final = 50
NEWEST: Final = ("infinity", UUID(int=(1 << 128) - 1))
"""Before the first page."""


def check_page_size(size: int) -> None:
    """Raises PageSizeRefused."""
    if not 1 <= size <= MAX_PAGE:
        raise PageSizeRefused(f"a page holds between 1 and {MAX_PAGE} entries")


def stamp_of(*filters: object) -> str:
    """What a cursor is bound to."""
    text = json.dumps([None if one is None else str(one) for one in filters])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_cursor(kind: str, stamp: str, at: datetime, last: UUID) -> str:
    """The place behind an entry."""
    text = json.dumps([kind, stamp, at.isoformat(), str(last)])
    return base64.urlsafe_b64encode(text.encode()).decode()


def read_cursor(kind: str, stamp: str, cursor: str | None) -> tuple[str, UUID]:
    """The instant and id behind which to go on. Raises CursorForeign and CursorForOtherFilters."""
    if cursor is None:
        return NEWEST
    try:
        issued_for, issued, at, last = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        moment, identifier = datetime.fromisoformat(at), UUID(last)
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise CursorForeign("that cursor was not issued by this listing") from None
    if issued_for != kind or moment.tzinfo is None:
        raise CursorForeign("that cursor was not issued by this listing")
    if issued != stamp:
        raise CursorForOtherFilters("that cursor belongs to a listing with other filters")
    return moment.isoformat(), identifier
