"""Dates as senders write them, repaired or refused, never raised (SYNC-93, cases 109, 110, 112, 113).

One anchored pattern takes RFC 5322 with every common liberty; asctime and ISO 8601 follow. Comments, and whatever
octets they hold, are removed first. Anything else is no date, and the caller falls back to INTERNALDATE.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from .params import without_comments
from .words import raw_text

_MAX_FIELD = 4096
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_ZONES: Final = {
    **dict.fromkeys(("ut", "utc", "gmt", "z", "wet", "gmt0"), 0),
    **dict.fromkeys(("bst", "cet", "met", "mez", "wat", "west"), 60),
    **dict.fromkeys(("cest", "mest", "mesz", "eet", "sast", "cat"), 120),
    **dict.fromkeys(("eest", "msk", "eat"), 180),
    **dict.fromkeys(("msd",), 240),
    **dict.fromkeys(("ist",), 330),
    **dict.fromkeys(("hkt", "sgt", "awst"), 480),
    **dict.fromkeys(("jst", "kst"), 540),
    **dict.fromkeys(("aest",), 600),
    **dict.fromkeys(("aedt",), 660),
    **dict.fromkeys(("nzst",), 720),
    **dict.fromkeys(("nzdt",), 780),
    **dict.fromkeys(("adt",), -180),
    **dict.fromkeys(("edt", "ast"), -240),
    **dict.fromkeys(("est", "cdt", "est5edt"), -300),
    **dict.fromkeys(("cst", "mdt", "cst6cdt"), -360),
    **dict.fromkeys(("mst", "pdt", "mst7mdt"), -420),
    **dict.fromkeys(("pst", "akdt", "pst8pdt"), -480),
    **dict.fromkeys(("akst", "hdt"), -540),
    **dict.fromkeys(("hst",), -600),
}
_TIME: Final = r"(\d{1,2})[:.](\d{1,2})(?:[:.](\d{1,2}))?(?:[.,]\d+)?\s*([AaPp]\.?[Mm]\.?)?"
_ZONE: Final = r"((?:GMT|UTC?)?\s*[+-]\s*\d{1,2}:?\d{0,2}|[A-Za-z][A-Za-z0-9]*)?"
_WEEKDAY: Final = r"(?:[A-Za-z]+\.?\s*,?\s+)?"
_RFC5322: Final = re.compile(
    r"(?:[^\W\d_]+\.?\s*,?\s*)?(\d{1,2})[\s-]*,?\s*([A-Za-z]{3})[a-z]*\.?,?[\s-]*(\d{2,4})"
    rf"(?:[\s,T]+{_TIME})?[\s,]*{_ZONE}"
)
_ASCTIME: Final = re.compile(
    rf"{_WEEKDAY}([A-Za-z]{{3}})[a-z]*\.?\s+(\d{{1,2}})\s*,?\s+"
    rf"(?:{_TIME}\s*{_ZONE}\s*,?\s*(\d{{4}})|(\d{{4}})(?:\s+{_TIME})?)\s*{_ZONE}"
)
_ISO: Final = re.compile(rf"{_WEEKDAY}(\d{{4}})[-/](\d{{1,2}})[-/](\d{{1,2}})(?:[\sT]+{_TIME})?\s*{_ZONE}")
# The form nearly all mail has, straight from octets: three times as fast as the lenient pattern.
_STRICT: Final = re.compile(
    rb"\s*(?:[A-Z][a-z]{2}, *)?(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) (\d\d):([0-5]\d):([0-5]\d) ([+-])(0\d|1[0-5])([0-5]\d)"
    rb"(?: \([A-Za-z ]{0,40}\))?\s*\Z"
)
_MONTH_NUMBERS: Final = {name.capitalize().encode(): number for name, number in _MONTHS.items()}
_OFFSET: Final = re.compile(r"([+-])\s*(\d{1,2}:?\d{0,2})$")


def parse_date(value: bytes | str) -> datetime | None:
    """Return the moment as an aware UTC datetime, `None` when it cannot be known."""
    if isinstance(value, bytes):
        strict = _STRICT.match(value)
        if strict is not None:
            moment = _strict_moment(strict)
            if moment is not None:
                return moment
        text = raw_text(value, maximum=_MAX_FIELD)
    else:
        text = value
    if "(" in text:
        text = without_comments(text)
        text = text.partition("(")[0].rstrip()
    text = " ".join(text.split())  # runs of blanks would make the patterns look twice
    if match := _RFC5322.match(text):
        day, month, year, hour, minute, second, half, zone = match.groups()
        number = _MONTHS.get(month.lower())
        return _moment(_year(year), number, int(day), _clock(hour, minute, second, half), zone) if number else None
    return _other_forms(text)


def _strict_moment(match: re.Match[bytes]) -> datetime | None:
    day, month, year, hour, minute, second, sign, east_hours, east_minutes = match.groups()
    number = _MONTH_NUMBERS.get(month)
    if number is None or year < b"1900":
        return None
    offset = int(east_hours) * 60 + int(east_minutes)
    try:
        local = datetime(int(year), number, int(day), int(hour), int(minute), int(second), tzinfo=UTC)
        return local - timedelta(minutes=offset if sign == b"+" else -offset) if offset else local
    except (ValueError, OverflowError):
        return None


def received_date(value: bytes) -> datetime | None:
    """Return the date of a Received field: the text after its last ";" (SYNC-93)."""
    _, mark, date = value.rpartition(b";")
    return parse_date(date) if mark else None


def _other_forms(text: str) -> datetime | None:
    if match := _ASCTIME.match(text):
        month, day = _MONTHS.get(match[1].lower()), int(match[2])
        if month is None:
            return None
        if match[8]:
            clock, year = _clock(match[3], match[4], match[5], match[6]), int(match[8])
        else:
            clock, year = _clock(match[10], match[11], match[12], match[13]), int(match[9])
        return _moment(year, month, day, clock, match[14] or match[7])
    if match := _ISO.match(text):
        clock = _clock(match[4], match[5], match[6], match[7])
        return _moment(int(match[1]), int(match[2]), int(match[3]), clock, match[8])
    return None


def _year(digits: str) -> int:
    """RFC 5322 §4.3: two digits below 50 are 20xx; other short years count from 1900, as does 0102 (case 110)."""
    year = int(digits)
    if len(digits) == 2:
        return year + (2000 if year < 50 else 1900)
    return year + 1900 if len(digits) == 3 or 100 <= year < 200 else year


def _clock(hour: str | None, minute: str | None, second: str | None, half: str | None) -> tuple[int, int, int]:
    if hour is None or minute is None:
        return 0, 0, 0
    number = int(hour)
    if half and number <= 12:
        number = number % 12 + (12 if half[0] in "Pp" else 0)
    return number, int(minute), int(second or 0)


def _moment(year: int, month: int, day: int, clock: tuple[int, int, int], zone: str | None) -> datetime | None:
    hour, minute, second = clock
    if year < 1900:
        return None
    try:
        # Second 60 is a leap second and hour 24 the next midnight: both are added, not refused.
        base = datetime(year, month, day, tzinfo=UTC)
        if hour > 24 or minute > 59 or second > 60:
            return None
        return base + timedelta(hours=hour, minutes=minute - _offset(zone), seconds=second)
    except (ValueError, OverflowError):
        return None


def _offset(zone: str | None) -> int:
    """Minutes east of UTC; an unknown or impossible zone counts as UTC (RFC 5322 §4.3)."""
    if not zone:
        return 0
    if match := _OFFSET.search(zone):
        digits = match[2].replace(":", "")
        if len(digits) < 3 and ":" not in match[2]:
            hours, minutes = int(digits), 0
        else:
            hours, minutes = int(digits[:-2] or 0), int(digits[-2:])
        if hours > 15 or minutes > 59:
            return 0
        total = hours * 60 + minutes
        return total if match[1] == "+" else -total
    return _ZONES.get(zone.lower(), 0)
