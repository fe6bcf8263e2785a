"""Invitations."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mailkeep_message import read

EVENT = (
    b"BEGIN:VCALENDAR\r\nMETHOD:request\r\nBEGIN:VEVENT\r\nUID:ev-1@x\r\nSEQUENCE:2\r\nSUMMARY:Plan\\, part\r\n  one\r\n"
    b"DTSTART:20240102T100000Z\r\nDTEND:20240102T110000Z\r\nLOCATION:Room\\n5\r\n"
    b"ORGANIZER;CN=Ann:mailto:ann@x.test\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)


def part(content_type: str, data: bytes = EVENT, extra: str = "") -> bytes:
    return f"Content-Type: {content_type}\n{extra}\n".encode() + data


@pytest.mark.case("136")
@pytest.mark.parametrize(
    "content_type",
    [
        "text/calendar; method=REQUEST",
        "text/calendar",
        "text/calendar; method=request",
        "TEXT/Calendar",
        "application/ics",
        "application/octet-stream; name=invite.ICS",
    ],
)
def test_an_invitation_is_recognised_however_it_is_labelled(content_type: str) -> None:
    """METHOD is read from the data and compared without case."""
    (invitation,) = read(part(content_type)).invitations
    assert (invitation.method, invitation.uid, invitation.sequence) == ("REQUEST", "ev-1@x", 2)
    assert (invitation.summary, invitation.location) == ("Plan, part one", "Room 5")
    assert invitation.starts_at == datetime(2024, 1, 2, 10, tzinfo=UTC)
    assert invitation.ends_at == datetime(2024, 1, 2, 11, tzinfo=UTC)
    assert invitation.organizer == "ann@x.test"


@pytest.mark.case("136")
def test_the_method_of_the_label_serves_when_the_data_has_none() -> None:
    """The parameter is the fallback."""
    data = EVENT.replace(b"METHOD:request\r\n", b"")
    assert read(part("text/calendar; method=cancel", data)).invitations[0].method == "CANCEL"
    assert read(part("text/calendar", data)).invitations[0].method is None


@pytest.mark.case("137")
def test_alternative_and_attachment_are_one_invitation() -> None:
    """One per UID and SEQUENCE; a later sequence is another."""
    later = EVENT.replace(b"SEQUENCE:2", b"SEQUENCE:3")
    parts = [
        part("text/plain", b"come"),
        part("text/calendar; method=REQUEST"),
        part("application/ics; name=invite.ics"),
        part("text/calendar; name=later.ics", later),
    ]
    octets = (
        b"Content-Type: multipart/mixed; boundary=b\n\n" + b"".join(b"--b\n" + p + b"\n" for p in parts) + b"--b--\n"
    )
    assert [(i.uid, i.sequence) for i in read(octets).invitations] == [("ev-1@x", 2), ("ev-1@x", 3)]


def test_a_calendar_member_of_an_alternative_is_no_file() -> None:
    """Every member of an alternative is body (SYNC-100); alone it is a file."""
    octets = (
        b"Content-Type: multipart/alternative; boundary=b\n\n--b\n\ncome\n--b\n" + part("text/calendar") + b"\n--b--\n"
    )
    message = read(octets)
    assert (message.body.text, message.attachments, len(message.invitations)) == ("come", (), 1)
    assert len(read(part("text/calendar")).attachments) == 1


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("DTSTART;TZID=Europe/Berlin:20240702T100000", datetime(2024, 7, 2, 8, tzinfo=UTC)),
        ("DTSTART;TZID=W. Europe Standard Time:20240102T100000", datetime(2024, 1, 2, 9, tzinfo=UTC)),
        ('DTSTART;TZID="/vendor.test/Europe/Berlin":20240102T100000', datetime(2024, 1, 2, 9, tzinfo=UTC)),
        ("DTSTART;TZID=Mine:20240102T100000", datetime(2024, 1, 2, 13, tzinfo=UTC)),
        ("DTSTART;VALUE=DATE:20240102", datetime(2024, 1, 2, tzinfo=UTC)),
        ("DTSTART:20240102T100000", datetime(2024, 1, 2, 10, tzinfo=UTC)),
        ("DTSTART:20249902T100000Z", None),
        ("DTSTART:soon", None),
    ],
)
def test_times_are_utc(start: str, expected: datetime | None) -> None:
    """IANA, Windows and vendor zone names, the zone the data defines, all-day and floating times, nonsense."""
    zone = "BEGIN:VTIMEZONE\r\nTZID:Mine\r\nBEGIN:STANDARD\r\nTZOFFSETTO:-0300\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n"
    data = EVENT.decode().replace("DTSTART:20240102T100000Z", start).replace("BEGIN:VEVENT", zone + "BEGIN:VEVENT")
    assert read(part("text/calendar", data.encode())).invitations[0].starts_at == expected


def test_a_duration_gives_the_end() -> None:
    """When there is no DTEND."""
    data = EVENT.replace(b"DTEND:20240102T110000Z", b"DURATION:P1DT2H30M")
    assert read(part("text/calendar", data)).invitations[0].ends_at == datetime(2024, 1, 3, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "data", [b"", b"BEGIN:VCALENDAR", b"not a calendar", b"BEGIN:VEVENT\nEND:VEVENT\n" * 5000, b"BEGIN:VEVENT\n" * 5000]
)
def test_broken_calendars_are_bounded_and_never_raise(data: bytes) -> None:
    """At most 50 events of one message."""
    assert len(read(part("text/calendar", data)).invitations) <= 50


def test_events_of_an_embedded_message_are_not_ours() -> None:
    """The outer message invites to nothing."""
    octets = b"Content-Type: message/rfc822\n\n" + part("text/calendar")
    assert read(octets).invitations == ()
