"""The marks in a search vector, and which of them narrow a search (docs/decisions/0003-lexical-search.md). Pure.

Every mark is U+0001, a letter and a whole number, written by the expression of `email_search_documents.search_vector`;
the numbers here repeat that expression. Mail never holds them, since texts are free of control characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from mailkeep.languages import LANGUAGE_MARK

SAMPLE_SHARE: Final = 128
"""One message in so many carries the mark `s`."""
SAMPLE: Final = "'\x01s'"
UNDATED: Final = "'\x01u'"
MAX_FOLDER_MARKS: Final = 16
"""More folders than this are told apart on the rows that the index returns."""
_MAX_FINE_SPANS: Final = 9
_MAX_COARSE_SPANS: Final = 64
_MIDDLE: Final = 8
_COARSE: Final = 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WEEK: Final = timedelta(weeks=1)


def language_mark(language: str) -> str:
    """A tsquery that holds for messages in that language."""
    return f"'{LANGUAGE_MARK}{language}'"


def folder_marks(folder_ids: Iterable[int]) -> str | None:
    """A tsquery that holds for messages of any of the folders; None when there are too many of them."""
    marks = sorted(set(folder_ids))
    return _any_of(f"f{number}" for number in marks) if 0 < len(marks) <= MAX_FOLDER_MARKS else None


def time_marks(earliest: datetime, latest: datetime) -> str | None:
    """A tsquery that holds for every message received in the span, and for few before it.

    Where spans of 1 or 8 weeks are too many, the coarse ones of 64 begin after spans of 8 weeks: matches are many just
    before the earliest instant. None when even the coarse ones are more than 64 (80 years).
    """
    first, last = (earliest - _EPOCH) // _WEEK, (latest - _EPOCH) // _WEEK
    if last - first < _MAX_FINE_SPANS:
        return _any_of(f"w{week}" for week in range(first, last + 1)) or None
    if last // _MIDDLE - first // _MIDDLE < _MAX_FINE_SPANS:
        return _any_of(f"b{span}" for span in range(first // _MIDDLE, last // _MIDDLE + 1))
    coarse = range(first // _COARSE + 1, last // _COARSE + 1)
    if len(coarse) > _MAX_COARSE_SPANS:
        return None
    middle = range(first // _MIDDLE, coarse.start * _COARSE // _MIDDLE)
    return _any_of([*(f"b{span}" for span in middle), *(f"c{span}" for span in coarse)])


def _any_of(marks: Iterable[str]) -> str:
    return " | ".join(f"'\x01{mark}'" for mark in marks)
