"""Dates: repaired or refused, never raised."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mailkeep_message import read_headers
from mailkeep_message.dates import parse_date


@pytest.mark.spec("SYNC-93")
def test_a_date_is_aware_and_in_utc() -> None:
    """The zone is applied."""
    sent = read_headers(b"Date: Tue, 1 Jul 2003 10:52:37 +0200\n\n").sent_at
    assert sent == datetime(2003, 7, 1, 8, 52, 37, tzinfo=UTC)
    assert sent.tzinfo is UTC


@pytest.mark.case("109")
@pytest.mark.spec("SYNC-93")
@pytest.mark.parametrize(
    "value",
    [
        "-0-100 -0700",
        "",
        "yesterday",
        "Fri, 31 Feb 2023 10:00:00 +0000",
        "Fri, 1 Foo 2023 10:00:00",
        "1 Jan 2023 25:00:00",
        "99999999999999999999",
        "1 Jan 0001 00:00:00 +0100",
        "31 Dec 9999 23:59:59 -0100",
        "(((((",
    ],
)
def test_what_is_no_date_is_absent(value: str) -> None:
    """Never an exception, never 1970."""
    assert parse_date(value.encode()) is None


@pytest.mark.case("109", "112", "110", "113")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"Mon, 2 Jan 2023 11:00:00 +0800 (GMT+08:00)", (2023, 1, 2, 3, 0, 0)),
        (b"Mon, 2 Jan 2023 00:00:00 -0300 (-03)", (2023, 1, 2, 3, 0, 0)),
        (b"Wed, 14 Jun 100 05:41:34 +0000", (2000, 6, 14, 5, 41, 34)),
        (b"Wed, 14 Jun 0102 05:41:34 +0000", (2002, 6, 14, 5, 41, 34)),
        (b"Wed, 14 Jun 06 05:41:34 GMT", (2006, 6, 14, 5, 41, 34)),
        (b"Wed, 14 Jun 95 05:41:34", (1995, 6, 14, 5, 41, 34)),
        (b"Tue, 24 Jul 2007 18:55:07 EST5EDT", (2007, 7, 24, 23, 55, 7)),
        (b"Tue, 24 Jul 2007 18:55:07 Z", (2007, 7, 24, 18, 55, 7)),
        (b"Tue Jul 24 18:55:07 2007", (2007, 7, 24, 18, 55, 7)),
        (b"Tue Jul 24 18:55:07 EDT 2007", (2007, 7, 24, 22, 55, 7)),
        (b"Fri Feb 07 10:18:12 2003 -0800", (2003, 2, 7, 18, 18, 12)),
        (b"Mon, 2 Jan 2023 12:00:00 +0200 (Mitteleurop\xe4ische Sommerzeit)", (2023, 1, 2, 10, 0, 0)),
        (b"Mon, 2 Jan 2023 12:00:00 (\xff\xfe) +0200", (2023, 1, 2, 10, 0, 0)),
        (b"2 Jan 2023 12:00 +0200", (2023, 1, 2, 10, 0, 0)),
        (b"02-Jan-2023 12:00:00 +02:00", (2023, 1, 2, 10, 0, 0)),
        (b"Monday, 2 January 2023 12.00.00", (2023, 1, 2, 12, 0, 0)),
        (b"2023-01-02T12:00:00+02:00", (2023, 1, 2, 10, 0, 0)),
        (b"2023-01-02 12:00:00.123 UTC", (2023, 1, 2, 12, 0, 0)),
        (b"Mon, 2 Jan 2023 09:00:00 PM +0000", (2023, 1, 2, 21, 0, 0)),
        (b"Mon, 2 Jan 2023 24:00:00 +0000", (2023, 1, 3, 0, 0, 0)),
        (b"Sat, 31 Dec 2016 23:59:60 +0000", (2017, 1, 1, 0, 0, 0)),
        (b"Mon, 2 Jan 2023 12:00:00 +9999", (2023, 1, 2, 12, 0, 0)),
        (b"Mon, 2 Jan 2023 12:00:00 +800", (2023, 1, 2, 4, 0, 0)),
        (b"Mon,2 Jan 2023 12:00:00 GMT+1", (2023, 1, 2, 11, 0, 0)),
        (b"\r\n Mon,\r\n 2 Jan 2023\r\n 12:00:00 +0000", (2023, 1, 2, 12, 0, 0)),
        (b"2 Jan 2023", (2023, 1, 2, 0, 0, 0)),
    ],
)
def test_dates_of_the_field(value: bytes, expected: tuple[int, int, int, int, int, int]) -> None:
    """Comments do not matter, years are repaired, zones by name and other common forms are read."""
    assert parse_date(value) == datetime(*expected, tzinfo=UTC)


def test_the_raw_field_stays() -> None:
    """What could not be read can still be looked at."""
    message = read_headers(b"Date: next week\n\n")
    assert message.sent_at is None
    assert message.headers[0].value == b"next week"
