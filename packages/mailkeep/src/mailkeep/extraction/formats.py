"""Which reader a file needs: its first octets decide, then its media type, then the ending of its name. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class Format(StrEnum):
    """The kinds of files that are read. A ZIP container turns out to be an office document, or is listed."""

    PDF = "pdf"
    ZIP = "zip"
    COMPOUND = "compound"
    RTF = "rtf"
    MESSAGE = "message"
    CALENDAR = "calendar"
    HTML = "html"
    TEXT = "text"


HEAD_OCTETS: Final = 1024
_COMPOUND: Final = bytes.fromhex("d0cf11e0a1b11ae1")
_MESSAGES: Final = frozenset(("message/rfc822", "message/global", "message/news"))
_CALENDARS: Final = frozenset(("text/calendar", "application/ics", "text/ics", "application/icalendar"))
_PAGES: Final = frozenset(("text/html", "application/xhtml+xml", "text/x-html"))
_TEXTS: Final = frozenset(
    (
        "application/csv",
        "application/javascript",
        "application/json",
        "application/ld+json",
        "application/sql",
        "application/txt",
        "application/x-httpd-php",
        "application/x-javascript",
        "application/x-sh",
        "application/x-tex",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
        "message/delivery-status",
        "message/disposition-notification",
        "message/feedback-report",
        "message/global-delivery-status",
        "message/global-headers",
    )
)
_TEXT_ENDINGS: Final = re.findall(
    r"\w+",
    "txt text csv tsv tab md markdown rst log json jsonl xml yaml yml toml ini cfg conf properties vcf vcard tex bib"
    " diff patch sql asc srt vtt org adoc po c h cpp hpp cs go java js ts py rb rs pl php sh bat ps1 css",
)
_BY_ENDING: Final = {
    "eml": Format.MESSAGE,
    "ics": Format.CALENDAR,
    "ical": Format.CALENDAR,
    "ifb": Format.CALENDAR,
    "htm": Format.HTML,
    "html": Format.HTML,
    "xhtml": Format.HTML,
    **dict.fromkeys(_TEXT_ENDINGS, Format.TEXT),
}


def format_of(head: bytes, *, media_type: str, file_name: str | None) -> Format | None:
    """The reader of a file whose first HEAD_OCTETS are `head`; None when no text is to be had from its kind."""
    start = head.lstrip(b"\r\n\t \xef\xbb\xbf")
    if b"%PDF-" in head:
        return Format.PDF
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return Format.ZIP
    if head.startswith(_COMPOUND):
        return Format.COMPOUND
    if start.startswith(b"{\\rtf"):
        return Format.RTF
    ending = (file_name or "").lower().rpartition(".")[2]
    if media_type in ("application/pdf", "application/x-pdf") or ending == "pdf":
        return Format.PDF
    if media_type in _MESSAGES:
        return Format.MESSAGE
    if media_type in _CALENDARS:
        return Format.CALENDAR
    if media_type in _PAGES:
        return Format.HTML
    if ending in _BY_ENDING and not media_type.startswith(("image/", "audio/", "video/", "font/")):
        return _BY_ENDING[ending]
    if media_type.startswith("text/") or media_type in _TEXTS or media_type.endswith(("+json", "+xml")):
        return None if media_type == "image/svg+xml" else Format.TEXT
    return None
