"""The query language: what a typed query asks for, in the values of a request. Pure (FIND-35).

The fields become the same filters and names that callers give in arguments; there is no second mechanism. Words stay a
tree for the index. What cannot be understood is refused with the place of its first character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, tzinfo
from typing import Final, TypeVar

from mailkeep.errors import FilterRefused
from mailkeep.languages import LANGUAGE_MARK
from mailkeep.search.grammar import Choice, Expression, Field, Negation, Row, Term, parse
from mailkeep.search.model import Filters
from mailkeep.search.values import read_instant, read_size
from mailkeep.terms import AllOf, AnyOf, Not, QueryNode, Sign, Within, phrase_node, word_node

T = TypeVar("T")

NO_FILTERS: Final = Filters()

JUNK_NAMES: Final = frozenset({"junk", "spam"})
EVERYWHERE: Final = frozenset({"anywhere", "everywhere"})

_IS: Final[dict[str, Filters]] = {
    "unread": Filters(is_remotely_seen=False),
    "read": Filters(is_remotely_seen=True),
    "flagged": Filters(is_remotely_flagged=True),
    "starred": Filters(is_remotely_flagged=True),
    "unflagged": Filters(is_remotely_flagged=False),
    "answered": Filters(is_remotely_answered=True),
    "unanswered": Filters(is_remotely_answered=False),
    "draft": Filters(is_remotely_draft=True),
}
_HAS: Final[dict[str, Filters]] = {
    "attachment": Filters(has_attachments=True),
    "attachments": Filters(has_attachments=True),
}


class QueryMalformed(FilterRefused):
    """A typed query that cannot be understood; `position` counts its characters from 0. It never quotes the query."""

    def __init__(self, problem: str, *, position: int) -> None:
        super().__init__(f"query_text, character {position + 1}: {problem}")
        self.problem = problem
        self.position = position


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """A query in the values of a request.

    `words` find, rank and are shown; `narrowing` only narrows what is found, for fields whose filter has no index.
    `folders` and `accounts` name where to look (empty: anywhere), `excluded_folders` where not.
    """

    words: QueryNode | None = None
    narrowing: QueryNode | None = None
    filters: Filters = NO_FILTERS
    folders: tuple[str, ...] = ()
    excluded_folders: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    includes_junk: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing: signs alone, such as a single star."""
        return self == TypedQuery()


def read_query(text: str, *, now: datetime, zone: tzinfo) -> TypedQuery:
    """Read a typed query; days begin in `zone`, and `7d` counts back from `now`. Raises QueryMalformed."""
    expression = parse(text)
    if expression is None:
        return TypedQuery()
    reader = _Reader(now, zone)
    for part in expression.parts if isinstance(expression, Row) else (expression,):
        reader.add(part)
    return reader.query()


