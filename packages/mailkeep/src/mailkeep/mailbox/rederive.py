"""Re-derivation: stored octets read again by the reader of today, in bounded passes; no server is asked.

An operator asks for a scope (an account, or one alias of it); `rederive_pass` then walks it in the order of ids. What
a batch came to, the walk's position and the run's counts commit together, so a process that dies continues exactly
behind the last batch. Row columns, search document and conversation are written; identity, flags, octets and every
judgement stay. Conversations only join: a binding of identifiers is never taken back (SYNC-115).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import psycopg

from mailkeep.db import Connection, Database, load_queries, uuid7
from mailkeep.errors import ConcurrencyConflict
from mailkeep.mailbox.arrival import TOO_LONG, refused_message_state
from mailkeep.mailbox.content import ContentDefect
from mailkeep.mailbox.model import (
    AccountId,
    Arrival,
    ContentAvailability,
    FolderBinding,
    FolderId,
    Uid,
    UidValidity,
)
from mailkeep.mailbox.rows import Placed, rewrite_derived
from mailkeep.preparation import Form, PreparedMessage, next_form, prepare_one
from mailkeep.threads import ThreadInput, adopt, lock_account, place
from mailkeep_message import Limits

_SQL: Final = load_queries("mailkeep.mailbox")

BATCH_EMAILS: Final = 50
BATCHES_PER_PASS: Final = 10
OCTETS_PER_PASS: Final = 64 << 20
"""A pass ends before the message that would exceed it, but never before its first."""
_START: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class RederivationRun:
    """What was asked of one scope and how it went. An empty alias is the whole account; `ended_at` None: outstanding.

    `unreadable` messages kept the values they had; `missing_content` counts those without usable octets, whether never
    stored, lost or damaged (for the latter a repair is requested).
    """

    account_id: AccountId
    alias: str
    run_id: UUID
    requested_at: datetime
    passes: int = 0
    rederived: int = 0
    unreadable: int = 0
    missing_content: int = 0
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Listed:
    """A message of the next page. `octets` is the length of what is stored, None without any."""

    id: UUID
    availability: ContentAvailability
    octets: int | None


@dataclass(frozen=True, slots=True)
class _Reading:
    """A message read again. `prepared` is None when its octets are damaged or the reader could not read it whole."""

    id: UUID
    binding: FolderBinding
    uid_validity: UidValidity
    sha256: bytes
    prepared: PreparedMessage | None
    defect: ContentDefect | None


@dataclass(frozen=True, slots=True)
class _Step:
    """What one transaction writes, and how far the walk is with it."""

    readings: tuple[_Reading, ...]
    without: tuple[_Listed, ...]
    expected: UUID | None
    through: UUID
    segments: int
    now: datetime


async def request_rederivation(
    db: Database, account_id: AccountId, *, alias: str | None, now: datetime
) -> RederivationRun:
    """Ask for a scope to be read again; the run that is outstanding for it already, if there is one (SYNC-126)."""
    scope = {"account_id": account_id, "alias": alias or ""}
    async with db.connection() as connection:
        await connection.execute(_SQL["request_rederivation"], {**scope, "run_id": uuid7(now), "now": now})
    return next(run for run in await rederivation_runs(db, account_id) if run.alias == scope["alias"])


async def rederivation_runs(db: Database, account_id: AccountId) -> list[RederivationRun]:
    """The last run of every scope of an account that was ever asked for, the whole account first."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["rederivation_runs"], {"account_id": account_id})
        return [RederivationRun(*row) for row in await cursor.fetchall()]


