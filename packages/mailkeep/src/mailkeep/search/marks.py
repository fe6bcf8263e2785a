"""The marks in a search vector, and which of them narrow a search (docs/decisions/0003-lexical-search.md). Pure.

Every mark is U+0001, a letter and a whole number, written by the expression of `email_search_documents.search_vector`;
the numbers here repeat that expression. Mail never holds them, since texts are free of control characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

SAMPLE_SHARE: Final = 128
"""One message in so many carries the mark `s`."""
SAMPLE: Final = "'\x01s'"
UNDATED: Final = "'\x01u'"
MAX_FOLDER_MARKS: Final = 16
"""More folders than this are told apart on the rows that the index returns."""
_MAX_SPANS: Final = 9
_MAX_COARSE_SPANS: Final = 64
_SPANS: Final = (("w", 1), ("b", 8), ("c", 64))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WEEK: Final = timedelta(weeks=1)


def folder_marks(folder_ids: Iterable[int]) -> str | None:
    """A tsquery that holds for messages of any of the folders; None when there are too many of them."""
    marks = sorted(set(folder_ids))
    return _any_of(f"f{number}" for number in marks) if 0 < len(marks) <= MAX_FOLDER_MARKS else None


def time_marks(earliest: datetime, latest: datetime) -> str | None:
    """A tsquery that holds for every message received in the span, and for few others.

    Uses the finest spans of which nine suffice, else the coarsest; None when even those are more than 64 (90 years).
    """
    first, last = (earliest - _EPOCH) // _WEEK, (latest - _EPOCH) // _WEEK
    for letter, width in _SPANS:
        spans = range(first // width, last // width + 1)
        if len(spans) <= (_MAX_SPANS if width < _SPANS[-1][1] else _MAX_COARSE_SPANS):
            return _any_of(f"{letter}{number}" for number in spans) if spans else None
    return None


def _any_of(marks: Iterable[str]) -> str:
    return " | ".join(f"'\x01{mark}'" for mark in marks)
