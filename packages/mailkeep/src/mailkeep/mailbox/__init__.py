"""The mail store: folders, stored messages, their octets, reading, and the proof of what is held.

Other packages call the names exported here and nothing below. Every function on a `Database` commits by itself; none
keeps a transaction open across network I/O. What arrives goes through `prepare` (pure) and `store_prepared`, or both
in one as `store_batch`.
"""

from mailkeep.mailbox.model import (
    AccountId,
    Arrival,
    BatchOutcome,
    Checkpoint,
    ContentAvailability,
    Disposition,
    Flags,
    FolderBinding,
    FolderId,
    FolderStatus,
    ModSeq,
    QuarantinedMessage,
    QuarantineReason,
    SpecialUse,
    Uid,
    UidValidity,
)

__all__ = [
    "AccountId",
    "Arrival",
    "BatchOutcome",
    "Checkpoint",
    "ContentAvailability",
    "Disposition",
    "Flags",
    "FolderBinding",
    "FolderId",
    "FolderStatus",
    "ModSeq",
    "QuarantineReason",
    "QuarantinedMessage",
    "SpecialUse",
    "Uid",
    "UidValidity",
]
