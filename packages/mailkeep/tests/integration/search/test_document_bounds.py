"""The row of a search document is always writable, whatever the mail is made of (DATA-29; cases 185, 187)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest
from support.stored import NOW

from mailkeep.preparation.document import MAX_INDEXED_BODY_CHARACTERS, SearchDocument, build_document
from mailkeep_message import Address, AutomationClaim, Body, Message, TextSource

FOUR_OCTETS = 0x10400  # Deseret capitals: letters of four octets in UTF-8, with a lower case of their own
HAN_FOUR_OCTETS = 0x20000
LIMIT = 200_000


def letters(start: int, count: int) -> list[str]:
    return [chr(start + n) for n in range(count)]


def cycled(parts: Iterator[str], length: int) -> str:
    """Parts joined without anything between, cut at `length` characters."""
    return "".join(itertools.islice(parts, length))[:length]


def words(alphabet: list[str], size: int) -> Iterator[str]:
    """All words of that many letters, in order, for ever."""
    return ("".join(word) for word in itertools.cycle(itertools.product(alphabet, repeat=size)))


DESERET = letters(FOUR_OCTETS, 40)
HOSTILE = {
    "hyphenated four-octet letters": cycled((w + "-" for w in words(DESERET, 1)), LIMIT),
    "hyphenated pairs of four-octet letters": cycled((w + "-" for w in words(DESERET, 2)), LIMIT),
    "hyphenated triples of four-octet letters": cycled((w + "-" for w in words(DESERET, 3)), LIMIT),
    "hyphenated words in short runs": cycled((f"{a}-{a} " for a in words(DESERET, 3)), LIMIT),
    "long hyphenated words in runs of 2,000 octets": cycled(
        (
            "".join(w + ("-" if n % 60 else " ") for n, w in enumerate(itertools.islice(words(DESERET, 8), 120)))
            for _ in range(300)
        ),
        LIMIT,
    ),
    "hosts and paths": cycled((f"{w[:2]}.{w[2:]}/{w} " for w in words(list("abcdefghij"), 4)), LIMIT),
    "hosts and paths in four octets": cycled((f"{w}.{w}/{w} " for w in words(DESERET, 2)), LIMIT),
    "addresses": cycled((f"{w}@{w}.example " for w in words(list("abcdefghij"), 5)), LIMIT),
    "one-letter words of Han": cycled((c + " " for c in itertools.cycle(letters(HAN_FOUR_OCTETS, 40_000))), LIMIT),
    "one run of Han": cycled(iter(letters(HAN_FOUR_OCTETS, 42_000) * 5), LIMIT),
    "one run of common Han": cycled(iter(letters(0x4E00, 20_000) * 10), LIMIT),
    "short runs of Han": cycled(
        (f"{a}{b} " for a, b in itertools.pairwise(letters(HAN_FOUR_OCTETS, 42_000) * 3)), LIMIT
    ),
    "Han between letters": cycled((f"a{c}" for c in itertools.cycle(letters(HAN_FOUR_OCTETS, 42_000))), LIMIT),
    "hyphenated Han": cycled((f"{c}-" for c in itertools.cycle(letters(HAN_FOUR_OCTETS, 42_000))), LIMIT),
    "one word without end": "x" * LIMIT,
    "base64": cycled((w for w in words(list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef0123456789+/"), 3)), LIMIT),
    "decimal numbers": cycled((f"{n}.{n} " for n in range(LIMIT)), LIMIT),
}


def message_of(body: str, *, is_crowded: bool) -> Message:
    """A message with that body; crowded: a full subject and 64 people with the longest names and addresses."""
    subject = ("-".join(DESERET) * 60)[:2_000] if is_crowded else "Subject"
    han = letters(HAN_FOUR_OCTETS + 5_000, 128 * 64)
    people = tuple(
        Address(
            display_name="".join(han[n * 128 : n * 128 + 128]),
            address=f"{'.'.join(chr(97 + (n * 7 + k) % 26) * 3 for k in range(60))}{n:02d}@{'b' * 60}.example",
            normalized_address=f"{'.'.join(chr(97 + (n * 7 + k) % 26) * 3 for k in range(60))}{n:02d}@{'b' * 60}.example",
            group=None,
        )
        for n in range(64)
    )
    return Message(
        headers=(), message_id=None, original_message_ids=(), in_reply_to=(), references=(), subject=subject,
        sent_at=None, received_at=None, from_=people[:1] if is_crowded else (), sender=(), reply_to=(),
        to=people[1:] if is_crowded else (), cc=(), bcc=(), author=None,
        body=Body(body, body, None, TextSource.PlainTextBodyPart, False, len(body)), attachments=(),
        inline_resources=(), is_encrypted=False, carries_unverified_signature=False,
        contains_unexpanded_tnef_part=False, invitations=(), automation=AutomationClaim(False, None, None), parts=(),
        defects=frozenset(), is_fully_read=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def table(postgres_server, template_database) -> Iterator[psycopg.Connection]:  # type: ignore[no-untyped-def]
    """A table with the columns, the expression and the index of the documents, without its message rows."""
    dsn = psycopg.conninfo.make_conninfo(postgres_server.dsn, dbname=template_database)
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TEMPORARY TABLE written (LIKE email_search_documents INCLUDING ALL)")
        connection.commit()
        yield connection


def write(connection: psycopg.Connection, document: SearchDocument) -> int:
    """Write the row; returns the octets of its vector."""
    columns = ("stored_email_id", "mail_folder_id", "extracted_at", *SearchDocument.COLUMNS)
    row = connection.execute(
        f"INSERT INTO written ({', '.join(columns)}) VALUES (gen_random_uuid(), 9223372036854775807, %s,"
        f" {', '.join(['%s'] * len(SearchDocument.COLUMNS))}) RETURNING pg_column_size(search_vector)",
        [NOW, *document.values()],
    ).fetchone()
    connection.rollback()
    assert row is not None
    return int(row[0])


@pytest.mark.spec("DATA-29", "FIND-32")
@pytest.mark.case("185", "187")
@pytest.mark.parametrize("is_crowded", [False, True], ids=["alone", "crowded"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_the_row_is_written_whatever_the_mail_is_made_of(
    table: psycopg.Connection, kind: str, is_crowded: bool
) -> None:
    """200,000 of the costliest characters, alone and under a full subject and 64 long names."""
    document = build_document(message_of(HOSTILE[kind], is_crowded=is_crowded), received_at=NOW)
    assert 25_000 < document.indexed_body_characters <= MAX_INDEXED_BODY_CHARACTERS
    assert write(table, document) > 0


@pytest.mark.spec("DATA-29")
def test_plain_mail_of_full_length_is_indexed_whole(table: psycopg.Connection) -> None:
    """Ordinary words reach the 100,000 characters, also with many people."""
    body = cycled((w + " " for w in words(list("abcdefghijklmnop"), 6)), LIMIT)
    document = build_document(message_of(body, is_crowded=False), received_at=NOW)
    assert document.indexed_body_characters == MAX_INDEXED_BODY_CHARACTERS
    assert write(table, document) > 0


@pytest.mark.spec("FIND-31", "DATA-28")
@pytest.mark.case("190")
def test_the_vector_is_generated_and_served_by_gin(table: psycopg.Connection) -> None:
    """The column is stored and cannot be written; the only index on text is GIN."""
    kind = table.execute(
        "SELECT attgenerated FROM pg_attribute WHERE attrelid = 'email_search_documents'::regclass AND attname = 'search_vector'"
    ).fetchone()
    indexes = table.execute(
        "SELECT i.relname, a.amname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam"
        " WHERE x.indrelid = 'email_search_documents'::regclass ORDER BY 1"
    ).fetchall()
    table.rollback()
    assert kind is not None
    assert kind[0] in ("s", b"s")
    assert indexes == [
        ("ix_email_search_documents_language_rules", "btree"),
        ("ix_email_search_documents_search_vector", "gin"),
        ("pk_email_search_documents", "btree"),
    ]
