"""Times that a clock on the wall shows, and the instants they mean: zones, gaps and repeated hours (JOB-45)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones


@dataclass(frozen=True, slots=True)
class Due:
    """The latest occasion of a span of time, and how many there were in it."""

    latest: datetime
    count: int


def zone_named(name: str) -> ZoneInfo:
    """The zone of that IANA name. Raises ValueError for an unknown one."""
    if name not in available_timezones():
        raise ValueError("there is no time zone of that name in the IANA database; names are written as Europe/Warsaw")
    return ZoneInfo(name)


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """When the clock of a zone shows `wall`, which is naive: the earlier of two, the end of the gap for none."""
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if shown(moment, zone) == wall:
        return moment
    # The two readings of a skipped time lie on either side of the gap.
    low, high = wall.replace(tzinfo=zone, fold=1).astimezone(UTC), moment
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        low, high = (low, middle) if shown(middle, zone) >= wall else (middle, high)
    return high


def shown(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the clock of a zone shows at an instant, naive."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)
