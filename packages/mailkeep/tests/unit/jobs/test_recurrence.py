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
    assert recurrence.following(utc(2026, 1, 20, 7)) == due.latest + timedelta(days=2)


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


RULES = [
    ("FREQ=DAILY;INTERVAL=3", utc(2026, 3, 27, 1, 30), 9),
    ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH", utc(2026, 3, 19, 1, 30), 4),
    ("FREQ=WEEKLY;BYDAY=SU;BYHOUR=2,5;BYMINUTE=30", utc(2026, 3, 29, 3, 30), 10),
    ("FREQ=MONTHLY;BYDAY=-1FR", utc(2026, 3, 27, 1, 30), 1),
    ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1", utc(2026, 3, 2, 1, 30), 1),
    ("FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=1,-1", utc(2026, 3, 1, 1, 30), 1),
    ("FREQ=DAILY;COUNT=60", utc(2026, 3, 5, 1, 30), 5),
    ("FREQ=DAILY;UNTIL=20260305T013000Z", utc(2026, 3, 5, 1, 30), 5),
]


@pytest.mark.spec("JOB-B12", "JOB-45")
@pytest.mark.parametrize(("rule", "latest", "count"), RULES)
def test_a_rule_names_the_occasions_that_calendars_do(rule: str, latest: datetime, count: int) -> None:
    """Half past two in Warsaw from 5 January on, looked at for March up to the hour that the clock skips on the 29th."""
    recurrence = parse_recurrence(f"DTSTART;TZID=Europe/Warsaw:20260105T023000 RRULE:{rule}")
    due = recurrence.due(utc(2026, 3, 1), utc(2026, 3, 29, 12))
    assert due is not None
    assert (due.latest, due.count) == (latest, count)
    following = recurrence.following(due.latest)
    assert following is None if "COUNT" in rule or "UNTIL" in rule else following is not None and following > latest


@pytest.mark.spec("JOB-B12", "JOB-45")
@pytest.mark.parametrize("rule", ["FREQ=DAILY", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU", "FREQ=DAILY;COUNT=1000"])
@pytest.mark.parametrize("zone", ["Europe/Warsaw", "America/New_York", "Australia/Lord_Howe", "America/Santiago"])
def test_a_rule_meets_the_clocks_changes_as_the_plain_form_does(rule: str, zone: str) -> None:
    """Gaps end late, repeated times come once, also half an hour wide, at midnight, and on the southern half of the globe."""
    days = [utc(2026, 1, 1) + timedelta(days=number) for number in range(365)]
    offsets = [day.astimezone(ZoneInfo(zone)).utcoffset() for day in days]
    changes = [at for at in range(1, 365) if offsets[at] != offsets[at - 1]]
    assert len(changes) == 2
    for hour in ("0015", "0145", "0230", "0300"):
        plain = parse_recurrence(f"Daily at {hour[:2]}:{hour[2:]} {zone}")
        written = parse_recurrence(f"DTSTART;TZID={zone}:20250105T{hour}00 RRULE:{rule}")
        for day in (days[at] + timedelta(days=offset) for at in changes for offset in (-2, -1, 0, 1)):
            assert written.due(day, day + timedelta(days=1)) == plain.due(day, day + timedelta(days=1))
            assert written.following(day) == plain.following(day)


@pytest.mark.spec("JOB-B12")
def test_a_rule_is_anchored_to_its_start_however_long_ago() -> None:
    """An interval counts from DTSTART, also where the expansion begins later; a week is counted from WKST."""
    fortnight = parse_recurrence("dtstart:19800107T030000z  rrule:freq=weekly;interval=2;byday=mo,su;wkst=mo")
    due = fortnight.due(utc(2026, 3, 1), utc(2026, 4, 1))
    march = [utc(2026, 3, day, 3) for day in range(1, 32)]
    expected = [day for day in march if (day - utc(1980, 1, 7, 3)).days % 14 in (0, 6)]
    assert due is not None
    assert (due.latest, due.count) == (expected[-1], len(expected))
    first_of_week = parse_recurrence("DTSTART:19800103T030000Z RRULE:FREQ=WEEKLY;BYDAY=MO,SU;BYSETPOS=1")
    mondays = first_of_week.due(utc(2026, 3, 1), utc(2026, 4, 1))
    assert mondays is not None
    assert (mondays.latest, mondays.count) == (utc(2026, 3, 30, 3), 5)
    third = parse_recurrence("DTSTART:19800101T030000Z RRULE:FREQ=DAILY;INTERVAL=3")
    again = third.due(utc(2026, 1, 1), utc(2026, 2, 1))
    assert again is not None
    assert (again.latest - utc(1980, 1, 1, 3)) % timedelta(days=3) == timedelta()


@pytest.mark.spec("JOB-B12", "JOB-46")
@pytest.mark.parametrize(
    "rule",
    [
        *(
            "FREQ=HOURLY",
            "FREQ=DAILY;BYSECOND=1",
            "FREQ=DAILY;COUNT=3;UNTIL=20260301T000000Z",
            "FREQ=DAILY;FREQ=WEEKLY",
        ),
        *(
            "FREQ=DAILY;INTERVAL=0",
            "FREQ=DAILY;COUNT=0",
            "FREQ=DAILY;COUNT=1001",
            "FREQ=DAILY;BYMONTH=13",
            "INTERVAL=1",
        ),
        *("FREQ=DAILY;BYDAY=1MO", "FREQ=DAILY;BYDAY=XX", "FREQ=DAILY;UNTIL=20260301", "FREQ=DAILY;BYMONTHDAY=0"),
        *(
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=DAILY;BYHOUR=1,2,3,4,5;BYMINUTE=0,10,20,30,40",
            "FREQ=DAILY;X=1",
        ),
        *("FREQ=DAILY;", "FREQ=YEARLY;COUNT=100", "FREQ=DAILY;BYHOUR=24", "FREQ=DAILY;INTERVAL=\u0663"),
    ],
)
def test_a_rule_that_is_not_read_is_refused_and_never_bent(rule: str) -> None:
    """What a calendar would expand differently, or endlessly, is named where it is declared."""
    with pytest.raises(ValueError):
        parse_recurrence(f"DTSTART:20260105T023000Z RRULE:{rule}")
    for start in (
        "",
        "DTSTART:20260105T023000 ",
        "DTSTART:20260230T023000Z ",
        "DTSTART;TZID=Mars/Olympus:20260105T023000 ",
    ):
        with pytest.raises(ValueError):
            parse_recurrence(f"{start}RRULE:FREQ=DAILY")
