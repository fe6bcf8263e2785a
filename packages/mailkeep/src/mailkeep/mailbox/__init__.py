"""The mail store: folders, stored messages, their octets, reading, and the proof of what is held.

Other packages call the names exported here and nothing below. Every function on a `Database` commits by itself; none
keeps a transaction open across network I/O. What arrives goes through `prepare` (pure) and `store_prepared`, or both
in one as `store_batch`.
"""

from mailkeep.mailbox.arrival import store_batch, store_prepared
from mailkeep.mailbox.checkpoints import (
    advance_checkpoint,
    count_blocked_attempt,
    load_checkpoint,
    load_checkpoints,
    recommit_checkpoints,
    rewind,
)
from mailkeep.mailbox.content import (
    AttachmentPayload,
    BodyState,
    ContentBody,
    ContentFailure,
    EmailContent,
    ReadOptions,
    ReadResult,
    Truncation,
)
from mailkeep.mailbox.erase import erase_account, erase_folder
from mailkeep.mailbox.folders import bind_folder, folder_bindings
from mailkeep.mailbox.isolation import quarantine, quarantined, release_quarantine, untried_quarantine
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
    LastProof,
    ModSeq,
    QuarantinedMessage,
    QuarantineReason,
    SpecialUse,
    Uid,
    UidValidity,
)
from mailkeep.mailbox.preparation import PreparedBatch, PreparedMessage, prepare
from mailkeep.mailbox.proofs import ProofCounts, buried_uids, header_only_uids, record_proof, unbury
from mailkeep.mailbox.reading import attachment, raw_mime, read_contents
from mailkeep.mailbox.reconcile import (
    apply_flags,
    apply_removals,
    awaiting_content,
    filter_unknown,
    folders_awaiting_content,
    highest_uid,
    local_flags,
    local_uids,
    recent_uids,
    retire_other_uid_validities,
)
from mailkeep.mailbox.rederive import RederivationRun, rederivation_runs, rederive_pass, request_rederivation
from mailkeep.mailbox.relink import NewIdentity, has_earlier_identities, relink, unmistakable_identities
from mailkeep.mailbox.repairs import RepairObstacle, awaiting_repair, folders_to_mend, note_repair_attempts
from mailkeep.mailbox.scope import ReadableFolder, Scope, resolve_scope
from mailkeep.mailbox.status import folder_status, stored_count

__all__ = [
    "AccountId",
    "Arrival",
    "AttachmentPayload",
    "BatchOutcome",
    "BodyState",
    "Checkpoint",
    "ContentAvailability",
    "ContentBody",
    "ContentFailure",
    "Disposition",
    "EmailContent",
    "Flags",
    "FolderBinding",
    "FolderId",
    "FolderStatus",
    "LastProof",
    "ModSeq",
    "NewIdentity",
    "PreparedBatch",
    "PreparedMessage",
    "ProofCounts",
    "QuarantineReason",
    "QuarantinedMessage",
    "ReadOptions",
    "ReadResult",
    "ReadableFolder",
    "RederivationRun",
    "RepairObstacle",
    "Scope",
    "SpecialUse",
    "Truncation",
    "Uid",
    "UidValidity",
    "advance_checkpoint",
    "apply_flags",
    "apply_removals",
    "attachment",
    "awaiting_content",
    "awaiting_repair",
    "bind_folder",
    "buried_uids",
    "count_blocked_attempt",
    "erase_account",
    "erase_folder",
    "filter_unknown",
    "folder_bindings",
    "folder_status",
    "folders_awaiting_content",
    "folders_to_mend",
    "has_earlier_identities",
    "header_only_uids",
    "highest_uid",
    "load_checkpoint",
    "load_checkpoints",
    "local_flags",
    "local_uids",
    "note_repair_attempts",
    "prepare",
    "quarantine",
    "quarantined",
    "raw_mime",
    "read_contents",
    "recent_uids",
    "recommit_checkpoints",
    "record_proof",
    "rederivation_runs",
    "rederive_pass",
    "release_quarantine",
    "relink",
    "request_rederivation",
    "resolve_scope",
    "retire_other_uid_validities",
    "rewind",
    "store_batch",
    "store_prepared",
    "stored_count",
    "unbury",
    "unmistakable_identities",
    "untried_quarantine",
]
