"""Storing a prepared batch: rows, documents, octets and conversations in one transaction.

A batch that PostgreSQL refuses is halved until the message at fault stands alone; that one is stored in a lesser form,
and only when it is refused in every form is it quarantined (cases 26, 182, 185, 187, 212). Trouble of the server, a
lost race and a schema that does not fit are no message's fault: they are raised, and nothing of the part at hand is
stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

import psycopg

from mailkeep.db import Connection, Database, load_queries, uuid7s
from mailkeep.errors import ConcurrencyConflict
from mailkeep.mailbox.isolation import quarantine
from mailkeep.mailbox.model import (
    Arrival,
    BatchOutcome,
    ContentAvailability,
    FolderBinding,
    QuarantineReason,
    Uid,
    UidValidity,
)
from mailkeep.mailbox.relink import NewIdentity, write_identities
from mailkeep.mailbox.rows import Keyed, Placed, copy_ahead, copy_rows, rewrite
from mailkeep.preparation import (
    DEFAULT_LIMITS,
    PreparedBatch,
    PreparedMessage,
    next_form,
    prepare,
    prepare_one,
)
from mailkeep.threads import ThreadInput, adopt, lock_account, place, threads_of
from mailkeep_message import Limits

_SQL: Final = load_queries("mailkeep.mailbox")

TOO_LONG: Final = "54000"
"""SQLSTATE program_limit_exceeded: a tsvector or an index entry over its limit."""
_REFUSING_CLASSES: Final = ("22", "54")
_REFUSING_STATES: Final = ("23502", "23514", "XX000")


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a batch goes, and the instant it is recorded under."""

    binding: FolderBinding
    uid_validity: UidValidity
    now: datetime
    limits: Limits


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """What is already stored of a message."""

    id: UUID
    thread_id: UUID | None
    availability: str
    sha256: bytes | None
    needs_repair: bool


async def store_batch(
    db: Database,
    binding: FolderBinding,
    *,
    uid_validity: UidValidity,
    arrivals: Sequence[Arrival],
    now: datetime,
    limits: Limits = DEFAULT_LIMITS,
) -> BatchOutcome:
    """Prepare in a thread and store; see `store_prepared`."""
    batch = await asyncio.to_thread(prepare, arrivals, limits=limits)
    return await store_prepared(db, binding, uid_validity=uid_validity, batch=batch, now=now)


async def store_prepared(
    db: Database, binding: FolderBinding, *, uid_validity: UidValidity, batch: PreparedBatch, now: datetime
) -> BatchOutcome:
    """Store a batch of one folder so that afterwards each of its messages is stored or quarantined.

    One transaction as long as PostgreSQL takes all of it. Repeating a batch leaves the same rows: what is here is not
    written again unless its octets were missing or damaged. A message whose octets this folder holds under another
    UIDVALIDITY takes over that row. Flags that came with an arrival are written with the row; later observations are
    reconciliation's alone. Raises DatabaseUnavailable and ConcurrencyConflict; parts stored before that stay.
    """
    target = _Target(binding, uid_validity, now, batch.limits)
    return await _store_or_split(
        db, target, list({message.arrival.uid: message for message in batch.messages}.values())
    )


async def _store_or_split(db: Database, target: _Target, messages: Sequence[PreparedMessage]) -> BatchOutcome:
    if not messages:
        return BatchOutcome()
    try:
        return await db.redo(partial(_store, target=target, messages=messages))
    except psycopg.Error as error:
        state = refused_message_state(error)
        if state is None:
            raise
    if len(messages) == 1:
        return await _store_lesser(db, target, messages[0], state=state)
    middle = len(messages) // 2
    first = await _store_or_split(db, target, messages[:middle])
    return first + await _store_or_split(db, target, messages[middle:])


