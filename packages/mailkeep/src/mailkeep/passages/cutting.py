"""Cutting a text into passages (FIND-55 to FIND-57). Pure: no clock, locale or chance.

Boundaries fall between grapheme clusters as the library `regex` sees them (UAX #29). Its version is pinned, since other
tables of Unicode are other rules.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import regex

VERSION: Final = 1
SEPARATORS: Final = ("\n\n", "\n", " ")
_CLUSTER: Final = regex.compile(r"\X")


@dataclass(frozen=True, slots=True)
class Rules:
    """One version of the rules; lengths are characters."""

    version: int
    target: int
    minimum: int
    overlap: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a text: `source[start_offset : start_offset + len(text)] == text`."""

    ordinal: int
    start_offset: int
    text: str
    content_hash: str


RULES: Final = Rules(version=VERSION, target=1000, minimum=250, overlap=200)


def cut(source: str, *, is_lossy: bool, rules: Rules = RULES) -> list[Passage]:
    """The passages of a text in reading order; a window of blanks alone gives none.

    `is_lossy` says that the text was derived from HTML.
    """
    passages: list[Passage] = []
    start = 0
    while start < len(source):
        end = _end(source, start, rules)
        text = source[start:end]
        if text.strip():
            digest = content_hash(text, is_lossy=is_lossy, rules=rules)
            passages.append(Passage(len(passages), start, text, digest))
        if end >= len(source):
            break
        # Never back to where this one began: a cluster longer than the overlap is left behind whole.
        following = _boundary_at_or_before(source, start, end - rules.overlap)
        start = following if following > start else end
    return passages


def content_hash(text: str, *, is_lossy: bool, rules: Rules = RULES) -> str:
    """Lower-case hex SHA-256 of the scheme, every rule, the lossy marker and the text, each length-prefixed."""
    digest = hashlib.sha256()
    for part in (
        b"mailkeep-passage",
        str(rules.version).encode(),
        str(rules.target).encode(),
        str(rules.minimum).encode(),
        str(rules.overlap).encode(),
        *(separator.encode() for separator in SEPARATORS),
        b"lossy" if is_lossy else b"exact",
        text.encode("utf-8", "surrogatepass"),
    ):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _end(source: str, start: int, rules: Rules) -> int:
    """Behind the last occurrence of the strongest separator past the minimum, else at the window's end."""
    limit = start + rules.target
    if limit >= len(source):
        return len(source)
    for separator in SEPARATORS:
        at = source.rfind(separator, start + rules.minimum, limit)
        if at >= 0:
            end = at + len(separator)
            if _boundary_at_or_before(source, start, end) == end:
                return end
    end = _boundary_at_or_before(source, start, limit)
    return end if end > start else _boundary_after(source, start)


def _boundary_at_or_before(source: str, start: int, position: int) -> int:
    """The last boundary of clusters not behind `position`, counted from `start`, which is one."""
    if position <= start:
        return start
    around = source[start : position + 1]
    if around.isascii() and source[position - 1 : position + 1] != "\r\n":
        return position
    boundary = start
    # One character more than the window is not enough to see a long cluster's end, but it is to see that it goes on.
    for match in _CLUSTER.finditer(source, start):
        if match.start() > position:
            break
        boundary = match.start()
        if match.end() > position:
            break
    return boundary


def _boundary_after(source: str, start: int) -> int:
    match = _CLUSTER.match(source, start)
    return match.end() if match is not None else len(source)
