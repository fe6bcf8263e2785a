"""A tree of conditions as an SQL expression of type tsquery, every typed text a parameter.

A bare word is asked for as it stands, in its plainer spellings, and by its stem in each language that there is mail in.
A stem counts only in mail of its language: the vector's mark for that is part of the condition, since the English stem
of `dies` is an article in German.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from psycopg import sql

from mailkeep.languages import STEMMED
from mailkeep.search.marks import language_mark
from mailkeep.terms import AllOf, AnyOf, Not, Phrase, Prefix, QueryNode, Sign, Word, has_cjk, plain_spellings

MAX_STEMMED_CHARACTERS: Final = 32


class Writer:
    """Writes trees for one configuration; `parameters` collects what the expressions refer to, named by `prefix`."""

    def __init__(
        self, prefix: str, configuration: str, languages: Sequence[str] = (), *, with_marks: bool = True
    ) -> None:
        self.parameters: dict[str, object] = {}
        self._prefix = prefix
        self._configuration = self._bound(configuration)
        self._languages = languages
        self._with_marks = with_marks

    def write(self, node: QueryNode) -> sql.Composable:
        """The expression of one tree."""
        match node:
            case AllOf(nodes):
                return self._joined(" && ", nodes)
            case AnyOf(nodes):
                return self._joined(" || ", nodes)
            case Not(child):
                return sql.SQL("(!! {})").format(self.write(child))
            case Word(text):
                return self._word(text)
            case Phrase(text):
                return self._call("phraseto_tsquery", text)
            case Prefix(text):
                return self._call("to_tsquery", f"{_quoted(text)}:*")
            case Sign(text):
                return sql.SQL("{}::tsquery").format(self._bound(_quoted(text)))

    def _joined(self, operator: LiteralString, nodes: Sequence[QueryNode]) -> sql.Composable:
        return sql.SQL("({})").format(sql.SQL(operator).join([self.write(child) for child in nodes]))

    def _word(self, text: str) -> sql.Composable:
        spellings = [self._call("plainto_tsquery", spelling) for spelling in (text, *plain_spellings(text))]
        if text.isalpha() and len(text) <= MAX_STEMMED_CHARACTERS and not has_cjk(text):
            spellings += [self._stem(text, language) for language in self._languages]
        return spellings[0] if len(spellings) == 1 else sql.SQL("({})").format(sql.SQL(" || ").join(spellings))

    def _stem(self, text: str, language: str) -> sql.Composable:
        """The stem and the mark of its language; nothing for a stop word and where the stem is the word itself."""
        found: sql.Composable = sql.SQL("s")
        if self._with_marks:
            found = sql.SQL("s && {}::tsquery").format(self._bound(language_mark(language)))
        return sql.SQL("(SELECT CASE WHEN numnode(s) = 0 OR s = w THEN ''::tsquery ELSE {} END FROM {} x)").format(
            found,
            sql.SQL("(SELECT plainto_tsquery({}::regconfig, {}) AS s, {} AS w OFFSET 0)").format(
                self._bound(STEMMED[language]), self._bound(text), self._call("plainto_tsquery", text)
            ),
        )

    def _call(self, function: LiteralString, text: str) -> sql.Composable:
        return sql.SQL(function + "({}::regconfig, {})").format(self._configuration, self._bound(text))

    def _bound(self, value: str) -> sql.Composable:
        name = f"{self._prefix}{len(self.parameters)}"
        self.parameters[name] = value
        return sql.Placeholder(name)


def _quoted(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{quoted}'"
