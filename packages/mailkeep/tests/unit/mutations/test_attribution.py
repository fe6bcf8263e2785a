"""Which readings of flags stores of our own explain."""

from __future__ import annotations

from uuid import UUID

import pytest

from mailkeep.mailbox import FlagChange, Flags, Uid
from mailkeep.mutations.attribution import FlagValue, OwnStore, attribute
from mailkeep.mutations.model import Mutation

MESSAGE = UUID(int=1)


def store(number: int, mutation: Mutation, value: bool | None = None, *keywords: str) -> OwnStore:
    return OwnStore(
        UUID(int=number),
        mutation,
        value if mutation is Mutation.SET_SEEN else None,
        value if mutation is Mutation.SET_FLAGGED else None,
        frozenset(keywords),
    )


def authors(before: Flags | None, now: Flags, *stores: OwnStore) -> dict[FlagValue, tuple[int, ...]]:
    """The stores that explain each value that moved; none of them is the owner."""
    changes = attribute([FlagChange(MESSAGE, Uid(7), before, now)], {Uid(7): stores})
    return {one.value: tuple(number.int for number in one.explained_by) for one in changes}


@pytest.mark.spec("MUT-50")
def test_each_value_is_attributed_by_itself() -> None:
    """We set the star, the owner read the message: one change of ours, one of the owner."""
    found = authors(Flags(), Flags(seen=True, flagged=True), store(1, Mutation.SET_FLAGGED, True))
    assert found == {FlagValue.SEEN: (), FlagValue.FLAGGED: (1,)}


@pytest.mark.spec("MUT-50")
@pytest.mark.parametrize("asked", [True, False])
def test_only_what_was_asked_for_is_explained(asked: bool) -> None:
    """A store of the opposite value, a store of another value and a first reading explain nothing."""
    assert authors(Flags(), Flags(seen=True), store(1, Mutation.SET_SEEN, asked)) == {
        FlagValue.SEEN: (1,) if asked else ()
    }
    assert authors(Flags(), Flags(seen=True), store(1, Mutation.SET_FLAGGED, asked)) == {FlagValue.SEEN: ()}


@pytest.mark.spec("SYNC-84")
def test_a_first_reading_is_no_change() -> None:
    """Nothing is attributed to anybody."""
    assert authors(None, Flags(seen=True, keywords=("A",))) == {}


@pytest.mark.spec("SYNC-84")
def test_other_flags_are_nobody_s_act() -> None:
    """Answered, draft and deleted are not judged."""
    assert authors(Flags(), Flags(answered=True, draft=True, deleted=True)) == {}


@pytest.mark.spec("MUT-50")
@pytest.mark.parametrize(
    ("before", "stores", "now", "explained"),
    [
        ("A", [store(1, Mutation.ADD_KEYWORDS, None, "B")], "A B", (1,)),
        ("A", [store(1, Mutation.ADD_KEYWORDS, None, "B")], "A B C", ()),
        ("A B", [store(1, Mutation.REMOVE_KEYWORDS, None, "B", "C")], "A", (1,)),
        ("A B", [store(1, Mutation.REMOVE_KEYWORDS, None, "B")], "", ()),
        ("A B", [store(1, Mutation.SET_KEYWORDS, None, "C")], "C", (1,)),
        ("A B", [store(1, Mutation.SET_KEYWORDS)], "", (1,)),
        ("A", [store(1, Mutation.REMOVE_KEYWORDS, None, "A"), store(2, Mutation.ADD_KEYWORDS, None, "B")], "B", (1, 2)),
        ("", [store(1, Mutation.ADD_KEYWORDS, None, "A"), store(2, Mutation.ADD_KEYWORDS, None, "B")], "B", (2,)),
        ("A", [store(1, Mutation.ADD_KEYWORDS, None, "B"), store(2, Mutation.SET_KEYWORDS, None, "C")], "B C", ()),
    ],
)
def test_keywords_are_explained_as_a_whole_set(
    before: str, stores: list[OwnStore], now: str, explained: tuple[int, ...]
) -> None:
    """By one store, or by several one after another; a keyword beside them is the owner's and makes the set so."""
    found = authors(Flags(keywords=tuple(before.split())), Flags(keywords=tuple(now.split())), *stores)
    assert found == {FlagValue.KEYWORDS: explained}


@pytest.mark.spec("MUT-51")
def test_many_stores_of_keywords_are_judged_in_bounded_time() -> None:
    """Fifteen stores could combine in 32,768 ways; what is beyond the bound is the owner's."""
    stores = [store(number, Mutation.ADD_KEYWORDS, None, f"K{number}") for number in range(1, 16)]
    everything = Flags(keywords=tuple(f"K{number}" for number in range(1, 16)))
    assert authors(Flags(), everything, *stores) == {FlagValue.KEYWORDS: ()}
