"""Query side: what a person typed becomes a small tree of conditions (FIND-35; case 193).

The whole grammar: words, "quoted phrases", OR between two of them (AND binds tighter), a leading - that excludes, and
`word*` for words that begin so. Everything else is just words; no input is a syntax error. The tree holds texts only:
search binds each as a parameter, so nothing typed ever becomes query syntax.

Accents and stems are no matter of the tree: whoever compiles it asks for a bare word in its other spellings and in the
languages of the mail as well, while quotes ask for what stands there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mailkeep.terms.cjk import has_cjk, pairs, pieces
from mailkeep.terms.index import BEGINNING_CHARACTERS
from mailkeep.terms.pictures import picture_signs, without_pictures

MIN_PREFIX_CHARACTERS: Final = 2
"""A shorter beginning is a word: one letter with a star would gather a tenth of all postings."""

_TOKEN: Final = re.compile(r'(-?)"([^"]*)"|(\S+)')
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


QueryNode = Word | Phrase | Prefix | Sign | Not | AllOf | AnyOf


def build_query(query_text: str) -> QueryNode | None:
    """Read a typed query; None when it holds no word at all (it then matches nothing)."""
    groups: list[list[QueryNode]] = [[]]
    for node in _tokens(unicodedata.normalize("NFC", query_text)):
        if node is None:
            groups.append([])
        else:
            groups[-1].append(node)
    alternatives = [_all_of(group) for group in groups if group]
    if not alternatives:
        return None
    return alternatives[0] if len(alternatives) == 1 else AnyOf(tuple(alternatives))


def positive_needles(node: QueryNode | None) -> tuple[tuple[str, bool], ...]:
    """The texts to show in an extract, longest first, each with whether it is only the beginning of a word."""
    found = dict.fromkeys(_needles(node)) if node is not None else {}
    return tuple(sorted(found, key=lambda needle: (-len(needle[0]), needle)))


def _tokens(text: str) -> Iterator[QueryNode | None]:
    """Conditions in order; None stands for OR."""
    for match in _TOKEN.finditer(text):
        minus, quoted, bare = match.groups()
        if bare == "OR":
            yield None
            continue
        if quoted is not None:
            node = _phrase(quoted)
        else:
            minus, bare = ("-", bare[1:]) if bare.startswith("-") else ("", bare)
            node = _word(bare.strip('"'))
        if node is not None:
            yield Not(node) if minus else node


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
        case Not():
            return
