"""The search document of one message: what lexical search reads, in the columns of `email_search_documents`.

Pure. Subject, people and body are given apart, because they weigh A, B and D in the document's vector, each with the
extra terms of `mailkeep.terms`. The server builds the vector from these columns; a vector over 1,048,575 octets would
make the row unwritable (SQLSTATE 54000), so the texts are bounded here such that the worst letters fit (DATA-29).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import ClassVar, Final

from mailkeep.terms import address_terms, index_terms, term_octets
from mailkeep_message import Address, Message

MAX_SUBJECT_CHARACTERS: Final = 2_000
MAX_PARTICIPANTS: Final = 64
MAX_ADDRESS_OCTETS: Final = 320
MAX_NAME_CHARACTERS: Final = 128
MAX_INDEXED_BODY_CHARACTERS: Final = 100_000
"""The same number stands in the column's expression."""

_VECTOR_OCTETS: Final = 1_000_000
"""What a document may cost by our bounds; the server's own limit is 1,048,575."""
_OCTETS_PER_CHARACTER: Final = 8
"""Worst measured cost of indexed text: hyphenated words of four-byte letters (DATA-29)."""


@dataclass(frozen=True, slots=True)
class SearchDocument:
    """The insertable columns of `email_search_documents`, same names and order, without the three that the writer adds.

    Those are `stored_email_id`, `mail_folder_id` (a copy of the message row's: whoever moves a stored message to
    another folder updates both) and `extracted_at`. `received_at` is a copy of the message row's too.

    `body_text_before_trimming` is None when trimming removed nothing but blanks at the ends. `indexed_body_characters`
    says how much of `body_text` the vector covers; the message is partly indexed when that is less than its length
    (case 185).
    """

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "received_at",
        "subject_text",
        "subject_terms",
        "participant_addresses",
        "participant_names",
        "participant_terms",
        "body_text",
        "body_terms",
        "indexed_body_characters",
        "body_text_before_trimming",
        "text_source",
    )

    received_at: datetime | None
    subject_text: str | None
    subject_terms: str | None
    participant_addresses: str | None
    participant_names: str | None
    participant_terms: str | None
    body_text: str | None
    body_terms: str | None
    indexed_body_characters: int
    body_text_before_trimming: str | None
    text_source: str

    def values(self) -> tuple[object, ...]:
        """The values in the order of `COLUMNS`."""
        return tuple(_values(self))


_values: Final = attrgetter(*SearchDocument.COLUMNS)


def build_document(message: Message, *, received_at: datetime | None) -> SearchDocument:
    """The document of one message, of any size and content.

    `received_at` is what the message's own row says (the Received header, else INTERNALDATE). The body is the text
    trimmed of quotation and signature; an encrypted or unread body leaves subject and people to be found (FIND-34).
    """
    subject = _composed(message.subject or "")[:MAX_SUBJECT_CHARACTERS]
    people = list(_participants(message))
    addresses = " ".join(dict.fromkeys(person.normalized_address for person in people))
    names = _composed(" ".join(dict.fromkeys(n[:MAX_NAME_CHARACTERS] for p in people if (n := p.display_name))))
    subject_terms = index_terms(subject)
    participant_terms = _joined(address_terms(person.normalized_address for person in people), index_terms(names))
    body = _composed(message.body.text)
    spent = _OCTETS_PER_CHARACTER * (len(subject) + len(names) + len(addresses))
    spent += term_octets(subject_terms) + term_octets(participant_terms)
    indexed, body_terms = _indexed_part(body, budget=_VECTOR_OCTETS - spent)
    before = message.body.text_before_trimming
    return SearchDocument(
        received_at=received_at,
        subject_text=subject or None,
        subject_terms=subject_terms,
        participant_addresses=addresses or None,
        participant_names=names or None,
        participant_terms=participant_terms,
        body_text=body or None,
        body_terms=body_terms,
        indexed_body_characters=indexed,
        body_text_before_trimming=None if before.strip() == message.body.text.strip() else before,
        text_source=message.body.source.value,
    )


def _participants(message: Message) -> Iterator[Address]:
    """At most 64 people, authors first, each address once; over-long addresses are left out (DATA-36)."""
    seen: set[str] = set()
    roles: Iterable[tuple[Address, ...]] = (
        message.from_,
        message.sender,
        message.reply_to,
        message.to,
        message.cc,
        message.bcc,
    )
    for person in (person for role in roles for person in role):
        if person.normalized_address in seen or len(person.normalized_address.encode()) > MAX_ADDRESS_OCTETS:
            continue
        if len(seen) == MAX_PARTICIPANTS:
            return
        seen.add(person.normalized_address)
        yield person


def _indexed_part(body: str, *, budget: int) -> tuple[int, str | None]:
    """How many characters of the body the vector takes, and their extra terms, within the octets that are left.

    Ordinary mail is taken whole at the first look; long CJK text, whose pairs double it, is halved until it fits.
    """
    count = min(len(body), MAX_INDEXED_BODY_CHARACTERS, budget // _OCTETS_PER_CHARACTER)
    while count > 0:
        terms = index_terms(body[:count])
        cost = _OCTETS_PER_CHARACTER * count + term_octets(terms)
        if cost <= budget:
            return count, terms
        count = min(count - 1, count * budget // cost)
    return 0, None


def _composed(text: str) -> str:
    """Composed letters (Unicode NFC): the parser takes a base letter and a combining mark for two words."""
    return text if text.isascii() or unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def _joined(*terms: str | None) -> str | None:
    return " ".join(part for part in terms if part) or None
