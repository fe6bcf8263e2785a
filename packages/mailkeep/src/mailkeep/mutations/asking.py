"""From what a face asks for to recorded changes: access, permission, folders and bounds are judged here (MUT-58 to 60).

Whatever may not be read has one answer (53002), and so has what cannot be changed: mail of local accounts, copies kept
after our own delete, and mail of a folder that its alias has left. All changes of one act are recorded together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, assert_never
from uuid import UUID

from psycopg.rows import dict_row

from mailkeep.config import AccountKind, AccountSettings, Settings, SpecialUse
from mailkeep.db import Connection, Database, load_queries, uuid7
from mailkeep.errors import (
    EmailIdMalformed,
    EmailNotAccessible,
    MailChangeCeilingReached,
    MailChangeInvalid,
    ReaderError,
)
from mailkeep.mailbox import AccountId, FolderBinding, folder_bindings, resolve_scope
from mailkeep.mutations.destinations import ROLE_PREFIX, Destination, has_role, resolve_destination
from mailkeep.mutations.model import ORDER_IN_MESSAGE, Mutation, MutationRecord, Requester, RequesterOrigin, Terms
from mailkeep.mutations.permission import refuse_unpermitted
from mailkeep.mutations.record import ChangeRequest, record_changes
from mailkeep.mutations.rows import record_of
from mailkeep.mutations.terms import checked_identity, refuse_malformed, same_request
from mailkeep.mutations.views import changes_named
from mailkeep.mutations.wishes import (
    MAX_MESSAGES,
    MAX_MESSAGES_OF_TOOL,
    MAX_OUTSTANDING,
    MAX_OUTSTANDING_OF_TOOLS,
    SHOWN_IDS,
    Act,
    Archive,
    Asked,
    Caller,
    Copy,
    Delete,
    Group,
    LeftOut,
    LeftOutReason,
    Mark,
    Move,
    Preview,
    Refusal,
    Trash,
    Wish,
    checked_mark,
)

_SQL: Final = load_queries("mailkeep.mutations")
_ID_CHARACTERS: Final = 36


@dataclass(frozen=True, slots=True)
class Source:
    """A readable message and where it is."""

    stored_email_id: UUID
    account_id: AccountId
    folder_alias: str
    folder_path: str
    is_live: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be asked of a message; `destination` is the folder's alias."""

    source: Source
    terms: Terms
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What an act comes to. `earlier` are those of its changes that the same request asked for before."""

    ids: Sequence[UUID]
    identity: str | None
    changes: tuple[Planned, ...]
    earlier: tuple[MutationRecord, ...]
    refusals: tuple[Refusal, ...]
    left_out: tuple[LeftOut, ...]


async def ask(db: Database, settings: Settings, wish: Wish, *, now: datetime) -> Asked:
    """Record an act, all of it or nothing; contacts no server.

    Raises EmailIdMalformed, EmailNotAccessible, MailChangeInvalid, DestinationRefused, MailChangeNotPermitted and
    MailChangeCeilingReached.
    """
    if wish.caller is Caller.TOOL and wish.request_id is None and isinstance(wish.act, Copy):
        raise MailChangeInvalid("name a request_id: without one, asking twice would make two copies")
    plan = await _plan(db, settings, wish)
    for refusal in plan.refusals:
        raise refusal.error
    identity = plan.identity or str(uuid7(now))
    requester = Requester(RequesterOrigin.COMMAND, identity)
    requests = [
        ChangeRequest(
            one.source.stored_email_id,
            one.terms,
            requester,
            audit_trail_enabled=account_named(settings, one.source.account_id).audit_trail.enabled,
        )
        for one in plan.changes
    ]
    room = room_for([one.source.account_id for one in plan.changes], caller=wish.caller)
    recorded = await record_changes(db, requests, now=now, guard=room)
    changes = await changes_named(db, [one.id for one in (*plan.earlier, *recorded)])
    places = {one: place for place, one in enumerate(plan.ids)}
    changes.sort(
        key=lambda one: (places[one.record.stored_email_id], ORDER_IN_MESSAGE.index(one.record.terms.mutation))
    )
    return Asked(identity, tuple(changes), plan.left_out)


async def preview(db: Database, settings: Settings, wish: Wish) -> Preview:
    """What the act would record; raises for what no message can be told from: bad ids, unreadable mail, bad terms."""
    plan = await _plan(db, settings, wish)
    return Preview(groups_of(plan.changes), plan.refusals, plan.left_out)


def groups_of(changes: Sequence[Planned]) -> tuple[Group, ...]:
    """Counts per folder and mutation, with the first messages of each."""
    groups: dict[tuple[str, str, Mutation, str | None], list[UUID]] = {}
    for one in changes:
        key = (one.source.account_id, one.source.folder_alias, one.terms.mutation, one.destination)
        groups.setdefault(key, []).append(one.source.stored_email_id)
    return tuple(Group(*key, count=len(ids), first_ids=tuple(ids[:SHOWN_IDS])) for key, ids in groups.items())


async def _plan(db: Database, settings: Settings, wish: Wish) -> Plan:
    ids = checked_ids(wish.stored_email_ids, caller=wish.caller)
    identity = None if wish.request_id is None else checked_identity(wish.request_id, part="request_id")
    act = checked_mark(wish.act) if isinstance(wish.act, Mark) else wish.act
    sources = await readable_sources(db, settings, ids)
    earlier = {} if identity is None else await _asked_before(db, identity, ids)
    known_ids = {one for one, _ in earlier}
    if not all(source.is_live or source.stored_email_id in known_ids for source in sources.values()):
        raise EmailNotAccessible("there is no readable email of that id")
    wanted, refusals = await _wanted(db, settings, act, [sources[one] for one in ids], caller=wish.caller)
    leaving = await _leaving(db, ids)
    changes: list[Planned] = []
    repeated: list[MutationRecord] = []
    left_out: list[LeftOut] = []
    for source in (sources[one] for one in ids):
        for terms, destination in wanted.get(source.account_id, ()):
            known = earlier.get((source.stored_email_id, terms.mutation))
            if known is not None:
                if not same_request(terms, known.terms):
                    raise MailChangeInvalid("that request_id asked for another change before; use a new one")
                repeated.append(known)
                continue
            if not source.is_live:
                raise EmailNotAccessible("there is no readable email of that id")
            reason = _reason_to_leave_out(source, terms, is_leaving=source.stored_email_id in leaving)
            if reason is None:
                changes.append(Planned(source, terms, destination))
            elif not left_out or left_out[-1].stored_email_id != source.stored_email_id:
                left_out.append(LeftOut(source.stored_email_id, reason))
    return Plan(ids, identity, tuple(changes), tuple(repeated), refusals, tuple(left_out))


def checked_ids(texts: Sequence[str], *, caller: Caller) -> list[UUID]:
    """The ids, each once, in the order given; counted before any is read (MCP-8)."""
    most = MAX_MESSAGES if caller is Caller.PERSON else MAX_MESSAGES_OF_TOOL
    if not 1 <= len(texts) <= most:
        raise MailChangeInvalid(f"name between 1 and {most} emails at once")
    return list(dict.fromkeys(parse_id(text, "that is not an email id") for text in texts))


def parse_id(text: str, refusal: str) -> UUID:
    """An id in its canonical form or as 32 hexadecimal digits. Raises EmailIdMalformed."""
    if len(text) <= _ID_CHARACTERS and text.isascii():
        try:
            return UUID(hex=text)
        except ValueError:
            pass
    raise EmailIdMalformed(refusal)


async def readable_sources(db: Database, settings: Settings, ids: Sequence[UUID]) -> dict[UUID, Source]:
    """Where each message is. Raises EmailNotAccessible when one may not be read or is of no mirrored account."""
    scope = await resolve_scope(db, settings, include_junk=True)
    mirrored = {
        one.account_id for one in settings.mail_synchronization.accounts if one.kind is AccountKind.IMAP
    }  # mail that was imported has no server to be changed on
    folder_ids = [folder.folder_id for folder in scope.folders if folder.account_id in mirrored]
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["sources_of_changes"], {"ids": list(ids), "folder_ids": folder_ids})
        found = {row[0]: Source(row[0], AccountId(row[1]), row[2], row[3], row[4]) for row in await cursor.fetchall()}
    if any(one not in found for one in ids):
        raise EmailNotAccessible("there is no readable email of that id")
    return found


def account_named(settings: Settings, account_id: str) -> AccountSettings:
    """The configured account of exactly that id."""
    return next(one for one in settings.mail_synchronization.accounts if one.account_id == account_id)


async def _asked_before(
    db: Database, identity: str, ids: Sequence[UUID]
) -> dict[tuple[UUID, Mutation], MutationRecord]:
    """What the same request asked of these messages, wherever they have gone since (MCP-114)."""
    async with db.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_SQL["changes_of_request"], {"identity": identity, "ids": list(ids)})
        records = [record_of(row) for row in await cursor.fetchall()]
    return {(one.stored_email_id, one.terms.mutation): one for one in records}


async def _leaving(db: Database, ids: Sequence[UUID]) -> set[UUID]:
    """Messages that an earlier change takes out of their folder: what came after it would miss them."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["leaving_messages"], {"ids": list(ids)})
        return {row[0] for row in await cursor.fetchall()}


