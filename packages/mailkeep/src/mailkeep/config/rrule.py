"""Recurrences as calendars write them (RFC 5545 §3.3.10, §3.8.5.3), in the subset that makes sense for background work.

    DTSTART;TZID=Europe/Warsaw:20260105T030000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH;COUNT=10

DTSTART anchors the rule and gives its time of day and zone. python-dateutil expands it on the wall clock; the clock's
gaps and repeated hours are met as by every other recurrence (JOB-45), where RFC 5545 would leave a skipped time out.
Left out on purpose: what recurs within a day (`Every` does that), BYSECOND, RDATE, EXDATE, several rules.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo

from mailkeep.config.wallclock import Due, instant_of, shown, zone_named

MAX_COUNT: Final = 1000
MAX_TIMES_A_DAY: Final = 24
HORIZON: Final = timedelta(days=10 * 366)
"""A rule whose first occasion, or whose next one, is further away has none."""
REACH: Final = timedelta(days=60 * 366)
"""How far a COUNT may reach."""
DAY: Final = timedelta(days=1)
FREQUENCIES: Final = {"DAILY": 366, "WEEKLY": 104, "MONTHLY": 60, "YEARLY": 5}
"""The frequencies and the longest INTERVAL of each."""
EARLIEST: Final = datetime(1970, 1, 1)  # noqa: DTZ001 -- on the wall clock
SLACK: Final = 2 * DAY
"""A gap of the clock can move an occasion past midnight."""

_LINE: Final = re.compile(
    r"DTSTART(?:;TZID=(?P<zone>[^:\s]+))?:(?P<start>\d{8}T\d{6})(?P<utc>Z?) RRULE:(?P<rule>\S+)", re.IGNORECASE
)
_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_BOUNDS: Final = {
    "BYMONTH": (1, 12, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYSETPOS": (1, 366, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
}
"""The lists of numbers: smallest, largest, and whether a minus counts from the end."""


@dataclass(frozen=True, slots=True)
class RecurrenceRule:
    """An RRULE on the wall clock of its zone. With a COUNT the occasions are all known: `walls`, in order."""

    zone: ZoneInfo
    until: datetime | None
    period: timedelta | None
    start: datetime
    walls: tuple[datetime, ...] | None
    _rule: Any = field(compare=False, repr=False)

    def due(self, after: datetime, until: datetime) -> Due | None:
        """The occasions in (after, until]."""
        end = until if self.until is None else min(until, self.until)
        walls = self._between(shown(after, self.zone) - SLACK, shown(end, self.zone) + SLACK)
        found = {moment for wall in walls if after < (moment := instant_of(wall, self.zone)) <= end}
        return Due(max(found), len(found)) if found else None

    def following(self, after: datetime) -> datetime | None:
        """The first occasion later than `after`; None when the rule has ended."""
        first = shown(after, self.zone) - SLACK
        for wall in self._between(first, first + HORIZON):
            moment = instant_of(wall, self.zone)
            if moment > after:
                return None if self.until is not None and moment > self.until else moment
        return None

    def _between(self, first: datetime, last: datetime) -> Iterable[datetime]:
        """The occasions from `first` to `last` on the wall clock, in order."""
        if self.walls is not None:
            return self.walls[bisect_right(self.walls, first) : bisect_right(self.walls, last)]
        start = self.start
        if self.period is not None and first > start:
            # A multiple of the interval later the same days recur; two periods before, the first one is whole.
            start += max((first - start) // self.period - 2, 0) * self.period
        expanded = self._rule.replace(dtstart=start, until=last)
        return (wall for wall in expanded if wall > first)


def parse_rule(line: str) -> RecurrenceRule:
    """Read DTSTART and RRULE on one line. Raises ValueError naming the defect."""
    # Imported when there is a rule to read: every command reads the settings.
    from dateutil import rrule

    match = _LINE.fullmatch(line)
    if match is None or (match["zone"] is None) == (not match["utc"]):
        raise ValueError(
            "should read DTSTART;TZID=Europe/Warsaw:20260105T030000 RRULE:FREQ=…, or in UTC "
            "DTSTART:20260105T030000Z RRULE:FREQ=…"
        )
    zone = ZoneInfo("UTC") if match["zone"] is None else zone_named(match["zone"])
    start = _wall(match["start"])
    parts = _parts(match["rule"].upper())
    frequency, interval = parts["FREQ"], _number(parts, "INTERVAL", 1)
    count = _number(parts, "COUNT", None)
    arguments = {name.lower(): _numbers(name, parts[name]) for name in _BOUNDS if name in parts}
    if len(arguments.get("byhour", [0])) * len(arguments.get("byminute", [0])) > MAX_TIMES_A_DAY:
        raise ValueError(f"the rule names more than {MAX_TIMES_A_DAY} times a day")
    if "BYDAY" in parts:
        arguments["byweekday"] = [_weekday(rrule, text, frequency) for text in parts["BYDAY"].split(",")]
    if "WKST" in parts:
        arguments["wkst"] = _weekday(rrule, parts["WKST"], "WEEKLY")
    rule = rrule.rrule(getattr(rrule, frequency), dtstart=start, interval=interval, bysecond=start.second, **arguments)
    if next(iter(rule.replace(until=start + HORIZON)), None) is None:
        raise ValueError("the rule has no occasion in ten years")
    walls = None if count is None else tuple(islice(rule.replace(until=start + REACH), count))
    if walls is not None and len(walls) < (count or 0):
        raise ValueError("COUNT reaches further than sixty years")
    length = {"DAILY": DAY, "WEEKLY": 7 * DAY}.get(frequency)
    return RecurrenceRule(zone, _until(parts), None if length is None else length * interval, start, walls, rule)


def _wall(text: str) -> datetime:
    try:
        start = datetime.strptime(text.upper(), "%Y%m%dT%H%M%S")  # noqa: DTZ007 -- on the wall clock
    except ValueError:
        raise ValueError("DTSTART is no date and time") from None
    if start < EARLIEST:
        raise ValueError("DTSTART lies before 1970")
    return start


def _parts(text: str) -> dict[str, str]:
    """The parts of a rule by name, each known and named once."""
    parts: dict[str, str] = {}
    known = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "WKST", *_BOUNDS}
    for part in text.split(";"):
        name, _, value = part.partition("=")
        if name not in known or not value:
            raise ValueError(
                f"{part[:40]!r} is no part of a rule that is read here; there are: {', '.join(sorted(known))}"
            )
        if name in parts:
            raise ValueError(f"the rule names {name} twice")
        parts[name] = value
    if parts.get("FREQ") not in FREQUENCIES:
        raise ValueError(f"FREQ is one of {', '.join(FREQUENCIES)}; within a day: Every 01:00:00")
    if "COUNT" in parts and "UNTIL" in parts:
        raise ValueError("a rule ends by COUNT or by UNTIL, not by both")
    return parts


def _number(parts: dict[str, str], name: str, default: int | None) -> Any:
    """INTERVAL or COUNT."""
    if name not in parts:
        return default
    most = MAX_COUNT if name == "COUNT" else FREQUENCIES[parts["FREQ"]]
    if not parts[name].isascii() or not parts[name].isdigit() or not 1 <= int(parts[name]) <= most:
        raise ValueError(f"{name} is a number from 1 to {most}")
    return int(parts[name])


def _numbers(name: str, text: str) -> list[int]:
    low, high, counts_back = _BOUNDS[name]
    found = []
    for one in text.split(","):
        if (
            not re.fullmatch(r"[+-]?[0-9]{1,3}" if counts_back else r"[0-9]{1,2}", one)
            or not low <= abs(int(one)) <= high
        ):
            raise ValueError(f"{name} holds numbers from {low} to {high}{' or their negatives' if counts_back else ''}")
        found.append(int(one))
    return sorted(set(found))


def _weekday(rrule: Any, text: str, frequency: str) -> Any:
    """A day of the week; within months and years also with its number, as in 1MO or -1FR."""
    match = re.fullmatch(r"([+-]?[1-9][0-9]?)?(MO|TU|WE|TH|FR|SA|SU)", text)
    if match is None:
        raise ValueError(f"{text[:10]!r} is not one of {', '.join(_WEEKDAYS)}")
    if match[1] is None:
        return getattr(rrule, match[2])
    if frequency not in ("MONTHLY", "YEARLY") or abs(int(match[1])) > 53:
        raise ValueError("a numbered day such as 1MO is for FREQ=MONTHLY and FREQ=YEARLY")
    return getattr(rrule, match[2])(int(match[1]))


def _until(parts: dict[str, str]) -> datetime | None:
    if "UNTIL" not in parts:
        return None
    try:
        return datetime.strptime(parts["UNTIL"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise ValueError("UNTIL is an instant in UTC, as in 20261231T230000Z") from None