class _Reader:
    """Collects the parts of the outermost row."""

    def __init__(self, now: datetime, zone: tzinfo) -> None:
        self._now = now
        self._zone = zone
        self._words: list[QueryNode] = []
        self._narrowing: list[QueryNode] = []
        self._filters: list[Filters] = []
        self._excluding: list[Filters] = []
        self._folders: list[str] = []
        self._excluded_folders: list[str] = []
        self._accounts: list[str] = []
        self._includes_junk = False

    def add(self, part: Expression) -> None:
        """One part that must hold."""
        if all(_is_place(term) for term in _terms(part)):
            self._add_places(part)
        elif all(_is_word(term) for term in _terms(part)):
            if (node := self.word_node(part)) is not None:
                self._words.append(node)
        elif isinstance(part, Row):
            for inner in part.parts:
                self.add(inner)
        elif isinstance(part, Negation):
            self._excluding.append(self._filter(part.part))
        else:
            self._filters.append(self._filter(part))
            if (node := _narrowing(part)) is not None:
                self._narrowing.append(node)

    def query(self) -> TypedQuery:
        """Everything together."""
        filters = conjunction(self._filters)
        return TypedQuery(
            words=_all_of(self._words),
            narrowing=_all_of(self._narrowing),
            filters=replace(filters, excluding=(*filters.excluding, *self._excluding)),
            folders=tuple(self._folders),
            excluded_folders=tuple(self._excluded_folders),
            accounts=tuple(self._accounts),
            includes_junk=self._includes_junk,
        )

    def _add_places(self, part: Expression) -> None:
        """Folders and accounts: by themselves, excluded, or as alternatives to one another."""
        if isinstance(part, Negation) and isinstance(part.part, Term) and part.part.field is Field.IN:
            self._excluded_folders.append(folder_selector(_value(part.part)))
            return
        if isinstance(part, Negation):
            raise QueryMalformed("only single folders can be excluded: -in:name", position=part.position)
        terms = list(_terms(part))
        if isinstance(part, Choice) and (
            len({term.field for term in terms}) > 1 or not all(isinstance(one, Term) for one in part.parts)
        ):
            raise QueryMalformed("folders and accounts cannot be alternatives to each other", position=part.position)
        for term in terms:
            name = _value(term)
            if term.field is Field.ACCOUNT:
                self._accounts.append(name)
            elif name.casefold() in EVERYWHERE:
                self._includes_junk = True
            else:
                self._folders.append(folder_selector(name))
                self._includes_junk |= name.casefold() in JUNK_NAMES

    def word_node(self, part: Expression) -> QueryNode | None:
        """The words of a part in which there are only words."""
        match part:
            case Term():
                return _word_of(part)
            case Negation(inner):
                node = self.word_node(inner)
                return None if node is None else Not(node)
            case Row(parts):
                return _all_of([node for one in parts if (node := self.word_node(one)) is not None])
            case Choice(parts):
                nodes = tuple(node for one in parts if (node := self.word_node(one)) is not None)
                return nodes[0] if len(nodes) == 1 else AnyOf(nodes) if nodes else None

    def _filter(self, part: Expression) -> Filters:
        """The filter of a part that is no plain row of words."""
        match part:
            case Term():
                if _is_word(part) or _is_place(part):
                    raise QueryMalformed(
                        "words, folders and accounts cannot be alternatives to other fields or be excluded together "
                        "with them",
                        position=part.position,
                    )
                return self._field_filter(part)
            case Negation(inner):
                return Filters(excluding=(self._filter(inner),))
            case Row(parts):
                return conjunction([self._filter(one) for one in parts])
            case Choice(parts):
                return Filters(any_of=(tuple(self._filter(one) for one in parts),))

    def _field_filter(self, term: Term) -> Filters:
        value = _value(term)
        match term.field:
            case Field.FROM:
                return _person(value, term, whole="sender_address", part="sender_text")
            case Field.TO:
                return _person(value, term, whole="recipient_address", part="recipient_text")
            case Field.CC:
                return _person(value, term, whole="cc_address", part="cc_text")
            case Field.IS:
                return _one_of(_IS, term)
            case Field.HAS:
                return _one_of(_HAS, term)
            case Field.FILENAME:
                return Filters(attachment_name=value)
            case Field.KEYWORD:
                return Filters(keyword=value)
            case Field.AFTER | Field.BEFORE:
                instant = _read(lambda: read_instant(value, now=self._now, zone=self._zone), term)
                is_after = term.field is Field.AFTER
                return Filters(received_on_or_after=instant) if is_after else Filters(received_before=instant)
            case Field.LARGER:
                return Filters(size_at_least=_read(lambda: read_size(value), term))
            case Field.SMALLER:
                return Filters(size_below=_read(lambda: read_size(value), term))
            case _:
                raise AssertionError("words and places are no filters")


def meaning_text(text: str) -> str:
    """What a query says in words, for a model: no fields but the subject's, nothing that is excluded."""
    return " ".join(term.value.rstrip("*") for term in _positive_terms(parse(text)) if term.value.strip(" *")).strip()


def strict_words(text: str) -> QueryNode | None:
    """What a message must hold although it is found by its meaning: the quoted, the excluded, words of one field."""
    expression = parse(text)
    reader = _Reader(datetime.min.replace(tzinfo=UTC), UTC)
    nodes = []
    for part in () if expression is None else expression.parts if isinstance(expression, Row) else (expression,):
        terms = list(_terms(part))
        is_strict = isinstance(part, Negation) or any(term.is_quoted or term.field is not None for term in terms)
        if is_strict and all(_is_word(term) for term in terms) and (node := reader.word_node(part)) is not None:
            nodes.append(node)
    return _all_of(nodes)


def _positive_terms(part: Expression | None) -> Iterable[Term]:
    match part:
        case Term():
            if part.field in (None, Field.SUBJECT):
                yield part
        case Row(parts) | Choice(parts):
            for one in parts:
                yield from _positive_terms(one)
        case _:
            return