async def _store_lesser(db: Database, target: _Target, message: PreparedMessage, *, state: str) -> BatchOutcome:
    """Store one refused message in the fullest form that PostgreSQL takes, else quarantine it."""
    form = next_form(message.form, is_too_long=state == TOO_LONG)
    while form is not None:
        lesser = await asyncio.to_thread(prepare_one, message.arrival, limits=target.limits, form=form)
        try:
            return await db.redo(partial(_store, target=target, messages=(lesser,)))
        except psycopg.Error as error:
            refused = refused_message_state(error)
            if refused is None:
                raise
        state, form = refused, next_form(lesser.form, is_too_long=refused == TOO_LONG)
    await quarantine(
        db,
        target.binding.folder_id,
        uid_validity=target.uid_validity,
        uid=message.arrival.uid,
        reason=QuarantineReason.STORAGE_REFUSED,
        detail=state,
        size_octets=message.arrival.size_octets,
        now=target.now,
    )
    return BatchOutcome(quarantined=((message.arrival.uid, QuarantineReason.STORAGE_REFUSED),))


def refused_message_state(error: psycopg.Error) -> str | None:
    """The SQLSTATE when PostgreSQL or the driver refused a value of a row; None when no message can be at fault."""
    state = error.sqlstate
    if state is None:
        return "22000" if isinstance(error, psycopg.DataError) else None
    return state if state[:2] in _REFUSING_CLASSES or state in _REFUSING_STATES else None


async def _store(connection: Connection, *, target: _Target, messages: Sequence[PreparedMessage]) -> BatchOutcome:
    new = await _expected_new(connection, target, messages)
    ids = dict(zip((m.arrival.uid for m in new), uuid7s(target.now, len(new)), strict=True))
    if new:
        await copy_ahead(connection, [Keyed(m, ids[m.arrival.uid], target.binding) for m in new], now=target.now)
    await lock_account(connection, target.binding.account_id)
    stored = await _stored_occurrences(connection, target, messages)
    relinks = await _relinks(connection, target, [m for m in messages if m.arrival.uid not in stored])
    fresh = [m for m in messages if m.arrival.uid not in stored and m.arrival.uid not in relinks]
    stale = [m for m in messages if m.arrival.uid in stored and _adds_octets(m, stored[m.arrival.uid])]
    if [m.arrival.uid for m in fresh] != [m.arrival.uid for m in new]:
        raise ConcurrencyConflict("another transaction stored some of these messages meanwhile")
    ids.update({m.arrival.uid: stored[m.arrival.uid].id for m in stale})

    inputs = [_thread_input(m, ids[m.arrival.uid], stored.get(m.arrival.uid)) for m in (*fresh, *stale)]
    if inputs:
        places = await place(connection, target.binding.account_id, messages=inputs, now=target.now)
        placed = [
            Placed(m, one.stored_email_id, target.binding, places.placements[one.stored_email_id], target.uid_validity)
            for m, one in zip((*fresh, *stale), inputs, strict=True)
        ]
        await copy_rows(connection, placed[: len(fresh)], now=target.now)
        await rewrite(connection, placed[len(fresh) :], now=target.now)
        await adopt(connection, places.adoptions)
    await _relink(connection, target, [(m, relinks[m.arrival.uid]) for m in messages if m.arrival.uid in relinks])
    await _mark_oversized(connection, messages, stored)
    await connection.execute(
        _SQL["leave_quarantine"],
        {
            "folder_id": target.binding.folder_id,
            "uid_validity": target.uid_validity,
            "uids": [m.arrival.uid for m in messages],
        },
    )
    return BatchOutcome(
        stored=len(messages),
        relinked=len(relinks),
        unreadable=sum(not m.is_structurally_read for m in messages),
        oversized=sum(m.arrival.availability is ContentAvailability.EXCEEDED_SIZE_LIMIT for m in messages),
        octets_stored=sum(len(m.arrival.octets or b"") for m in (*fresh, *stale)),
    )


async def _expected_new(
    connection: Connection, target: _Target, messages: Sequence[PreparedMessage]
) -> list[PreparedMessage]:
    """Which messages seem not to be here under any UIDVALIDITY; whoever holds the account's lock knows."""
    stored = await _stored_occurrences(connection, target, messages)
    left = [m for m in messages if m.arrival.uid not in stored]
    relinks = await _relinks(connection, target, left)
    return [m for m in left if m.arrival.uid not in relinks]