async def rederive_pass(
    db: Database, run: RederivationRun, *, limits: Limits, now: Callable[[], datetime]
) -> RederivationRun:
    """One pass of an outstanding run: at most BATCHES_PER_PASS batches and OCTETS_PER_PASS; the run as it is then.

    `ended_at` is set when the walk met the end of its scope. Raises ConcurrencyConflict when another process walks
    the same run.
    """
    scope = {"account_id": run.account_id, "alias": run.alias}
    async with db.connection() as connection:
        row = await (await connection.execute(_SQL["rederivation_position"], scope)).fetchone()
    position: UUID | None = None if row is None else row[0]
    room, segments = OCTETS_PER_PASS, 1
    for _ in range(BATCHES_PER_PASS):
        listed = await _page(db, scope, after=position or _START)
        if not listed:
            await _end(db, run, now=now())
            break
        batch = _affordable(listed, room, is_first=room == OCTETS_PER_PASS)
        if not batch:
            break
        room -= sum(one.octets or 0 for one in batch)
        readings = await _read_batch(db, batch, limits=limits)
        without = tuple(one for one in batch if one.octets is None)
        step = _Step(readings, without, expected=position, through=batch[-1].id, segments=segments, now=now())
        await _write_or_split(db, run, step, limits=limits)
        position, segments = batch[-1].id, 0
    (current,) = [one for one in await rederivation_runs(db, run.account_id) if one.alias == run.alias]
    return current


async def _page(db: Database, scope: dict[str, str], *, after: UUID) -> list[_Listed]:
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["rederivation_page"], {**scope, "after": after, "limit": BATCH_EMAILS})
        return [_Listed(row[0], ContentAvailability(row[1]), row[2]) for row in await cursor.fetchall()]


def _affordable(listed: Sequence[_Listed], room: int, *, is_first: bool) -> list[_Listed]:
    """The messages from the front whose octets fit what is left of the pass; at least one of its first batch."""
    batch: list[_Listed] = []
    for one in listed:
        room -= one.octets or 0
        if room < 0 and (batch or not is_first):
            break
        batch.append(one)
    return batch


async def _read_batch(db: Database, batch: Sequence[_Listed], *, limits: Limits) -> tuple[_Reading, ...]:
    """What of the batch has octets, read outside any transaction."""
    async with db.connection() as connection:
        ids = [one.id for one in batch if one.octets is not None]
        rows = await (await connection.execute(_SQL["rederivation_contents"], {"ids": ids})).fetchall()
    return await asyncio.to_thread(lambda: tuple(_read_again(row, limits) for row in rows))


def _read_again(row: tuple[Any, ...], limits: Limits) -> _Reading:
    """Read one message as an arrival is read. The stored `received_at` stands in for INTERNALDATE, which is lost."""
    octets, length, sha256 = row[11], row[12], row[13]
    arrival = Arrival(uid=Uid(row[1]), size_octets=row[3], internaldate=row[4], flags=None, octets=octets)
    prepared: PreparedMessage | None = prepare_one(arrival, limits=limits)
    assert prepared is not None
    defect = None
    if len(octets) != length:
        defect = ContentDefect.BYTE_LENGTH_MISMATCH
    elif prepared.sha256 != sha256:
        defect = ContentDefect.HASH_MISMATCH
    if defect is not None or not prepared.is_structurally_read:
        prepared = None
    binding = FolderBinding(FolderId(row[5]), AccountId(row[6]), row[7], row[8], row[9], row[10])
    return _Reading(row[0], binding, UidValidity(row[2]), sha256, prepared, defect)


async def _write_or_split(db: Database, run: RederivationRun, step: _Step, *, limits: Limits) -> None:
    """Write a step; when PostgreSQL refuses a value, halve it until the one message at fault stands alone."""
    state: str | None = None
    try:
        await db.redo(partial(_write, run=run, step=step))
    except psycopg.Error as error:
        state = refused_message_state(error)
        if state is None:
            raise
    if state is None:
        return
    if len(step.readings) == 1:
        await _write_or_split(db, run, await asyncio.to_thread(_lesser, step, state, limits), limits=limits)
        return
    middle = len(step.readings) // 2
    lower, upper = step.readings[:middle], step.readings[middle:]
    border = lower[-1].id
    first = replace(step, readings=lower, without=tuple(w for w in step.without if w.id <= border), through=border)
    await _write_or_split(db, run, first, limits=limits)
    rest = tuple(w for w in step.without if w.id > border)
    second = replace(step, readings=upper, without=rest, expected=border, segments=0)
    await _write_or_split(db, run, second, limits=limits)


