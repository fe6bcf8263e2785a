"""When something recurs: the written forms, and the occasions that they name. Pure (docs/spec/jobs.md section 10).

    Every hh:mm:ss | Every d.hh:mm:ss
    Daily at HH:mm [zone]
    Weekly on Mon, Thu at HH:mm [zone]
    Monthly on 15 at HH:mm [zone] | Monthly on last at HH:mm [zone]
    DTSTART;TZID=zone:yyyymmddThhmmss RRULE:FREQ=...

Occasions are anchored to the epoch or to the calendar and never counted from the last run, so that a restart shifts
nothing and every process names the same ones. Nothing else is read: no cron text, no guesses.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from mailkeep.config.rrule import RecurrenceRule, parse_rule
from mailkeep.config.wallclock import Due, instant_of, zone_named

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(days=365)
LAST_DAY: Final = 31
"""The day of a month that means its last one, as every day past the end of a shorter month does."""
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_EVERY: Final = re.compile(r"every (?:(\d{1,3})\.)?(\d\d):([0-5]\d):([0-5]\d)", re.IGNORECASE)
_CALENDAR: Final = re.compile(
    r"(?P<unit>daily|weekly on (?P<days>[a-z]{3}(?: ?, ?[a-z]{3})*)|monthly on (?P<day>last|[1-9]|[12]\d|3[01]))"
    r" at (?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?: (?P<zone>\S+))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Interval:
    """Multiples of `every` since the Unix epoch (JOB-44)."""

    every: timedelta

    def due(self, after: datetime, until: datetime) -> Due | None:
        """The occasions in (after, until]."""
        first, last = (after - EPOCH) // self.every, (until - EPOCH) // self.every
        return Due(EPOCH + last * self.every, last - first) if last > first else None

    def following(self, after: datetime) -> datetime:
        """The first occasion later than `after`."""
        return EPOCH + ((after - EPOCH) // self.every + 1) * self.every


@dataclass(frozen=True, slots=True)
class CalendarTime:
    """A wall-clock time in a zone, on every day or on some: `weekdays` (Monday 0) or `day_of_month`."""

    at: time
    zone: ZoneInfo
    weekdays: frozenset[int] | None = None
    day_of_month: int | None = None

    def due(self, after: datetime, until: datetime) -> Due | None:
        """The occasions in (after, until]."""
        # A day of slack at either end: a gap of the clock can move an occasion past midnight.
        first = after.astimezone(self.zone).date() - timedelta(days=2)
        last = until.astimezone(self.zone).date() + timedelta(days=1)
        found = {moment for day in self._days(first, last) if after < (moment := self._instant(day)) <= until}
        return Due(max(found), len(found)) if found else None

    def following(self, after: datetime) -> datetime:
        """The first occasion later than `after`; at most two months away."""
        first = after.astimezone(self.zone).date() - timedelta(days=2)
        days = self._days(first, first + timedelta(days=70))
        return min(moment for day in days if (moment := self._instant(day)) > after)

    def _days(self, first: date, last: date) -> Iterator[date]:
        day = first
        while day <= last:
            if self._falls_on(day):
                yield day
            day += timedelta(days=1)

    def _falls_on(self, day: date) -> bool:
        if self.weekdays is not None:
            return day.weekday() in self.weekdays
        if self.day_of_month is not None:
            return day.day == min(self.day_of_month, calendar.monthrange(day.year, day.month)[1])
        return True

    def _instant(self, day: date) -> datetime:
        return instant_of(datetime.combine(day, self.at), self.zone)


Recurrence = Interval | CalendarTime | RecurrenceRule


@lru_cache(maxsize=256)
def parse_recurrence(text: str) -> Recurrence:
    """Read one of the forms above, in any case and spacing. Raises ValueError naming the defect."""
    cleaned = " ".join(text.split())
    if cleaned.upper().startswith(("DTSTART", "RRULE")):
        return parse_rule(cleaned)
    if match := _EVERY.fullmatch(cleaned):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        every = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if not SHORTEST <= every <= LONGEST:
            raise ValueError("the interval should be between one minute and 365 days")
        return Interval(every)
    match = _CALENDAR.fullmatch(cleaned)
    if match is None:
        raise ValueError(
            'should read like "Every 06:00:00", "Daily at 03:00", "Daily at 03:00 Europe/Warsaw", '
            '"Weekly on Mon, Thu at 03:00", "Monthly on last at 03:00" or '
            '"DTSTART;TZID=Europe/Warsaw:20260105T030000 RRULE:FREQ=WEEKLY;INTERVAL=2"'
        )
    return CalendarTime(
        at=time(int(match["hour"]), int(match["minute"])),
        zone=ZoneInfo("UTC") if match["zone"] is None else zone_named(match["zone"]),
        weekdays=None if match["days"] is None else _weekdays(match["days"]),
        day_of_month=None if match["day"] is None else _day_of_month(match["day"]),
    )


def _weekdays(text: str) -> frozenset[int]:
    names = [name.strip().lower() for name in text.split(",")]
    if unknown := [name for name in names if name not in WEEKDAYS]:
        raise ValueError(f"{unknown[0]!r} is not one of Mon, Tue, Wed, Thu, Fri, Sat, Sun")
    return frozenset(WEEKDAYS.index(name) for name in names)


def _day_of_month(text: str) -> int:
    return LAST_DAY if text.lower() == "last" else int(text)
