"""What a change of the remote mailbox is: its kinds, its stages, its terms, and the record of one (spec MUT 1 to 4).

Closed sets are spelled as they are stored. Nothing here holds a subject, an address, a body or a file name (MUT-9).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from mailkeep.config import AuthoredDeleteDisposition
from mailkeep.mailbox import AccountId, FolderId, Uid, UidValidity

MAX_KEYWORDS: Final = 64
MAX_KEYWORD_CHARACTERS: Final = 64
MAX_IDENTITY_CHARACTERS: Final = 128
MAX_PATH_CHARACTERS: Final = 512


class Mutation(StrEnum):
    """Everything that may be asked of a message the server already holds (MUT-1)."""

    RELOCATE = "relocate"
    COPY = "copy"
    DELETE = "delete"
    SET_SEEN = "set-seen"
    SET_FLAGGED = "set-flagged"
    ADD_KEYWORDS = "add-keywords"
    REMOVE_KEYWORDS = "remove-keywords"
    SET_KEYWORDS = "set-keywords"

    @property
    def places(self) -> bool:
        """Whether it puts a message into another folder, so that an unanswered command may have done so."""
        return self in (Mutation.RELOCATE, Mutation.COPY)

    @property
    def removes_source(self) -> bool:
        return self in (Mutation.RELOCATE, Mutation.DELETE)

    @property
    def is_about_keywords(self) -> bool:
        return self in (Mutation.ADD_KEYWORDS, Mutation.REMOVE_KEYWORDS, Mutation.SET_KEYWORDS)


ORDER_IN_MESSAGE: Final = (
    Mutation.SET_SEEN,
    Mutation.SET_FLAGGED,
    Mutation.SET_KEYWORDS,
    Mutation.REMOVE_KEYWORDS,
    Mutation.ADD_KEYWORDS,
    Mutation.COPY,
    Mutation.RELOCATE,
    Mutation.DELETE,
)
"""Flags first: after a move the UID no longer exists (MUT-57)."""


class RequesterOrigin(StrEnum):
    """Who asked. Only `Command` has a writer until rules and classification exist."""

    RULE = "Rule"
    COMMAND = "Command"
    CLASSIFICATION = "Classification"


class Stage(StrEnum):
    """How far a change is known to have got (spec MUT section 4)."""

    RECORDED = "Recorded"
    PLACEMENT_ISSUED = "PlacementIssued"
    PLACEMENT_CONFIRMED = "PlacementConfirmed"
    SOURCE_FLAGGED_DELETED = "SourceFlaggedDeleted"
    COMPLETED = "Completed"
    ABANDONED = "Abandoned"

    @property
    def is_terminal(self) -> bool:
        return self in (Stage.COMPLETED, Stage.ABANDONED)

    def may_become(self, later: Stage) -> bool:
        """Whether the step goes forward (MUT-18). Every unfinished stage may end in either way."""
        order = list(Stage)
        return not self.is_terminal and order.index(later) > order.index(self)


class Lifecycle(StrEnum):
    """The stage as it is published (MUT-21)."""

    PENDING = "pending"
    CONVERGING = "converging"
    COMPLETED = "completed"
    DEAD_LETTERED = "dead-lettered"

    @classmethod
    def of(cls, stage: Stage) -> Lifecycle:
        return {
            Stage.RECORDED: cls.PENDING,
            Stage.COMPLETED: cls.COMPLETED,
            Stage.ABANDONED: cls.DEAD_LETTERED,
        }.get(stage, cls.CONVERGING)


class AuditOutcome(StrEnum):
    """How an audited change ended."""

    PERFORMED = "Performed"
    ABANDONED = "Abandoned"


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks, and under which identity: one identity asks for one mutation of one occurrence once (MUT-14)."""

    origin: RequesterOrigin
    identity: str


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked, resolved when it is recorded and never read again from settings (MUT-11).

    Exactly the parameters of the mutation are set (MUT-10; `terms.refuse_malformed`); `keywords` None means that it
    takes none, the empty tuple that all are cleared. `creates_destination` allows CREATE of a missing folder (MUT-61).
    """

    mutation: Mutation
    destination_folder_path: str | None = None
    destination_hierarchy_delimiter: str | None = None
    creates_destination: bool = False
    desired_seen_state: bool | None = None
    desired_flagged_state: bool | None = None
    keywords: tuple[str, ...] | None = None
    local_disposition: AuthoredDeleteDisposition | None = None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Where a message was when the change was recorded. The message may move; the command does not."""

    folder_id: FolderId
    uid_validity: UidValidity
    uid: Uid


@dataclass(frozen=True, slots=True)
class Placement:
    """What COPYUID named (RFC 4315 §3)."""

    uid_validity: UidValidity
    uid: Uid


@dataclass(frozen=True, slots=True)
class MutationRecord:
    """One row of `mailbox_mutations`."""

    id: UUID
    stored_email_id: UUID
    account_id: AccountId
    source: Occurrence
    terms: Terms
    requester: Requester
    stage: Stage
    stage_changed_at: datetime
    abandoned_from_stage: Stage | None
    issued_at: datetime | None
    requires_source_removal: bool
    placement: Placement | None
    placement_observed_at: datetime | None
    source_removal_observed_at: datetime | None
    attempt_count: int
    last_failure_code: int | None
    audit_trail_enabled: bool
    prior_state: bool | None
    prior_keywords: tuple[str, ...] | None
    undoes_mutation_id: UUID | None
    recorded_at: datetime

    @property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle.of(self.stage)


def convergence_lease(account_id: str) -> str:
    """The lease that a process holds while it carries out changes of an account: one at a time does."""
    return f"mailkeep changes {account_id}"
