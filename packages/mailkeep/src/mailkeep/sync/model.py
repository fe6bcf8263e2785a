"""The values of synchronization: what a folder's run and an account's run came to, what a progress bar shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from mailkeep.mailbox import BatchOutcome, FolderBinding
from mailkeep.mutations.recognition import Recognized


class Outcome(StrEnum):
    """How a folder run ended (SYNC-11)."""

    SYNCHRONIZED = "Synchronized"
    ALIAS_UNRESOLVED = "AliasUnresolved"
    ALIAS_AMBIGUOUS = "AliasAmbiguous"
    DEFERRED_AFTER_CONCURRENCY_CONFLICT = "DeferredAfterConcurrencyConflict"
    DEFERRED_AFTER_MAIL_SERVER_UNAVAILABLE = "DeferredAfterMailServerUnavailable"
    UNEXPECTED_FAILURE = "UnexpectedFailure"
    INTERRUPTED_BY_SHUTDOWN = "InterruptedByShutdown"

    @property
    def is_failure(self) -> bool:
        """Whether it makes the account's run a failed one. An edit mends an alias, a wait does not (SYNC-9)."""
        return self in {
            Outcome.DEFERRED_AFTER_CONCURRENCY_CONFLICT,
            Outcome.DEFERRED_AFTER_MAIL_SERVER_UNAVAILABLE,
            Outcome.UNEXPECTED_FAILURE,
        }


class Phase(StrEnum):
    """What an account is doing (SYNC-11)."""

    NOT_STARTED = "NotStarted"
    WAITING_FOR_NEXT_RUN = "WaitingForNextRun"
    WAITING_FOR_RUN_SLOT = "WaitingForRunSlot"
    RUNNING = "Running"


class LimitReached(StrEnum):
    """Why a folder run stopped before the folder's end. The next run continues at the next message."""

    METADATA_BATCHES_PER_RUN = "max_metadata_batches_per_run"
    CONTENT_BYTES_PER_RUN = "max_content_bytes_per_run"
    STORED_CONTENT_BYTES = "max_stored_content_bytes"


@dataclass(frozen=True, slots=True)
class FolderOutcome:
    """One folder run: what it did, and whether more is waiting on the server.

    `failure_code` is the five-digit code of the error behind an outcome that is a failure, 0 for one without a code.
    `was_proven_unchanged` says that the folder was not even opened.
    """

    alias: str
    outcome: Outcome
    arrivals: BatchOutcome = field(default_factory=BatchOutcome)
    octets_fetched: int = 0
    flags_changed: int = 0
    gone: int = 0
    refilled: int = 0
    repaired: int = 0
    more_remains: bool = False
    was_proven_unchanged: bool = False
    limits_reached: frozenset[LimitReached] = frozenset()
    recognized: Recognized = field(default_factory=Recognized)
    failure_code: int | None = None


@dataclass(frozen=True, slots=True)
class AccountOutcome:
    """One run of one account. `unreadable_folder_lines` counts LIST lines that were skipped, `resolved` has the folders
    that were found, in the order of the account."""

    account_id: str
    folders: tuple[FolderOutcome, ...]
    started_at: datetime
    finished_at: datetime
    commands_sent: int = 0
    octets_received: int = 0
    unreadable_folder_lines: int = 0
    failure_code: int | None = None
    resolved: tuple[FolderBinding, ...] = ()

    @property
    def is_failed(self) -> bool:
        return self.failure_code is not None or any(folder.outcome.is_failure for folder in self.folders)

    @property
    def more_remains(self) -> bool:
        return any(folder.more_remains for folder in self.folders)

    @property
    def arrivals(self) -> BatchOutcome:
        total = BatchOutcome()
        for folder in self.folders:
            total += folder.arrivals
        return total


@dataclass(frozen=True, slots=True)
class Progress:
    """One step, for a progress bar. Counts are of this run; rates of the last seconds.

    `messages_total` is what the server held beyond what was already here when the run began, over all folders; None
    before it is known. `seconds_left` is an estimate from the message rate, None while there is none to make.
    """

    account_id: str
    folder: str
    folders_done: int
    folders_total: int
    messages_done: int
    messages_total: int | None
    octets_done: int
    messages_per_second: float
    octets_per_second: float
    seconds_left: float | None
