"""How values look to people, in a terminal and on a page. Pure.

Mail text is foreign: escape sequences could rewrite a screen, and bidirectional overrides could make a name or a link
read as another one. `neutralise` makes all of that visible and harmless; every face that shows mail uses it.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Format characters that join emoji or shape Arabic and Indic words; on their own they can hide nothing.
_HARMLESS_FORMAT = {"\N{ZERO WIDTH JOINER}", "\N{ZERO WIDTH NON-JOINER}", "\N{SOFT HYPHEN}"}


def neutralise(text: str, *, lines: bool = False) -> str:
    """`text` without anything that a terminal acts on.

    C0 controls become their pictures (ESC reads `␛`), C1 controls, bidirectional and other invisible format characters
    and lone surrogates become U+FFFD, line and paragraph separators a space. With `lines` LF and TAB stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character, lines) for character in text)


def _shown(character: str, lines: bool) -> str:
    if character in "\n\t":
        return character if lines else " "
    if character.isprintable() or character in _HARMLESS_FORMAT:
        return character
    code = ord(character)
    if code < 0x20:
        return "" if character == "\r" and lines else chr(0x2400 + code)
    if unicodedata.category(character) in ("Zl", "Zp", "Zs"):
        return " "
    if unicodedata.category(character) == "Co" or unicodedata.category(character) == "Cn":
        return character if code < 0xFFFE or code > 0xFFFF else _REPLACEMENT
    return _REPLACEMENT


def size(octets: float) -> str:
    """A size for people: `512 B`, `3.4 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if octets < 1024 or unit == "GiB":
            return f"{octets:.0f} {unit}" if unit == "B" else f"{octets:.1f} {unit}"
        octets /= 1024
    raise AssertionError("unreachable")


def counted(number: int, noun: str) -> str:
    """A count with its noun in the right number: `1 message`, `5 messages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def moment(when: datetime | None) -> str:
    """An instant for people, in the machine's own zone; a dash when unknown."""
    return "-" if when is None else f"{when.astimezone():%Y-%m-%d %H:%M}"


def duration(seconds: float) -> str:
    """A span for people: `42 s`, `3 min 5 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
