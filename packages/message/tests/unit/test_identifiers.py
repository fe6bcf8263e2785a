"""Message-ID, In-Reply-To, References and the identifiers relays put aside."""

from __future__ import annotations

import pytest

from mailkeep_message import Limits, read, read_headers


@pytest.mark.spec("SYNC-97")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b" <Ab.C@Example.org> ", "Ab.C@Example.org"),
        (b"<a b@c>", "a b@c"),
        (b"a b@c", "a b@c"),
        (b"<a@b", "a@b"),
        (b"<a@b> (comment)", "a@b"),
        (b"<>", None),
        (b"", None),
        (b"<a\x01b@c>", None),
        (b"<a\x00b@c>", None),
        ("<ü@c>".encode(), "ü@c"),
    ],
)
def test_an_identifier_loses_brackets_and_outer_blanks_only(value: bytes, expected: str | None) -> None:
    """Case and inner spaces stay; control characters refuse it."""
    assert read_headers(b"Message-ID:" + value + b"\n\n").message_id == expected


@pytest.mark.spec("SYNC-92")
def test_a_message_without_identifier_has_none() -> None:
    """Nothing is made up."""
    message = read(b"Subject: x\n\ny")
    assert (message.message_id, message.in_reply_to, message.references) == (None, (), ())


@pytest.mark.case("142")
def test_identifiers_inside_encoded_words_are_decoded() -> None:
    """So that threads still match."""
    message = read_headers(
        b"Message-ID: =?utf-8?q?=3Cabc=40example=2Eorg=3E?=\n"
        b"References: =?utf-8?q?=3Cone=40x=3E_=3Ctwo=40?=\n =?utf-8?q?x=3E?=\n\n"
    )
    assert message.message_id == "abc@example.org"
    assert message.references == ("one@x", "two@x")


@pytest.mark.spec("SYNC-97")
def test_references_keep_the_root_and_the_most_recent() -> None:
    """256 are kept while reading."""
    value = b"\n ".join(b"<%d@x>" % n for n in range(1000))
    message = read_headers(b"References: " + value + b"\n\n")
    assert len(message.references) == 256
    assert (message.references[0], message.references[1], message.references[-1]) == ("0@x", "745@x", "999@x")
    bounded = read(b"References: " + value + b"\n\n", limits=Limits(max_references=3))
    assert bounded.references == ("0@x", "998@x", "999@x")


@pytest.mark.spec("SYNC-97")
def test_references_of_megabytes_keep_root_and_end() -> None:
    """The middle of an endless field is not read."""
    value = b" ".join(b"<%d@x>" % n for n in range(90_000))
    references = read_headers(b"References: " + value + b"\n\n").references
    assert (len(references), references[0], references[-1]) == (256, "0@x", "89999@x")


@pytest.mark.spec("SYNC-96")
def test_over_long_identifiers_are_dropped_not_cut() -> None:
    """998 octets of UTF-8."""
    fits, long, wide = "a" * 996 + "@x", "a" * 997 + "@x", "ü" * 499 + "@x"
    message = read_headers(f"Message-ID: <{long}>\nReferences: <{fits}> <{long}> <{wide}>\n\n".encode())
    assert message.message_id is None
    assert message.references == (fits,)


def test_in_reply_to_is_read_with_phrases_and_without_brackets() -> None:
    """Old clients wrote sentences; others an identifier alone."""
    assert read_headers(b'In-Reply-To: Your message of "Mon" <a@b>\n\n').in_reply_to == ("a@b",)
    assert read_headers(b"In-Reply-To: a@b\n\n").in_reply_to == ("a@b",)
    assert read_headers(b"In-Reply-To: your message of Monday\n\n").in_reply_to == ()


@pytest.mark.case("91", "94")
def test_identifiers_that_relays_replaced_are_kept() -> None:
    """Outlook's and Exchange's own fields carry the identifier the sender gave."""
    message = read_headers(
        b"Message-ID: <new@x>\nX-Microsoft-Original-Message-ID: <old@x>\n"
        b"X-MS-Exchange-Parent-Message-Id: <parent@x>\n\n"
    )
    assert message.message_id == "new@x"
    assert message.original_message_ids == ("old@x", "parent@x")
