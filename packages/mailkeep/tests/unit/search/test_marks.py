"""Marks of folder and time: they cover what they are to cover, tightly where matches are many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mailkeep.search.marks import folder_marks, time_marks

NEWEST = datetime(2026, 11, 1, tzinfo=UTC)
WIDTHS = {"w": 1, "b": 8, "c": 64}


def weeks(marks: str) -> list[int]:
    """Every week that the marks hold for, in order."""
    covered: list[int] = []
    for mark in marks.split(" | "):
        assert mark.startswith("'\x01")
        assert mark.endswith("'")
        width = WIDTHS[mark[2]]
        number = int(mark[3:-1])
        covered += range(number * width, number * width + width)
    return covered


@pytest.mark.parametrize("days", [0, 1, 6, 7, 50, 63, 70, 400, 500, 700, 1_500, 3_650, 9_000, 25_000])
@pytest.mark.parametrize("shift", range(0, 600, 37))
def test_every_week_of_the_span_is_covered_once_and_hardly_any_before_it(days: int, shift: int) -> None:
    """No gap, no repetition, at most 8 weeks too early, few enough marks for the index."""
    latest = NEWEST - timedelta(days=shift)
    earliest = latest - timedelta(days=days)
    marks = time_marks(earliest, latest)
    assert marks is not None
    covered = weeks(marks)
    first, last = (int(instant.timestamp() // 604_800) for instant in (earliest, latest))
    assert covered == sorted(set(covered))
    assert set(range(first, last + 1)) <= set(covered)
    assert first - covered[0] < 8
    assert marks.count("|") < 8 + 64 + 1


def test_instants_before_1970_have_marks_too() -> None:
    """Weeks are numbered down as the server's floor does."""
    assert time_marks(datetime(1969, 12, 31, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)) == "'\x01w-1' | '\x01w0'"


def test_a_span_of_centuries_has_no_marks() -> None:
    """A message with a mad date must not make a query of thousands of marks."""
    assert time_marks(datetime(1500, 1, 1, tzinfo=UTC), NEWEST) is None


def test_folders_have_marks_while_they_are_few() -> None:
    """Up to sixteen; more are told apart on the rows."""
    assert folder_marks([7, 3, 7]) == "'\x01f3' | '\x01f7'"
    assert folder_marks(range(16)) is not None
    assert folder_marks(range(17)) is None
    assert folder_marks([]) is None
