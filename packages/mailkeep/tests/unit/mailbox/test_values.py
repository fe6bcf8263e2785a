"""The values of the mail store and the pure decisions on them."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mail import message

from mailkeep.db import uuid7, uuid7s
from mailkeep.mailbox import Arrival, ContentAvailability, Flags, Uid, prepare
from mailkeep.mailbox.content import cut_text
from mailkeep.preparation import copyformat as cf
from mailkeep.preparation.encoding import Form, next_form


@pytest.mark.spec("SYNC-76")
def test_keywords_are_folded_bounded_and_sorted() -> None:
    """Upper case, distinct, sorted, 64 of 64 characters; what no keyword can be is dropped, not cut."""
    names = ["b", "A", "a", "x" * 65, "with blank", "c\0", "d\ud800", "", "é"]
    assert Flags.from_imap(names).keywords == ("A", "B", "É")
    many = Flags.from_imap(f"k{n:03}" for n in reversed(range(100)))
    assert many.keywords == tuple(f"K{n:03}" for n in range(64))


@pytest.mark.spec("SYNC-75", "SYNC-77")
def test_system_flags_are_read_in_any_case() -> None:
    r"""Five flags are kept; `\Recent` and unknown system flags are not keywords."""
    assert Flags.from_imap(["\\sEEN", "\\Answered", "\\Flagged", "\\DRAFT", "\\Deleted", "\\Recent", "\\X"]) == Flags(
        True, True, True, True, True, ()
    )
    assert Flags.from_imap([]) == Flags()


def test_arrival_has_octets_exactly_when_they_are_available() -> None:
    """A contradictory arrival cannot be built."""
    for octets, availability in ((None, ContentAvailability.AVAILABLE), (b"", ContentAvailability.EXCEEDED_SIZE_LIMIT)):
        with pytest.raises(ValueError, match="octets"):
            Arrival(Uid(1), 0, None, None, octets, availability=availability)


@pytest.mark.spec("DATA-3")
def test_keys_carry_their_instant_version_and_variant() -> None:
    """RFC 9562 version 7: Unix milliseconds first, then version and variant bits, ascending when minted together."""
    moment = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=timezone(timedelta(hours=2)))
    keys = [uuid7(moment), *uuid7s(moment, 500)]
    assert {key.int >> 80 for key in keys} == {int(moment.timestamp() * 1000)}
    assert {(key.version, key.variant) for key in keys} == {(7, "specified in RFC 4122")}
    assert keys[1:] == sorted(set(keys[1:]))
    assert uuid7s(moment, 0) == []


def test_prepared_batch_travels_between_processes() -> None:
    """Preparing may run in another process: the batch is plain data."""
    batch = prepare([Arrival(Uid(1), 5, None, Flags(), message("a")), Arrival(Uid(2), 5, None, None, b"\0\xff")])
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert [one.form for one in batch.messages] == [Form.WHOLE, Form.WHOLE]


@given(st.binary(max_size=400))
def test_preparing_never_raises(octets: bytes) -> None:
    """Whatever the octets, there is a row and a document for them."""
    (prepared,) = prepare([Arrival(Uid(1), 0, None, None, octets)]).messages
    assert prepared.row
    assert prepared.document


@pytest.mark.case("187")
def test_lesser_forms_end() -> None:
    """Too long: less text each time; refused otherwise: the header, then nothing but the octets; then no more."""
    too_long = [Form.WHOLE]
    while (form := next_form(too_long[-1], is_too_long=True)) is not None:
        too_long.append(form)
    assert too_long == list(Form)
    assert next_form(Form.WHOLE, is_too_long=False) is Form.HEADERS_ONLY
    assert next_form(Form.HEADERS_ONLY, is_too_long=False) is Form.BARE
    assert next_form(Form.BARE, is_too_long=False) is None


def test_binary_fields_are_what_the_manual_says() -> None:
    """Length, then the value in network byte order; NULL is the length -1."""
    assert cf.text(None) == b"\xff\xff\xff\xff"
    assert cf.text("é") == b"\0\0\0\2\xc3\xa9"
    assert cf.bigint(-2) == b"\0\0\0\x08" + b"\xff" * 7 + b"\xfe"
    assert cf.timestamptz(datetime(2000, 1, 1, 0, 0, 0, 1, tzinfo=UTC)) == b"\0\0\0\x08" + bytes(7) + b"\1"
    assert cf.timestamptz(datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)) == b"\0\0\0\x08" + b"\xff" * 8
    assert cf.text_array([]) == b"\0\0\0\x0c" + bytes(8) + b"\0\0\0\x19"
    with pytest.raises(UnicodeEncodeError):
        cf.text("\ud800")


@pytest.mark.spec("SYNC-133")
@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abc"),
        ("ae\u0301x", 2, "a"),
        ("a\U0001f44d\U0001f3fdb", 2, "a"),
        ("a\U0001f468\u200d\U0001f469b", 3, "a"),
        ("a\u0301\u0301", 0, ""),
    ],
)
def test_text_is_not_cut_inside_a_character_as_seen(text: str, limit: int, expected: str) -> None:
    """Marks, skin tones and joined emoji stay with what they belong to, or go with it."""
    assert cut_text(text, limit) == expected