def _reason_to_leave_out(source: Source, terms: Terms, *, is_leaving: bool) -> LeftOutReason | None:
    if terms.mutation.places and terms.destination_folder_path == source.folder_path:
        return LeftOutReason.ALREADY_THERE
    return LeftOutReason.ALREADY_LEAVING if is_leaving else None


_Wanted = Mapping[str, Sequence[tuple[Terms, str | None]]]


async def _wanted(
    db: Database, settings: Settings, act: Act, sources: Sequence[Source], *, caller: Caller
) -> tuple[_Wanted, tuple[Refusal, ...]]:
    """Per account the terms of the act in the order of MUT-57, or why the account refuses it."""
    wanted: dict[str, Sequence[tuple[Terms, str | None]]] = {}
    refusals: list[Refusal] = []
    for account_id in dict.fromkeys(source.account_id for source in sources):
        account = account_named(settings, account_id)
        bindings = await folder_bindings(db, account_id)
        try:
            terms = terms_of(act, account, bindings, caller=caller)
            for one, _ in terms:
                refuse_malformed(one)
            refuse_unpermitted(settings, account, [one.mutation for one, _ in terms], caller=caller)
        except MailChangeInvalid:
            raise
        except ReaderError as error:
            count = sum(source.account_id == account_id for source in sources)
            refusals.append(Refusal(account_id, count, error))
        else:
            wanted[account_id] = terms
    return wanted, tuple(refusals)


