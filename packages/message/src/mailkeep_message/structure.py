"""The MIME structure as ranges of octets: one forward pass, no copies, bounded before anything is built (SYNC-91).

A delimiter is a whole line: two dashes, the exact boundary, at most two more dashes, blanks (case 127). The innermost
open multipart is asked first; a delimiter of an outer one closes everything within. An embedded message is walked for
the bounds only and stays one leaf of the outer message (cases 118, 119).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from .fields import Fields, read_fields
from .model import Limits
from .params import Value, is_media_type, parse_value, without_comments
from .text import clean_line
from .transfer import IDENTITY
from .words import raw_text

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_LINE_ENDS: Final = re.compile(rb"[\r\n]*+")
_GUESSED: Final = re.compile(rb"^--([^\s-][^\r\n]{0,200}?)[ \t]*\r?$", re.MULTILINE)
_MAX_BOUNDARY = 1000
_MAX_DEPTH = 200  # whatever the limits say: the walk over the parts recurses
_MAX_FALSE_DELIMITERS = 100_000
_NO_VALUE: Final = Value("", {})
EMBEDDED: Final = frozenset(("message/rfc822", "message/global", "message/news"))


class Entity:
    """One entity: where its header and body lie, and what its Content fields say. Mutable only while scanning."""

    __slots__ = (
        "body_start", "boundary", "children", "depth", "disposition", "encoding", "end", "fields", "header_start",
        "is_embedded", "is_multipart", "media_type", "parameters", "parent", "raw_type",
    )  # fmt: skip

    def __init__(self, start: int, depth: int, parent: Entity | None, *, is_embedded: bool) -> None:
        self.header_start = start
        self.body_start = start
        self.end = start
        self.depth = depth
        self.parent = parent
        self.is_embedded = is_embedded
        self.children: list[Entity] = []
        self.fields: Fields
        self.media_type = "text/plain"
        self.raw_type = ""
        self.parameters: dict[str, str] = {}
        self.disposition = _NO_VALUE
        self.encoding = ""
        self.boundary: bytes | None = None
        self.is_multipart = False


@dataclass(slots=True)
class Structure:
    """The outcome of a scan. `entities` are the message's own, in order of appearance, the root first."""

    octets: bytes
    root: Entity
    entities: list[Entity]
    defects: set[str]
    is_complete: bool = True


@dataclass(slots=True)
class _Opened:
    """An open multipart: line end, dashes and boundary; its height in `_Scan.open`; the next place the mark occurs."""

    mark: bytes
    height: int
    next: int = 0


@dataclass(slots=True)
class _Scan:
    octets: bytes
    limits: Limits
    entities: list[Entity] = field(default_factory=list)
    open: list[Entity] = field(default_factory=list)  # root to innermost
    boundaries: list[_Opened] = field(default_factory=list)  # outermost to innermost
    defects: set[str] = field(default_factory=set)
    count: int = 0
    false_delimiters: int = 0  # lines that begin like a delimiter and are none
    is_complete: bool = True


def normalized(octets: bytes) -> bytes:
    """Return octets with LF line ends to look for; same length, so offsets stay true (bare CR mail exists)."""
    return octets.replace(b"\r", b"\n") if b"\n" not in octets and b"\r" in octets else octets


def message_start(octets: bytes) -> int:
    """Return where the header begins: after a byte order mark, an mbox "From " line and empty lines."""
    start = 3 if octets.startswith(b"\xef\xbb\xbf") else 0
    if octets[start : start + 1] in (b"\r", b"\n", b"F", b">"):
        blank = _LINE_ENDS.match(octets, start)
        start = blank.end() if blank else start
        if octets.startswith((b"From ", b">From "), start):
            start = octets.find(b"\n", start) + 1 or len(octets)
    return start


