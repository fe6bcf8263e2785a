"""Index side: the terms that a text needs beside the words PostgreSQL's parser finds in it.

The parser keeps `ann@example.com`, `www.example.com/report.pdf` and a CJK run as single words and drops words over
2,047 octets, so their parts and beginnings are given as terms of their own (case 188, docs/spec/search.md Beyond 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from mailkeep.terms.cjk import has_cjk, mixed_word_terms, run_terms

MAX_PART_CHARACTERS: Final = 32
"""Longer parts are encodings and tracking tokens, not words."""
MAX_HOST_CHARACTERS: Final = 128
"""Hosts are looked for in so much of the beginning of a word."""
MAX_PARTS: Final = 4_000
"""Compound parts of one text; past it the text is a list of links."""
BEGINNING_CHARACTERS: Final = 255
"""How much of an over-long word is found by its beginning. Query words are cut at the same length."""
LONG_WORD_CHARACTERS: Final = 500
"""From here on a word may exceed the parser's 2,047 octets."""
MAX_LONG_WORDS: Final = 64
MAX_COMPOUND_CHARACTERS: Final = 256
"""How far from a joining mark its word is looked at."""

# Marks between letters or digits that the parser does not cut at. Prose has few, so they are looked for first.
_JOINTS: Final = "@./-"
_SPLIT: Final = re.compile(r"[\W_]+")
_HOST: Final = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.ASCII)
_LONG_WORD: Final = re.compile(rf"(?<!\S)\S{{{LONG_WORD_CHARACTERS}}}")


def index_terms(text: str) -> str | None:
    """Extra terms of one text, blank-separated; None when PostgreSQL's words suffice.

    CJK terms keep every repetition and their order, since rank and phrases count them; parts of compounds and the
    beginnings of over-long words are given once each.
    """
    terms = " ".join(chain(_cjk_terms(text), _distinct(_compound_parts(text)), _beginnings(text)))
    return terms or None


def address_terms(addresses: Iterable[str]) -> str | None:
    """Terms that find addresses by their parts: local part and its words, domain, its parents and its labels."""
    terms = " ".join(_distinct(part for address in addresses for part in _parts_of(address.lower())))
    return terms or None


def term_octets(terms: str | None) -> int:
    """Upper bound of what the terms cost in a tsvector: their octets, a position each, alignment."""
    if not terms:
        return 0
    return len(terms.encode()) + 5 * (terms.count(" ") + 1)


def _cjk_terms(text: str) -> Iterator[str]:
    return chain(run_terms(text), mixed_word_terms(text)) if has_cjk(text) else iter(())


def _compound_parts(text: str) -> Iterator[str]:
    for word in dict.fromkeys(_joined_words(text)):
        yield from _parts_of(word.lower())


def _joined_words(text: str) -> Iterator[str]:
    """Blank-free stretches with a joining mark inside; one with several kinds of marks comes once for each kind."""
    for mark in _JOINTS:
        position = 0
        while (at := text.find(mark, position)) >= 0:
            following = text[at + 1 : at + 2]
            if following.isdigit() or (mark != "-" and following.isalpha()):
                word, position = _word_around(text, at, position)
                yield word
            else:
                position = at + 1


def _word_around(text: str, at: int, earliest: int) -> tuple[str, int]:
    """The blank-free text around a place, at most MAX_COMPOUND_CHARACTERS to either side, and where it ends."""
    left = text[max(earliest, at - MAX_COMPOUND_CHARACTERS) : at]
    right = text[at : at + MAX_COMPOUND_CHARACTERS].split(None, 1)[0]
    return left[max(left.rfind(" "), left.rfind("\n"), left.rfind("\t")) + 1 :] + right, at + len(right)


def _parts_of(word: str) -> Iterator[str]:
    """The parts of one joined word in lower case, and the hosts in it with their parent domains."""
    for part in _SPLIT.split(word):
        if 1 < len(part) <= MAX_PART_CHARACTERS:
            yield part
    if "." in word:
        for host in _HOST.findall(word[:MAX_HOST_CHARACTERS]):
            yield from _parent_domains(host)


def _parent_domains(host: str) -> Iterator[str]:
    """`a.example.com` and `example.com` of `a.example.com`; numbers are no domains."""
    last = host[host.rindex(".") + 1 :]
    if last.isdigit():
        return
    at = 0
    while at < len(host) - len(last):
        yield host[at:]
        at = host.index(".", at) + 1


def _beginnings(text: str) -> Iterator[str]:
    """The starts of words that PostgreSQL may drop for their length; CJK runs are found by their pairs instead."""
    if not _has_long_word(text):
        return
    for match in islice(_LONG_WORD.finditer(text), MAX_LONG_WORDS):
        if not has_cjk(beginning := match.group()[:BEGINNING_CHARACTERS]):
            yield beginning


def _has_long_word(text: str) -> bool:
    """Whether some block of half that length holds no blank; a quick look that a long word cannot escape."""
    step = LONG_WORD_CHARACTERS // 2
    blocks = (text[at : at + step] for at in range(0, len(text) - step + 1, step))
    return any(block.split(None, 1) == [block] for block in blocks)


def _distinct(terms: Iterable[str]) -> Iterable[str]:
    return islice(dict.fromkeys(terms), MAX_PARTS)
