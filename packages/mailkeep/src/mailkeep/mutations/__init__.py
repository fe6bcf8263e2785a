"""Changes of the remote mailbox: a durable intent first, then its commands, then its recognition in what comes back.

`asking` judges what a face wants and `record` writes intents down, both contacting nobody; `converge` issues their
commands; what synchronization observes is attributed to them by `recognition`; `operate` holds the acts of people on
changes that are stuck, `trail` the reading of how changes ended.
"""

from mailkeep.mutations.asking import ask, preview
from mailkeep.mutations.destinations import DestinationReason, NoDestination
from mailkeep.mutations.failures import failure_sentence
from mailkeep.mutations.model import AuditOutcome, Lifecycle, Mutation, MutationRecord, Stage, Terms
from mailkeep.mutations.operate import (
    ChangeFilter,
    ChangePage,
    Decision,
    list_changes,
    resolve_change,
    retry_change,
    show_change,
    show_changes,
)
from mailkeep.mutations.overview import ChangeCounts, change_counts
from mailkeep.mutations.permission import Permission, is_offered
from mailkeep.mutations.trail import AuditEntry, AuditFilter, AuditPage, count_trail, erase_trail, read_trail
from mailkeep.mutations.undoing import Undone, UndoOutcome, UndoWish, preview_undo, undo
from mailkeep.mutations.views import parse_change_id, readable_changes
from mailkeep.mutations.wishes import (
    MAX_MESSAGES,
    MAX_MESSAGES_OF_TOOL,
    Act,
    Archive,
    Asked,
    Caller,
    Change,
    Copy,
    Delete,
    Group,
    KeywordChange,
    LeftOut,
    LeftOutReason,
    Mark,
    Move,
    Preview,
    Refusal,
    Trash,
    Wish,
    already_leaving,
    mark_of,
)

__all__ = [
    "MAX_MESSAGES",
    "MAX_MESSAGES_OF_TOOL",
    "Act",
    "Archive",
    "Asked",
    "AuditEntry",
    "AuditFilter",
    "AuditOutcome",
    "AuditPage",
    "Caller",
    "Change",
    "ChangeCounts",
    "ChangeFilter",
    "ChangePage",
    "Copy",
    "Decision",
    "Delete",
    "DestinationReason",
    "Group",
    "KeywordChange",
    "LeftOut",
    "LeftOutReason",
    "Lifecycle",
    "Mark",
    "Move",
    "Mutation",
    "MutationRecord",
    "NoDestination",
    "Permission",
    "Preview",
    "Refusal",
    "Stage",
    "Terms",
    "Trash",
    "UndoOutcome",
    "UndoWish",
    "Undone",
    "Wish",
    "already_leaving",
    "ask",
    "change_counts",
    "count_trail",
    "erase_trail",
    "failure_sentence",
    "is_offered",
    "list_changes",
    "mark_of",
    "parse_change_id",
    "preview",
    "preview_undo",
    "read_trail",
    "readable_changes",
    "resolve_change",
    "retry_change",
    "show_change",
    "show_changes",
    "undo",
]