def scan(octets: bytes, limits: Limits) -> Structure:
    """Scan a whole message; `octets` come from `normalized`. Time is linear in the octets for each open level."""
    state = _Scan(octets, limits)
    root = _open(state, message_start(octets), None, is_embedded=False, default="text/plain")
    if state.boundaries:
        _walk_delimiters(state)
    for entity in state.open:
        entity.end = len(octets)
    if state.boundaries:
        state.defects.add("missing_boundary_end")
    for entity in state.entities:
        if entity.is_multipart and not entity.children and state.is_complete:
            # Nothing was lost: what a broken multipart holds is shown as text.
            state.defects.add("missing_boundary_start")
            entity.is_multipart, entity.media_type = False, "text/plain"
    return Structure(octets, root, state.entities, state.defects, state.is_complete)


class _Delimiter(NamedTuple):
    """A delimiter line: where its preceding line end stands, where the line ends, whose it is, whether it closes."""

    start: int
    line_end: int
    level: int
    closes: bool


def _next_delimiter(state: _Scan, position: int) -> _Delimiter | None:
    """Return the first delimiter of an open multipart whose preceding line end is at or after `position`.

    Each open boundary is searched for once: its next occurrence is remembered until the walk has passed it.
    """
    octets = state.octets
    while True:
        nearest = -1
        for opened in state.boundaries:
            if opened.next >= 0:
                if opened.next < position:
                    opened.next = octets.find(opened.mark, position)
                if opened.next >= 0 and (nearest < 0 or opened.next < nearest):
                    nearest = opened.next
        if nearest < 0:
            return None
        line_end = octets.find(b"\n", nearest + 3)
        if line_end < 0:
            line_end = len(octets)
        if line_end - nearest <= _MAX_BOUNDARY + 100:
            line = octets[nearest + 1 : line_end].rstrip(b" \t\r")
            for level in range(len(state.boundaries) - 1, -1, -1):  # the innermost first
                mark = state.boundaries[level].mark
                if line.startswith(mark[1:]):
                    rest = line[len(mark) - 1 :]
                    if rest in (b"", b"--"):
                        return _Delimiter(nearest, line_end, level, rest == b"--")
        state.false_delimiters += 1
        if state.false_delimiters > _MAX_FALSE_DELIMITERS:
            state.is_complete = False
            return None
        position = nearest + 1


def _walk_delimiters(state: _Scan) -> None:
    octets, end = state.octets, len(state.octets)
    position = max(state.open[-1].body_start - 1, 0)
    while state.boundaries and state.is_complete:
        found = _next_delimiter(state, position)
        if found is None:
            return
        position = found.line_end
        height = state.boundaries[found.level].height
        content_end = found.start - 1 if found.start and octets[found.start - 1] == 13 else found.start
        for entity in state.open[height + 1 :]:
            entity.end = max(content_end, entity.body_start)
        del state.open[height + 1 :]
        if len(state.boundaries) - 1 > found.level:
            state.defects.add("missing_boundary_end")
        if found.closes or found.line_end + 1 >= end:  # a delimiter on the last line opens nothing
            del state.boundaries[found.level :]
            if not found.closes:
                state.defects.add("missing_boundary_end")
            continue
        del state.boundaries[found.level + 1 :]
        multipart = state.open[height]
        default = "message/rfc822" if multipart.media_type == "multipart/digest" else "text/plain"
        _open(state, found.line_end + 1, multipart, is_embedded=multipart.is_embedded, default=default)
        position = max(state.open[-1].body_start - 1, found.line_end)


