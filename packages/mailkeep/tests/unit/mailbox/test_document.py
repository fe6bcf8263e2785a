"""The search document of one message."""

from datetime import UTC, datetime

import pytest

from mailkeep.preparation.document import MAX_INDEXED_BODY_CHARACTERS, SearchDocument, build_document
from mailkeep_message import Limits, Message, read, read_headers

RECEIVED = datetime(2026, 3, 1, tzinfo=UTC)


def message(headers: str = "", body: str = "Hello there.\n") -> Message:
    """A message of the given header lines and UTF-8 text."""
    octets = (
        f"From: Ann Lee <ann@example.com>\n{headers}"
        f"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{body}"
    ).encode()
    return read(octets, limits=Limits(max_text_characters=200_000))


@pytest.mark.spec("FIND-31")
def test_the_document_copies_subject_people_and_body() -> None:
    """Each part stands in a column of its own, in the order that COPY takes."""
    given = message("Subject: Plans\nTo: Bob <bob@acme.example>, ann@example.com\nCc: cy@example.org\n")
    document = build_document(given, received_at=RECEIVED)
    assert document.subject_text == "Plans"
    assert (document.participant_addresses or "").casefold() == "ann@example.com bob@acme.example cy@example.org"
    assert document.participant_names == "Ann Lee Bob"
    assert document.body_text == "Hello there."
    assert document.indexed_body_characters == len("Hello there.")
    assert document.text_source == "PlainTextBodyPart"
    assert document.received_at == RECEIVED
    assert document.values() == tuple(getattr(document, name) for name in SearchDocument.COLUMNS)


@pytest.mark.spec("FIND-34")
def test_only_the_trimmed_body_is_indexed() -> None:
    """The quoted reply is kept beside the indexed text, and only where trimming removed something."""
    quoted = build_document(message(body="Agreed.\n\n> shall we\n> meet\n"), received_at=None)
    assert quoted.body_text == "Agreed."
    assert "shall we" in (quoted.body_text_before_trimming or "")
    assert build_document(message(), received_at=None).body_text_before_trimming is None


@pytest.mark.spec("FIND-32")
def test_a_body_that_was_never_fetched_leaves_subject_and_people() -> None:
    """A message known by its header alone has a document that says so."""
    document = build_document(read_headers(b"Subject: Plans\nFrom: Ann Lee <ann@example.com>\n\n"), received_at=None)
    assert (document.subject_text, document.participant_names) == ("Plans", "Ann Lee")
    assert (document.body_text, document.indexed_body_characters) == (None, 0)
    assert document.text_source == "BodyNotExtracted"


@pytest.mark.spec("FIND-31", "DATA-36")
def test_subject_is_cut_and_people_are_dropped_at_their_bounds() -> None:
    """2,000 characters of subject and 64 people of at most 320 octets, never part of an address."""
    people = ", ".join(f"p{n}@example.org" for n in range(80))
    document = build_document(
        message(f"Subject: {'word ' * 600}\nReply-To: {'x' * 330}@example.org\nTo: {people}\n"), received_at=None
    )
    assert len(document.subject_text or "") == 2000
    addresses = (document.participant_addresses or "").casefold().split()
    assert addresses == ["ann@example.com", *(f"p{n}@example.org" for n in range(63))]


@pytest.mark.case("185")
def test_a_body_beyond_the_bound_says_how_much_of_it_is_indexed() -> None:
    """Plain text is indexed up to 100,000 characters; text whose pairs double it up to what fits."""
    plain = build_document(message(body="word " * 30_000), received_at=None)
    assert plain.indexed_body_characters == MAX_INDEXED_BODY_CHARACTERS < len(plain.body_text or "")
    han = "".join(chr(0x4E00 + n % 20_000) for n in range(100_000))
    cjk = build_document(message(body=han), received_at=None)
    assert 40_000 < cjk.indexed_body_characters < 100_000
    assert (cjk.body_terms or "").split()[-1] == han[cjk.indexed_body_characters - 1]


def test_decomposed_letters_are_indexed_composed() -> None:
    """A mail client that writes a base letter and a combining mark is found by the composed word."""
    document = build_document(message("Subject: Cafe\u0301\n", body="re\u0301sume\u0301"), received_at=None)
    assert (document.subject_text, document.body_text) == ("Café", "résumé")