async def _stored_occurrences(
    connection: Connection, target: _Target, messages: Sequence[PreparedMessage]
) -> dict[Uid, _Occurrence]:
    cursor = await connection.execute(
        _SQL["stored_occurrences"],
        {
            "folder_id": target.binding.folder_id,
            "uid_validity": target.uid_validity,
            "uids": [m.arrival.uid for m in messages],
        },
    )
    return {row[0]: _Occurrence(*row[1:]) for row in await cursor.fetchall()}


def _adds_octets(message: PreparedMessage, stored: _Occurrence) -> bool:
    """Whether the arrival brings octets that are missing, differ or are to be repaired.

    Without octets it brings nothing: a document from the header alone never overwrites another (SYNC-111).
    """
    return message.sha256 is not None and (
        stored.sha256 != message.sha256
        or stored.needs_repair
        or stored.availability != ContentAvailability.AVAILABLE.value
    )


async def _relinks(connection: Connection, target: _Target, messages: Sequence[PreparedMessage]) -> dict[Uid, UUID]:
    """Which stored row of an older UIDVALIDITY each message is, by its octets; each row serves once.

    Message-IDs only lead to the candidates, through their conversations; the digest decides. A message without octets
    is never recognized by its header.
    """
    identified = [m for m in messages if m.sha256 is not None and m.message_id is not None]
    anonymous = [m.sha256 for m in messages if m.sha256 is not None and m.message_id is None]
    scope = {"folder_id": target.binding.folder_id, "uid_validity": target.uid_validity}
    row = await (await connection.execute(_SQL["has_other_uid_validity"], scope)).fetchone()
    if row is None or not row[0]:
        return {}
    found: list[tuple[UUID, bytes]] = []
    if identified:
        message_ids = [m.message_id for m in identified if m.message_id is not None]
        threads = await threads_of(connection, target.binding.account_id, identifiers=message_ids)
        values = {"thread_ids": threads, "message_ids": message_ids, "digests": [m.sha256 for m in identified]}
        cursor = await connection.execute(_SQL["earlier_occurrences"], {**scope, **values})
        found += await cursor.fetchall()
    if anonymous:
        cursor = await connection.execute(_SQL["earlier_anonymous_occurrences"], {**scope, "digests": anonymous})
        found += await cursor.fetchall()
    candidates: dict[bytes, list[UUID]] = {}
    for stored_email_id, digest in found:
        candidates.setdefault(digest, []).append(stored_email_id)
    relinks: dict[Uid, UUID] = {}
    for message in messages:
        matching = candidates.get(message.sha256 or b"")
        if matching:
            relinks[message.arrival.uid] = matching.pop(0)
    return relinks


async def _relink(connection: Connection, target: _Target, relinks: Sequence[tuple[PreparedMessage, UUID]]) -> None:
    if not relinks:
        return
    identities = [
        NewIdentity(stored_email_id, message.arrival.uid, message.arrival.size_octets, message.arrival.flags)
        for message, stored_email_id in relinks
    ]
    await write_identities(connection, target.uid_validity, target.now, identities=identities)


async def _mark_oversized(
    connection: Connection, messages: Sequence[PreparedMessage], stored: Mapping[Uid, _Occurrence]
) -> None:
    oversized = [
        stored[m.arrival.uid].id
        for m in messages
        if m.arrival.availability is ContentAvailability.EXCEEDED_SIZE_LIMIT
        and m.arrival.uid in stored
        and stored[m.arrival.uid].availability == ContentAvailability.AWAITING_STORAGE_HEADROOM.value
    ]
    if oversized:
        await connection.execute(_SQL["mark_oversized"], {"ids": oversized})


def _thread_input(message: PreparedMessage, stored_email_id: UUID, stored: _Occurrence | None) -> ThreadInput:
    return ThreadInput(
        stored_email_id=stored_email_id,
        message_id=message.message_id,
        in_reply_to=message.in_reply_to,
        references=message.references,
        also_known_as=message.also_known_as,
        current_thread_id=stored.thread_id if stored is not None else None,
    )
