"""The mbox format, read and written in its mboxrd variant (RFC 4155; every `>*From ` line gains or loses one `>`).

Line ends inside a message are kept as they are, LF or CRLF. What the format cannot tell apart is whether a message
ended with a line end: writing adds one where it is missing. Mail in the wild has unescaped "From " lines in bodies and
separators without the blank line before them, so a separator is recognised by its date and by what surrounds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO

from mailkeep.transfer.model import Item, ItemFlags, Unreadable

MAX_LINE_PIECE = 1 << 20
"""Longest piece of a line that is read at once, in octets; longer lines arrive in pieces."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATED = re.compile(
    rb"From .*\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\s+(?P<month>[A-Z][a-z]{2})\s+(?P<day>\d{1,2})\s+"
    rb"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?\s+(?:(?:[A-Z]{1,5}|[+-]\d{4})\s+)?(?P<year>\d{4})\b"
)
_HEADER_LINE = re.compile(rb"[!-9;-~]+[ \t]*:|>From ")
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_ESCAPABLE = re.compile(rb"^(>*From )", re.MULTILINE)
_STATUS = re.compile(rb"^(X-)?Status:[ \t]*([A-Za-z]*)", re.MULTILINE | re.IGNORECASE)


def is_separator(line: bytes, following: bytes, *, after_blank: bool) -> bool:
    """Whether `line` begins a new message.

    A dated separator counts after a blank line, or anywhere when a header field follows it; an undated one needs both.
    """
    if not line.startswith(b"From "):
        return False
    header_follows = _HEADER_LINE.match(following) is not None
    dated = _DATED.match(line) is not None
    return (dated and (after_blank or header_follows)) or (after_blank and header_follows)


def read_mbox(stream: BinaryIO, *, place: str, max_octets: int) -> Iterator[Item | Unreadable]:
    """The messages of an mbox in order, at most one in memory; what is larger than `max_octets` is named and passed.

    Text before the first separator is named once. `place` is how the file is called in what is reported.
    """
    pieces: list[bytes] = []
    size = 0
    number = 0
    separator = b""
    for line, begins in _marked_lines(stream):
        if begins:
            yield from _finished(pieces, size, separator, place=f"{place}, message {number}", max_octets=max_octets)
            pieces, size, separator = [], 0, line
            number += 1
            continue
        size += len(line)
        if size <= max_octets + 2:  # the blank line that ends an item is not part of the message
            pieces.append(line)
        else:
            pieces.clear()
    yield from _finished(pieces, size, separator, place=f"{place}, message {number}", max_octets=max_octets)


def _marked_lines(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Each line with whether it separates messages; a line longer than MAX_LINE_PIECE comes in several pieces."""
    line = stream.readline(MAX_LINE_PIECE)
    after_blank, at_line_start = True, True
    while line:
        following = stream.readline(MAX_LINE_PIECE)
        yield line, at_line_start and is_separator(line, following, after_blank=after_blank)
        after_blank = at_line_start and line in (b"\n", b"\r\n")
        at_line_start = line.endswith(b"\n")
        line = following


def _finished(
    pieces: list[bytes], size: int, separator: bytes, *, place: str, max_octets: int
) -> Iterator[Item | Unreadable]:
    if size > max_octets + 2:
        yield Unreadable(place, f"{size} octets, more than mail_synchronization.max_raw_mime_bytes ({max_octets})")
        return
    octets = _without_final_blank(b"".join(pieces))
    if not separator:
        if octets.strip():
            yield Unreadable(place, "text before the first message")
        return
    octets = _ESCAPED.sub(rb"\1", octets)
    if not octets.strip():
        yield Unreadable(place, "empty message")
    elif len(octets) > max_octets:
        yield Unreadable(
            place, f"{len(octets)} octets, more than mail_synchronization.max_raw_mime_bytes ({max_octets})"
        )
    else:
        yield Item(octets, separator_date(separator), status_flags(octets))


def _without_final_blank(octets: bytes) -> bytes:
    if octets.endswith(b"\n\r\n"):
        return octets[:-2]
    if octets.endswith(b"\n\n") or octets == b"\n":
        return octets[:-1]
    return octets


def separator_date(line: bytes) -> datetime | None:
    """The time a separator line tells, taken as UTC (the format has no zone worth trusting); None without one."""
    match = _DATED.match(line)
    if match is None:
        return None
    try:
        month = _MONTHS.index(match["month"].decode("ascii").lower()) + 1
        return datetime(
            int(match["year"]),
            month,
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            min(int(match["second"] or 0), 59),
            tzinfo=UTC,
        )
    except ValueError:
        return None


def status_flags(octets: bytes) -> ItemFlags | None:
    """The state that mbox readers keep in `Status` and `X-Status` fields; None when neither is there."""
    header_end = re.search(rb"\r?\n\r?\n", octets)
    found = list(_STATUS.finditer(octets, 0, header_end.start() if header_end else len(octets)))
    if not found:
        return None
    letters = b"".join(match[2] for match in found).upper()
    return ItemFlags(
        seen=b"R" in letters,
        answered=b"A" in letters,
        flagged=b"F" in letters,
        draft=b"T" in letters,
        deleted=b"D" in letters,
    )


def mbox_entry(octets: bytes, *, sender: str | None, arrived_at: datetime | None) -> bytes:
    """One message as it stands in an mbox: separator, the octets with "From " lines escaped, a blank line."""
    name = (sender or "").encode("ascii", "ignore").translate(None, bytes(range(33)) + b"\x7f") or b"MAILER-DAEMON"
    moment = (arrived_at or datetime(1970, 1, 1, tzinfo=UTC)).astimezone(UTC)
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    month = _MONTHS[moment.month - 1].capitalize()
    date = f"{weekday} {month} {moment.day:2d} {moment:%H:%M:%S} {moment.year:04d}".encode("ascii")
    body = _ESCAPABLE.sub(rb">\1", octets)
    end = b"\r\n" if body.endswith(b"\r\n") or (not body.endswith(b"\n") and b"\r\n" in body) else b"\n"
    if not body.endswith(b"\n"):
        body += end
    return b"From " + name + b" " + date + b"\n" + body + end
