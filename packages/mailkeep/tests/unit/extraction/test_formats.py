"""Which reader a file gets."""

from __future__ import annotations

import pytest

from mailkeep.extraction import Format, format_of


@pytest.mark.parametrize(
    ("head", "media_type", "name", "expected"),
    [
        (b"%PDF-1.4", "application/octet-stream", "scan", Format.PDF),
        (b"junk\n%PDF-1.4", "application/octet-stream", None, Format.PDF),
        (b"hello", "application/pdf", None, Format.PDF),
        (b"PK\x03\x04", "application/octet-stream", "a.docx", Format.ZIP),
        (b"PK\x03\x04", "text/plain", "a.txt", Format.ZIP),
        (bytes.fromhex("d0cf11e0a1b11ae1"), "application/msword", "a.doc", Format.COMPOUND),
        (b"{\\rtf1", "application/msword", "a.doc", Format.RTF),
        (b"From: a", "message/rfc822", None, Format.MESSAGE),
        (b"From: a", "application/octet-stream", "A.EML", Format.MESSAGE),
        (b"BEGIN:VCALENDAR", "text/calendar", None, Format.CALENDAR),
        (b"BEGIN:VCALENDAR", "application/octet-stream", "invite.ics", Format.CALENDAR),
        (b"<p>", "text/html", None, Format.HTML),
        (b"<p>", "text/plain", "page.html", Format.HTML),
        (b"a;b", "text/csv", None, Format.TEXT),
        (b"a;b", "application/vnd.ms-excel", "list.csv", Format.TEXT),
        (b"{}", "application/problem+json", None, Format.TEXT),
        (b"Action: failed", "message/delivery-status", None, Format.TEXT),
    ],
)
@pytest.mark.spec("FIND-98")
def test_first_octets_decide_before_the_label_and_the_name(
    head: bytes, media_type: str, name: str | None, expected: Format
) -> None:
    """Labels in mail are often wrong; what a file begins with is not."""
    assert format_of(head, media_type=media_type, file_name=name) is expected


@pytest.mark.parametrize(
    ("media_type", "name"),
    [
        ("image/jpeg", "holiday.jpg"),
        ("image/svg+xml", None),
        ("image/png", "really.txt"),
        ("application/octet-stream", None),
        ("application/octet-stream", "setup.exe"),
        ("application/zip", "not-really.zip"),
        ("message/partial", None),
    ],
)
@pytest.mark.spec("FIND-98")
def test_what_holds_no_text_has_no_reader(media_type: str, name: str | None) -> None:
    """Pictures, programs and unknown octets never reach the worker."""
    assert format_of(b"\x89octets", media_type=media_type, file_name=name) is None
