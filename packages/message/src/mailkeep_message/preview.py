"""The line a list shows under a subject: abbreviated readable text in the sense of RFC 8970 §3 (case 134)."""

from __future__ import annotations

import re
from typing import Final

_MAX_SOURCE = 4000
_LINK: Final = re.compile(r"[(<\[]\s{0,4}(?:https?|mailto|ftp):[^\s)>\]]{1,2000}\s{0,4}[)>\]]", re.IGNORECASE)
_BARE_LINK: Final = re.compile(r"(?:https?|ftp)://[^\s)>\]]{40,}", re.IGNORECASE)
_RULE: Final = re.compile(r"[-_=*~#]{4,}+")
_QUOTED_LINE: Final = re.compile(r"^[ \t]{0,8}>[^\n]*+\n?", re.MULTILINE)


def preview(text: str, *, max_characters: int = 200) -> str:
    """Return the beginning of a body text on one line: no links in brackets, tracking URLs, rules or quoted lines."""
    text = text[:_MAX_SOURCE]
    own = _QUOTED_LINE.sub("", text)
    text = own if own.strip() else text
    text = " ".join(_RULE.sub(" ", _BARE_LINK.sub(" ", _LINK.sub(" ", text))).split())
    if len(text) <= max_characters:
        return text
    cut = text[: max_characters - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > max_characters // 2 else cut).rstrip() + "…"
