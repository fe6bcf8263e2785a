"""What a request may ask for: bounds and spelling of every filter, decided before anything is read (FIND-9, section 2).

A refusal names the filter and its limit, never the value.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from mailkeep.errors import FilterRefused, PageSizeRefused, ResultLimitRefused
from mailkeep.search.model import Filters
from mailkeep_message import comparison_form

MAX_ADDRESS_CHARACTERS: Final = 320
MAX_SUBJECT_FRAGMENT_CHARACTERS: Final = 256
MAX_KEYWORD_CHARACTERS: Final = 255
MAX_QUERY_CHARACTERS: Final = 512
MAX_FILE_NAME_CHARACTERS: Final = 200
MAX_SIZE_OCTETS: Final = (1 << 63) - 1
MAX_BRANCHES: Final = 64
MAX_PAGE_SIZE: Final = 100
MAX_RESULT_LIMIT: Final = 50
MAX_SKIP: Final = 950


def normalized(filters: Filters) -> Filters:
    """The filters in the form that rows are compared with; blank ones unnamed, instants in UTC.

    Raises FilterRefused (51002).
    """
    after = _instant(filters.received_on_or_after, name="received_on_or_after")
    before = _instant(filters.received_before, name="received_before")
    if after is not None and before is not None and after >= before:
        raise FilterRefused("received_on_or_after must lie before received_before.")
    keyword = _text(filters.keyword, name="keyword", limit=MAX_KEYWORD_CHARACTERS)
    if sum(map(len, filters.any_of)) + len(filters.excluding) > MAX_BRANCHES:
        raise FilterRefused(f"a query may hold at most {MAX_BRANCHES} alternatives and exclusions")
    for size, name in ((filters.size_at_least, "size_at_least"), (filters.size_below, "size_below")):
        if size is not None and not 0 <= size <= MAX_SIZE_OCTETS:
            raise FilterRefused(f"{name} must be between 0 and {MAX_SIZE_OCTETS}.")
    return replace(
        filters,
        any_of=tuple(tuple(normalized(one) for one in group) for group in filters.any_of),
        excluding=tuple(normalized(one) for one in filters.excluding),
        cc_address=_address(filters.cc_address, name="cc_address"),
        sender_text=_text(filters.sender_text, name="sender_text", limit=MAX_ADDRESS_CHARACTERS),
        recipient_text=_text(filters.recipient_text, name="recipient_text", limit=MAX_ADDRESS_CHARACTERS),
        cc_text=_text(filters.cc_text, name="cc_text", limit=MAX_ADDRESS_CHARACTERS),
        attachment_name=_text(filters.attachment_name, name="attachment_name", limit=MAX_FILE_NAME_CHARACTERS),
        sender_address=_address(filters.sender_address, name="sender_address"),
        recipient_address=_address(filters.recipient_address, name="recipient_address"),
        subject_fragment=_text(
            filters.subject_fragment, name="subject_fragment", limit=MAX_SUBJECT_FRAGMENT_CHARACTERS
        ),
        keyword=None if keyword is None else keyword.strip().upper(),
        received_on_or_after=after,
        received_before=before,
    )


def check_query_text(query_text: str) -> None:
    """Raises FilterRefused (51002) unless it has 1 to 512 characters that are not all blank, none a control one."""
    if not query_text.strip():
        raise FilterRefused("query_text must not be blank.")
    if len(query_text) > MAX_QUERY_CHARACTERS:
        raise FilterRefused(f"query_text may have at most {MAX_QUERY_CHARACTERS} characters.")
    if not is_printable(query_text):
        raise FilterRefused("query_text must not hold control characters.")


def check_page_size(page_size: int) -> None:
    """Raises PageSizeRefused (51001) outside 1 to 100. Never clamped: a clamped page looks like the one asked for."""
    if not 1 <= page_size <= MAX_PAGE_SIZE:
        raise PageSizeRefused(f"page_size must be between 1 and {MAX_PAGE_SIZE}.")


def check_result_limit(result_limit: int) -> None:
    """Raises ResultLimitRefused (51003) outside 1 to 50."""
    if not 1 <= result_limit <= MAX_RESULT_LIMIT:
        raise ResultLimitRefused(f"result_limit must be between 1 and {MAX_RESULT_LIMIT}.")


def check_skip(skip: int) -> None:
    """Raises ResultLimitRefused (51003) outside 0 to 950: only the best thousand are ranked."""
    if not 0 <= skip <= MAX_SKIP:
        raise ResultLimitRefused(f"At most {MAX_SKIP} matches can be left out.")


def is_printable(text: str) -> bool:
    """No control character and no lone surrogate, which PostgreSQL could not take either."""
    return text.isprintable() or not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


def _text(value: str | None, *, name: str, limit: int) -> str | None:
    if value is None or not value.strip():
        return None
    if len(value) > limit:
        raise FilterRefused(f"{name} may have at most {limit} characters.")
    if not is_printable(value):
        raise FilterRefused(f"{name} must not hold control characters.")
    return value


def _address(value: str | None, *, name: str) -> str | None:
    text = _text(value, name=name, limit=MAX_ADDRESS_CHARACTERS)
    if text is None:
        return None
    local_part, at, domain = text.strip().rpartition("@")
    if not (local_part and at and domain) or any(character.isspace() or character in "<>," for character in domain):
        raise FilterRefused(f"{name} must be one whole address such as name@example.com.")
    return comparison_form(text.strip())


def _instant(value: datetime | None, *, name: str) -> datetime | None:
    if value is None:
        return None
    if value.utcoffset() is None:
        raise FilterRefused(f"{name} must say its offset from UTC.")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise FilterRefused(f"{name} is out of range.") from None