def folder_selector(name: str) -> str:
    """How the resolver names a folder typed as `in:`: an alias, or a role for the names that people use for roles."""
    return _ROLES.get(name.casefold(), name)


_ROLES: Final = {
    "sent": "role:Sent",
    "drafts": "role:Drafts",
    "draft": "role:Drafts",
    "trash": "role:Trash",
    "bin": "role:Trash",
    "archive": "role:Archive",
    "junk": "role:Junk",
    "spam": "role:Junk",
    "inbox": "role:Inbox",
}


def _terms(part: Expression) -> Iterable[Term]:
    match part:
        case Term():
            yield part
        case Negation(inner):
            yield from _terms(inner)
        case Row(parts) | Choice(parts):
            for one in parts:
                yield from _terms(one)


def _is_word(term: Term) -> bool:
    return term.field in (None, Field.SUBJECT, Field.LANGUAGE)


def _is_place(term: Term) -> bool:
    return term.field in (Field.IN, Field.ACCOUNT)


def _value(term: Term) -> str:
    if not term.value.strip():
        raise QueryMalformed("the field needs a value right behind its colon", position=term.value_position)
    return term.value.strip()


def _word_of(term: Term) -> QueryNode | None:
    if term.field is Field.LANGUAGE:
        code = _value(term).lower()
        if not (code.isascii() and code.isalpha() and len(code) <= 3):
            raise QueryMalformed("a language is a code such as en or de", position=term.value_position)
        return Sign(LANGUAGE_MARK + code)
    value = _value(term) if term.field is not None else term.value
    node = phrase_node(value) if term.is_quoted else word_node(value)
    return node if node is None or term.field is None else Within(node, "A")


def _narrowing(part: Expression) -> QueryNode | None:
    """What the index can say of fields beforehand: the message holds such a word.

    Not that it is among the people: weights are in no index, so each match would be read for them.
    """
    match part:
        case Term(value, is_quoted, Field.FROM | Field.TO | Field.CC):
            words = value.split() if is_quoted else [value]
            return _all_of([node for word in words if (node := word_node(word)) is not None])
        case Choice(parts):
            nodes = [node for one in parts if (node := _narrowing(one)) is not None]
            return AnyOf(tuple(nodes)) if len(nodes) == len(parts) else None
        case Row(parts):
            return _all_of([node for one in parts if (node := _narrowing(one)) is not None])
        case _:
            return None


def _person(value: str, term: Term, *, whole: str, part: str) -> Filters:
    """A whole address is looked up as such; anything else are words of the name or the address."""
    local_part, at, domain = value.rpartition("@")
    if at and local_part and domain and not term.is_quoted and "*" not in value:
        return Filters(**{whole: value})  # type: ignore[arg-type]
    if not any(character.isalnum() for character in value):
        raise QueryMalformed("a person is a name, an address or a part of either", position=term.value_position)
    return Filters(**{part: value})  # type: ignore[arg-type]


def _one_of(known: dict[str, Filters], term: Term) -> Filters:
    found = known.get(_value(term).lower())
    if found is None:
        raise QueryMalformed(f"this field takes {', '.join(sorted(known))}", position=term.value_position)
    return found


def _read(read: Callable[[], T], term: Term) -> T:
    try:
        return read()
    except ValueError as error:
        raise QueryMalformed(str(error), position=term.value_position) from None


def conjunction(filters: Iterable[Filters]) -> Filters:
    """One filter that holds where all hold; a field that is named twice becomes a further condition."""
    merged = Filters()
    for one in filters:
        clashes = any(
            getattr(one, item.name) is not None and getattr(merged, item.name) not in (None, getattr(one, item.name))
            for item in fields(Filters)
            if item.name not in ("any_of", "excluding")
        )
        if clashes:
            merged = replace(merged, any_of=(*merged.any_of, (one,)))
            continue
        named = {
            item.name: getattr(one, item.name)
            for item in fields(Filters)
            if item.name not in ("any_of", "excluding") and getattr(one, item.name) is not None
        }
        merged = replace(
            merged, **named, any_of=(*merged.any_of, *one.any_of), excluding=(*merged.excluding, *one.excluding)
        )
    return merged


def _all_of(nodes: list[QueryNode]) -> QueryNode | None:
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    return AllOf(tuple(nodes))
