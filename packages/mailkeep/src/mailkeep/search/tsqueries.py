"""A tree of conditions as an SQL expression of type tsquery, every typed text a parameter.

A bare word is asked for as it stands, in its plainer spellings, and by its stem in each language that there is mail in.
A short stem counts only in mail of its language, since the English one of `dies` is an article in German: the vector's
mark for that is then part of the condition. It costs a walk through the mail of a language, and long stems that two
languages have in common mostly mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from psycopg import sql

from mailkeep.languages import STEMMED
from mailkeep.search.marks import language_mark
from mailkeep.terms import AllOf, AnyOf, Not, Phrase, Prefix, QueryNode, Sign, Within, Word, has_cjk, plain_spellings

MAX_STEMMED_CHARACTERS: Final = 32
SHORT_STEM_CHARACTERS: Final = 3


class Writer:
    """Writes trees for one configuration; `parameters` collects what the expressions refer to, named by `prefix`."""

    def __init__(
        self, prefix: str, configuration: str, languages: Sequence[str] = (), *, with_marks: bool = True
    ) -> None:
        self.parameters: dict[str, object] = {}
        self.is_weighted = False
        self._prefix = prefix
        self._configuration = self._bound(configuration)
        self._languages = languages
        self._with_marks = with_marks

    def write(self, node: QueryNode, weight: str = "") -> sql.Composable:
        """The expression of one tree; `weight` restricts its words to places of that weight."""
        match node:
            case AllOf(nodes):
                return self._joined(" && ", nodes, weight)
            case AnyOf(nodes):
                return self._joined(" || ", nodes, weight)
            case Not(child):
                return sql.SQL("(!! {})").format(self.write(child, weight))
            case Within(child, inner):
                self.is_weighted = True
                return self.write(child, inner)
            case Word(text):
                return self._word(text, weight)
            case Phrase(text):
                return self._call("phraseto_tsquery", text, weight)
            case Prefix(text):
                return self._parsed(f"{_quoted(text)}:*{weight}")
            case Sign(text):
                return sql.SQL("{}::tsquery").format(self._bound(_quoted(text) + (f":{weight}" if weight else "")))

    def _joined(self, operator: LiteralString, nodes: Sequence[QueryNode], weight: str) -> sql.Composable:
        return sql.SQL("({})").format(sql.SQL(operator).join([self.write(child, weight) for child in nodes]))

    def _word(self, text: str, weight: str) -> sql.Composable:
        spellings = [self._call("plainto_tsquery", spelling, weight) for spelling in (text, *plain_spellings(text))]
        if text.isalpha() and len(text) <= MAX_STEMMED_CHARACTERS and not has_cjk(text):
            spellings += [self._stem(text, language, weight) for language in self._languages]
        return spellings[0] if len(spellings) == 1 else sql.SQL("({})").format(sql.SQL(" || ").join(spellings))

    def _stem(self, text: str, language: str, weight: str) -> sql.Composable:
        """The stem, a short one with the mark of its language; nothing for a stop word and for the word itself."""
        found: sql.Composable = sql.SQL("s")
        if self._with_marks:
            found = sql.SQL("CASE WHEN length(s::text) <= {} THEN s && {}::tsquery ELSE s END").format(
                sql.Literal(SHORT_STEM_CHARACTERS + len("''")), self._bound(language_mark(language))
            )
        return sql.SQL("(SELECT CASE WHEN numnode(s) = 0 OR s = w THEN ''::tsquery ELSE {} END FROM {} x)").format(
            found,
            sql.SQL("(SELECT {} AS s, {} AS w OFFSET 0)").format(
                self._call("plainto_tsquery", text, weight, self._bound(STEMMED[language])),
                self._call("plainto_tsquery", text, weight),
            ),
        )

    def _call(
        self, function: LiteralString, text: str, weight: str, configuration: sql.Composable | None = None
    ) -> sql.Composable:
        """Words as PostgreSQL's parser finds them; with a weight, several of them follow one another."""
        if weight:
            return self._parsed(f"{_quoted(text)}:{weight}", configuration)
        return sql.SQL(function + "({}::regconfig, {})").format(configuration or self._configuration, self._bound(text))

    def _parsed(self, text: str, configuration: sql.Composable | None = None) -> sql.Composable:
        return sql.SQL("to_tsquery({}::regconfig, {})").format(configuration or self._configuration, self._bound(text))

    def _bound(self, value: str) -> sql.Composable:
        name = f"{self._prefix}{len(self.parameters)}"
        self.parameters[name] = value
        return sql.Placeholder(name)


def _quoted(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{quoted}'"
