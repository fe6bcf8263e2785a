"""The mbox format in both directions."""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.transfer.mbox import is_separator, mbox_entry, read_mbox, separator_date, status_flags
from mailkeep.transfer.model import Item, ItemFlags, Unreadable

LIMIT = 1 << 24
WHEN = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)


def items(octets: bytes, *, limit: int = LIMIT) -> list[Item | Unreadable]:
    """Everything an mbox of these octets yields."""
    return list(read_mbox(io.BytesIO(octets), place="box", max_octets=limit))


def messages(octets: bytes) -> list[bytes]:
    """The octets of its messages; anything else fails the test."""
    found = items(octets)
    assert all(isinstance(item, Item) for item in found), found
    return [item.octets for item in found if isinstance(item, Item)]


LINES = st.lists(
    st.sampled_from(
        [
            b"",
            b"From me",
            b"From a@b Mon Jan  1 00:00:00 2024",
            b">From x",
            b">>From y",
            b"text",
            b"\xff\x00",
            b" From z",
        ]
    ),
    max_size=8,
)


@given(bodies=st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n"])), min_size=1, max_size=4))
def test_what_is_written_is_read_back_octet_for_octet(bodies: list[tuple[list[bytes], bytes]]) -> None:
    """Separators, escaped lines, blank lines and both line ends survive the way out and back in."""
    originals = [end.join([b"Subject: x", b"", *lines, b""]) for lines, end in bodies]
    box = b"".join(mbox_entry(octets, sender="a@b.c", arrived_at=WHEN) for octets in originals)
    found = items(box)
    assert [item.octets for item in found if isinstance(item, Item)] == originals
    assert all(isinstance(item, Item) and item.arrived_at == WHEN for item in found)


def test_a_message_without_a_final_line_end_gets_one_of_its_own_kind() -> None:
    """The format cannot express its absence; nothing else changes."""
    assert messages(mbox_entry(b"A: b\r\n\r\nc", sender=None, arrived_at=WHEN)) == [b"A: b\r\n\r\nc\r\n"]
    assert messages(mbox_entry(b"A: b\n\nc", sender=None, arrived_at=WHEN)) == [b"A: b\n\nc\n"]


def test_a_separator_is_harmless_whatever_the_sender_is() -> None:
    """Blanks, line ends and foreign letters of an address cannot forge a separator line."""
    entry = mbox_entry(b"A: b\n\nc\n", sender="evil\nFrom x ä", arrived_at=WHEN)
    assert entry.splitlines()[0] == b"From evilFromx Sat Feb  3 04:05:06 2024"
    assert mbox_entry(b"A: b\n", sender=None, arrived_at=None).startswith(
        b"From MAILER-DAEMON Thu Jan  1 00:00:00 1970\n"
    )


@pytest.mark.parametrize(
    ("line", "following", "after_blank", "expected"),
    [
        (b"From a@b Mon Jan  1 00:00:00 2024\n", b"Subject: x\n", True, True),
        (b"From a@b Mon Jan  1 00:00:00 2024\n", b"Subject: x\n", False, True),
        (b"From a@b Mon Jan  1 00:00:00 2024\n", b"and so on\n", True, True),
        (b"From a@b Mon Jan  1 00:00:00 2024\n", b"and so on\n", False, False),
        (b"From 1734@xxx Mon Jan 01 00:00:00 +0000 2024\r\n", b"X-GM-THRID: 1\r\n", True, True),
        (b"From - Mon Jan 01 00:00 2024\n", b"X-Mozilla-Status: 1\n", True, True),
        (b"From what I hear, it works\n", b"and so on\n", True, False),
        (b"From what I hear, it works\n", b"Note: this is text\n", False, False),
        (b"From MAILER-DAEMON\n", b"Date: x\n", True, True),
        (b"From: a@b\n", b"To: c\n", True, False),
    ],
)
def test_separators_are_told_from_text(line: bytes, following: bytes, after_blank: bool, expected: bool) -> None:
    """A sentence that begins with From is not a new message; separators of the wild are."""
    assert is_separator(line, following, after_blank=after_blank) is expected


def test_unescaped_sentences_do_not_split_a_message() -> None:
    """Many programs never escaped anything; their mail comes in whole."""
    box = b"From a Mon Jan  1 00:00:00 2024\nSubject: x\n\nHello\n\nFrom what I hear\nit works\n"
    assert messages(box) == [b"Subject: x\n\nHello\n\nFrom what I hear\nit works\n"]


def test_one_bad_message_does_not_stop_the_rest() -> None:
    """Leading text, an empty message and one that is too large are named by number; the others come in."""
    box = (
        b"junk before\n\n"
        b"From a Mon Jan  1 00:00:00 2024\nSubject: 1\n\none\n\n"
        b"From b Mon Jan  1 00:00:00 2024\n\n"
        b"From c Mon Jan  1 00:00:00 2024\nSubject: 3\n\n" + b"x" * 500 + b"\n\n"
        b"From d Mon Jan  1 00:00:00 2024\nSubject: 4\n\nfour\n"
    )
    found = items(box, limit=100)
    assert [item.octets for item in found if isinstance(item, Item)] == [
        b"Subject: 1\n\none\n",
        b"Subject: 4\n\nfour\n",
    ]
    unreadable = [item for item in found if isinstance(item, Unreadable)]
    assert [item.place for item in unreadable] == ["box, message 0", "box, message 2", "box, message 3"]


def test_a_line_longer_than_a_piece_is_kept_whole() -> None:
    """A piece of a long line that happens to begin with From is no separator."""
    long = b"x" * (1 << 20) + b"From a Mon Jan  1 00:00:00 2024\n"
    box = b"From a Mon Jan  1 00:00:00 2024\nSubject: x\n\n" + long
    (found,) = list(read_mbox(io.BytesIO(box), place="box", max_octets=1 << 22))
    assert isinstance(found, Item)
    assert found.octets == b"Subject: x\n\n" + long


def test_state_is_read_from_the_header_only() -> None:
    """Status and X-Status of the header count; the same words in the body do not."""
    octets = b"Subject: x\nStatus: RO\nX-Status: AF\n\nX-Status: D\n"
    assert status_flags(octets) == ItemFlags(seen=True, answered=True, flagged=True)
    assert status_flags(b"Subject: x\n\nStatus: RO\n") is None


def test_impossible_dates_are_no_dates() -> None:
    """A separator with a day that does not exist still separates; its message has no time."""
    assert separator_date(b"From a Mon Feb 31 00:00:00 2024\n") is None
    assert separator_date(b"From a\n") is None
    assert separator_date(b"From a Sat Feb  3 04:05:60 2024\n") == datetime(2024, 2, 3, 4, 5, 59, tzinfo=UTC)


def corpora() -> Path:
    """The folder of the corpora, or a skip that says how to name it."""
    folder = Path(os.environ.get("MAILKEEP_CORPORA") or Path(__file__).parents[6] / "shared" / "corpora")
    if not folder.is_dir():
        pytest.skip("the corpora are not here; name their folder in MAILKEEP_CORPORA")
    return folder


def test_every_message_of_the_corpora_survives_an_mbox() -> None:
    """Mail of the wild comes back octet for octet, but for the final line end where it had none."""
    changed = []
    for file in sorted(corpora().rglob("*.eml")):
        octets = file.read_bytes()
        if not octets.strip() or octets.startswith(b"From "):
            continue
        expected = octets if octets.endswith(b"\n") else None
        found = messages(mbox_entry(octets, sender="a@b.c", arrived_at=WHEN))
        if len(found) != 1 or (found[0] != expected if expected else not found[0].startswith(octets)):
            changed.append(file.name)
    assert changed == []
