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

MAX_PART_CHARACTERS: Final = 64
"""Longer parts are encodings and tracking tokens, not words."""
MAX_PARTS: Final = 4_000
"""Compound parts of one text; past it the text is a list of links."""
BEGINNING_CHARACTERS: Final = 255
"""How much of an over-long word is found by its beginning. Query words are cut at the same length."""
MAX_LONG_WORDS: Final = 64

_LONG_WORD: Final = re.compile(r"(?<!\S)\S{500}")
# Letters and digits joined by marks that the parser does not cut at. Possessive, and only from the start of a run of
# letters: linear on any input, also on a megabyte without a blank.
_COMPOUND: Final = re.compile(r"(?<!\w)\w++(?:[@./:+=&~%?#-]++\w++)+")
_JOINS: Final = re.compile(r"[@./]|-\d")
_SPLIT: Final = re.compile(r"[\W_]+")
_HOST: Final = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.ASCII | re.IGNORECASE)


def index_terms(text: str) -> str | None:
    """Extra terms of one text, blank-separated in order of appearance; None when PostgreSQL's words suffice.

    CJK terms keep every repetition, since rank counts them; parts of compounds are given once each.
    """
    terms = " ".join(chain(_cjk_terms(text), _distinct(_compound_parts(text)), _beginnings(text)))
    return terms or None


def address_terms(addresses: Iterable[str]) -> str | None:
    """Terms that find addresses by their parts: local part and its words, domain, its parents and its labels."""
    terms = " ".join(_distinct(part for address in addresses for part in _parts_of(address)))
    return terms or None


def term_octets(terms: str | None) -> int:
    """Upper bound of what the terms cost in a tsvector: their octets, a position each, alignment."""
    if not terms:
        return 0
    return len(terms.encode()) + 5 * (terms.count(" ") + 1)


def _cjk_terms(text: str) -> Iterator[str]:
    return chain(run_terms(text), mixed_word_terms(text)) if has_cjk(text) else iter(())


def _compound_parts(text: str) -> Iterator[str]:
    for match in _COMPOUND.finditer(text):
        compound = match.group()
        if _JOINS.search(compound) is not None:
            yield from _parts_of(compound)


def _parts_of(compound: str) -> Iterator[str]:
    for part in _SPLIT.split(compound):
        if 1 < len(part) <= MAX_PART_CHARACTERS:
            yield part.lower()
    if "." in compound:
        for host in _HOST.findall(compound):
            yield from _parent_domains(host)


def _parent_domains(host: str) -> Iterator[str]:
    """`a.example.com` and `example.com` of `a.example.com`; numbers are no domains."""
    labels = host.lower().split(".")
    if labels[-1].isdigit() or len(host) > MAX_PART_CHARACTERS * 2:
        return
    for at in range(len(labels) - 1):
        yield ".".join(labels[at:])


def _beginnings(text: str) -> Iterator[str]:
    """The starts of words that PostgreSQL may drop for their length; CJK runs are found by their pairs instead."""
    found = (match.group()[:BEGINNING_CHARACTERS] for match in islice(_LONG_WORD.finditer(text), MAX_LONG_WORDS))
    return (beginning for beginning in found if not has_cjk(beginning))


def _distinct(terms: Iterable[str]) -> Iterable[str]:
    return islice(dict.fromkeys(terms), MAX_PARTS)
