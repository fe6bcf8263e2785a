"""One word in its plainer spellings: without accents, with the letters that stand in for them (docs/spec/search.md 5).

Folded are Latin, Greek, Cyrillic, Hebrew and Arabic marks. Scripts whose vowels are combining marks (Thai, the Indic
ones) keep theirs, since a word without them is another word; Hangul and Kana keep theirs as well.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Letters that Unicode does not take apart, and the Arabic letters that are typed for one another.
_LETTERS: Final = str.maketrans(
    {
        "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "ł": "l", "ŋ": "n",
        "þ": "th", "ŧ": "t", "ĸ": "k", "ſ": "s", "ς": "σ", "ى": "ي", "ة": "ه", "ی": "ي", "ک": "ك", "ـ": "",
    }
)  # fmt: skip
# How German and the Nordic languages write these letters where they are missing.
_DIGRAPHS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_MARKS: Final = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed]+")
_FOLDED_SCRIPTS: Final = re.compile("[\u00c0-\u058f\u0590-\u06ff\u1e00-\u1fff\ufb00-\ufdff\ufe70-\ufefc]")


def plain_spellings(word: str) -> tuple[str, ...]:
    """The other spellings of a word, in lower case: without accents, then with digraphs; none for a plain word.

    >>> plain_spellings("Müller")
    ('muller', 'mueller')
    """
    if word.isascii() or _FOLDED_SCRIPTS.search(word) is None:
        return ()
    lower = unicodedata.normalize("NFC", word).lower()
    found = dict.fromkeys((_without_marks(lower), _without_marks(lower.translate(_DIGRAPHS))))
    return tuple(spelling for spelling in found if spelling and spelling != lower)


def _without_marks(word: str) -> str:
    apart = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", _MARKS.sub("", apart)).translate(_LETTERS)
