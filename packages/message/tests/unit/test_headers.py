"""Subjects, encoded words, raw 8-bit headers and the header-only reading."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mailkeep_message import TextSource, read, read_headers


def subject(value: bytes) -> str | None:
    return read_headers(b"Subject: " + value + b"\r\n\r\n").subject


@pytest.mark.case("95")
def test_a_character_split_between_two_words_is_joined() -> None:
    """Octets of neighbouring words of one charset are joined before decoding, whatever their encodings."""
    assert subject(b"=?UTF-8?Q?Vyt=C4?= =?utf-8?Q?=97nis?=") == "Vytėnis"
    assert subject(b"=?utf-8?b?w4Q=?=\r\n =?utf-8?q?=C3?=\r\n\t=?utf-8?q?=96?=") == "ÄÖ"


def test_words_of_different_charsets_are_decoded_apart() -> None:
    """And the white space between words vanishes."""
    assert subject(b"=?iso-8859-1?q?=E4?= =?utf-8?q?=C3=B6?=") == "äö"


@pytest.mark.case("98")
@pytest.mark.spec("SYNC-93", "SYNC-107")
def test_line_ends_and_controls_inside_words_are_neutralised() -> None:
    """No decoded subject can begin a new header line, and none carries a control character."""
    assert subject(b"=?utf-8?q?hello=0D=0ABcc:_eve=40example.org?=") == "hello Bcc: eve@example.org"
    assert subject(b"a\x07b\x00c =?utf-8?q?=1B[2J=E2=80=A8x?=") == "abc [2J x"
    assert subject(b"=?utf-8?q?=C2=85=00=7F?=") is None


@pytest.mark.case("101", "104")
def test_raw_utf8_beside_encoded_words_is_read() -> None:
    """Both are decoded, and the raw octets stay in the field."""
    message = read_headers("Subject: Grüße =?utf-8?q?=C3=A4?= 😀\n\n".encode())
    assert message.subject == "Grüße ä 😀"
    assert message.headers[0].value == "Grüße =?utf-8?q?=C3=A4?= 😀".encode()


@pytest.mark.case("104")
def test_raw_eight_bit_headers_yield_no_surrogates() -> None:
    """Invalid UTF-8 is read as windows-1252, or as the charset the message declares."""
    assert subject(b"Gr\xfc\xdfe") == "Grüße"
    message = read(b"Subject: \xd0\xd2\xc9\xd7\xc5\xd4\nContent-Type: text/plain; charset=koi8-r\n\n\xc4\xc1")
    assert message.subject == "привет"
    alone = read_headers(b"Subject: \xd0\xd2\xc9\xd7\xc5\xd4\nContent-Type: text/plain; charset=koi8-r\n\n")
    assert alone.subject == "привет"


@pytest.mark.case("182", "104")
@pytest.mark.spec("SYNC-107")
def test_no_text_carries_a_nul_or_a_surrogate() -> None:
    """NUL in subject, name, address, body and file name; surrogates by way of UTF-7 and escapes."""
    octets = (
        b"Subject: a\x00b\nFrom: A\x00nn <ann@example.org>\nTo: e\x00ve@example.org\n"
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx\x00y\n--b\n"
        b"Content-Type: text/html; charset=utf-7\n\n+2D0-&#xD800;&#0;\n--b\n"
        b'Content-Type: image/png; name="p\x00q.png"\n\nx\n--b--\n'
    )
    message = read(octets)
    assert message.subject == "ab"
    assert message.author is not None
    assert message.author.display_name == "Ann"
    assert message.to == ()
    assert message.body.text == "xy"
    assert message.attachments[-1].file_name == "pq.png"
    assert message.headers[0].value == b"a\x00b"
    assert read(b"Content-Transfer-Encoding: \x007bit\n\nx").parts[0].transfer_encoding == "7bit"
    html = read(b"Content-Type: text/html; charset=utf-7\n\n+2D0-&#xD800;&#0;a").body.text
    assert not any(0xD800 <= ord(c) < 0xE000 or c == "\x00" for c in html)
    assert html.endswith("a")


@pytest.mark.spec("SYNC-93")
@pytest.mark.parametrize("value", [b"", b"   ", b"=?utf-8?q?_=20?=", b"\r\n \r\n "])
def test_a_blank_subject_is_absent(value: bytes) -> None:
    """Blank is null."""
    assert subject(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"=?utf-8*en?q?hi?=", "hi"),
        (b"=?utf-8?q?a b?=", "a b"),
        (b"[x]=?utf-8?q?y?=z", "[x]yz"),
        (b'"=?utf-8?q?quoted?="', '"quoted"'),
        (b"=?utf-8?b?w6Q?=", "ä"),
        (b"=?utf-8?x?y?=", "=?utf-8?x?y?="),
        (b"=?utf-8?q?open", "=?utf-8?q?open"),
        (b"=?nonsense?q?=E4?=", "ä"),
        (b"a\r\n folded\r\n\tline", "a folded line"),
    ],
)
def test_broken_words_are_read_as_far_as_they_can_be(value: bytes, expected: str) -> None:
    """RFC 2047 in the forms of the field."""
    assert subject(value) == expected


def test_a_very_long_field_is_bounded() -> None:
    """A header of megabytes costs no more than its first 64 kB."""
    assert 60_000 < len(subject(b"x" * 3_000_000) or "") <= 65_536


@pytest.mark.spec("SYNC-93")
def test_received_at_is_the_text_after_the_last_semicolon_of_the_topmost_field() -> None:
    """Lower Received fields and earlier semicolons say nothing."""
    message = read_headers(
        b"Received: from a; by b (x; y);\r\n Tue, 2 Jan 2024 03:04:05 +0100\r\n"
        b"Received: from c; Mon, 1 Jan 2024 00:00:00 +0000\r\n\r\n"
    )
    assert message.received_at == datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC)
    assert read_headers(b"Received: from a by b\n\n").received_at is None


def test_the_header_alone_gives_an_envelope_and_no_body() -> None:
    """As `BODY[HEADER]` of a message too large to fetch."""
    message = read_headers(
        b"From: ann@example.org\r\nMessage-ID: <a@b>\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    )
    assert message.message_id == "a@b"
    assert message.body.source is TextSource.BodyNotExtracted
    assert message.parts == ()
    assert message.is_fully_read


def test_fields_keep_their_order_names_and_raw_octets() -> None:
    """Folding stays in the value; names keep their case."""
    message = read(b"X-One: 1\r\nx-one: 2\r\n  more\r\nSUBJECT : s\r\n\r\n")
    assert [(field.name, field.value) for field in message.headers] == [
        ("X-One", b"1"),
        ("x-one", b"2\r\n  more"),
        ("SUBJECT", b"s"),
    ]
    assert message.subject == "s"


@pytest.mark.spec("SYNC-104")
@pytest.mark.parametrize(
    ("header", "claims"),
    [
        (b"List-Id: <x.example.org>", True),
        (b"List-Unsubscribe: <mailto:x@example.org>", True),
        (b"Auto-Submitted: auto-replied (vacation)", True),
        (b"Auto-Submitted: No", False),
        (b"Auto-Submitted: no; why=none", False),
        (b"Precedence: BULK", True),
        (b"Precedence: list", True),
        (b"Precedence: junk", True),
        (b"Precedence: first-class", False),
        (b"Subject: x", False),
    ],
)
def test_the_automation_claim_is_read(header: bytes, claims: bool) -> None:
    """List headers, Auto-Submitted other than no, Precedence bulk, list or junk."""
    assert read_headers(header + b"\n\n").automation.claims_automation is claims


@pytest.mark.spec("SYNC-104")
def test_the_automation_claim_keeps_its_words() -> None:
    """Callers that weigh the claims see which were made."""
    claim = read_headers(b"Auto-Submitted: Auto-Generated; x\nPrecedence: Bulk\n\n").automation
    assert (claim.auto_submitted, claim.precedence, claim.list_headers) == ("auto-generated", "bulk", False)
