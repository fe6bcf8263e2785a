"""Cursors: their exact text, and the refusal of everything else."""

import base64
import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep_inbox import (
    MailboxCursor,
    MailboxCursorError,
    MailboxFilter,
    MailboxRef,
    MailboxSort,
    MailboxView,
    canonical_mailbox_filter,
    canonical_mailbox_priorities,
    decode_mailbox_cursor,
    decode_thread_cursor,
    encode_mailbox_cursor,
    encode_thread_cursor,
)
from mailkeep_inbox.cursors import assert_mailbox_cursor
from mailkeep_inbox.model import Key

KEY = Key(datetime(2026, 1, 2, 3, 4, 5, 678), "row")  # noqa: DTZ001 -- as the column holds it
DATE = MailboxCursor(key=KEY, view=MailboxView.ALL, sort=MailboxSort.DATE, filter="")
RANKED = replace(DATE, sort=MailboxSort.PRIORITY, rank=1, priorities="high,low")


def packed(fields: object) -> str:
    """Any JSON in the form of a cursor."""
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()


def payload(cursor: str) -> str:
    """The JSON in a cursor."""
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()


@pytest.mark.spec("INBOX-62", "INBOX-64")
def test_payload_byte_for_byte() -> None:
    """Compact JSON with all six digits of the second, unpadded; rank only where the sort has one."""
    text = encode_mailbox_cursor(DATE)
    assert "=" not in text
    assert payload(text) == (
        '{"createdAt":"2026-01-02T03:04:05.000678Z","id":"row","view":"all","sort":"date","filter":""}'
    )
    assert payload(encode_mailbox_cursor(RANKED)).endswith(
        '"sort":"priority","filter":"","rank":1,"priorities":"high,low"}'
    )
    assert payload(encode_mailbox_cursor(replace(DATE, direction="all"))).endswith('"direction":"all"}')


@pytest.mark.spec("INBOX-62", "INBOX-65")
@pytest.mark.parametrize("cursor", [DATE, RANKED, replace(DATE, direction="outbound", query="q")])
def test_cursor_comes_back(cursor: MailboxCursor) -> None:
    """Decoding gives what was encoded."""
    assert decode_mailbox_cursor(encode_mailbox_cursor(cursor)) == cursor


@pytest.mark.spec("INBOX-63")
def test_fingerprints_escape_their_separators() -> None:
    """Values cannot run into each other: commas, ampersands and equals signs are escaped."""
    chosen = MailboxFilter(assignee="a&b=c", priority="", status="ü!~*'()")
    assert canonical_mailbox_filter(chosen) == "priority=&status=%C3%BC!~*'()&assignee=a%26b%3Dc"
    assert canonical_mailbox_filter(MailboxFilter()) == ""
    assert canonical_mailbox_priorities(["a,b", "c"]) == "a%2Cb,c"
    assert canonical_mailbox_priorities(["a", "b,c"]) != canonical_mailbox_priorities(["a,b", "c"])


@pytest.mark.spec("INBOX-63", "INBOX-66")
def test_longest_filter_still_gives_a_cursor_that_is_taken_back() -> None:
    """Filters of 256 characters each, escaped twelvefold, do not outgrow what a cursor may be."""
    chosen = MailboxFilter(**dict.fromkeys(("priority", "classification", "status", "assignee", "label"), "😀" * 256))
    cursor = replace(DATE, filter=canonical_mailbox_filter(chosen))
    assert decode_mailbox_cursor(encode_mailbox_cursor(cursor)) == cursor


