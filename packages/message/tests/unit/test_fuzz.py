"""No octets raise, none leak forbidden characters, and none exceed the bounds."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mailkeep_message import (
    DEFECTS,
    Limits,
    Message,
    attachment_payload,
    comparison_form,
    read,
    read_headers,
    sanitize_html,
)
from mailkeep_message.addresses import address_list
from mailkeep_message.calendar import read_invitations
from mailkeep_message.charsets import decode
from mailkeep_message.dates import parse_date
from mailkeep_message.html import html_to_text
from mailkeep_message.params import parse_value
from mailkeep_message.reader import read_strictly
from mailkeep_message.transfer import decode_transfer
from mailkeep_message.trim import trim

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SMALL = Limits(
    max_part_count=8, max_nesting_depth=4, max_text_characters=60, max_addresses_per_role=3, max_references=3
)

SEED = (
    b'From: =?utf-8?q?A=C3=A4?= <ann@example.org>, G: b@x.test, "q" <c@x.test>;\r\nTo: (c) d@e.f\r\nSubject: =?iso-2022-jp?b?'
    b"GyRCJDMbKEI=?= x\r\nDate: Tue, 1 Jul 2003 10:52:37 +0200 (x)\r\nMessage-ID: <a@b>\r\nReferences: <1@x> <2@x>\r\n"
    b"Received: from a by b; Tue, 1 Jul 2003 10:52:37 GMT\r\nMIME-Version: 1.0\r\nAuto-Submitted: no\r\n"
    b'Content-Type: multipart/mixed;\r\n boundary="b1"\r\n\r\npre\r\n--b1\r\nContent-Type: multipart/alternative; boundary=b2\r\n'
    b"\r\n--b2\r\nContent-Type: text/plain; charset=utf-7\r\n\r\n+AOQ- text\r\nOn 1 Jan 2020, Ann wrote:\r\n> q\r\n-- \r\nsig\r\n"
    b"--b2\r\nContent-Type: text/html; charset=gb2312\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p =3D x>"
    b'<img src=3D"cid:i">&#xD800;<blockquote type=3Dcite>q</blockquote>\r\n--b2--\r\n--b1\r\nContent-Type: image/png;'
    b" name*0*=utf-8''%e2%82; name*1*=%ac.png\r\nContent-ID: <i>\r\nContent-Transfer-Encoding: base64\r\n\r\naGk=\r\n--b1\r\n"
    b"Content-Type: text/calendar; method=request\r\n\r\nBEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART;TZID=Europe/Berlin:"
    b"20240101T000000\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n--b1\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\nx\r\n--b1--\r\n"
)
PIECES = [
    b"\r\n", b"\n", b"\r", b"--b1", b"--b2--", b"\r\n\r\n", b": ", b'"', b"(", b"<", b">", b"@", b";", b"=?utf-8?b?", b"?=", b"\x00",
    b"\x1b$B", b"\xff", b"\xed\xa0\x80", b"%", b"*0*=", b"Content-Type: ", b"multipart/encrypted; protocol=x;", b"boundary=b1",
    b"Content-Transfer-Encoding: base64\r\n", b"text/html", b"<!--", b"&#", b"charset=utf-16", b"BEGIN:VEVENT\n", b"message/rfc822",
]  # fmt: skip


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from strings(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from strings(getattr(value, field.name))


def check(message: Message, limits: Limits) -> None:
    for text in strings(message):
        assert FORBIDDEN.search(text) is None
        text.encode("utf-8")
    assert message.defects <= DEFECTS
    assert "reader_failure" not in message.defects
    assert len(message.parts) <= limits.max_part_count
    assert all(part.depth <= limits.max_nesting_depth for part in message.parts)
    assert len(message.body.text_before_trimming) <= limits.max_text_characters
    assert len(message.body.text) <= limits.max_text_characters
    assert len(message.body.html or "") <= limits.max_text_characters * 4
    for role in (message.from_, message.sender, message.reply_to, message.to, message.cc, message.bcc):
        assert len(role) <= limits.max_addresses_per_role
        assert all(len(a.address.encode()) <= 320 and "@" in a.address for a in role)
    assert len(message.references) <= limits.max_references
    assert all(len(name.encode()) <= 998 for name in message.references)
    for name in (a.file_name for a in (*message.attachments, *message.inline_resources)):
        assert name is None or 0 < len(name) <= 200


def check_all(octets: bytes) -> None:
    for limits in (Limits(), SMALL):
        message = read_strictly(octets, limits=limits)
        check(message, limits)
        for attachment in (*message.attachments, *message.inline_resources):
            assert len(attachment_payload(octets, attachment.position, limits=limits)) == attachment.size_octets
    check(read_headers(octets), Limits())


@pytest.mark.spec("SYNC-91", "SYNC-107")
@FUZZ
@given(st.binary(max_size=400))
def test_random_octets_are_read(octets: bytes) -> None:
    """Any octets are a message."""
    check_all(octets)


@pytest.mark.spec("SYNC-91", "SYNC-96", "SYNC-103", "SYNC-107")
@settings(FUZZ, max_examples=400)
@given(st.lists(st.tuples(st.integers(0, len(SEED)), st.integers(0, 60), st.sampled_from(PIECES)), max_size=12))
def test_mutated_messages_are_read(edits: list[tuple[int, int, bytes]]) -> None:
    """A real structure with pieces cut out and put in."""
    octets = SEED
    for position, removed, piece in edits:
        octets = octets[:position] + piece + octets[position + removed :]
    check_all(octets)


@pytest.mark.spec("SYNC-91")
@FUZZ
@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_piles_of_syntax_are_read(pieces: list[bytes]) -> None:
    """Nothing but delimiters, quotes, escapes and field names."""
    check_all(b"".join(pieces))


@FUZZ
@given(st.binary(max_size=200), st.sampled_from(["base64", "quoted-printable", "x-uuencode", "7bit", "rot13", ""]))
def test_transfer_decoding_never_raises(octets: bytes, encoding: str) -> None:
    """Any octets in any encoding."""
    assert isinstance(decode_transfer(octets, encoding)[0], bytes)


@FUZZ
@given(
    st.binary(max_size=200),
    st.one_of(st.none(), st.text(max_size=20), st.sampled_from(["utf-7", "iso-2022-jp", "hz", "utf-16"])),
)
def test_charset_decoding_never_raises(octets: bytes, label: str | None) -> None:
    """Any octets under any label."""
    assert isinstance(decode(octets, label)[0], str)


@FUZZ
@given(st.binary(max_size=120))
def test_header_parsers_never_raise(octets: bytes) -> None:
    """Dates, parameters and addresses of random octets."""
    parse_date(octets)
    parse_value(octets)
    address_list([octets], maximum=5)


@FUZZ
@given(st.text(max_size=300))
def test_text_functions_never_raise(text: str) -> None:
    """HTML, trimming, calendars, comparison and cleaning of random text."""
    html_to_text(text, maximum=100)
    assert trim(text) in text
    read_invitations("BEGIN:VEVENT\n" + text, text)
    assert len(comparison_form(text)) == len(text)
    assert len(sanitize_html(text, max_characters=50)[0]) <= 50


def test_an_error_of_ours_is_told_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last resort of `read`: an unreadable message with that defect."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("mailkeep_message.reader.scan", fail)
    message = read(SEED)
    assert (message.is_fully_read, message.defects) == (False, {"reader_failure"})
    assert (message.message_id, len(message.from_)) == ("a@b", 3)
