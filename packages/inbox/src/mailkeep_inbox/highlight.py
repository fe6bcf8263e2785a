"""Where a search matched: the piece of each field around the first matches, with marks. Pure."""

from __future__ import annotations

import re
from typing import Final, Literal

from mailkeep_inbox.model import Highlight, MailboxItem

EXCERPT_CHARACTERS: Final = 200
_BEFORE: Final = 60
MAX_MARKS: Final = 20


def highlights_of(pattern: re.Pattern[str], item: MailboxItem, body: str | None) -> tuple[Highlight, ...]:
    """Of subject, sender and text those that match, at most 200 characters each."""
    fields: tuple[tuple[Literal["subject", "from", "body"], str | None], ...] = (
        ("subject", item.subject),
        ("from", item.from_),
        ("body", body),
    )
    found = (_highlight(pattern, name, text) for name, text in fields if text)
    return tuple(highlight for highlight in found if highlight is not None)


def _highlight(pattern: re.Pattern[str], name: Literal["subject", "from", "body"], text: str) -> Highlight | None:
    first = pattern.search(text)
    if first is None:
        return None
    start = max(0, first.start() - _BEFORE) if first.end() > EXCERPT_CHARACTERS else 0
    excerpt = text[start : start + EXCERPT_CHARACTERS]
    marks = [
        (match.start() - start, min(match.end() - start, len(excerpt)))
        for match in pattern.finditer(text, start, start + len(excerpt) + 1)
        if match.start() - start < len(excerpt)
    ]
    return Highlight(name, excerpt, tuple(marks[:MAX_MARKS]))
