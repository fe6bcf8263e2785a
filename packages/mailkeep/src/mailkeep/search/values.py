"""Values as people type them in a query: days, spans back from now, sizes. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final

_DAY: Final = re.compile(r"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2}))?)?", re.ASCII)
_BACK: Final = re.compile(r"(\d{1,4})([hdwmy])", re.ASCII | re.IGNORECASE)
_SIZE: Final = re.compile(r"(\d{1,12})\s*([kmg]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SPANS: Final = {
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "m": timedelta(days=30),
    "y": timedelta(days=365),
}
_DATE_HELP: Final = "a date is 2026, 2026-03, 2026-03-31, today, yesterday, or a span back such as 7d, 2w, 3m, 1y"


def read_instant(text: str, *, now: datetime, zone: tzinfo) -> datetime:
    """The beginning of a day, month or year in `zone`, or the instant a span before `now`; in UTC.

    Raises ValueError with a sentence for people.
    """
    word = text.casefold()
    try:
        if word in ("today", "yesterday"):
            day = now.astimezone(zone).date() - timedelta(days=word == "yesterday")
            return datetime.combine(day, time.min, zone).astimezone(UTC)
        if (back := _BACK.fullmatch(word)) is not None:
            return (now - int(back[1]) * _SPANS[back[2]]).astimezone(UTC)
        if (found := _DAY.fullmatch(word)) is not None:
            year, month, day_of_month = (int(part) if part else 1 for part in found.groups())
            return datetime(year, month, day_of_month, tzinfo=zone).astimezone(UTC)
        instant = datetime.fromisoformat(text)
        return (instant if instant.utcoffset() is not None else instant.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(_DATE_HELP) from None


def read_size(text: str) -> int:
    """Octets of `300`, `20k`, `5M`, `1GB`; units are powers of 1024. Raises ValueError with a sentence for people."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError("a size is a number of octets, with k, M or G where it is large: 300, 20k, 5M")
    return int(found[1]) * _UNITS[found[2].lower()]
