"""Occasions of schedules: anchored, also where the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mailkeep.config import Settings
from mailkeep.config.recurrence import parse_recurrence

WARSAW = ZoneInfo("Europe/Warsaw")
ZONES = ["Europe/Warsaw", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu", "UTC"]


def utc(*parts: int) -> datetime:
    """An instant in UTC."""
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.spec("JOB-45")
def test_a_skipped_time_happens_at_the_end_of_the_gap_and_a_repeated_one_once() -> None:
    """Warsaw's two days of 2026."""
    half_past_two = parse_recurrence("Daily at 02:30 Europe/Warsaw")
    spring = half_past_two.due(utc(2026, 3, 28, 12), utc(2026, 3, 29, 12))
    assert spring is not None
    assert (spring.latest, spring.count) == (utc(2026, 3, 29, 1), 1)
    assert spring.latest.astimezone(WARSAW).hour == 3
    autumn = half_past_two.due(utc(2026, 10, 24, 12), utc(2026, 10, 25, 12))
    assert autumn is not None
    assert (autumn.latest, autumn.count) == (utc(2026, 10, 25, 0, 30), 1)


@pytest.mark.spec("JOB-44", "JOB-45")
def test_an_interval_knows_no_clock_changes() -> None:
    """An hourly schedule has 24 occasions on both days, at multiples since the epoch."""
    hourly = parse_recurrence("every  01:00:00")
    for day in (utc(2026, 3, 29), utc(2026, 10, 25)):
        due = hourly.due(day - timedelta(seconds=1), day + timedelta(hours=23, minutes=59))
        assert due is not None
        assert (due.count, due.latest) == (24, day + timedelta(hours=23))


@pytest.mark.spec("JOB-44")
def test_an_interval_is_anchored_to_the_epoch() -> None:
    """When a process looks is of no account."""
    recurrence = parse_recurrence("Every 2.00:00:00")
    due = recurrence.due(utc(2026, 1, 1, 5), utc(2026, 1, 20, 7))
    assert due is not None
    assert (due.latest - utc(1970, 1, 1)) % timedelta(days=2) == timedelta()
    assert recurrence.due(due.latest, due.latest + timedelta(days=1)) is None


@pytest.mark.spec("JOB-B12")
@pytest.mark.parametrize(
    ("text", "latest", "count"),
    [
        ("Weekly on Mon, Thu at 03:00", utc(2026, 2, 26, 3), 8),
        ("weekly ON sun AT 03:00", utc(2026, 2, 22, 3), 4),
        ("Monthly on 15 at 03:00", utc(2026, 2, 15, 3), 1),
        ("Monthly on last at 03:00", utc(2026, 2, 28, 3), 2),
        ("Monthly on 30 at 03:00", utc(2026, 2, 28, 3), 1),
    ],
)
def test_weekly_and_monthly_forms(text: str, latest: datetime, count: int) -> None:
    """Days of the week and of the month; a day past a short month's end is its last one."""
    due = parse_recurrence(text).due(utc(2026, 1, 31), utc(2026, 2, 28, 23))
    assert due is not None
    assert (due.latest, due.count) == (latest, count)


@pytest.mark.spec("JOB-46")
@pytest.mark.parametrize(
    "text",
    [
        *(
            "0 3 * * *",
            "Daily at 3:00",
            "Daily at 24:00",
            "Daily at 03:00 Mars/Olympus",
            "Daily at 03:00 ../etc/passwd",
        ),
        *(
            "Every 00:00:59",
            "Every 366.00:00:00",
            "Every 1:00:00",
            "Weekly on Foo at 03:00",
            "Monthly on 32 at 03:00",
            "",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_is_declared(text: str) -> None:
    """Named by its place in the settings, never dropped."""
    with pytest.raises(ValueError):
        parse_recurrence(text)
    declared = {"name": "nightly", "recurrence": text, "job": "verify-mailbox"}
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate({"jobs": {"schedules": [declared]}})
    assert refused.value.errors()[0]["loc"] == ("jobs", "schedules", 0, "recurrence")


@pytest.mark.spec("JOB-46", "JOB-51")
@pytest.mark.parametrize(
    "change", [{"account": "nobody"}, {"job": "classify-email-spam"}, {"name": "a/b"}, {"fill": True}]
)
def test_a_declaration_that_would_never_act_is_refused(change: dict[str, Any]) -> None:
    """An unknown account or type, a name that keys cannot carry, an option of another type."""
    declared = {"name": "nightly", "recurrence": "Daily at 03:00", "job": "rederive-stored-mail", **change}
    with pytest.raises(ValidationError):
        Settings.model_validate({"jobs": {"schedules": [declared]}})


instants = st.integers(0, 6600 * 86400).map(lambda seconds: utc(2011, 12, 1) + timedelta(seconds=seconds))


@settings(max_examples=150, deadline=None)
@given(zone=st.sampled_from(ZONES), hour=st.integers(0, 23), minute=st.integers(0, 59), after=instants)
@pytest.mark.spec("JOB-44", "JOB-45")
def test_occasions_of_a_span_are_those_of_its_parts(zone: str, hour: int, minute: int, after: datetime) -> None:
    """However a fortnight is cut, the parts hold together what the whole holds; about one a day, each on the clock.

    An occasion whose time the clock skips shows a later time, never an earlier one.
    """
    recurrence = parse_recurrence(f"Daily at {hour:02}:{minute:02} {zone}")
    until = after + timedelta(days=14)
    whole = recurrence.due(after, until)
    assert whole is not None
    assert 13 <= whole.count <= 15
    cut = after + timedelta(days=5, hours=7)
    parts = [recurrence.due(after, cut), recurrence.due(cut, until)]
    assert sum(part.count for part in parts if part) == whole.count
    assert max(part.latest for part in parts if part) == whole.latest
    shown = whole.latest.astimezone(ZoneInfo(zone))
    if (shown.hour, shown.minute) != (hour, minute):
        earlier = (whole.latest - timedelta(seconds=1)).astimezone(ZoneInfo(zone))
        assert shown.utcoffset() != earlier.utcoffset()
    assert recurrence.following(whole.latest) > until
