"""The decisions behind push: how long to wait after failures, what is news."""

from datetime import UTC, datetime, timedelta

import pytest

from mailkeep.imap import FolderState
from mailkeep.mailbox import Checkpoint, ModSeq, Uid, UidValidity
from mailkeep.sync.push import has_news, pause_after

KNOWN = Checkpoint(
    uid_validity=UidValidity(7),
    last_seen_uid=Uid(4),
    synchronized_at=datetime(2026, 1, 1, tzinfo=UTC),
    reconciled_through_modseq=ModSeq(9),
    remote_message_count=3,
    remote_uid_next=5,
    remote_observed_at=None,
)
SAME = FolderState(messages=3, uid_next=5, uid_validity=7, highest_modseq=9)


@pytest.mark.spec("SYNC-89")
def test_waits_double_up_to_the_limit_and_are_the_degradation_period_from_there_on() -> None:
    """The count goes on beyond the limit: every further failure degrades at once."""
    period = timedelta(minutes=15)
    waits = [pause_after(count, limit=3, degradation=period, chance=1.0) for count in range(1, 6)]
    second = timedelta(seconds=1)
    assert waits == [(second, False), (2 * second, False), (period, True), (period, True), (period, True)]
    wait, _ = pause_after(90, limit=100, degradation=period, chance=0.0)
    assert wait == timedelta(seconds=15)


@pytest.mark.case("53")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (SAME, False),
        (FolderState(), False),
        (FolderState(messages=3, uid_next=6, uid_validity=7, highest_modseq=9), True),
        (FolderState(messages=2, uid_next=5, uid_validity=7), True),
        (FolderState(uid_validity=8), True),
        (FolderState(messages=3, uid_next=5, uid_validity=7, highest_modseq=10), True),
    ],
)
def test_a_state_is_news_when_anything_known_on_both_sides_differs(state: FolderState, expected: bool) -> None:
    """What the server leaves out starts no run; the interval does."""
    assert has_news(KNOWN, state) is expected


def test_a_folder_without_a_checkpoint_is_news() -> None:
    """No run has been there yet."""
    assert has_news(None, SAME)
