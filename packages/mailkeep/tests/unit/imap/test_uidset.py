"""Sets of UIDs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.imap import UidSet

uids = st.lists(st.integers(1, 2**32 - 1) | st.integers(1, 60), max_size=60)


@pytest.mark.case("37")
@given(uids.filter(bool))
def test_sets_are_sent_ascending_and_compressed(numbers: list[int]) -> None:
    """Whatever the order, the wire shows ascending ranges that neither touch nor overlap."""
    previous = -1
    for part in UidSet.of(numbers).wire().split(b","):
        ends = [int(end) for end in part.split(b":")]
        assert ends == sorted(set(ends))
        assert ends[0] > previous + 1
        previous = ends[-1]


@given(uids)
def test_a_set_holds_exactly_its_members(numbers: list[int]) -> None:
    """Membership, iteration, length and re-reading agree with a plain set."""
    members = UidSet.of(numbers)
    assert list(members) == sorted(set(numbers))
    assert len(members) == len(set(numbers))
    assert all(number in members for number in numbers)
    if numbers:
        assert UidSet.parse(members.wire().decode()) == members
        assert members.highest == max(numbers)


@given(uids, uids)
def test_absent_is_the_difference(ours: list[int], theirs: list[int]) -> None:
    """What the server lacks is found in one pass."""
    assert UidSet.of(theirs).absent(sorted(set(ours))) == sorted(set(ours) - set(theirs))


@given(uids.filter(bool), st.integers(12, 80))
def test_long_sets_are_cut_into_several_commands(numbers: list[int], limit: int) -> None:
    """No command line grows with the folder, and nothing is lost by cutting."""
    whole = UidSet.of(numbers)
    parts = list(whole.commands(limit))
    assert all(len(part.wire()) <= max(limit, 21) for part in parts)
    assert UidSet.of_ranges(pair for part in parts for pair in part.ranges) == whole


@pytest.mark.parametrize("text", ["", "1:", "a", "1,,2", "*", "1:*", "12345678901"])
def test_what_is_no_set_is_refused(text: str) -> None:
    """An unreadable set is an error, never an empty set."""
    with pytest.raises(ValueError, match="not a sequence set"):
        UidSet.parse(text)


def test_a_range_may_be_written_backwards() -> None:
    """RFC 9051 lets `4:2` mean `2:4`."""
    assert list(UidSet.parse("4:2,9")) == [2, 3, 4, 9]


def test_between_and_pages() -> None:
    """Bounds cut ranges; pages are ascending and bounded."""
    assert list(UidSet.parse("1:10,20:30").between(5, 21)) == [5, 6, 7, 8, 9, 10, 20, 21]
    assert list(UidSet.parse("1:3,7").pages(2)) == [[1, 2], [3, 7]]


def test_the_empty_set_cannot_be_sent() -> None:
    """Asking about nothing is a mistake of the caller."""
    with pytest.raises(ValueError, match="empty"):
        UidSet().wire()