def _lesser(step: _Step, state: str, limits: Limits) -> _Step:
    """The refused message with less of its text indexed, or kept as it is stored when that cannot help."""
    (reading,) = step.readings
    assert reading.prepared is not None
    form = next_form(reading.prepared.form, is_too_long=state == TOO_LONG)
    prepared = None
    if form is not None and form < Form.HEADERS_ONLY:
        lesser = prepare_one(reading.prepared.arrival, limits=limits, form=form)
        prepared = lesser if lesser.is_structurally_read else None
    return replace(step, readings=(replace(reading, prepared=prepared),))


async def _write(connection: Connection, *, run: RederivationRun, step: _Step) -> None:
    """One transaction: the rows, their documents and conversations, the repairs asked for, the position, the counts."""
    await lock_account(connection, run.account_id)
    readable = {one.id: one for one in step.readings if one.prepared is not None}
    cursor = await connection.execute(_SQL["rederivation_targets"], {"ids": list(readable)})
    # Rows that were erased, or got other octets, since they were read are left to whoever did that.
    found = [(readable[row[0]], row[2]) for row in await cursor.fetchall() if row[1] == readable[row[0]].sha256]
    inputs = [
        ThreadInput(
            stored_email_id=reading.id,
            message_id=prepared.message_id,
            in_reply_to=prepared.in_reply_to,
            references=prepared.references,
            also_known_as=prepared.also_known_as,
            current_thread_id=thread_id,
        )
        for reading, thread_id in found
        if (prepared := reading.prepared) is not None
    ]
    if inputs:
        places = await place(connection, run.account_id, messages=inputs, now=step.now)
        placed = [
            Placed(reading.prepared, reading.id, reading.binding, places.placements[reading.id], reading.uid_validity)
            for reading, _ in found
            if reading.prepared is not None
        ]
        await rewrite_derived(connection, placed, now=step.now)
        await adopt(connection, places.adoptions)
    damaged = {one.id: one.defect for one in step.readings if one.defect is not None}
    lost = [one.id for one in step.without if one.availability is ContentAvailability.AVAILABLE]
    damaged.update(dict.fromkeys(lost, ContentDefect.MISSING))
    if damaged:
        defects = [defect.value for defect in damaged.values()]
        await connection.execute(_SQL["request_repairs"], {"ids": list(damaged), "defects": defects, "now": step.now})
    await _advance(connection, run, step, rederived=len(inputs))


async def _advance(connection: Connection, run: RederivationRun, step: _Step, *, rederived: int) -> None:
    scope = {"account_id": run.account_id, "alias": run.alias, "run_id": run.run_id, "now": step.now}
    unread = [one for one in step.readings if one.prepared is None]
    counts = {
        "segments": step.segments,
        "rederived": rederived,
        "unreadable": sum(one.defect is None for one in unread),
        "missing": len(step.without) + sum(one.defect is not None for one in unread),
    }
    moved = {**scope, "position": step.through, "expected": step.expected}
    for statement, values in (
        ("advance_rederivation_position", moved),
        ("count_rederivation", {**scope, **counts}),
    ):
        if await (await connection.execute(_SQL[statement], values)).fetchone() is None:
            raise ConcurrencyConflict("another process is at work on the same re-derivation")


async def _end(db: Database, run: RederivationRun, *, now: datetime) -> None:
    values = {"account_id": run.account_id, "alias": run.alias, "run_id": run.run_id, "now": now}
    async with db.connection() as connection:
        if await (await connection.execute(_SQL["end_rederivation"], values)).fetchone() is None:
            raise ConcurrencyConflict("another process is at work on the same re-derivation")
        await connection.execute(_SQL["forget_rederivation_position"], values)