def terms_of(
    act: Act, account: AccountSettings, bindings: Sequence[FolderBinding], *, caller: Caller
) -> list[tuple[Terms, str | None]]:
    """What an act asks of a message of the account, with the destination's alias. Raises DestinationRefused. Pure."""
    resolve = partial(resolve_destination, account, bindings)
    is_tool = caller is Caller.TOOL
    match act:
        case Mark():
            return [(terms, None) for terms in _mark_terms(act)]
        case Move(to):
            return [_placed(Mutation.RELOCATE, account, resolve(to, only_visible=is_tool))]
        case Copy(to):
            return [_placed(Mutation.COPY, account, resolve(to, only_visible=is_tool))]
        case Archive():
            role = SpecialUse.ARCHIVE if has_role(account, bindings, SpecialUse.ARCHIVE) else SpecialUse.ALL
            return [_placed(Mutation.RELOCATE, account, resolve(ROLE_PREFIX + role, only_visible=False))]
        case Trash():
            destination = resolve(ROLE_PREFIX + SpecialUse.TRASH, only_visible=False)
            return [_placed(Mutation.RELOCATE, account, destination)]
        case Delete():
            return [(Terms(Mutation.DELETE, local_disposition=account.authored_delete_email_disposition), None)]
        case _:
            assert_never(act)


def _mark_terms(mark: Mark) -> list[Terms]:
    keywords = {
        Mutation.SET_KEYWORDS: mark.set_keywords,
        Mutation.REMOVE_KEYWORDS: mark.remove_keywords,
        Mutation.ADD_KEYWORDS: mark.add_keywords,
    }
    terms = [Terms(mutation, keywords=named) for mutation, named in keywords.items() if named is not None]
    if mark.seen is not None:
        terms.append(Terms(Mutation.SET_SEEN, desired_seen_state=mark.seen))
    if mark.flagged is not None:
        terms.append(Terms(Mutation.SET_FLAGGED, desired_flagged_state=mark.flagged))
    return sorted(terms, key=lambda one: ORDER_IN_MESSAGE.index(one.mutation))


def _placed(mutation: Mutation, account: AccountSettings, destination: Destination) -> tuple[Terms, str]:
    return placing_terms(mutation, account, destination), destination.alias


def placing_terms(mutation: Mutation, account: AccountSettings, destination: Destination) -> Terms:
    """A move or copy to the destination; mail that leaves what is mirrored takes the account's disposition (MUT-53)."""
    leaves = mutation is Mutation.RELOCATE and not destination.is_mirrored
    return Terms(
        mutation,
        destination_folder_path=destination.path,
        destination_hierarchy_delimiter=destination.delimiter,
        creates_destination=destination.creates,
        local_disposition=account.authored_delete_email_disposition if leaves else None,
    )


def room_for(account_ids: Sequence[str], *, caller: Caller) -> Callable[[Connection], Awaitable[None]]:
    """What refuses changes beyond those that may be outstanding, inside the transaction that records them."""
    return partial(_refuse_beyond_room, account_ids=account_ids, caller=caller)


async def _refuse_beyond_room(connection: Connection, *, account_ids: Sequence[str], caller: Caller) -> None:
    most = MAX_OUTSTANDING if caller is Caller.PERSON else MAX_OUTSTANDING_OF_TOOLS
    for account_id in sorted(set(account_ids)):
        values = {"account_id": account_id, "limit": most + 1}
        await connection.execute(_SQL["queue_of_account"], values)
        found = await (await connection.execute(_SQL["count_outstanding"], values)).fetchone()
        if (0 if found is None else found[0]) + account_ids.count(account_id) > most:
            raise MailChangeCeilingReached(
                f"more than {most} changes of that account would be waiting; nothing was recorded. Wait until those "
                "before are done: mailkeep changes list"
            )