def _open(state: _Scan, start: int, parent: Entity | None, *, is_embedded: bool, default: str) -> Entity:
    """Open the entity whose header begins at `start`, and within an embedded message the ones below it."""
    first: Entity | None = None
    while True:
        depth = 0 if parent is None else parent.depth + 1
        entity = Entity(start, depth, parent, is_embedded=is_embedded)
        first = first or entity
        if parent is not None:
            state.count += 1
            parent.children.append(entity)
            if state.count >= state.limits.max_part_count or depth > min(state.limits.max_nesting_depth, _MAX_DEPTH):
                state.is_complete = False
        state.open.append(entity)
        if not is_embedded:
            state.entities.append(entity)
        _read_header(state, entity, default)
        if not state.is_complete:
            return first
        if entity.is_multipart and entity.boundary is not None:
            state.boundaries.append(_Opened(b"\n--" + entity.boundary, len(state.open) - 1))
            return first
        if entity.media_type not in EMBEDDED or entity.encoding not in IDENTITY:
            return first
        parent, is_embedded, default, start = entity, True, "text/plain", entity.body_start


def _read_header(state: _Scan, entity: Entity, default: str) -> None:
    octets, start = state.octets, entity.header_start
    header_end, entity.body_start = _header_end(state, start)
    entity.end = len(octets)
    fields = read_fields(octets[start:header_end], is_unterminated=header_end == len(octets))
    if fields.body_offset is not None:
        entity.body_start = start + fields.body_offset
    state.defects |= fields.defects
    entity.fields = fields
    content_type = fields.last("content-type")  # of two, the later is the sender's; a gateway puts its own on top
    if content_type is None:
        entity.media_type = default
    else:
        _read_content_type(state, entity, content_type, default)
    encoding = fields.first("content-transfer-encoding")
    if encoding is not None:
        entity.encoding = transfer_encoding(encoding)
    disposition = fields.first("content-disposition")
    if disposition is not None:
        entity.disposition = parse_value(disposition)


def transfer_encoding(value: bytes) -> str:
    """Return the lower-case token; comments and junk after it go, `8-bit` and the like are identity."""
    text = clean_line(without_comments(raw_text(value))[:100]).strip(" ;\"'").lower()
    token = text.split(None, 1)[0].rstrip(";") if text else ""
    if token.startswith("quoted"):
        return "quoted-printable"
    return "8bit" if token in ("8-bit", "7-bit", "utf-8", "bit", "none", "plain", "us-ascii", "iso-8859-1") else token


def _read_content_type(state: _Scan, entity: Entity, content_type: bytes, default: str) -> None:
    value, parameters = parse_value(content_type)
    if "(" in value:
        value = without_comments(value)
    entity.raw_type = value
    entity.parameters = parameters
    if is_media_type(value):
        entity.media_type = value
    elif "/" in value:
        entity.media_type = "application/octet-stream"
    else:  # RFC 2045 §5.2: a value without a subtype says nothing
        entity.media_type = default
    if entity.media_type.startswith("multipart/"):
        entity.is_multipart = True
        entity.boundary = _boundary(state, entity)


def _boundary(state: _Scan, entity: Entity) -> bytes | None:
    text = entity.parameters.get("boundary", "").rstrip()
    if text and len(text) <= _MAX_BOUNDARY:
        return text.encode("utf-8", "replace")
    state.defects.add("missing_boundary")
    found = _GUESSED.search(state.octets, entity.body_start, entity.body_start + 65_536)
    if found and b"\n--" + found[1] + b"--" in state.octets[entity.body_start :]:
        return found[1]
    return None


def _header_end(state: _Scan, start: int) -> tuple[int, int]:
    """Return the end of the header section at `start` (past its last line end) and the start of the body.

    A header that runs into a delimiter has no body; one that runs into the end of the message is unterminated.
    """
    octets, end = state.octets, len(state.octets)
    if octets.startswith((b"\n", b"\r\n"), start):
        return start, start + (1 if octets[start] == 10 else 2)
    delimiter = _next_delimiter(state, max(start - 1, 0))
    if delimiter is None:
        match = _BLANK_LINE.search(octets, start)
    else:
        match = _BLANK_LINE.search(octets, start, delimiter.start + 1)
        if match is None:
            stop = max(delimiter.start + 1, start)
            return stop, stop
    return (match.start() + 1, match.end()) if match else (end, end)
