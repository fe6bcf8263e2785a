"""Scripts that write no blanks between words: their runs are cut into overlapping pairs (case 191).

PostgreSQL's parser takes a whole run as one word, so a word inside it is never found. A run becomes all its bigrams
plus its last character alone: every character then begins exactly one term, and a query of one character is a prefix.
Chinese, Japanese and Korean are the bulk of it ("CJK" here and elsewhere); Thai, Lao, Khmer and Myanmar are alike.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

MAX_MIXED_CHARACTERS: Final = 64
"""How far beside a run the letters that touch it are looked at."""
_CJK: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"  # Lao
    "\u1000-\u103f\u1050-\u108f"  # Myanmar
    "\u1780-\u17d3\u17dc\u17dd"  # Khmer
    "\u1100-\u11ff"  # Hangul letters
    "\u2e80-\u2fdf"  # radicals
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # iteration marks, numerals
    "\u3041-\u3096\u309d-\u309f"  # Hiragana
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Katakana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb"  # Hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uff66-\uff9f\uffa0-\uffdc"  # half-width forms
    "\U0001aff0-\U0001b16f\U00020000-\U0003fffd"  # Kana and Han beyond the basic plane
)
_RUN: Final = re.compile(f"[{_CJK}]+")
_LETTERS: Final = re.compile(rf"[^\W_{_CJK}]+")
_PIECE: Final = re.compile(rf"[{_CJK}]+|[^\s{_CJK}]+")


def has_cjk(text: str) -> bool:
    """True when the text holds at least one character that is searched by pairs."""
    return not text.isascii() and _RUN.search(text) is not None


def fold_width(run: str) -> str:
    """One spelling of half-width and compatibility forms (Unicode NFKC)."""
    return run if unicodedata.is_normalized("NFKC", run) else unicodedata.normalize("NFKC", run)


def pairs(run: str) -> list[str]:
    """The bigrams of one run, in order; a run of one character is itself."""
    run = fold_width(run)
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def run_terms(text: str) -> Iterator[str]:
    """Index terms of every run in order: its bigrams, then its last character."""
    for match in _RUN.finditer(text):
        run = fold_width(match.group())
        for at in range(len(run) - 1):
            yield run[at : at + 2]
        yield run[-1]


def mixed_word_terms(text: str) -> Iterator[str]:
    """The letters and digits that touch a run (`iPhone手机` holds `iPhone`): PostgreSQL keeps both as one word."""
    for match in _RUN.finditer(text):
        start, stop = match.span()
        if text[start - 1 : start].isalnum():
            yield _LETTERS.findall(text[max(0, start - MAX_MIXED_CHARACTERS) : start])[-1]
        if text[stop : stop + 1].isalnum():
            yield _LETTERS.findall(text[stop : stop + MAX_MIXED_CHARACTERS])[0]


def pieces(word: str) -> list[tuple[str, bool]]:
    """A word of a query cut where a run begins or ends, each piece with whether it is one."""
    return [(match.group(), _RUN.match(match.group()) is not None) for match in _PIECE.finditer(word)]
