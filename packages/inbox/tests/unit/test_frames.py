"""Frames: built, decoded, and never a way to break a read."""

from datetime import UTC, datetime

import pytest

from mailkeep_inbox import build_mail_frame, decode_mail_frame

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def build(**fields: object) -> bytes:
    """A frame with some fields changed."""
    values = {"from_address": "a@x", "to": "b@x", "subject": "s", "body": "t", "message_id": "<1@x>", "date": NOON}
    return build_mail_frame(**(values | fields))  # type: ignore[arg-type]


@pytest.mark.spec("INBOX-48")
def test_frame_byte_for_byte() -> None:
    """Fields in their order, CRLF throughout, a final CRLF."""
    assert build(body="one\ntwo", in_reply_to="<0@x>", references=["<a@x>", "<0@x>"]) == (
        b"From: a@x\r\nTo: b@x\r\nSubject: s\r\nDate: Fri, 02 Jan 2026 12:00:00 +0000\r\nMessage-ID: <1@x>\r\n"
        b"In-Reply-To: <0@x>\r\nReferences: <a@x> <0@x>\r\nMIME-Version: 1.0\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\none\r\ntwo\r\n"
    )


@pytest.mark.spec("INBOX-48")
def test_references_fold_before_column_78() -> None:
    """No line but one with a single long token passes 78 columns; every token survives."""
    tokens = [f"<{n:030d}@x.example>" for n in range(9)]
    raw = build(references=tokens)
    lines = raw.split(b"\r\n\r\n")[0].split(b"\r\n")
    assert all(len(line) <= 78 for line in lines)
    decoded = decode_mail_frame(raw)
    assert decoded is not None
    assert decoded.headers.references == tuple(tokens)


@pytest.mark.spec("INBOX-48")
@pytest.mark.parametrize("field", ["from_address", "to", "subject"])
def test_line_breaks_in_values_open_no_field(field: str) -> None:
    """Each run of CR and LF becomes one space, so no value can inject a header."""
    raw = build(**{field: "x\r\n\r\nBcc: evil@x\n"})
    header = raw.split(b"\r\n\r\n")[0]
    assert b"\r\nBcc" not in header
    assert b"x Bcc: evil@x\r\n" in header


@pytest.mark.spec("INBOX-49")
def test_header_rules() -> None:
    """First value, any case, unfolded to one space, broken UTF-8 replaced, no empty line rejected."""
    decoded = decode_mail_frame(b"SUBJECT: one\r\n  two\r\nSubject: no\r\nTo: \xff\r\n\r\nbody")
    assert decoded is not None
    assert (decoded.headers.subject, decoded.headers.to) == ("one two", "\ufffd")
    assert decode_mail_frame(b"Subject: one\r\n") is None


@pytest.mark.spec("INBOX-49")
@pytest.mark.parametrize("hidden", [b"\n", b"\r", b"\r\r", b"\n\r"])
def test_bare_breaks_hide_no_field(hidden: bytes) -> None:
    """In a section written with CRLF a bare CR or LF is a space, never the end of a field."""
    decoded = decode_mail_frame(b"Subject: a" + hidden + b"Message-ID: <evil@x>\r\n\r\nbody")
    assert decoded is not None
    assert decoded.headers.subject == "a Message-ID: <evil@x>"
    assert decoded.headers.message_id is None


@pytest.mark.spec("INBOX-45", "INBOX-46")
@pytest.mark.parametrize("written", [b"   ", b"bare@x", b"<a\0@x>", b"<" + b"a" * 1024 + b"@x>"])
def test_unusable_message_ids_are_none(written: bytes) -> None:
    """Blank, without brackets, with NUL or beyond 1,024 bytes: such a frame is known by its content."""
    decoded = decode_mail_frame(b"Message-ID: " + written + b"\r\n\r\n")
    assert decoded is not None
    assert decoded.headers.message_id is None


@pytest.mark.spec("INBOX-50", "INBOX-51")
@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"Content-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n", "hello"),
        (b"Content-Transfer-Encoding: quoted-printable\r\n\r\ncaf=C3=A9\r\n", "café"),
        (b"Content-Type: text/plain; charset=iso-8859-1\r\n\r\ncaf\xe9", "café"),
        (b"Content-Type: text/plain; charset=nonsense\r\n\r\ncaf\xc3\xa9", "café"),
        (b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\npart\r\n--b--\r\n", "part"),
        (
            b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: multipart/alternative; boundary=c"
            b"\r\n\r\n--c\r\n\r\ninner\r\n--c--\r\n--b--\r\n",
            "inner",
        ),
        (b"Content-Type: multipart/mixed\r\n\r\n--b\r\n\r\npart\r\n--b--\r\n", ""),
        (b"Content-Type: multipart/mixed; boundary=z\r\n\r\nenvelope\r\n", ""),
        (b"Content-Type: text/html\r\n\r\n<p>one</p><p>two &amp; three</p>", "one\n\ntwo & three"),
    ],
)
def test_bodies_read_as_text(frame: bytes, text: str) -> None:
    """Transfer encodings, charsets, nesting and HTML are read; what cannot be walked is empty, never the envelope."""
    decoded = decode_mail_frame(frame)
    assert decoded is not None
    assert decoded.body.text == text


@pytest.mark.spec("INBOX-50", "INBOX-48")
def test_body_line_breaks_round_trip() -> None:
    """Lines, blank lines and indentation come back; only white space at the end goes."""
    decoded = decode_mail_frame(build(body="one\n\n  two\tx\r\nthree \n\n"))
    assert decoded is not None
    assert decoded.body.text == "one\n\n  two\tx\nthree"


@pytest.mark.spec("INBOX-50")
def test_depth_of_nesting_is_bounded() -> None:
    """A frame of a thousand nested multiparts reads as empty text."""
    parts = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(1000))
    decoded = decode_mail_frame(parts)
    assert decoded is not None
    assert decoded.body.text == ""


@pytest.mark.spec("INBOX-49")
def test_encoded_words_are_read_but_cannot_pose_as_an_address() -> None:
    """A subject is decoded; of a sender only the display name, and without brackets."""
    decoded = decode_mail_frame(
        b"Subject: =?utf-8?q?caf=C3=A9?=\r\nFrom: =?utf-8?q?Boss_=3Cboss@x=3E?= <evil@y>\r\n\r\n"
    )
    assert decoded is not None
    assert decoded.headers.subject == "café"
    assert decoded.headers.from_ == "Boss boss@x <evil@y>"
