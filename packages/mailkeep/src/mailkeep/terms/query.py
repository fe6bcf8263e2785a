"""Query side: what a person typed becomes a small tree of conditions (FIND-35; case 193).

Here is what words, "quoted phrases" and `word*` ask for; the grammar around them is `mailkeep.search.grammar`. The tree
holds texts only: search binds each as a parameter, so nothing typed ever becomes query syntax.

Accents and stems are no matter of the tree: whoever compiles it asks for a bare word in its other spellings and in the
languages of the mail as well, while quotes ask for what stands there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from mailkeep.terms.cjk import has_cjk, pairs, pieces
from mailkeep.terms.index import BEGINNING_CHARACTERS
from mailkeep.terms.pictures import picture_signs, without_pictures

MIN_PREFIX_CHARACTERS: Final = 2
"""A shorter beginning is a word: one letter with a star would gather a tenth of all postings."""

_LETTER: Final = re.compile(r"\w")
_ADDRESS_PATH: Final = re.compile(r"\w\.\w+/|^[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Word:
    """Occurs in the document; PostgreSQL's parser may find several words in it, all of which must occur."""

    text: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """The words of `text` follow one another."""

    text: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """Some word begins with `text`."""

    text: str


@dataclass(frozen=True, slots=True)
class Sign:
    """Holds this term exactly as it stands, untouched by PostgreSQL's parser."""

    text: str


@dataclass(frozen=True, slots=True)
class Within:
    """The condition holds for words of one weight alone: A subject, B people, C attachments."""

    node: QueryNode
    weight: Literal["A", "B", "C"]


@dataclass(frozen=True, slots=True)
class Not:
    """The condition does not hold."""

    node: QueryNode


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every condition holds; never empty."""

    nodes: tuple[QueryNode, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one condition holds; never empty."""

    nodes: tuple[QueryNode, ...]


QueryNode = Word | Phrase | Prefix | Sign | Within | Not | AllOf | AnyOf


def word_node(text: str) -> QueryNode | None:
    """What a bare word asks for; None when it holds no letter, digit or sign. A trailing star asks for beginnings."""
    return _word(unicodedata.normalize("NFC", text).strip('"'))


def phrase_node(text: str) -> QueryNode | None:
    """What quoted words ask for: these words in this order; None when there is none."""
    return _phrase(unicodedata.normalize("NFC", text))


def positive_needles(node: QueryNode | None) -> tuple[tuple[str, bool], ...]:
    """The texts to show in an extract, longest first, each with whether it is only the beginning of a word."""
    found = dict.fromkeys(_needles(node)) if node is not None else {}
    return tuple(sorted(found, key=lambda needle: (-len(needle[0]), needle)))


def _phrase(text: str) -> QueryNode | None:
    if signs := picture_signs(text):
        words = _phrase(without_pictures(text))
        return _all_of([*([words] if words is not None else []), *(Sign(sign) for sign in signs)])
    if _LETTER.search(text) is None:
        return None
    if not has_cjk(text):
        return Phrase(text)
    cut = [piece for word in text.split() for piece in pieces(word)]
    return _all_of([_quoted_piece(piece, is_run=is_run) for piece, is_run in cut if _LETTER.search(piece)])


def _quoted_piece(piece: str, *, is_run: bool) -> QueryNode:
    if not is_run:
        return Phrase(piece)
    cut = pairs(piece)
    return Prefix(cut[0]) if len(piece) == 1 else Phrase(" ".join(cut))


def _word(text: str) -> QueryNode | None:
    if signs := picture_signs(text):
        words = [node for part in without_pictures(text).split() if (node := _word(part)) is not None]
        return _all_of([*words, *(Sign(sign) for sign in signs)])
    if _LETTER.search(text) is None:
        return None
    if has_cjk(text):
        return _all_of([node for piece, is_run in pieces(text) for node in _bare_piece(piece, is_run=is_run)])
    stem = text.rstrip("*")
    if stem != text and len(stem) >= MIN_PREFIX_CHARACTERS:
        return Prefix(_beginning(stem))
    if len(text) > BEGINNING_CHARACTERS or _ADDRESS_PATH.search(text):
        return Prefix(_beginning(text))
    return Word(text)


def _bare_piece(piece: str, *, is_run: bool) -> Iterator[QueryNode]:
    """A run is asked for by its pairs without their order: that needs no look into the documents."""
    if not is_run:
        if _LETTER.search(piece):
            yield Word(piece)
    elif len(cut := pairs(piece)) == 1 and len(cut[0]) == 1:
        yield Prefix(cut[0])
    else:
        yield from (Word(pair) for pair in dict.fromkeys(cut))


def _beginning(text: str) -> str:
    """Cut like the index side; a web address without its scheme, which the parser keeps apart."""
    return re.sub(r"^[a-zA-Z][a-zA-Z0-9+.-]*://", "", text[:BEGINNING_CHARACTERS])


def _all_of(nodes: list[QueryNode]) -> QueryNode:
    return nodes[0] if len(nodes) == 1 else AllOf(tuple(nodes))


def _needles(node: QueryNode) -> Iterator[tuple[str, bool]]:
    match node:
        case Word(text):
            yield (text, False)
        case Phrase(text):
            yield from ((word, False) for word in text.split())
        case Prefix(text):
            yield (text, True)
        case Sign(text):
            yield (text, False)
        case AllOf(nodes) | AnyOf(nodes):
            for child in nodes:
                yield from _needles(child)
        case Within() | Not():
            return
