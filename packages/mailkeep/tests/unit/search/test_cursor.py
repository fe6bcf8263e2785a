"""Cursors: bound to their result set, opaque, never a server error."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from mailkeep.errors import CursorForeign, CursorForOtherFilters
from mailkeep.search import Direction, Filters
from mailkeep.search.cursor import Boundary, decode_cursor, encode_cursor, fingerprint_of

ID = UUID("01920000-0000-7000-8000-00000000abcd")


def fingerprint(
    filters: Filters | None = None,
    *,
    direction: Direction = Direction.NEWEST_FIRST,
    junk: bool = False,
    folders: list[tuple[str, str]] | None = None,
    accounts: tuple[str, ...] = ("home",),
) -> str:
    """The fingerprint of a request that differs from the plainest one as given."""
    return fingerprint_of(
        filters or Filters(), direction=direction, include_junk_mail=junk, folders=folders, accounts=accounts
    )


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@pytest.mark.spec("FIND-23")
@pytest.mark.parametrize(
    "received_at", [None, datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]
)
def test_a_boundary_survives_its_cursor(received_at: datetime | None) -> None:
    """Microseconds and ids come back exactly, undated included; the text is unpadded base64url."""
    cursor = encode_cursor(Boundary(received_at, ID), fingerprint())
    assert "=" not in cursor
    assert decode_cursor(cursor, fingerprint=fingerprint()) == Boundary(received_at, ID)


@pytest.mark.spec("FIND-23")
def test_the_text_is_the_documented_one() -> None:
    """Version, microseconds since year 1, hexadecimal id, fingerprint."""
    cursor = encode_cursor(Boundary(datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC), ID), fingerprint())
    assert cursor == encoded(f"1.1000000.{ID.hex}.{fingerprint()}")


@pytest.mark.spec("FIND-25")
def test_a_cursor_of_other_filters_is_refused_as_such() -> None:
    """52002 for each thing that the result set depends on."""
    others = [
        fingerprint(Filters(sender_address="A@B.C")),
        fingerprint(Filters(recipient_address="A@B.C")),
        fingerprint(Filters(subject_fragment="x")),
        fingerprint(Filters(received_before=datetime(2026, 1, 1, tzinfo=UTC))),
        fingerprint(Filters(received_on_or_after=datetime(2026, 1, 1, tzinfo=UTC))),
        fingerprint(Filters(is_remotely_seen=False)),
        fingerprint(Filters(is_remotely_seen=True)),
        fingerprint(Filters(is_remotely_flagged=True)),
        fingerprint(Filters(keyword="A@B.C")),
        fingerprint(Filters(has_attachments=True)),
        fingerprint(direction=Direction.OLDEST_FIRST),
        fingerprint(junk=True),
        fingerprint(folders=[]),
        fingerprint(folders=[("home", "INBOX")]),
        fingerprint(accounts=("work",)),
    ]
    assert len({fingerprint(), *others}) == len(others) + 1
    cursor = encode_cursor(Boundary(None, ID), fingerprint())
    for other in others:
        with pytest.raises(CursorForOtherFilters):
            decode_cursor(cursor, fingerprint=other)


@pytest.mark.spec("FIND-24", "FIND-14", "FIND-2")
def test_spellings_of_one_request_share_a_fingerprint() -> None:
    """Order, repetition, the case of a subject fragment and the offset of an instant change nothing."""
    early, late = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert fingerprint(Filters(received_before=early)) == fingerprint(Filters(received_before=late))
    assert fingerprint(Filters(subject_fragment="Plan")) == fingerprint(Filters(subject_fragment="pLAN"))
    assert fingerprint(accounts=("a", "b", "a")) == fingerprint(accounts=("b", "a"))
    assert fingerprint(folders=[("a", "X"), ("b", "Y")]) == fingerprint(folders=[("b", "Y"), ("a", "X"), ("a", "X")])


@pytest.mark.spec("FIND-24")
def test_aliases_with_separators_do_not_collide() -> None:
    """Values are written with their length, so one alias with a comma is not two aliases."""
    assert fingerprint(folders=[("a", "X,Y")]) != fingerprint(folders=[("a", "X"), ("a", "Y")])
    assert fingerprint(folders=[("aX", "Y")]) != fingerprint(folders=[("a", "XY")])


@pytest.mark.spec("FIND-25")
@pytest.mark.parametrize(
    "text",
    [
        "x",
        "!!!!",
        "é",
        encoded("2.1." + ID.hex + "." + fingerprint()),
        encoded("1.-5." + ID.hex + "." + fingerprint()),
        encoded("1.999999999999999999." + ID.hex + "." + fingerprint()),
        encoded("1.1." + ID.hex[:31] + "." + fingerprint()),
        encoded("1.1." + ID.hex + "." + fingerprint())[:-6],
        encoded("1.١." + ID.hex + "." + fingerprint()),
        encode_cursor(Boundary(None, ID), fingerprint()) + " ",
        "A" * 513,
        "A" * 100_000,
    ],
)
def test_what_we_did_not_write_is_refused_as_foreign(text: str) -> None:
    """Undecodable, truncated, wrong version, out of range, too long: 52001, never a server error."""
    with pytest.raises(CursorForeign):
        decode_cursor(text, fingerprint=fingerprint())
