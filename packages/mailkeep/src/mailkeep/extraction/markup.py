"""Files that are text themselves: plain text in any charset, HTML, RTF, iCalendar (RFC 5545)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

from striprtf.striprtf import rtf_to_text

from mailkeep.extraction.model import Budget, Outcome, Stopped
from mailkeep_message import decode, html_to_text

_OCTETS_PER_CHARACTER: Final = 8
"""So many octets are decoded for each character that still fits; markup and indentation count too."""
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML_CHARSET: Final = re.compile(rb"\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_BINARY_SAMPLE: Final = 4096
_FEW_CONTROLS: Final = 8
_FOLD: Final = re.compile(r"\r?\n[ \t]")
_ESCAPED: Final = re.compile(r"\\([\\;,nN])")
_PROPERTY: Final = re.compile(r"([A-Za-z0-9-]{1,60})((?:;[^:\"]*+(?:\"[^\"]*+\"[^:\"]*+)*+)?):(.*+)")
_COMMON_NAME: Final = re.compile(r';CN=(?:"([^"]*+)"|([^;:"]*+))', re.IGNORECASE)
_SHOWN: Final = frozenset(
    ("SUMMARY", "DESCRIPTION", "LOCATION", "COMMENT", "CONTACT", "CATEGORIES", "RESOURCES", "X-WR-CALNAME", "DTSTART")
)
_PEOPLE: Final = frozenset(("ORGANIZER", "ATTENDEE"))


def read_text(budget: Budget, octets: bytes, *, charset: str | None, hint: str | None) -> None:
    """Plain text; octets that are no text are refused."""
    budget.add(decoded(budget, octets, charset=charset, hint=hint) + "\n")


def read_html(budget: Budget, octets: bytes, *, charset: str | None, hint: str | None) -> None:
    """What a reader of the page sees."""
    if charset is None and (named := _META_CHARSET.search(octets[:2048]) or _XML_CHARSET.match(octets[:300])):
        charset = named[1].decode("ascii")
    source = decoded(budget, octets, charset=charset, hint=hint)
    budget.add(html_to_text(source, maximum=budget.room + 1) + "\n")


def read_rtf(budget: Budget, octets: bytes) -> None:
    """Rich text; its octets are ASCII by definition and escape the rest."""
    text: str = rtf_to_text(octets.decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]
    budget.add(text + "\n")


def read_calendar(budget: Budget, octets: bytes, *, charset: str | None, hint: str | None) -> None:
    """What people wrote into events, tasks and notes, who takes part, and the day of each."""
    text = decoded(budget, octets, charset=charset, hint=hint)
    if "BEGIN:V" not in text[:2000].upper():
        raise Stopped(Outcome.BROKEN)
    for line in _FOLD.sub("", text).splitlines():
        for shown in _calendar_line(line):
            budget.add(shown + "\n")


def _calendar_line(line: str) -> Iterator[str]:
    found = _PROPERTY.fullmatch(line)
    if found is None:
        return
    name, parameters, value = found[1].upper(), found[2], found[3].strip()
    if name in _PEOPLE:
        common = _COMMON_NAME.search(parameters)
        address = value[7:] if value[:7].lower() == "mailto:" else value
        yield f"{(common[1] or common[2] or '') if common else ''} {address}".strip()
    elif name == "DTSTART" and len(value) >= 8 and value[:8].isdigit():
        yield f"{value[:4]}-{value[4:6]}-{value[6:8]}"
    elif name in _SHOWN and value:
        yield _ESCAPED.sub(lambda match: "\n" if match[1] in "nN" else match[1], value)


def decoded(budget: Budget, octets: bytes, *, charset: str | None, hint: str | None) -> str:
    """The characters of a text by its mark, its label, UTF-8 where it is that, else the message's first label."""
    limit = (budget.room + 1) * _OCTETS_PER_CHARACTER
    if len(octets) > limit:
        octets = octets[:limit]
        budget.is_cut = True
    for mark, name in _MARKS:
        if octets.startswith(mark):
            return octets[len(mark) :].decode(name, "replace")
    if charset is None and (wide := _wide(octets)) is not None:
        return octets.decode(wide, "replace")
    if (charset is None or not charset.lower().startswith(("utf-16", "utf-32", "ucs"))) and _is_binary(octets):
        raise Stopped(Outcome.UNSUPPORTED)
    if charset is None and hint is not None and not _is_utf8(octets):
        charset = hint
    return decode(octets, charset)[0]


def _is_utf8(octets: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(octets)
    except UnicodeDecodeError:
        return False
    return True


def _wide(octets: bytes) -> str | None:
    """UTF-16 without a mark: nearly every second octet of Western text is zero."""
    sample = octets[:_BINARY_SAMPLE]
    if len(sample) < 8:
        return None
    half = len(sample) // 2
    if sample[1::2].count(0) > half * 0.8 and sample[::2].count(0) < half * 0.1:
        return "utf-16-le"
    if sample[::2].count(0) > half * 0.8 and sample[1::2].count(0) < half * 0.1:
        return "utf-16-be"
    return None


def _is_binary(octets: bytes) -> bool:
    """Zero octets, or more control characters than any text has (ESC is a letter of ISO-2022)."""
    sample = octets[:_BINARY_SAMPLE]
    if b"\0" in sample:
        return True
    controls = len(sample) - len(sample.translate(None, bytes((*range(1, 9), 11, *range(14, 27), 28, 29, 30, 31, 127))))
    return controls > _FEW_CONTROLS and controls * 20 > len(sample)
