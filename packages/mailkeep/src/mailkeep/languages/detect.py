"""Which language a text is written in, by CLD2 (docs/decisions/0009-language-detection.md). Pure."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

try:
    import pycld2
except ImportError:  # pragma: no cover -- no wheel for this machine: nothing is stemmed, all else works
    pycld2 = None

DETECTED_CHARACTERS: Final = 2_000
"""How much of a text is looked at."""
MIN_LETTERS: Final = 12
MIN_SHARE: Final = 0.6
"""The part of the text that must be in its main language; below it stems would be wrong for much of it."""
_CODES: Final = {"nb": "no", "nn": "no", "iw": "he", "in": "id", "jw": "jv", "ji": "yi", "mo": "ro"}
_UNKNOWN: Final = "un"


@dataclass(frozen=True, slots=True)
class Detected:
    """A language by its ISO 639 code and the share of the text in it, 0 to 1."""

    language: str
    confidence: float


def detect_language(text: str) -> Detected | None:
    """The language of the beginning of a text; None when it is too short, too mixed or nothing that is known."""
    part = text[:DETECTED_CHARACTERS]
    if pycld2 is None or (sum(map(str.isalpha, part)) < MIN_LETTERS and part.isascii()):
        return None
    # CLD2 refuses controls, surrogates and code points without a character.
    clean = part if part.isprintable() else "".join(_shown(character) for character in part)
    try:
        is_reliable, _, details = pycld2.detect(clean, isPlainText=True)
    except pycld2.error:
        return None
    _, code, percent, _ = details[0]
    share = percent / 100
    if not is_reliable or code == _UNKNOWN or share < MIN_SHARE:
        return None
    return Detected(_CODES.get(code, code.split("-")[0]), share)


def _shown(character: str) -> str:
    return " " if unicodedata.category(character) in ("Cc", "Cs", "Cn", "Co") else character
