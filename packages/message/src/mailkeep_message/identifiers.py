"""Message identifiers: Message-ID, In-Reply-To, References (SYNC-97).

An identifier loses its surrounding brackets and white space only. Over-long ones are dropped, never cut: a prefix is
somebody else's identifier (SYNC-96). Identifiers hidden in encoded words are decoded, so that threads still match
(case 142).
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from .words import decoded_words, raw_text

MAX_IDENTIFIER_OCTETS = 998
_MAX_HEAD = 1 << 14
_MAX_TAIL = 1 << 18  # octets; the root stands at the beginning, the most recent references at the end
_BRACKETED: Final = re.compile(r"<([^<>]*)>")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def identifier(value: bytes) -> str | None:
    """Return the identifier of a Message-ID field, `None` when there is no acceptable one."""
    text = _header(value)
    bracketed = _BRACKETED.search(text)
    return _acceptable(bracketed[1] if bracketed else text.strip("<>"))


def identifiers(values: list[bytes], *, maximum: int) -> tuple[str, ...]:
    """Return the identifiers in order. Beyond `maximum`: the first (the root) and the most recent ones."""
    root: str | None = None
    recent: deque[str] = deque(maxlen=max(maximum - 1, 0))
    for value in values:
        text = _header(value)
        tokens = (match[1] for match in _BRACKETED.finditer(text)) if "<" in text else iter(_bare(text))
        for token in tokens:
            name = _acceptable(token)
            if name is None:
                continue
            if root is None:
                root = name
            else:
                recent.append(name)
    return (root, *recent) if root is not None else ()


def _header(value: bytes) -> str:
    if len(value) > _MAX_HEAD + _MAX_TAIL:
        value = value[:_MAX_HEAD] + b" " + value[-_MAX_TAIL:]
    text = raw_text(value, maximum=_MAX_HEAD + _MAX_TAIL + 1)
    return decoded_words(text) if "=?" in text and len(text) <= _MAX_HEAD else text


def _bare(text: str) -> list[str]:
    """Identifiers without brackets: every word, when each looks like one; a sentence is none."""
    if ">" in text:
        text = text.replace(">", " ")
    words = text.split()
    if len(words) <= 1:
        return words
    return [word for word in words if "@" in word]


def _acceptable(token: str) -> str | None:
    name = token.strip(" \t")
    if "\t" in name:
        name = name.replace("\t", " ")
    if not name or _CONTROL.search(name):
        return None
    if len(name) > MAX_IDENTIFIER_OCTETS or (not name.isascii() and len(name.encode()) > MAX_IDENTIFIER_OCTETS):
        return None
    return name
