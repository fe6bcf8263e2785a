"""The grammar of typed queries: text in, a small tree out, and back. Pure (FIND-35).

    query   =  choice, by itself
    choice  =  row { "OR" row }             OR binds weaker than standing side by side
    row     =  { factor }
    factor  =  ["-"] ( "(" choice ")" | term )
    term    =  [field ":"] ( '"' words '"' | word )

A name before a colon that is no field, a bracket without its partner, an OR without two sides, a quotation mark that
nothing ends: all of that is just text, since people paste what they find. Nothing here raises.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Field(StrEnum):
    """The fields, as typed; each is an answer to "where"."""

    FROM = "from"
    TO = "to"
    CC = "cc"
    SUBJECT = "subject"
    IN = "in"
    ACCOUNT = "account"
    HAS = "has"
    FILENAME = "filename"
    IS = "is"
    KEYWORD = "keyword"
    BEFORE = "before"
    AFTER = "after"
    LARGER = "larger"
    SMALLER = "smaller"
    LANGUAGE = "lang"


@dataclass(frozen=True, slots=True)
class Term:
    """One word or quoted text. `position` and `value_position` count characters of the query from 0."""

    value: str
    is_quoted: bool
    field: Field | None = None
    position: int = dataclasses.field(default=0, compare=False)
    value_position: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """Everything but what the part asks for."""

    part: Expression
    position: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Row:
    """All parts hold; at least two."""

    parts: tuple[Expression, ...]
    position: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the parts holds; at least two. `position` is that of the first OR."""

    parts: tuple[Expression, ...]
    position: int = dataclasses.field(default=0, compare=False)


Expression = Term | Negation | Row | Choice

MAX_DEPTH: Final = 20
"""Brackets inside brackets that count; deeper ones are text."""
_FIELDS: Final = {one.value: one for one in Field}
_OR: Final = "OR"


def parse(text: str) -> Expression | None:
    """The tree of a query; None when it holds nothing at all."""
    return _Parser(text).choice()


def render(expression: Expression) -> str:
    """The text of a tree, such that reading it again gives the same tree."""
    match expression:
        case Term(value, is_quoted, name):
            prefix = "" if name is None else f"{name.value}:"
            return f'{prefix}"{value}"' if is_quoted else f"{prefix}{value}"
        case Negation(part):
            return f"-{render(part)}" if isinstance(part, Term) else f"-({render(part)})"
        case Row(parts):
            return " ".join(f"({render(part)})" if isinstance(part, Row | Choice) else render(part) for part in parts)
        case Choice(parts):
            return " OR ".join(f"({render(part)})" if isinstance(part, Choice) else render(part) for part in parts)


class _Parser:
    """One pass over the text; `_at` is the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._brackets = _brackets(text)
        self._depth = 0

    def choice(self) -> Expression | None:
        """Rows up to the end of the text or of the bracket."""
        rows: list[Expression] = []
        parts: list[Expression] = []
        first_or = 0
        while (found := self._factor()) is not None:
            if isinstance(found, int):
                if parts:
                    rows.append(_row(parts))
                    parts = []
                    first_or = first_or or found
                continue
            parts.append(found)
        if parts:
            rows.append(_row(parts))
        if len(rows) < 2:
            return rows[0] if rows else None
        return Choice(tuple(rows), position=first_or)

    def _factor(self) -> Expression | int | None:
        """The next part; the position of an OR; None at the end."""
        while True:
            self._skip_blanks()
            start = self._at
            if start >= len(self._text) or (self._depth and self._brackets.get(start) is False):
                return None
            if self._brackets.get(start) is None and self._text.startswith(_OR, start) and self._ends(start + 2):
                self._at += 2
                return start
            is_negated = self._text[start] == "-" and not self._ends(start + 1)
            if is_negated:
                self._at += 1
            part = self._bracket() if self._brackets.get(self._at) is True else self._term()
            if part is not None:
                return Negation(part, position=start) if is_negated else part

    def _bracket(self) -> Expression | None:
        self._at += 1
        self._depth += 1
        inner = self.choice()
        self._depth -= 1
        self._at += 1  # its partner, which is there
        return inner

    def _term(self) -> Term | None:
        start = self._at
        name = self._field()
        value_at = self._at
        if self._text.startswith('"', value_at) and (end := self._text.find('"', value_at + 1)) > 0:
            self._at = end + 1
            return Term(self._text[value_at + 1 : end], True, name, start, value_at)
        while not self._ends(self._at):
            self._at += 1
        value = self._text[value_at : self._at]
        return Term(value, False, name, start, value_at) if value or name else None

    def _field(self) -> Field | None:
        colon = self._text.find(":", self._at, self._at + 10)
        name = None if colon < 0 else _FIELDS.get(self._text[self._at : colon].lower())
        if name is not None:
            self._at = colon + 1
        return name

    def _skip_blanks(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _ends(self, at: int) -> bool:
        """Whether a word ends before this place."""
        return at >= len(self._text) or self._text[at].isspace() or self._brackets.get(at) is False


def _row(parts: list[Expression]) -> Expression:
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Row) else (part,))]
    return flat[0] if len(flat) == 1 else Row(tuple(flat))


def _brackets(text: str) -> dict[int, bool]:
    """Places of brackets that group: True where one opens, False where its partner closes.

    One groups when it stands at the beginning of a word and has a partner; inside quotation marks there is none.
    """
    waiting: list[tuple[int, bool]] = []
    grouping: dict[int, bool] = {}
    at = 0
    while at < len(text):
        character = text[at]
        if character == '"' and (end := text.find('"', at + 1)) > 0:
            at = end
        elif character == "(":
            waiting.append((at, _leads(text, at)))
        elif character == ")" and waiting:
            opened, groups = waiting.pop()
            if groups and sum(one for _, one in waiting) < MAX_DEPTH:
                grouping[opened], grouping[at] = True, False
        at += 1
    return grouping


def _leads(text: str, at: int) -> bool:
    """Whether nothing but brackets, each with at most one minus, stands between the bracket and a blank before it."""
    start = at
    while start > 0 and text[start - 1] in "(-":
        start -= 1
    return (start == 0 or text[start - 1].isspace()) and "--" not in text[start:at]
