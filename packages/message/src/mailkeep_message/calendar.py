"""Calendar invitations (RFC 5545, RFC 5546): just enough to recognise and show them.

METHOD is read from the data, else from the Content-Type, and compared without case (case 136). The same event as
alternative and as attachment is one invitation per UID and SEQUENCE (case 137).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from .model import Invitation
from .text import clean_body, clean_line

MAX_CALENDAR_CHARACTERS = 500_000
MAX_INVITATIONS = 50
MAX_CALENDARS = 8
_MAX_VALUE = 2000
_FOLD: Final = re.compile(r"\n[ \t]")
_VALUE: Final = r"""(?:"[^"\n]*+"|[^":;,\n]*+)"""
_LINE: Final = re.compile(
    rf"^([A-Za-z0-9-]{{1,60}})((?:;[A-Za-z0-9-]{{1,60}}={_VALUE}(?:,{_VALUE})*+)*+):([^\n]*+)$", re.MULTILINE
)
_TZID: Final = re.compile(r';TZID="?([^";:\n]{1,200})', re.IGNORECASE)
_MOMENT: Final = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2})?(Z)?)?")
_DURATION: Final = re.compile(r"P(?:(\d{1,5})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,6})S)?)?")
_OFFSET: Final = re.compile(r"([+-])(\d{2})(\d{2})")
_ESCAPED: Final = re.compile(r"\\([\\;,nN])")
_COMPONENTS: Final = frozenset(("VEVENT", "VTODO", "VFREEBUSY", "VJOURNAL"))
_WINDOWS_ZONES: Final = {
    "w. europe standard time": "Europe/Berlin",
    "romance standard time": "Europe/Paris",
    "central europe standard time": "Europe/Budapest",
    "central european standard time": "Europe/Warsaw",
    "gmt standard time": "Europe/London",
    "greenwich standard time": "Atlantic/Reykjavik",
    "e. europe standard time": "Europe/Chisinau",
    "fle standard time": "Europe/Kiev",
    "gtb standard time": "Europe/Bucharest",
    "turkey standard time": "Europe/Istanbul",
    "russian standard time": "Europe/Moscow",
    "israel standard time": "Asia/Jerusalem",
    "south africa standard time": "Africa/Johannesburg",
    "arabian standard time": "Asia/Dubai",
    "india standard time": "Asia/Kolkata",
    "china standard time": "Asia/Shanghai",
    "singapore standard time": "Asia/Singapore",
    "tokyo standard time": "Asia/Tokyo",
    "korea standard time": "Asia/Seoul",
    "aus eastern standard time": "Australia/Sydney",
    "new zealand standard time": "Pacific/Auckland",
    "eastern standard time": "America/New_York",
    "us eastern standard time": "America/Indianapolis",
    "central standard time": "America/Chicago",
    "mountain standard time": "America/Denver",
    "us mountain standard time": "America/Phoenix",
    "pacific standard time": "America/Los_Angeles",
    "atlantic standard time": "America/Halifax",
    "e. south america standard time": "America/Sao_Paulo",
    "argentina standard time": "America/Buenos_Aires",
    "utc": "UTC",
}


class _Component:
    """Properties of one VEVENT and the like: name to (parameters, value), first occurrence kept."""

    __slots__ = ("properties",)

    def __init__(self) -> None:
        self.properties: dict[str, tuple[str, str]] = {}

    def text(self, name: str) -> str | None:
        found = self.properties.get(name)
        if found is None:
            return None
        value = _ESCAPED.sub(lambda m: " " if m[1] in "nN" else m[1], found[1][: _MAX_VALUE * 2])
        return clean_line(value).strip()[:_MAX_VALUE] or None


def read_invitations(text: str, declared_method: str | None) -> list[Invitation]:
    """Return the events of one iCalendar object, `declared_method` being the Content-Type's parameter."""
    if "BEGIN:V" not in text[:MAX_CALENDAR_CHARACTERS].upper():
        return []
    text = _FOLD.sub("", clean_body(text[:MAX_CALENDAR_CHARACTERS]))
    method = declared_method
    components: list[_Component] = []
    offsets: dict[str, timedelta] = {}
    open_names: list[str] = []
    zone_name = ""
    for match in _LINE.finditer(text):
        name, parameters, value = match[1].upper(), match[2], match[3].strip()
        if name == "BEGIN":
            open_names.append(value.upper())
            if value.upper() in _COMPONENTS and len(components) < MAX_INVITATIONS:
                components.append(_Component())
        elif name == "END":
            if open_names:
                open_names.pop()
        elif not open_names or open_names[-1] == "VCALENDAR":
            if name == "METHOD" and value:
                method = value
        elif open_names[-1] in _COMPONENTS and components:
            components[-1].properties.setdefault(name, (parameters, value))
        elif name == "TZID":
            zone_name = value
        elif name == "TZOFFSETTO" and (open_names[-1] == "STANDARD" or zone_name not in offsets):
            offset = _offset(value)
            if offset is not None:
                offsets[zone_name] = offset
    wanted = clean_line(method).strip().upper()[:40] if method else None
    return [_invitation(component, wanted or None, offsets) for component in components]


