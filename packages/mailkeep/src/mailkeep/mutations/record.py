"""Writing intents down: one transaction for all changes of one call, before any command, and contacting nobody.

Permissions, folders and dispositions are resolved by the caller (`ask`); what is written here is never read again from
settings (MUT-11). Two writers of one identity both insert; the index lets one win, and the other answers with its row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from psycopg.rows import dict_row

from mailkeep.db import Connection, Database, load_queries, uuid7s
from mailkeep.errors import ConcurrencyConflict, EmailNotAccessible, MailChangeInvalid
from mailkeep.mailbox import FolderId, Uid, UidValidity
from mailkeep.mutations.model import Mutation, MutationRecord, Occurrence, Requester, Terms
from mailkeep.mutations.rows import record_of
from mailkeep.mutations.terms import refuse_malformed, same_request

_SQL: Final = load_queries("mailkeep.mutations")
MAX_CHANGES_AT_ONCE: Final = 10_000
"""Of one call, so that one transaction stays within the statement's time limit."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """One change of one stored message."""

    stored_email_id: UUID
    terms: Terms
    requester: Requester
    audit_trail_enabled: bool = False
    undoes_mutation_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class _Live:
    """A message that is on the server, and what was last observed of it."""

    account_id: str
    occurrence: Occurrence
    is_observed: bool
    seen: bool
    flagged: bool
    keywords: tuple[str, ...]


async def record_changes(
    db: Database,
    requests: Sequence[ChangeRequest],
    *,
    now: datetime,
    guard: Callable[[Connection], Awaitable[None]] | None = None,
) -> list[MutationRecord]:
    """Record all or none; the records in the order of `requests`, found ones with the stage they have reached.

    `guard` may refuse all of it, by raising within the transaction, before anything is written.

    Raises EmailNotAccessible when a message has no live occurrence (MUT-12), MailChangeInvalid for malformed terms, for
    more than 10,000 changes, and for an identity that asked for something else before (MUT-16).
    """
    if len(requests) > MAX_CHANGES_AT_ONCE:
        raise MailChangeInvalid(f"at most {MAX_CHANGES_AT_ONCE} changes are recorded at once")
    for request in requests:
        refuse_malformed(request.terms)
    if not requests:
        return []
    return await db.redo(partial(_record, requests=requests, now=now, guard=guard))


async def _record(
    connection: Connection,
    *,
    requests: Sequence[ChangeRequest],
    now: datetime,
    guard: Callable[[Connection], Awaitable[None]] | None,
) -> list[MutationRecord]:
    if guard is not None:
        await guard(connection)
    live = await _live_occurrences(connection, {request.stored_email_id for request in requests})
    if any(request.stored_email_id not in live for request in requests):
        raise EmailNotAccessible("there is no readable email of that id")
    columns = _columns(requests, live, uuid7s(now, len(requests)))
    await connection.execute(_SQL["insert_mutations"], {**columns, "now": now})
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_SQL["mutations_by_identity"], columns)
        found = {_key(row): record_of(row) for row in await cursor.fetchall()}
    records = [found.get(key) for key in _request_keys(requests, live)]
    if any(record is None for record in records):
        raise ConcurrencyConflict("the record of a change was removed while it was being asked for")
    settled = [record for record in records if record is not None]
    for request, record in zip(requests, settled, strict=True):
        if not same_request(request.terms, record.terms):
            raise MailChangeInvalid("that request_id asked for another change before; use a new one")
    for account_id in sorted({one.account_id for one in live.values()}):
        await connection.execute(_SQL["announce"], {"account_id": account_id})
    return settled


async def _live_occurrences(connection: Connection, ids: set[UUID]) -> dict[UUID, _Live]:
    cursor = await connection.execute(_SQL["lock_live_occurrences"], {"ids": sorted(ids)})
    return {
        row[0]: _Live(
            row[1],
            Occurrence(FolderId(row[2]), UidValidity(row[3]), Uid(row[4])),
            row[5],
            row[6],
            row[7],
            tuple(row[8]),
        )
        for row in await cursor.fetchall()
    }


_Key = tuple[int, int, int, str, str, str]


def _key(row: Mapping[str, Any]) -> _Key:
    return (
        row["mail_folder_id"],
        row["uid_validity"],
        row["uid"],
        row["requester_origin"],
        row["requester_identity"],
        row["mutation"],
    )


def _request_keys(requests: Sequence[ChangeRequest], live: Mapping[UUID, _Live]) -> Iterator[_Key]:
    for request in requests:
        source = live[request.stored_email_id].occurrence
        requester = request.requester
        yield (
            source.folder_id,
            source.uid_validity,
            source.uid,
            requester.origin.value,
            requester.identity,
            request.terms.mutation.value,
        )


def _columns(
    requests: Sequence[ChangeRequest], live: Mapping[UUID, _Live], ids: Sequence[UUID]
) -> dict[str, list[Any]]:
    keys = list(_request_keys(requests, live))
    terms = [request.terms for request in requests]
    before = [
        _before(one.mutation, live[request.stored_email_id]) for one, request in zip(terms, requests, strict=True)
    ]
    return {
        "ids": list(ids),
        "stored_email_ids": [request.stored_email_id for request in requests],
        "account_ids": [live[request.stored_email_id].account_id for request in requests],
        "folder_ids": [key[0] for key in keys],
        "uid_validities": [key[1] for key in keys],
        "uids": [key[2] for key in keys],
        "origins": [key[3] for key in keys],
        "identities": [key[4] for key in keys],
        "mutations": [key[5] for key in keys],
        "paths": [one.destination_folder_path for one in terms],
        "delimiters": [one.destination_hierarchy_delimiter for one in terms],
        "creates": [one.creates_destination for one in terms],
        "seen": [one.desired_seen_state for one in terms],
        "flagged": [one.desired_flagged_state for one in terms],
        "keywords": [None if one.keywords is None else " ".join(one.keywords) for one in terms],
        "dispositions": [None if one.local_disposition is None else one.local_disposition.value for one in terms],
        "prior_states": [state for state, _ in before],
        "prior_keywords": [None if keywords is None else " ".join(keywords) for _, keywords in before],
        "undoes": [request.undoes_mutation_id for request in requests],
        "audited": [request.audit_trail_enabled for request in requests],
    }


def _before(mutation: Mutation, live: _Live) -> tuple[bool | None, tuple[str, ...] | None]:
    """What was last observed of what is about to change, for an undo."""
    if not live.is_observed:
        return None, None
    if mutation is Mutation.SET_SEEN:
        return live.seen, None
    if mutation is Mutation.SET_FLAGGED:
        return live.flagged, None
    return None, live.keywords if mutation.is_about_keywords else None
