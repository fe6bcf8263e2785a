"""All filters as one condition on `stored_emails e`: fixed pieces of SQL, every value a bound parameter."""

# ruff: noqa: S608  -- joined from literals of this module; values are parameters

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final, LiteralString

from mailkeep.search.model import Filters
from mailkeep.terms import has_cjk

VISIBLE: Final[LiteralString] = "(e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete)"

_MARKS: Final = re.compile("[\u0300-\u036f]")
_SENDER: Final[LiteralString] = (
    "coalesce(e.sender_display_name, '') || ' ' || coalesce(e.sender_normalized_address, '')"
)
_TO: Final[LiteralString] = "array_to_string(e.to_addresses || e.cc_addresses, ' ')"
_CC: Final[LiteralString] = "array_to_string(e.cc_addresses, ' ')"
_PEOPLE: Final[LiteralString] = (
    "EXISTS (SELECT 1 FROM email_search_documents p WHERE p.stored_email_id = e.id AND {matches})"
)
_DIGITS: Final[tuple[LiteralString, ...]] = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")


@dataclass(frozen=True, slots=True)
class Condition:
    """A piece of a WHERE clause with its parameters."""

    text: LiteralString
    parameters: dict[str, object]


def filter_condition(filters: Filters) -> Condition:
    """The condition of normalized filters, visibility included; array filters in the form that GIN serves."""
    writer = _Writer()
    return Condition(writer.conjunction(filters, VISIBLE), writer.parameters)


@dataclass(slots=True)
class _Writer:
    parameters: dict[str, object] = field(default_factory=dict)

    def conjunction(self, filters: Filters, *clauses: LiteralString) -> LiteralString:
        """Every filter that is named, and the given clauses."""
        found = [*clauses, *self._addresses(filters), *self._people(filters), *self._values(filters)]
        found += ["(" + " OR ".join([self._branch(one) for one in group]) + ")" for group in filters.any_of]
        # A column without a value neither is nor is not what is excluded: it stays.
        found += [f"({self._branch(one)}) IS NOT TRUE" for one in filters.excluding]
        return " AND ".join(found) if found else "true"

    def _branch(self, filters: Filters) -> LiteralString:
        return "(" + self.conjunction(filters) + ")"

    def _addresses(self, filters: Filters) -> list[LiteralString]:
        clauses: list[LiteralString] = []
        if filters.sender_address is not None:
            clauses.append(f"e.sender_normalized_address = {self._bound(filters.sender_address)}")
        if filters.recipient_address is not None:
            bound = self._bound(filters.recipient_address)
            clauses.append(f"(e.to_addresses @> ARRAY[{bound}]::text[] OR e.cc_addresses @> ARRAY[{bound}]::text[])")
        if filters.cc_address is not None:
            clauses.append(f"e.cc_addresses @> ARRAY[{self._bound(filters.cc_address)}]::text[]")
        if filters.keyword is not None:
            clauses.append(f"(e.remote_keywords || e.remote_labels) @> ARRAY[{self._bound(filters.keyword)}]::text[]")
        return clauses

    def _people(self, filters: Filters) -> list[LiteralString]:
        clauses: list[LiteralString] = []
        if filters.sender_text is not None:
            clauses.append(_matches(_SENDER, self._bound(person_pattern(filters.sender_text))))
        if filters.recipient_text is not None:
            # Names of recipients are kept without their roles: one that is not the sender's is a recipient's.
            bound = self._bound(person_pattern(filters.recipient_text))
            named = _PEOPLE.replace("{matches}", _matches("coalesce(p.participant_names, '')", bound))
            clauses.append(f"({_matches(_TO, bound)} OR ({named} AND NOT {_matches(_SENDER, bound)}))")
        if filters.cc_text is not None:
            clauses.append(_matches(_CC, self._bound(person_pattern(filters.cc_text))))
        return clauses

    def _values(self, filters: Filters) -> list[LiteralString]:
        clauses: list[LiteralString] = []
        bounds: tuple[tuple[LiteralString, object], ...] = (
            ("e.received_at >=", filters.received_on_or_after),
            ("e.received_at <", filters.received_before),
            ("e.is_remotely_seen =", filters.is_remotely_seen),
            ("e.is_remotely_flagged =", filters.is_remotely_flagged),
            ("e.is_remotely_answered =", filters.is_remotely_answered),
            ("e.is_remotely_draft =", filters.is_remotely_draft),
            ("e.size_octets >=", filters.size_at_least),
            ("e.size_octets <", filters.size_below),
            ("e.email_thread_id =", filters.thread_id),
        )
        clauses += [f"{comparison} {self._bound(value)}" for comparison, value in bounds if value is not None]
        if filters.subject_fragment is not None:
            clauses.append(f"e.subject ILIKE {self._bound(_contains(filters.subject_fragment))} ESCAPE '\\'")
        if filters.has_attachments is not None:
            clauses.append("e.attachment_count > 0" if filters.has_attachments else "e.attachment_count = 0")
        if filters.attachment_name is not None:
            bound = self._bound(_contains(filters.attachment_name))
            clauses.append(
                "(e.attachment_count > 0 AND EXISTS (SELECT 1 FROM email_attachment_texts a"
                f" WHERE a.stored_email_id = e.id AND a.file_name ILIKE {bound} ESCAPE '\\'))"
            )
        return clauses

    def _bound(self, value: object) -> LiteralString:
        name: LiteralString = "filter" + digits(len(self.parameters))
        self.parameters[name] = value
        return "%(" + name + ")s"


def digits(number: int) -> LiteralString:
    """A number's spelling as text that the type checker knows to be ours."""
    text: LiteralString = ""
    for digit in str(number):
        text += _DIGITS[int(digit)]
    return text


def person_pattern(text: str) -> str:
    """A regular expression for words of a name or an address: whole ones, in order; a star leaves the last one open.

    Scripts without blanks between words are looked for anywhere.
    """
    is_open = text.endswith("*")
    words = _plain(text.rstrip("*")).split()
    pattern = r"\W+".join(re.sub(r"(\W)", r"\\\1", word) for word in words)
    if has_cjk(text) or not words:
        return pattern
    start = r"\m" if words[0][0].isalnum() else ""
    return start + pattern + ("" if is_open or not words[-1][-1].isalnum() else r"\M")


def _plain(text: str) -> str:
    """Lower case without accents, as `_matches` sees it."""
    return _MARKS.sub("", unicodedata.normalize("NFD", text.lower()))


def _matches(column: LiteralString, bound: LiteralString) -> LiteralString:
    return f"regexp_replace(normalize(lower({column}), NFD), '[\u0300-\u036f]', '', 'g') ~ {bound}"


def _contains(fragment: str) -> str:
    """A pattern of LIKE in which nothing of the fragment is a wildcard (FIND-13)."""
    literal = fragment.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{literal}%"