def distinct(invitations: list[Invitation]) -> tuple[Invitation, ...]:
    """Return one invitation per UID and SEQUENCE, the first; those without UID all stay."""
    seen: set[tuple[str, int]] = set()
    kept: list[Invitation] = []
    for invitation in invitations:
        if invitation.uid is not None:
            key = (invitation.uid, invitation.sequence or 0)
            if key in seen:
                continue
            seen.add(key)
        kept.append(invitation)
    return tuple(kept[:MAX_INVITATIONS])


def _invitation(component: _Component, method: str | None, offsets: dict[str, timedelta]) -> Invitation:
    starts = _moment(component, "DTSTART", offsets)
    ends = _moment(component, "DTEND", offsets) or _moment(component, "DUE", offsets)
    if ends is None and starts is not None:
        ends = _after(starts, component.text("DURATION"))
    sequence = component.text("SEQUENCE")
    organizer = component.text("ORGANIZER")
    if organizer is not None and organizer[:7].lower() == "mailto:":
        organizer = organizer[7:]
    return Invitation(
        method=method,
        uid=component.text("UID"),
        sequence=int(sequence)
        if sequence and sequence.isascii() and sequence.isdigit() and len(sequence) < 10
        else None,
        summary=component.text("SUMMARY"),
        starts_at=starts,
        ends_at=ends,
        organizer=organizer,
        location=component.text("LOCATION"),
    )


def _moment(component: _Component, name: str, offsets: dict[str, timedelta]) -> datetime | None:
    """UTC; a floating or all-day value counts as UTC, an unknown zone as the offset its VTIMEZONE gives."""
    found = component.properties.get(name)
    match = _MOMENT.match(found[1]) if found else None
    if found is None or match is None:
        return None
    zone: tzinfo = UTC
    named = _TZID.search(found[0])
    if named and not match[7]:
        zone = _zone(named[1].strip()) or timezone(offsets.get(named[1].strip(), timedelta(0)))
    try:
        local = datetime(
            int(match[1]),
            int(match[2]),
            int(match[3]),
            int(match[4] or 0),
            int(match[5] or 0),
            int(match[6] or 0),
            tzinfo=zone,
        )
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _after(start: datetime, duration: str | None) -> datetime | None:
    match = _DURATION.fullmatch(duration) if duration else None
    if match is None:
        return None
    weeks, days, hours, minutes, seconds = (int(group or 0) for group in match.groups())
    try:
        return start + timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return None


def _offset(value: str) -> timedelta | None:
    match = _OFFSET.match(value)
    if match is None:
        return None
    minutes = int(match[2]) * 60 + int(match[3])
    return timedelta(minutes=minutes if match[1] == "+" else -minutes) if minutes < 24 * 60 else None


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo | None:
    """A zone by IANA or Windows name; also the "/vendor/Europe/Berlin" form of old clients."""
    lowered = name.lower()
    candidates = [_WINDOWS_ZONES[lowered]] if lowered in _WINDOWS_ZONES else [name, "/".join(name.split("/")[-2:])]
    for candidate in candidates:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*", candidate):
            continue
        try:
            return ZoneInfo(candidate)
        except (LookupError, ValueError, OSError):
            continue
    return None
