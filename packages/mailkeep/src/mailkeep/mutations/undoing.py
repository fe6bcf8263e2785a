"""Undoing: the inverse of a change as a record of its own, which names what it undoes (MUT-B7).

What nothing was sent for yet is withdrawn. A flag goes back to what was observed before, a moved message back from
where it is now, a copy is deleted where it is known which message it is. A deletion cannot be undone, nor what is under
way. Undoing a change is one request, however often it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from mailkeep.config import AccountKind, Settings
from mailkeep.db import Connection, Database, load_queries
from mailkeep.errors import (
    MailChangeImpossible,
    MailChangeUnknown,
    MutationOutcomeUnknown,
    MutationWithdrawn,
)
from mailkeep.mailbox import AccountId, FolderBinding, FolderId, folder_bindings
from mailkeep.mutations.asking import account_named, placing_terms, room_for
from mailkeep.mutations.destinations import destination_at
from mailkeep.mutations.model import Mutation, MutationRecord, Requester, RequesterOrigin, Stage, Terms
from mailkeep.mutations.permission import refuse_unpermitted
from mailkeep.mutations.record import ChangeRequest, record_changes
from mailkeep.mutations.views import changes_named, readable_changes
from mailkeep.mutations.wishes import Caller, Change

_SQL: Final = load_queries("mailkeep.mutations")


class UndoOutcome(StrEnum):
    """What became of undoing one change."""

    RECORDED = "Recorded"
    """Its inverse was recorded."""
    WITHDRAWN = "Withdrawn"
    """It had not begun, and never will."""
    NOTHING_TO_DO = "NothingToDo"
    """The message is as it was before, or the change was never made."""


@dataclass(frozen=True, slots=True)
class UndoWish:
    """Which changes, by their ids or by the request that asked for them."""

    change_ids: Sequence[str] = ()
    of_request: str | None = None
    caller: Caller = Caller.PERSON


@dataclass(frozen=True, slots=True)
class Undone:
    """One undone change; `inverse` is the change that undoes it where one was recorded."""

    change: Change
    outcome: UndoOutcome
    inverse: Change | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the message of a change is now. `is_leaving` by another change that is not over."""

    is_live: bool
    folder_id: FolderId
    is_leaving: bool


@dataclass(frozen=True, slots=True)
class Inverse:
    """What undoes a change: terms for a message."""

    stored_email_id: UUID
    terms: Terms


async def undo(db: Database, settings: Settings, wish: UndoWish, *, now: datetime) -> list[Undone]:
    """Undo changes, in the order in which they were named; all inverses are recorded together or none.

    Raises MailChangeInvalid, MailChangeUnknown, MailChangeImpossible with the reason, and what `ask` raises of
    permission and room; then everything is as it was.
    """
    planned = await _plan(db, settings, wish)
    requests = [
        ChangeRequest(
            inverse.stored_email_id,
            inverse.terms,
            Requester(RequesterOrigin.COMMAND, f"undo:{change.record.id}"),
            audit_trail_enabled=account_named(settings, change.record.account_id).audit_trail.enabled,
            undoes_mutation_id=change.record.id,
        )
        for change, inverse in planned
        if isinstance(inverse, Inverse)
    ]
    recorded = await _carry_out(db, planned, requests, caller=wish.caller, now=now)
    inverses = {one.undoes_mutation_id: one.id for one in recorded}
    ids = [change.record.id for change, _ in planned]
    shown = {one.record.id: one for one in await changes_named(db, [*ids, *inverses.values()])}
    return [
        Undone(shown.get(change.record.id, change), UndoOutcome.RECORDED, shown.get(inverses[change.record.id]))
        if isinstance(inverse, Inverse)
        else Undone(shown.get(change.record.id, change), inverse)
        for change, inverse in planned
    ]


