"""What a folder needs, decided from what we remember and what the server says. Pure.

The rule behind every comparison: unknown never means unchanged. A folder, or a part of its work, is passed over only
when every value compared exists on both sides and is equal (cases 10, 20, 23).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from mailkeep.imap import FolderState, Selected
from mailkeep.imap.model import MAX_UID
from mailkeep.mailbox import Checkpoint, ModSeq, Uid, UidValidity


class FlagQuestion(Enum):
    """How flag changes are looked for."""

    NONE = "nothing can have changed"
    CHANGED_SINCE = "ask for what changed since the recorded mod-sequence"
    ALL = "ask for the flags of every message"


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """The work of one folder run, in this order: flags and removals of what is held, then what arrived.

    `first_uid` and `last_uid` bound the discovery; `last_uid` None means to the folder's end, wherever that is.
    """

    starts_over: bool
    discovers: bool
    first_uid: int
    last_uid: int | None
    flags: FlagQuestion
    compares_uids: bool
    held_before: int | None = None
    """How many messages the folder had when our last complete pass ended; None when no pass was complete."""
    stored_through: int = 0
    """The highest UID that is stored already, where that is beyond the checkpoint: after a rewind (SYNC-128)."""

    @property
    def held_through(self) -> int:
        """Up to which UID messages may be held whose flags and presence are to be reconciled; 0 for none."""
        return max(self.first_uid - 1, self.stored_through)


def is_proven_unchanged(checkpoint: Checkpoint | None, state: FolderState | None) -> bool:
    """Whether the folder need not be opened at all.

    Without mod-sequences flags cannot be proven unchanged, except in an empty folder, which has none (case 19).
    """
    if checkpoint is None or state is None:
        return False
    if not (
        _same(checkpoint.uid_validity, state.uid_validity)
        and _same(checkpoint.remote_uid_next, state.uid_next)
        and _same(checkpoint.remote_message_count, state.messages)
    ):
        return False
    return state.messages == 0 or _same(checkpoint.reconciled_through_modseq, state.highest_modseq)


def plan_folder(checkpoint: Checkpoint | None, state: FolderState) -> FolderPlan:
    """The plan for a folder that is open; `state` is what EXAMINE and STATUS said of it together."""
    starts_over = checkpoint is None or checkpoint.uid_validity != state.uid_validity
    seen = 0 if checkpoint is None or starts_over else checkpoint.last_seen_uid or 0
    last_uid = state.uid_next - 1 if state.uid_next is not None else None
    discovers = seen < MAX_UID and (last_uid is None or last_uid > seen)
    if checkpoint is None or starts_over or not seen:
        return FolderPlan(starts_over, discovers, seen + 1, last_uid, FlagQuestion.NONE, compares_uids=False)
    return FolderPlan(
        starts_over=False,
        discovers=discovers,
        first_uid=seen + 1,
        last_uid=last_uid,
        flags=_flag_question(checkpoint, state),
        # With neither arrivals nor another count nothing can have been removed.
        compares_uids=not (
            _same(checkpoint.remote_uid_next, state.uid_next) and _same(checkpoint.remote_message_count, state.messages)
        ),
        held_before=None if checkpoint.remote_uid_next is None else checkpoint.remote_message_count,
    )


def plan_over_stored(plan: FolderPlan, stored_through: int) -> FolderPlan:
    """The plan for a folder without a complete pass that holds messages up to `stored_through`.

    A rewound folder: what was stored before is reconciled whole although the pass begins at the first message.
    """
    if stored_through < plan.first_uid:
        return plan
    question = FlagQuestion.ALL if plan.first_uid == 1 else plan.flags
    return replace(plan, stored_through=stored_through, flags=question, compares_uids=True)


def worth_asking_ahead(
    checkpoint: Checkpoint | None, status: FolderState | None, *, at_most: int
) -> tuple[int, int] | None:
    """First and last UID of what arrived, where STATUS tells them and they are few messages; None otherwise.

    They are searched and described while the folder is being opened, which spares a small folder two of four round
    trips. What EXAMINE then says decides whether the answer is of use.
    """
    if status is None or status.uid_next is None or not status.messages:
        return None
    if checkpoint is not None and checkpoint.uid_validity != status.uid_validity:
        return None
    seen = 0 if checkpoint is None else checkpoint.last_seen_uid or 0
    last = status.uid_next - 1
    return (seen + 1, last) if last > seen and min(last - seen, status.messages) <= at_most else None


def merge_states(selected: Selected, status: FolderState | None) -> FolderState:
    """What is known of an open folder. EXAMINE is newer; what it leaves out comes from STATUS (cases 7, 8).

    A STATUS of another UIDVALIDITY is of another folder and is left aside.
    """
    if status is not None and status.uid_validity not in (None, selected.uid_validity):
        status = None
    return FolderState(
        messages=selected.exists,
        uid_next=selected.uid_next if selected.uid_next is not None or status is None else status.uid_next,
        uid_validity=selected.uid_validity,
        highest_modseq=selected.highest_modseq
        if selected.highest_modseq is not None or status is None
        else status.highest_modseq,
    )


def fresh_checkpoint(state: FolderState) -> Checkpoint:
    """Where a folder starts, or starts over after its UIDVALIDITY changed: nothing seen, nothing inherited (SYNC-51).

    The mod-sequence of this moment is recorded at once: nothing is held yet, so everything held is reconciled
    through it, and flags that change during a long first pass are found later.
    """
    assert state.uid_validity is not None
    return Checkpoint(
        uid_validity=UidValidity(state.uid_validity),
        remote_message_count=state.messages,
        reconciled_through_modseq=None if state.highest_modseq is None else ModSeq(state.highest_modseq),
    )


def advanced(checkpoint: Checkpoint, through_uid: int, *, messages: int | None, now: datetime) -> Checkpoint:
    """The checkpoint after a chunk: never back, and no longer claiming to know the folder's end.

    The server's count is kept for people to compare with; without UIDNEXT it proves nothing.
    """
    seen = max(through_uid, checkpoint.last_seen_uid or 0)
    return replace(
        checkpoint,
        last_seen_uid=Uid(seen) if seen else None,
        synchronized_at=now,
        remote_message_count=messages,
        remote_uid_next=None,
        remote_observed_at=now,
    )


def completed(
    checkpoint: Checkpoint, state: FolderState, *, flags_through: int | None, is_at_end: bool, now: datetime
) -> Checkpoint:
    """The checkpoint after a folder run. `flags_through` is the mod-sequence that all held flags now reflect.

    Only a run that reached the folder's end records what the server said of the folder; recorded values are those
    observed before the work, so whatever changed meanwhile shows as a difference next time.
    """
    known = checkpoint.reconciled_through_modseq
    modseq = known if flags_through is None else ModSeq(flags_through)
    if not is_at_end:
        return replace(checkpoint, synchronized_at=now, reconciled_through_modseq=modseq)
    last_uid = state.uid_next - 1 if state.uid_next is not None else 0
    seen = max(last_uid, checkpoint.last_seen_uid or 0)
    return replace(
        checkpoint,
        last_seen_uid=Uid(seen) if seen else None,
        synchronized_at=now,
        reconciled_through_modseq=modseq,
        remote_message_count=state.messages,
        remote_uid_next=None if state.uid_next is None else Uid(state.uid_next),
        remote_observed_at=now,
    )


def _flag_question(checkpoint: Checkpoint, state: FolderState) -> FlagQuestion:
    known, current = checkpoint.reconciled_through_modseq, state.highest_modseq
    if known is None or current is None or current < known:
        return FlagQuestion.ALL  # a sequence that went back was rebuilt by the server and proves nothing
    return FlagQuestion.NONE if known == current else FlagQuestion.CHANGED_SINCE


def _same(ours: int | None, theirs: int | None) -> bool:
    return ours is not None and theirs is not None and ours == theirs
