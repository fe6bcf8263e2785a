"""What a folder needs, decided from what is remembered and what the server says."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from mailkeep.imap import FolderState, Selected
from mailkeep.mailbox import Checkpoint, ModSeq, Uid, UidValidity
from mailkeep.sync.plan import (
    FlagQuestion,
    advanced,
    completed,
    fresh_checkpoint,
    is_proven_unchanged,
    merge_states,
    plan_folder,
)

NOW = datetime(2024, 3, 5, tzinfo=UTC)
STATE = FolderState(messages=10, uid_next=21, uid_validity=7, highest_modseq=500)
DONE = Checkpoint(
    uid_validity=UidValidity(7),
    last_seen_uid=Uid(20),
    synchronized_at=NOW,
    reconciled_through_modseq=ModSeq(500),
    remote_message_count=10,
    remote_uid_next=Uid(21),
    remote_observed_at=NOW,
)


def test_a_folder_is_passed_over_when_everything_is_known_and_equal() -> None:
    """Four equal values on both sides are the proof."""
    assert is_proven_unchanged(DONE, STATE)


@pytest.mark.case("10", "20", "23")
@pytest.mark.parametrize("field", ["messages", "uid_next", "uid_validity", "highest_modseq"])
@pytest.mark.parametrize("value", [None, 999])
def test_an_unknown_or_different_value_on_the_servers_side_is_never_unchanged(field: str, value: int | None) -> None:
    """Each of the four values can by itself refuse the proof."""
    assert not is_proven_unchanged(DONE, replace(STATE, **{field: value}))


@pytest.mark.case("10", "20")
@pytest.mark.parametrize("field", ["remote_message_count", "remote_uid_next", "reconciled_through_modseq"])
def test_an_unknown_value_on_our_side_is_never_unchanged(field: str) -> None:
    """Two unknowns are not equal."""
    nothing: Any = {field: None}
    emptied = replace(DONE, **nothing)
    assert not is_proven_unchanged(emptied, STATE)
    assert not is_proven_unchanged(emptied, FolderState(None, None, 7, None))
    assert not is_proven_unchanged(None, STATE)
    assert not is_proven_unchanged(DONE, None)


@pytest.mark.case("19")
def test_an_empty_folder_without_mod_sequences_is_unchanged() -> None:
    """HIGHESTMODSEQ 0 on an empty mailbox neither wipes nor loops."""
    state = FolderState(messages=0, uid_next=1, uid_validity=7, highest_modseq=None)
    checkpoint = completed(fresh_checkpoint(state), state, flags_through=None, is_at_end=True, now=NOW)
    assert is_proven_unchanged(checkpoint, state)
    assert not is_proven_unchanged(checkpoint, replace(state, messages=1, uid_next=2))


@pytest.mark.case("1", "2")
@pytest.mark.spec("SYNC-51", "SYNC-71")
def test_another_uid_validity_starts_over_and_touches_nothing_old() -> None:
    """Progress of another identity reads as none: everything is discovered, nothing is compared or asked."""
    plan = plan_folder(DONE, replace(STATE, uid_validity=8))
    assert plan.starts_over
    assert (plan.first_uid, plan.last_uid) == (1, 20)
    assert plan.flags is FlagQuestion.NONE
    assert not plan.compares_uids


@pytest.mark.case("1", "2")
@pytest.mark.spec("SYNC-51")
def test_a_fresh_start_inherits_neither_uids_nor_sequence() -> None:
    """The new checkpoint knows the new identity and the sequence of this moment only."""
    fresh = fresh_checkpoint(replace(STATE, uid_validity=8, highest_modseq=3))
    assert fresh == Checkpoint(
        uid_validity=UidValidity(8), reconciled_through_modseq=ModSeq(3), remote_message_count=10
    )


@pytest.mark.spec("SYNC-52", "SYNC-53")
def test_discovery_is_bounded_by_what_is_seen_and_by_uidnext() -> None:
    """From the next UID to the last assigned one; nothing when there is nothing beyond."""
    plan = plan_folder(replace(DONE, last_seen_uid=Uid(15)), STATE)
    assert (plan.discovers, plan.first_uid, plan.last_uid) == (True, 16, 20)
    assert not plan_folder(DONE, STATE).discovers


@pytest.mark.case("7", "8", "10")
def test_without_uidnext_discovery_goes_to_the_end() -> None:
    """Unknown is not nothing: the folder is searched to wherever it ends."""
    plan = plan_folder(DONE, replace(STATE, uid_next=None))
    assert (plan.discovers, plan.first_uid, plan.last_uid) == (True, 21, None)


@pytest.mark.spec("SYNC-53", "SYNC-58")
def test_the_last_uid_there_can_be_ends_discovery() -> None:
    """After 2**32-1 there is nothing to ask for."""
    plan = plan_folder(replace(DONE, last_seen_uid=Uid(2**32 - 1)), replace(STATE, uid_next=None))
    assert not plan.discovers


@pytest.mark.case("11")
@pytest.mark.spec("SYNC-56")
def test_a_completed_pass_moves_past_uids_that_were_never_seen() -> None:
    """The message at UIDNEXT-1 was deleted before it was fetched; the next plan has nothing to discover."""
    state = replace(STATE, uid_next=30)
    after = completed(DONE, state, flags_through=500, is_at_end=True, now=NOW)
    assert after.last_seen_uid == 29
    assert not plan_folder(after, state).discovers
    assert is_proven_unchanged(after, state)


@pytest.mark.case("23")
@pytest.mark.spec("SYNC-72")
def test_flags_are_asked_for_by_mod_sequence_where_both_sides_have_one() -> None:
    """A moved sequence alone is a reason to ask, an equal one a reason not to."""
    assert plan_folder(DONE, replace(STATE, highest_modseq=501)).flags is FlagQuestion.CHANGED_SINCE
    assert plan_folder(DONE, STATE).flags is FlagQuestion.NONE


@pytest.mark.case("20")
@pytest.mark.spec("SYNC-72")
@pytest.mark.parametrize(("known", "current"), [(None, 500), (500, None), (None, None), (500, 499)])
def test_flags_are_all_asked_for_when_sequences_prove_nothing(known: int | None, current: int | None) -> None:
    """A missing sequence, or one that went back, proves nothing."""
    checkpoint = replace(DONE, reconciled_through_modseq=None if known is None else ModSeq(known))
    assert plan_folder(checkpoint, replace(STATE, highest_modseq=current)).flags is FlagQuestion.ALL


@pytest.mark.case("22")
def test_uids_are_compared_unless_nothing_arrived_and_the_count_is_the_same() -> None:
    """Only an equal UIDNEXT together with an equal count proves that nothing was removed."""
    assert not plan_folder(DONE, replace(STATE, highest_modseq=501)).compares_uids
    for uid_next, messages in product((21, 22, None), (9, 10, None)):
        if (uid_next, messages) != (21, 10):
            assert plan_folder(DONE, replace(STATE, uid_next=uid_next, messages=messages)).compares_uids


def test_the_backward_pass_does_not_wait_for_the_backlog() -> None:
    """What is held is reconciled while a first pass is still under way (SYNC-50)."""
    halfway = replace(advanced(fresh_checkpoint(STATE), 12, messages=10, now=NOW))
    plan = plan_folder(halfway, replace(STATE, highest_modseq=501))
    assert plan.discovers
    assert plan.first_uid == 13
    assert plan.flags is FlagQuestion.CHANGED_SINCE
    assert plan.compares_uids


@pytest.mark.spec("SYNC-57")
def test_a_checkpoint_never_goes_back() -> None:
    """A chunk below what is seen leaves it where it is."""
    assert advanced(DONE, 3, messages=10, now=NOW).last_seen_uid == 20
    assert completed(DONE, replace(STATE, uid_next=5), flags_through=None, is_at_end=True, now=NOW).last_seen_uid == 20


@pytest.mark.case("218", "214")
def test_only_a_pass_that_reached_the_end_records_what_can_prove_no_change() -> None:
    """An interrupted pass leaves no state by which the next run could skip the folder."""
    halfway = completed(advanced(DONE, 20, messages=10, now=NOW), STATE, flags_through=500, is_at_end=False, now=NOW)
    assert not is_proven_unchanged(halfway, STATE)
    assert halfway.reconciled_through_modseq == 500


def test_a_sequence_is_recorded_only_when_the_question_was_asked() -> None:
    """Until then the earlier one stands, so no flag change is skipped (SYNC-74)."""
    after = completed(DONE, replace(STATE, highest_modseq=900), flags_through=None, is_at_end=True, now=NOW)
    assert after.reconciled_through_modseq == 500


@pytest.mark.case("8")
def test_status_fills_what_examine_leaves_out() -> None:
    """The newer answer wins where it says something; a STATUS of another folder identity is left aside."""
    selected = Selected("INBOX", 7, None, 11, None)
    assert merge_states(selected, STATE) == FolderState(11, 21, 7, 500)
    assert merge_states(selected, replace(STATE, uid_validity=6)) == FolderState(11, None, 7, None)
    assert merge_states(replace(selected, uid_next=25, highest_modseq=600), STATE) == FolderState(11, 25, 7, 600)