FIELDS = json.loads(payload(encode_mailbox_cursor(DATE)))
RANKED_FIELDS = json.loads(payload(encode_mailbox_cursor(RANKED)))
BAD = [
    "", "!", "a b", encode_mailbox_cursor(DATE) + "=", encode_mailbox_cursor(DATE)[:-1], "é", "A",
    base64.urlsafe_b64encode(b"\xff\xfe").rstrip(b"=").decode(),
    base64.urlsafe_b64encode(b"[" * 6000).rstrip(b"=").decode(),
    packed([]), packed(None), packed(1), packed({}), "A" * 8193,
    *(packed({name: value for name, value in FIELDS.items() if name != missing}) for missing in FIELDS),
    *(packed(FIELDS | {name: 1}) for name in FIELDS),
    packed(FIELDS | {"view": "every"}), packed(FIELDS | {"sort": "size"}), packed(FIELDS | {"direction": "up"}),
    packed(FIELDS | {"direction": []}), packed(FIELDS | {"query": 1}),
    *(packed(FIELDS | {"createdAt": moment}) for moment in (
        "2026-02-30T00:00:00.000000Z", "0000-01-01T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z",
        "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000000", "2026-01-01T00:00:00.000000Z\n",
        "٢٠٢٦-01-01T00:00:00.000000Z", "2026-01-01 00:00:00.000000Z", "2026-01-01T00:00:60.000000Z",
    )),
    *(packed(FIELDS | {"id": row_id}) for row_id in ("", "a\0", "\ud800", "x" * 256)),
    *(packed({name: value for name, value in RANKED_FIELDS.items() if name != missing})
      for missing in ("rank", "priorities")),
    *(packed(RANKED_FIELDS | {"rank": rank}) for rank in (-1, 3, 2**40, True, 1.0, "1", None)),
]  # fmt: skip


@pytest.mark.spec("INBOX-65", "INBOX-66")
@pytest.mark.parametrize("text", BAD)
def test_malformed_cursors_are_refused(text: str) -> None:
    """Nothing that this library did not mint gets as far as the server."""
    with pytest.raises(MailboxCursorError, match=r"^malformed cursor$"):
        decode_mailbox_cursor(text)


@pytest.mark.spec("INBOX-65", "INBOX-66")
@given(st.one_of(st.text(max_size=60), st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=8) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(RANKED_FIELDS)), inner),
    max_leaves=8).map(packed)))  # fmt: skip
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    """No input raises anything but the named error."""
    with suppress(MailboxCursorError):
        decode_mailbox_cursor(text)


@pytest.mark.spec("INBOX-67")
@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (replace(RANKED, view=MailboxView.TRASH), "view"),
        (replace(RANKED, direction="all"), "view"),
        (replace(RANKED, filter="status=x"), "filter"),
        (replace(RANKED, sort=MailboxSort.DATE), "sort"),
        (replace(RANKED, priorities="low,high"), "priority ordering"),
        (replace(RANKED, priorities="high,low,none"), "priority ordering"),
        (replace(RANKED, query="x"), "search"),
    ],
)
def test_cursor_of_another_list_is_refused(wanted: MailboxCursor, text: str) -> None:
    """A cursor belongs to one view, sort, filter and order of priorities; the text says which differs."""
    with pytest.raises(MailboxCursorError, match=rf"^cursor does not match inbox {text}$"):
        assert_mailbox_cursor(RANKED, wanted)


@pytest.mark.spec("INBOX-68", "INBOX-69")
def test_thread_cursor_belongs_to_its_ref() -> None:
    """The ref is a compact array of kind and id; a label is no part of it."""
    ref = MailboxRef("case", "wb-1", "label")
    text = encode_thread_cursor(KEY, ref, "inbound")
    assert payload(text) == '{"createdAt":"2026-01-02T03:04:05.000678Z","id":"row","ref":"[\\"case\\",\\"wb-1\\"]"}'
    assert decode_thread_cursor(text, MailboxRef("case", "wb-1"), "inbound") == KEY
    with pytest.raises(MailboxCursorError):
        decode_thread_cursor(text, MailboxRef("case", "wb-10"), "inbound")
    with pytest.raises(MailboxCursorError):
        decode_thread_cursor(text, ref, "all")
