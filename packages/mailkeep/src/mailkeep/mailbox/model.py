"""The values of the mail store: what arrives, what is remembered of a folder, what a batch came to.

Names follow IMAP (`uid`, `uid_validity`, `modseq`, `internaldate`); `docs/glossary.md` gives the RFC terms. Closed sets
are spelled as they are stored (DATA-6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NewType
from uuid import UUID

from mailkeep.config import ExpungedEmailDisposition
from mailkeep.config import SpecialUse as SpecialUse
from mailkeep.preparation import Arrival as Arrival
from mailkeep.preparation import ContentAvailability as ContentAvailability
from mailkeep.preparation import Flags as Flags
from mailkeep.preparation import Uid as Uid

AccountId = NewType("AccountId", str)
"""The configured id of an account, exact case, at most 128 characters."""
FolderId = NewType("FolderId", int)
"""The key of one binding of an alias to a remote path (`mail_folders.id`)."""
UidValidity = NewType("UidValidity", int)
"""1 to 4,294,967,295."""
ModSeq = NewType("ModSeq", int)
"""1 to 2**63-1 (RFC 7162 §3.1); whatever reads 0 says "none" with None."""

MAX_UID: Final = 4_294_967_295
Disposition = ExpungedEmailDisposition
"""What happens to the local copy of a message that is gone from the server (SYNC-79)."""


class QuarantineReason(StrEnum):
    """Why a message of the server is not in the store although it was met."""

    FETCH_REFUSED = "FetchRefused"
    """The server answered NO, BAD or nothing for this one message (case 26)."""
    FETCH_INCOMPLETE = "FetchIncomplete"
    """The server's answer broke off or broke the connection at this one message, again and again."""
    STORAGE_REFUSED = "StorageRefused"
    """PostgreSQL refused the row in every form we know; `detail` is the SQLSTATE (cases 182, 187)."""


@dataclass(frozen=True, slots=True)
class FlagChange:
    """One reading of a message's flags that differs from the one before, which is None for the first reading."""

    stored_email_id: UUID
    uid: Uid
    before: Flags | None
    now: Flags


@dataclass(frozen=True, slots=True)
class Gone:
    """A stored message that is found gone from the server, as the occurrence that it was."""

    stored_email_id: UUID
    uid_validity: UidValidity
    uid: Uid


@dataclass(frozen=True, slots=True)
class FolderBinding:
    """One alias of an account pointed at one remote path; another path makes another generation (SYNC-18, SYNC-19)."""

    folder_id: FolderId
    account_id: AccountId
    alias: str
    generation: int
    remote_path: str
    hierarchy_delimiter: str | None
    special_use: SpecialUse | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far one binding is synchronized, and what the server last said of the folder (SYNC-51)."""

    uid_validity: UidValidity
    last_seen_uid: Uid | None = None
    synchronized_at: datetime | None = None
    reconciled_through_modseq: ModSeq | None = None
    remote_message_count: int | None = None
    remote_uid_next: Uid | None = None
    remote_observed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch. The counts overlap: an oversized message is also a stored one.

    stored        rows written, re-linked and already present ones included; with `quarantined` it is every arrival
    relinked      rows of an older UIDVALIDITY that took the new identity, ids kept
    unreadable    rows whose structure could not be read whole; their octets are kept (SYNC-91)
    oversized     rows without octets because of the size limit
    octets_stored octets of content written by this call; 0 for a message that was already there
    """

    stored: int = 0
    relinked: int = 0
    unreadable: int = 0
    oversized: int = 0
    quarantined: tuple[tuple[Uid, QuarantineReason], ...] = ()
    octets_stored: int = 0

    def __add__(self, other: BatchOutcome) -> BatchOutcome:
        return BatchOutcome(
            stored=self.stored + other.stored,
            relinked=self.relinked + other.relinked,
            unreadable=self.unreadable + other.unreadable,
            oversized=self.oversized + other.oversized,
            quarantined=self.quarantined + other.quarantined,
            octets_stored=self.octets_stored + other.octets_stored,
        )


@dataclass(frozen=True, slots=True)
class QuarantinedMessage:
    """A message of the server that is not in the store, and why; shown to people and retried."""

    folder_id: FolderId
    uid_validity: UidValidity
    uid: Uid
    reason: QuarantineReason
    detail: str | None
    size_octets: int | None
    attempt_count: int
    first_seen_at: datetime
    last_attempt_at: datetime


@dataclass(frozen=True, slots=True)
class LastProof:
    """The last comparison of a folder with its server, UID by UID."""

    proved_at: datetime
    server: int
    holes: int
    surplus: int


@dataclass(frozen=True, slots=True)
class FolderStatus:
    """What one folder of the server holds and what of it is here: the proof that nothing is lost silently.

    `server` is the count of the last observation (`observed_at`), None before the first. `stored` counts rows whose
    message was on the server when last looked; with `quarantined` it is to reach `server`. `skipped_by_reason` counts
    those of the stored rows that lack their octets, by ContentAvailability. `unreadable` counts stored rows whose
    structure could not be read whole. `tombstoned` rows are kept, hidden, although their message is gone; `retained`
    ones are kept readable, since it was deleted or moved out of the mirror through us. The octets of
    `damaged` rows wait to be fetched again; of these, `unrepairable` ones were tried in vain.
    """

    folder_id: FolderId
    alias: str
    remote_path: str
    special_use: SpecialUse | None
    server: int | None
    stored: int
    quarantined: int
    unreadable: int
    tombstoned: int
    observed_at: datetime | None
    synchronized_at: datetime | None
    skipped_by_reason: dict[ContentAvailability, int] = field(default_factory=dict)
    damaged: int = 0
    unrepairable: int = 0
    proof: LastProof | None = None
    retained: int = 0