async def _carry_out(
    db: Database,
    planned: Sequence[tuple[Change, Inverse | UndoOutcome]],
    requests: Sequence[ChangeRequest],
    *,
    caller: Caller,
    now: datetime,
) -> list[MutationRecord]:
    """Withdraw what has not begun and record the ways back of the rest, in one transaction."""
    withdrawn = [change.record.id for change, inverse in planned if inverse is UndoOutcome.WITHDRAWN]
    room = room_for([change.record.account_id for change, one in planned if isinstance(one, Inverse)], caller=caller)

    async def guard(connection: Connection) -> None:
        await room(connection)
        values = {"ids": withdrawn, "code": MutationWithdrawn.code, "now": now}
        if withdrawn and (await connection.execute(_SQL["withdraw_changes"], values)).rowcount < len(withdrawn):
            raise MailChangeImpossible("a change has just begun; undo it when it has ended")

    if requests:
        return await record_changes(db, requests, now=now, guard=guard)
    async with db.connection() as connection:
        await guard(connection)
    return []


async def preview_undo(db: Database, settings: Settings, wish: UndoWish) -> list[Undone]:
    """What undoing would come to. Raises as `undo`; records nothing."""
    return [
        Undone(change, UndoOutcome.RECORDED if isinstance(inverse, Inverse) else inverse)
        for change, inverse in await _plan(db, settings, wish)
    ]


async def _plan(db: Database, settings: Settings, wish: UndoWish) -> list[tuple[Change, Inverse | UndoOutcome]]:
    named = await readable_changes(
        db, settings, change_ids=wish.change_ids, of_request=wish.of_request, caller=wish.caller
    )
    # The last change of a message is undone first.
    changes = named if wish.change_ids else list(reversed(named))
    standings = await _standings(db, changes)
    copies = await _copies(db, changes)
    sources = await _sources(db, changes)
    bindings: dict[str, list[FolderBinding]] = {}
    planned: list[tuple[Change, Inverse | UndoOutcome]] = []
    for change in changes:
        record = change.record
        if record.account_id not in bindings:
            bindings[record.account_id] = await folder_bindings(db, record.account_id)
        account = settings.account(record.account_id)
        if account is None or account.kind is not AccountKind.IMAP:
            raise MailChangeUnknown("there is no such change of readable mail")
        inverse = inverse_of(record, standings[record.id], copy=copies.get(record.id))
        if isinstance(inverse, _MoveBack):
            destination = destination_at(account, bindings[record.account_id], sources[record.source.folder_id])
            inverse = Inverse(record.stored_email_id, placing_terms(Mutation.RELOCATE, account, destination))
        elif isinstance(inverse, _DeleteCopy):
            terms = Terms(Mutation.DELETE, local_disposition=account.authored_delete_email_disposition)
            inverse = Inverse(inverse.stored_email_id, terms)
        mutation = inverse.terms.mutation if isinstance(inverse, Inverse) else record.terms.mutation
        refuse_unpermitted(settings, account, [mutation], caller=wish.caller)
        planned.append((change, inverse))
    return planned


@dataclass(frozen=True, slots=True)
class _MoveBack:
    """Into the folder that the change took the message from."""


@dataclass(frozen=True, slots=True)
class _DeleteCopy:
    """The message that a copy made."""

    stored_email_id: UUID


def inverse_of(
    record: MutationRecord, standing: Standing, *, copy: UUID | None
) -> Inverse | _MoveBack | _DeleteCopy | UndoOutcome:
    """What undoes a change. `copy` is the stored message that it made, where that is known. Pure.

    Raises MailChangeImpossible with the reason.
    """
    if record.stage is Stage.RECORDED and record.attempt_count == 0 and record.issued_at is None:
        return UndoOutcome.WITHDRAWN
    if record.stage is Stage.ABANDONED:
        if record.last_failure_code == MutationOutcomeUnknown.code:
            raise MailChangeImpossible("nobody knows yet whether that move or copy happened; say so: changes resolve")
        return UndoOutcome.NOTHING_TO_DO
    if record.stage is not Stage.COMPLETED:
        raise MailChangeImpossible("the change is under way; undo it when it has ended")
    if standing.is_leaving:
        raise MailChangeImpossible("another change takes the message elsewhere and is not over; undo that one first")
    match record.terms.mutation:
        case Mutation.DELETE:
            raise MailChangeImpossible("the message was deleted from the server for good")
        case Mutation.COPY:
            if copy is None:
                raise MailChangeImpossible("it is not known yet which message the copy is; try after the next run")
            return _DeleteCopy(copy)
        case Mutation.RELOCATE:
            return _moved_back(record, standing)
        case _:
            return _flags_back(record, standing)


