"""One folder run in progress: what it works with, where it stands, and what it came to so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from mailkeep.config import AccountSettings
from mailkeep.errors import ContentUnavailable
from mailkeep.imap import Ahead, FolderState, Selected, UidSet
from mailkeep.mailbox import BatchOutcome, Checkpoint, FolderBinding, UidValidity, advance_checkpoint
from mailkeep.mutations.recognition import Recognized
from mailkeep.sync.link import Link
from mailkeep.sync.model import FolderOutcome, LimitReached, Outcome
from mailkeep.sync.plan import FolderPlan, plan_folder
from mailkeep.sync.progress import Meter
from mailkeep.sync.resources import Resources
from mailkeep.sync.volume import RunBudget


@dataclass(slots=True)
class FolderWork:
    """One folder run in progress. `checkpoint` is what the database holds of it at this moment."""

    resources: Resources
    account: AccountSettings
    link: Link
    binding: FolderBinding
    state: FolderState
    plan: FolderPlan
    checkpoint: Checkpoint
    meter: Meter
    budget: RunBudget
    ahead: Ahead | None = None
    """What was asked of the arrivals while the folder was being opened."""
    arrivals: BatchOutcome = field(default_factory=BatchOutcome)
    octets_fetched: int = 0
    flags_changed: int = 0
    gone: int = 0
    refilled: int = 0
    repaired: int = 0
    blocked: ContentUnavailable | None = None
    """Why the run cannot go past where it is."""
    discovered: int | None = None
    """How many messages the search found beyond the checkpoint; None while unknown, or when a date narrowed it."""
    vanished: UidSet | None = None
    """What the server said to have vanished since the recorded mod-sequence; None when it did not tell."""
    limits_reached: set[LimitReached] = field(default_factory=set)
    recognized: Recognized = field(default_factory=Recognized)
    joined_through: int | None = None
    """Up to which UID placements of our own changes were looked for; None when none is expected."""
    placements_gone: set[UUID] = field(default_factory=set)
    """The changes whose placements hold nothing any more."""

    @property
    def uid_validity(self) -> UidValidity:
        return self.checkpoint.uid_validity

    async def move_checkpoint(self, new: Checkpoint) -> None:
        """Compare and set; raises ConcurrencyConflict when somebody else moved it (SYNC-57)."""
        await advance_checkpoint(self.resources.db, self.binding.folder_id, expected=self.checkpoint, new=new)
        self.checkpoint = new

    def outcome(
        self, outcome: Outcome, *, more_remains: bool = False, failure_code: int | None = None
    ) -> FolderOutcome:
        """What the run came to, also one that ended in the middle: what was stored is stored."""
        return FolderOutcome(
            alias=self.binding.alias,
            outcome=outcome,
            arrivals=self.arrivals,
            octets_fetched=self.octets_fetched,
            flags_changed=self.flags_changed,
            gone=self.gone,
            refilled=self.refilled,
            repaired=self.repaired,
            more_remains=more_remains,
            limits_reached=frozenset(self.limits_reached),
            recognized=self.recognized,
            failure_code=failure_code,
        )


def errand(
    resources: Resources,
    account: AccountSettings,
    link: Link,
    binding: FolderBinding,
    selected: Selected,
    *,
    checkpoint: Checkpoint,
    octets: int,
) -> FolderWork:
    """Work on messages named by their UIDs, outside of a folder run; it may fetch so many `octets`."""
    state = state_of(selected)
    return FolderWork(
        resources=resources,
        account=account,
        link=link,
        binding=binding,
        state=state,
        plan=plan_folder(checkpoint, state),
        checkpoint=checkpoint,
        meter=Meter(account.account_id, None),
        budget=RunBudget(octets),
    )


def state_of(selected: Selected) -> FolderState:
    """A folder's state as EXAMINE told it."""
    return FolderState(selected.exists, selected.uid_next, selected.uid_validity, selected.highest_modseq)
