"""What placing and reading conversations speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

MAX_MERGES_FOLLOWED: Final = 64
MAX_ANCESTORS_WALKED: Final = 1000
MAX_THREAD_ENTRIES: Final = 500


@dataclass(frozen=True, slots=True)
class ThreadInput:
    """One message to place, by the identifiers its header names, without brackets, case kept (SYNC-97, SYNC-113).

    `also_known_as` are further identifiers of this message itself, which a relay replaced (cases 91, 94). For a row
    that is stored already, `current_thread_id` keeps it where it is.
    """

    stored_email_id: UUID
    message_id: str | None
    in_reply_to: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    also_known_as: tuple[str, ...] = ()
    current_thread_id: UUID | None = None

    @property
    def identifiers(self) -> frozenset[str]:
        """Every identifier named; all of them are bound to the conversation (SYNC-115)."""
        own = () if self.message_id is None else (self.message_id,)
        return frozenset((*own, *self.in_reply_to, *self.references, *self.also_known_as))


@dataclass(frozen=True, slots=True)
class ThreadPlacement:
    """Where a message belongs: its conversation and the stored message it answers, if that is known."""

    thread_id: UUID
    parent_stored_email_id: UUID | None


@dataclass(frozen=True, slots=True)
class Placements:
    """`placements` by stored email id, one per input. `adoptions` are stored replies whose parent is in the batch,
    reply id to parent id: to be applied by `adopt` once the rows of the batch exist."""

    placements: dict[UUID, ThreadPlacement]
    adoptions: dict[UUID, UUID]


@dataclass(frozen=True, slots=True)
class ThreadEntry:
    """One message of a conversation in reading order. `depth` counts the visible ancestors above it.

    `parent_stored_email_id` is None when the parent is unknown or not visible to this reader.
    """

    stored_email_id: UUID
    parent_stored_email_id: UUID | None
    sent_at: datetime | None
    depth: int


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation as one reader sees it. An unknown one has no entries (SYNC-118).

    `thread_id` is the conversation that the asked one was merged into, or the asked one itself. `is_truncated` says
    that more than 500 messages are visible and only the 500 stored first are here.
    """

    thread_id: UUID
    entries: tuple[ThreadEntry, ...]
    is_truncated: bool
