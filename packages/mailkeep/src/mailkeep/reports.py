"""What operators are told of accounts, folders and quarantine: the counts of the store as a person adds them up."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from mailkeep.mailbox import FolderStatus, LastProof, QuarantinedMessage
from mailkeep.mutations import ChangeCounts


@dataclass(frozen=True, slots=True)
class ProofReport:
    """The last `mailkeep verify` of a folder: when, how much the server had, and what was on one side only."""

    proved_at: datetime
    server: int
    holes: int
    surplus: int


@dataclass(frozen=True, slots=True)
class FolderReport:
    """What a folder holds against its server, such that server = stored + quarantined + skipped + missing.

    `stored` has its octets; `skipped` is known by its header only, for the reasons named; `missing` is not here yet;
    `server` and `missing` are None for a folder nobody has asked the server about, and for local ones. The content of
    `damaged` messages waits to be fetched again; for `unrepairable` ones of them that was tried in vain, or cannot be.
    `proof` is None for a folder that was never verified. Of messages that the server has no more, the copies of `gone`
    ones are hidden and those of `kept` ones readable.
    """

    folder: str
    path: str
    role: str | None
    server: int | None
    stored: int
    quarantined: int
    skipped: int
    skipped_by_reason: dict[str, int]
    missing: int | None
    unreadable: int
    gone: int
    observed_at: datetime | None
    synchronized_at: datetime | None
    damaged: int = 0
    unrepairable: int = 0
    proof: ProofReport | None = None
    kept: int = 0


@dataclass(frozen=True, slots=True)
class AccountReport:
    """An account with its folders; phase, failures and push are known only inside `mailkeep serve` (SYNC-11).

    `pause_reason` says why the server asked to be left alone until `next_run_at`. `push` is how changes are learnt of
    (Notify, Idle or Polling) where the account's mode is Push, and `watched_folders` how many are waited on right now.
    `breakers` has the state of each circuit breaker (Closed, Open, HalfOpen) by the class of calls; empty elsewhere.
    `changes` counts what was asked of the mailbox and is not done.
    """

    account: str
    name: str
    kind: str
    folders: tuple[FolderReport, ...]
    phase: str | None = None
    next_run_at: datetime | None = None
    failure_count: int = 0
    pause_reason: str | None = None
    push: str | None = None
    watched_folders: int = 0
    breakers: dict[str, str] = field(default_factory=dict)
    changes: ChangeCounts = field(default_factory=ChangeCounts)


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A message that could not be fetched or stored, and why."""

    account: str
    folder: str
    uid: int
    reason: str
    detail: str | None
    size: int | None
    attempts: int
    first_seen_at: datetime
    last_attempt_at: datetime


def folder_report(status: FolderStatus) -> FolderReport:
    """The counts of the store as a person adds them up."""
    skipped = sum(status.skipped_by_reason.values())
    missing = None if status.server is None else max(0, status.server - status.stored - status.quarantined)
    return FolderReport(
        folder=status.alias,
        path=status.remote_path,
        role=status.special_use.value if status.special_use is not None else None,
        server=status.server,
        stored=status.stored - skipped,
        quarantined=status.quarantined,
        skipped=skipped,
        skipped_by_reason={reason.value: count for reason, count in status.skipped_by_reason.items()},
        missing=missing,
        unreadable=status.unreadable,
        gone=status.tombstoned,
        observed_at=status.observed_at,
        synchronized_at=status.synchronized_at,
        damaged=status.damaged,
        unrepairable=status.unrepairable,
        proof=None if (proof := status.proof) is None else proof_report(proof),
        kept=status.retained,
    )


def proof_report(proof: LastProof) -> ProofReport:
    """The last comparison of a folder."""
    return ProofReport(proof.proved_at, proof.server, proof.holes, proof.surplus)


def quarantine_entry(account_id: str, alias: str, message: QuarantinedMessage) -> QuarantineEntry:
    """A quarantined message with the names people know its folder by."""
    return QuarantineEntry(
        account=account_id,
        folder=alias,
        uid=message.uid,
        reason=message.reason.value,
        detail=message.detail,
        size=message.size_octets,
        attempts=message.attempt_count,
        first_seen_at=message.first_seen_at,
        last_attempt_at=message.last_attempt_at,
    )
