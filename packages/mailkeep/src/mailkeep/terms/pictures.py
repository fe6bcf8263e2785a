"""Picture signs (emoji): PostgreSQL's parser does not see them, so each is a term of its own."""

from __future__ import annotations

import re
from typing import Final

# Two letters of a flag are one sign; variants of skin and form, and what joins signs, are left out.
_PICTURE: Final = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}|[\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa"
    "\U0001f400-\U0001faff]"
)
_DRESSING: Final = re.compile("[\ufe0e\ufe0f\u200d\U0001f3fb-\U0001f3ff]")


def picture_signs(text: str) -> list[str]:
    """The signs of a text in order, each once."""
    return [] if text.isascii() else list(dict.fromkeys(_PICTURE.findall(text)))


def without_pictures(text: str) -> str:
    """The text with a blank in the place of every sign."""
    return text if text.isascii() else _DRESSING.sub("", _PICTURE.sub(" ", text))
