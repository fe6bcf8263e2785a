"""A text cut into pieces that are searched and shown one by one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

SEGMENT_CHARACTERS: Final = 2_000
"""As much as a snippet is cut from; a headline takes 0.3 ms per 1,000."""
_SHORTEST: Final = 1_500
_LINE: Final = re.compile(r"\n\s*")
_BLANK: Final = re.compile(r"\s+|(?<=[。！？、，])")


class Segment(NamedTuple):
    """A piece and the place of its first character in the text."""

    starts_at: int
    text: str


def segments_of(text: str) -> Iterator[Segment]:
    """Pieces of at most SEGMENT_CHARACTERS that together are the text, cut behind a line or a word if there is one."""
    at = 0
    while at < len(text):
        end = at + SEGMENT_CHARACTERS
        if end < len(text):
            end = _cut(text, at + _SHORTEST, end)
        yield Segment(at, text[at:end])
        at = end


def _cut(text: str, earliest: int, latest: int) -> int:
    for boundary in (_LINE, _BLANK):
        ends = [found.end() for found in boundary.finditer(text, earliest, latest)]
        if ends:
            return ends[-1]
    return latest
