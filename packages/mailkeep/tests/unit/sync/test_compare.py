"""Comparing the server's UIDs with ours, and planning over mail that a rewound folder holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.imap import FolderState, UidSet
from mailkeep.sync.plan import FlagQuestion, plan_folder, plan_over_stored
from mailkeep.sync.verify import Held, compare

uids = st.sets(st.integers(1, 60))


@pytest.mark.spec("SYNC-143")
@given(remote=uids, since=uids, visible=uids, quarantined=uids)
def test_every_uid_of_the_server_is_in_exactly_one_place(
    remote: set[int], since: set[int], visible: set[int], quarantined: set[int]
) -> None:
    """Held, excluded by date, or a hole; and whatever is held and not on the server is surplus."""
    held = Held(UidSet.of(visible), {}, UidSet.of(quarantined), UidSet())
    found = compare(UidSet.of(remote), UidSet.of(remote & since), held)
    known = visible | quarantined
    assert set(found.holes) == (remote & since) - known
    assert found.excluded_by_date == len(remote - since - known)
    assert set(found.surplus) == known - remote
    assert len(remote & known) + found.excluded_by_date + len(found.holes) == len(remote)


@pytest.mark.spec("SYNC-128")
def test_what_a_rewound_folder_holds_is_reconciled_whole() -> None:
    """Nothing is asked of an empty folder; a held message behind the start makes both questions whole."""
    plan = plan_folder(None, FolderState(9, 10, 7, 44))
    assert plan_over_stored(plan, 0) == plan
    assert plan.held_through == 0
    over = plan_over_stored(plan, 9)
    assert (over.flags, over.compares_uids, over.held_through, over.first_uid) == (FlagQuestion.ALL, True, 9, 1)