def _moved_back(record: MutationRecord, standing: Standing) -> _MoveBack | UndoOutcome:
    if not standing.is_live:
        raise MailChangeImpossible("the message is where mailkeep does not see it: move it back in a mail program")
    if standing.folder_id == record.source.folder_id:
        if record.source_removal_observed_at is None:
            raise MailChangeImpossible("the move has not been read back yet; try after the next run")
        return UndoOutcome.NOTHING_TO_DO
    return _MoveBack()


def _flags_back(record: MutationRecord, standing: Standing) -> Inverse | UndoOutcome:
    if not standing.is_live:
        raise MailChangeImpossible("the message is not on the server any more")
    terms = _flag_terms_back(record)
    return UndoOutcome.NOTHING_TO_DO if terms is None else Inverse(record.stored_email_id, terms)


def _flag_terms_back(record: MutationRecord) -> Terms | None:
    """The terms that lead back to what was observed before the change; None when it was so already."""
    asked, before = record.terms, record.prior_keywords
    if asked.mutation in (Mutation.SET_SEEN, Mutation.SET_FLAGGED):
        is_seen = asked.mutation is Mutation.SET_SEEN
        wanted = asked.desired_seen_state if is_seen else asked.desired_flagged_state
        if record.prior_state is None:
            raise MailChangeImpossible("nobody had looked at the message's flags before the change")
        if record.prior_state == wanted:
            return None
        if is_seen:
            return Terms(asked.mutation, desired_seen_state=record.prior_state)
        return Terms(asked.mutation, desired_flagged_state=record.prior_state)
    if before is None:
        raise MailChangeImpossible("nobody had looked at the message's keywords before the change")
    named = asked.keywords or ()
    had = {one.casefold() for one in before}
    if asked.mutation is Mutation.ADD_KEYWORDS:
        fresh = tuple(one for one in named if one.casefold() not in had)
        return Terms(Mutation.REMOVE_KEYWORDS, keywords=fresh) if fresh else None
    if asked.mutation is Mutation.REMOVE_KEYWORDS:
        lost = tuple(one for one in named if one.casefold() in had)
        return Terms(Mutation.ADD_KEYWORDS, keywords=lost) if lost else None
    if had == {one.casefold() for one in named}:
        return None
    return Terms(Mutation.SET_KEYWORDS, keywords=before)


async def _standings(db: Database, changes: Sequence[Change]) -> dict[UUID, Standing]:
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["standings"], {"ids": [one.record.id for one in changes]})
        return {row[0]: Standing(row[1], FolderId(row[2]), row[3]) for row in await cursor.fetchall()}


async def _copies(db: Database, changes: Sequence[Change]) -> dict[UUID, UUID]:
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["copies_made"], {"ids": [one.record.id for one in changes]})
        return dict(await cursor.fetchall())


async def _sources(db: Database, changes: Sequence[Change]) -> dict[FolderId, FolderBinding]:
    """The folders that the changes are about, as they were bound then."""
    async with db.connection() as connection:
        cursor = await connection.execute(
            _SQL["folders_of_changes"], {"folder_ids": sorted({one.record.source.folder_id for one in changes})}
        )
        return {
            FolderId(row[0]): FolderBinding(FolderId(row[0]), AccountId(row[1]), row[2], row[3], row[4], row[5])
            for row in await cursor.fetchall()
        }
