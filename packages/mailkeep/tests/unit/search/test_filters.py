"""Bounds and spelling of filters, decided before anything is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from mailkeep.errors import FilterRefused, PageSizeRefused, ResultLimitRefused
from mailkeep.search import Filters
from mailkeep.search.filters import check_page_size, check_query_text, check_result_limit, normalized

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.spec("FIND-9")
@pytest.mark.parametrize(
    "given",
    [
        {"sender_address": "no-at-sign"},
        {"sender_address": "a@b c"},
        {"sender_address": "x" * 320 + "@example.com"},
        {"recipient_address": "@nowhere.test"},
        {"recipient_address": "ann@"},
        {"subject_fragment": "x" * 257},
        {"subject_fragment": "a\x07b"},
        {"subject_fragment": "a\ud800b"},
        {"keyword": "k" * 256},
        {"keyword": "a\tb"},
        {"received_on_or_after": NOON, "received_before": NOON},
        {"received_before": NOON.replace(tzinfo=None)},
        {"received_before": datetime(9999, 12, 31, 23, 59, tzinfo=timezone(-timedelta(hours=5)))},
    ],
)
def test_a_filter_out_of_bounds_is_refused_without_its_value(given: dict[str, Any]) -> None:
    """51002 names the filter and the limit, never what was given."""
    with pytest.raises(FilterRefused) as refusal:
        normalized(Filters(**given))
    for value in given.values():
        assert str(value) not in str(refusal.value)


@pytest.mark.spec("FIND-11")
def test_blank_filters_are_unnamed() -> None:
    """Whitespace asks for nothing."""
    blank = Filters(sender_address=" ", recipient_address="", subject_fragment="\t", keyword=" ")
    assert normalized(blank) == Filters()


@pytest.mark.spec("FIND-14")
def test_filters_take_the_form_that_rows_have() -> None:
    """Addresses are compared in any case, keywords upper-cased, instants in UTC."""
    given = Filters(
        sender_address=" Ann@Example.com ",
        keyword="todo",
        received_before=datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2))),
    )
    assert normalized(given) == Filters(sender_address="ANN@EXAMPLE.COM", keyword="TODO", received_before=NOON)


@pytest.mark.spec("FIND-17", "FIND-36")
def test_sizes_outside_their_range_are_refused() -> None:
    """1 to 100 rows of a page, 1 to 50 results."""
    for size in (0, 101, -1):
        with pytest.raises(PageSizeRefused):
            check_page_size(size)
    for limit in (0, 51):
        with pytest.raises(ResultLimitRefused):
            check_result_limit(limit)
    check_page_size(100)
    check_result_limit(50)


@pytest.mark.spec("FIND-35")
def test_query_text_has_one_to_512_printable_characters() -> None:
    """512 pass, 513 do not; blank does not."""
    check_query_text("x" * 512)
    for text in ("x" * 513, "", " ", "a\x02b"):
        with pytest.raises(FilterRefused):
            check_query_text(text)
