"""The shell of an import: read in batches, leave out what the folder holds already, store through the mail store.

A local folder has one UIDVALIDITY and gives out its own UIDs. UIDs are claimed by advancing the folder's checkpoint
before their messages are stored: a crash in between leaves a gap in the numbers, never a number used twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Final

from mailkeep.db import Database
from mailkeep.mailbox import (
    AccountId,
    Arrival,
    Checkpoint,
    Flags,
    FolderBinding,
    Uid,
    UidValidity,
    advance_checkpoint,
    bind_folder,
    load_checkpoint,
    store_batch,
)
from mailkeep.transfer.model import ImportOutcome, Item, Source, Unreadable
from mailkeep.transfer.queries import held_digests
from mailkeep.transfer.sources import read_items
from mailkeep_message import Limits, read_headers

LOCAL_UID_VALIDITY: Final = UidValidity(1)
BATCH_MESSAGES: Final = 200
BATCH_OCTETS: Final = 16 << 20
MAX_NAMED_UNREADABLE: Final = 1_000
"""How many unreadable items an outcome names; all are counted."""


@dataclass(slots=True)
class _Batch:
    """What one reading step brought, within the bounds of messages and octets."""

    items: list[Item] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    is_last: bool = False


@dataclass(slots=True)
class _Folder:
    """A local folder while it is filled."""

    binding: FolderBinding
    checkpoint: Checkpoint | None
    digests: set[bytes]


async def import_sources(
    db: Database,
    account_id: AccountId,
    sources: Iterable[Source | Unreadable],
    *,
    alias: str | None,
    max_octets: int,
    limits: Limits,
    now: Callable[[], datetime],
    report: Callable[[ImportOutcome], None] | None = None,
) -> ImportOutcome:
    """Store every message of `sources` in folders of a local account, under `alias` or each source's own name.

    The caller holds the account, so that nobody else fills it. One bad item is named in the outcome and passed by;
    raises what the mail store raises when the database fails, and everything stored before that stays.
    """
    outcome = ImportOutcome()
    folders: dict[str, _Folder] = {}
    for source in sources:
        if isinstance(source, Unreadable):
            outcome = _with_unreadable(outcome, [source])
            continue
        name = (alias or source.alias).strip().upper()
        if name not in folders:
            folders[name] = await _open_folder(db, account_id, name)
            outcome = replace(outcome, folders=(*outcome.folders, name))
        items = read_items(source, max_octets=max_octets)
        while True:
            batch = await asyncio.to_thread(_next_batch, items)
            outcome = _with_unreadable(outcome, batch.unreadable)
            outcome = await _store(db, folders[name], batch.items, outcome=outcome, limits=limits, now=now)
            if report is not None:
                report(outcome)
            if batch.is_last:
                break
    return outcome


async def _open_folder(db: Database, account_id: AccountId, alias: str) -> _Folder:
    binding = await bind_folder(db, account_id, alias=alias, remote_path=alias, hierarchy_delimiter=None)
    checkpoint = await load_checkpoint(db, binding.folder_id)
    return _Folder(binding, checkpoint, await held_digests(db, binding.folder_id))


def _next_batch(items: Iterator[Item | Unreadable]) -> _Batch:
    batch = _Batch()
    octets = 0
    for item in islice(items, BATCH_MESSAGES):
        if isinstance(item, Unreadable):
            batch.unreadable.append(item)
        else:
            batch.items.append(item)
            octets += len(item.octets)
        if octets >= BATCH_OCTETS:
            return batch
    batch.is_last = len(batch.items) + len(batch.unreadable) < BATCH_MESSAGES
    return batch


async def _store(
    db: Database,
    folder: _Folder,
    items: list[Item],
    *,
    outcome: ImportOutcome,
    limits: Limits,
    now: Callable[[], datetime],
) -> ImportOutcome:
    fresh: dict[bytes, Item] = {}
    for item in items:
        digest = hashlib.sha256(item.octets).digest()
        if digest not in folder.digests:
            fresh.setdefault(digest, item)
    outcome = replace(outcome, already_present=outcome.already_present + len(items) - len(fresh))
    if not fresh:
        return outcome
    moment = now()
    last = (folder.checkpoint.last_seen_uid if folder.checkpoint else None) or 0
    claimed = Checkpoint(LOCAL_UID_VALIDITY, last_seen_uid=Uid(last + len(fresh)), synchronized_at=moment)
    await advance_checkpoint(db, folder.binding.folder_id, expected=folder.checkpoint, new=claimed)
    folder.checkpoint = claimed
    arrivals = [_arrival(item, Uid(last + offset)) for offset, item in enumerate(fresh.values(), 1)]
    stored = await store_batch(
        db, folder.binding, uid_validity=LOCAL_UID_VALIDITY, arrivals=arrivals, now=moment, limits=limits
    )
    folder.digests.update(fresh)
    return replace(
        outcome,
        imported=outcome.imported + stored.stored,
        quarantined=outcome.quarantined + len(stored.quarantined),
        octets=outcome.octets + stored.octets_stored,
    )


def _arrival(item: Item, uid: Uid) -> Arrival:
    flags = item.flags
    return Arrival(
        uid=uid,
        size_octets=len(item.octets),
        internaldate=item.arrived_at or read_headers(item.octets).sent_at,
        flags=Flags()
        if flags is None
        else Flags(
            seen=flags.seen, answered=flags.answered, flagged=flags.flagged, draft=flags.draft, deleted=flags.deleted
        ),
        octets=item.octets,
    )


def _with_unreadable(outcome: ImportOutcome, found: list[Unreadable]) -> ImportOutcome:
    room = MAX_NAMED_UNREADABLE - len(outcome.unreadable)
    return replace(
        outcome,
        unreadable=(*outcome.unreadable, *found[: max(room, 0)]),
        unreadable_count=outcome.unreadable_count + len(found),
    )
