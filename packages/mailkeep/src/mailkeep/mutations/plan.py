"""Which commands unfinished changes come to: what can be settled without one, and what goes out together. Pure.

Rows of one folder that ask for the same go out in one command (MUT-B8). A row joins an earlier batch only when nothing
of its own message comes in between: within one message the order stays (MUT-57). What failed before goes out in smaller
company, so that one message a server chokes on costs the others few attempts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from mailkeep.config import SpecialUse
from mailkeep.imap import Identity, UidSet
from mailkeep.mailbox import Uid
from mailkeep.mutations.model import Mutation, MutationRecord, Occurrence, Stage, Terms
from mailkeep_message import read_headers

BATCH_SIZES: Final = (500, 50, 5, 1)
"""How many messages one command may name, by how often they were attempted before."""
MAX_MESSAGE_ID_CHARACTERS: Final = 998


@dataclass(frozen=True, slots=True)
class Due:
    """An unfinished change, and what its commands need to know of its folder and message."""

    record: MutationRecord
    folder_alias: str
    folder_path: str
    folder_delimiter: str | None
    folder_role: SpecialUse | None
    is_bound: bool
    """Whether the folder is still the one that its alias leads to."""
    size_octets: int
    message_id: str | None

    @property
    def uid(self) -> Uid:
        return self.record.source.uid


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that go out in one command: of one folder, alike in terms and stage."""

    key: Key
    rows: list[Due] = field(default_factory=list)

    @property
    def uids(self) -> UidSet:
        return UidSet.of(row.uid for row in self.rows)


@dataclass(frozen=True, slots=True)
class Key:
    """What the rows of one batch have in common."""

    folder_id: int
    folder_path: str
    uid_validity: int
    terms: Terms
    stage: Stage
    requires_source_removal: bool
    attempts: int

    @property
    def mutation(self) -> Mutation:
        return self.terms.mutation

    @property
    def most(self) -> int:
        return BATCH_SIZES[min(self.attempts, len(BATCH_SIZES) - 1)]


@dataclass(frozen=True, slots=True)
class Settlement:
    """What needs no command, and what does."""

    completed: list[Due] = field(default_factory=list)
    """Their outcome is known already (MUT-23, MUT-35 (a))."""
    unknown: list[Due] = field(default_factory=list)
    """Placements without an answer, within their grace."""
    expired: list[Due] = field(default_factory=list)
    """Placements without an answer for too long (MUT-35 (b))."""
    exhausted: list[Due] = field(default_factory=list)
    unbound: list[Due] = field(default_factory=list)
    """Their folder is another one now (MUT-29)."""
    owed: list[Due] = field(default_factory=list)


def settle(rows: Iterable[Due], *, now: datetime, grace: timedelta, attempts: int) -> Settlement:
    """Sort rows by what is to be done. A row whose placement is unanswered is never sent again (MUT-35)."""
    found = Settlement()
    for row in rows:
        record = row.record
        if record.stage is Stage.PLACEMENT_ISSUED:
            moved = record.terms.mutation is Mutation.RELOCATE and not record.requires_source_removal
            if moved and record.source_removal_observed_at is not None:
                found.completed.append(row)
            elif now - record.stage_changed_at >= grace:
                found.expired.append(row)
            else:
                found.unknown.append(row)
        elif record.stage is Stage.PLACEMENT_CONFIRMED and not record.requires_source_removal:
            found.completed.append(row)
        elif record.attempt_count >= attempts:
            found.exhausted.append(row)
        elif not row.is_bound:
            found.unbound.append(row)
        else:
            found.owed.append(row)
    return found


def batches(rows: Sequence[Due]) -> list[Batch]:
    """The rows in batches, in the order in which they are to go out."""
    planned: list[Batch] = []
    open_batch: dict[Key, int] = {}
    last_of_message: dict[Occurrence, int] = {}
    for row in rows:
        key = key_of(row)
        index = open_batch.get(key)
        last = last_of_message.get(row.record.source, -1)
        if index is None or index <= last or not _fits(planned[index], key):
            planned.append(Batch(key))
            index = open_batch[key] = len(planned) - 1
        planned[index].rows.append(row)
        last_of_message[row.record.source] = index
    return [part for batch in planned for part in _sendable(batch)]


def key_of(row: Due) -> Key:
    record = row.record
    return Key(
        folder_id=record.source.folder_id,
        folder_path=row.folder_path,
        uid_validity=record.source.uid_validity,
        terms=record.terms,
        stage=record.stage,
        requires_source_removal=record.requires_source_removal,
        attempts=record.attempt_count,
    )


def contradicts(row: Due, identity: Identity) -> bool:
    """Whether the server describes another message than the stored one under its UID (case 5).

    What either side does not know speaks against nothing.
    """
    if row.size_octets and identity.size is not None and identity.size != row.size_octets:
        return True
    message_id = read_headers(identity.header).message_id if identity.header.strip() else None
    if row.message_id is None or message_id is None:
        return False
    return message_id[:MAX_MESSAGE_ID_CHARACTERS] != row.message_id


def _fits(batch: Batch, key: Key) -> bool:
    return len(batch.rows) < key.most


def _sendable(batch: Batch) -> Iterable[Batch]:
    """A batch in parts whose UIDs fit into one command each."""
    by_uid = {row.uid: row for row in batch.rows}
    parts = list(batch.uids.commands())
    if len(parts) == 1:
        return [batch]
    return [Batch(batch.key, [by_uid[Uid(uid)] for uid in part]) for part in parts]
