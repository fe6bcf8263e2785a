"""The plainer spellings and picture signs of one message, as a tsvector. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mailkeep.terms import has_cjk, picture_signs, plain_spellings

MAX_SPELLINGS: Final = 2_000
"""Terms that one text adds at most."""
MAX_WORD_CHARACTERS: Final = 64
# Letters, digits and the marks that belong to letters.
_WORD: Final = re.compile("[\\w\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed]+")


def folded_vector(*, subject: str, names: str, body: str) -> str | None:
    """The text of a tsvector: subject weighs A, people B, body D; None when there is nothing to add.

    All stand at one place, since a word without a place would meet a query for any weight.

    >>> folded_vector(subject="Über 🎉", names="", body="")
    "'uber':1A 'ueber':1A '🎉':1A"
    """
    weighed: dict[str, str] = {}
    for text, weight in ((subject, "A"), (names, "B"), (body, "D")):
        for term in _terms(text):
            weighed.setdefault(term, weight)
    return " ".join(f"'{term}':1{weight}" for term, weight in weighed.items()) or None


def _terms(text: str) -> list[str]:
    return [] if text.isascii() else list(dict.fromkeys(_all_terms(text)))[:MAX_SPELLINGS]


def _all_terms(text: str) -> Iterator[str]:
    """Letters, digits and signs only, so that none needs quoting inside a tsvector."""
    words: Iterable[str] = dict.fromkeys(_WORD.findall(text))
    for word in words:
        if not word.isascii() and len(word) <= MAX_WORD_CHARACTERS and not has_cjk(word):
            yield from plain_spellings(word)
    yield from picture_signs(text)
