"""The transport wrapper: a host's own mail transport first, then a durable copy per principal (section 5).

Neither side can break the other. The transport always runs and its outcome is the caller's; the mailbox side is tried
whatever that outcome was, and its failures are logged, never raised, since a false failure invites double delivery.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from mailkeep_inbox.bounds import LOG_SAMPLE, MAX_FRAME_BYTES, MAX_RECIPIENTS
from mailkeep_inbox.calls import outcome_of
from mailkeep_inbox.checks import assert_mailbox_scope, assert_mailbox_tenant_id
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.events import MailboxEventBus
from mailkeep_inbox.frames import DecodedFrame, decode_body, decode_headers
from mailkeep_inbox.handle import Handle, refuse_announcing, writing
from mailkeep_inbox.keys import mailbox_key
from mailkeep_inbox.model import MailboxRef, MailboxScope, PendingEvent
from mailkeep_inbox.recipients import MailboxRecipient, RecipientPrefixes, resolve_mailbox_recipients
from mailkeep_inbox.refs import require_refs
from mailkeep_inbox.statements import statement
from mailkeep_inbox.write import Row, insert_rows, publish

logger = logging.getLogger("mailkeep_inbox")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxPersistArgs:
    """A frame as the transport has it; `recipients` are the envelope's."""

    sender_address: str
    recipients: Sequence[str]
    raw: bytes


@dataclass(frozen=True, slots=True)
class SenderAuthorization:
    """Where a sender may deliver: one domain of one tenant (INBOX-42)."""

    tenant_id: str
    domain: str


@dataclass(frozen=True, slots=True)
class RefsRequest:
    """What `resolve_refs` gets: the frame, who may send it, and how it reads (`None`: it cannot be read)."""

    args: MailboxPersistArgs
    sender_authorization: SenderAuthorization
    decoded: DecodedFrame | None


@dataclass(frozen=True, slots=True)
class PersistedRow:
    """What `on_row` gets for every row that is new."""

    id: str
    tenant_id: str
    principal_id: str
    recipient_address: str
    sender_address: str


@dataclass(frozen=True, slots=True)
class DedupeConflict:
    """One key arrived with other bytes: the stored message stayed, and this one is nowhere (the alarm)."""

    scope: MailboxScope
    message_key: str
    stored_id: str


AuthorizeSender: TypeAlias = Callable[[str], "SenderAuthorization | Awaitable[SenderAuthorization | None] | None"]
ResolveRefs: TypeAlias = Callable[[RefsRequest], "Sequence[MailboxRef] | Awaitable[Sequence[MailboxRef] | None] | None"]
OnRow: TypeAlias = Callable[[PersistedRow], "Awaitable[object] | object"]
OnConflict: TypeAlias = Callable[[DedupeConflict], "Awaitable[object] | object"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    db: Handle
    authorize_sender: AuthorizeSender
    bus: MailboxEventBus | None
    on_row: OnRow | None
    resolve_refs: ResolveRefs | None
    on_conflict: OnConflict | None
    prefixes: RecipientPrefixes


@dataclass(slots=True)
class _Run(Generic[Value]):
    """One frame on its way; `stage` is what a log names when it stops."""

    args: MailboxPersistArgs
    stage: str = "size"


def create_mailbox_persist(
    db: Handle,
    *,
    upstream: Callable[[MailboxPersistArgs], Awaitable[Value] | Value],
    authorize_sender: AuthorizeSender,
    bus: MailboxEventBus | None = None,
    on_row: OnRow | None = None,
    resolve_refs: ResolveRefs | None = None,
    on_conflict: OnConflict | None = None,
    prefixes: RecipientPrefixes | None = None,
) -> Callable[[MailboxPersistArgs], Awaitable[Value]]:
    """Wrap `upstream`; the wrapped callable returns or raises exactly what `upstream` did (INBOX-40).

    `on_conflict` is called after the commit when a message was dropped as a duplicate although its bytes differ from
    the stored ones; without it the log has a WARNING.
    """
    refuse_announcing(db, bus=bus, on_row=on_row)
    options = _Options(
        db=db, authorize_sender=authorize_sender, bus=bus, on_row=on_row, resolve_refs=resolve_refs,
        on_conflict=on_conflict, prefixes=prefixes or RecipientPrefixes(),
    )  # fmt: skip

    async def persist(args: MailboxPersistArgs) -> Value:
        try:
            value = await outcome_of(upstream(args))
        except Exception:
            await _try_mailbox(options, args)
            raise
        await _try_mailbox(options, args)
        return value

    return persist


async def _try_mailbox(options: _Options, args: MailboxPersistArgs) -> None:
    run: _Run[object] = _Run(args)
    try:
        await _write(options, run)
    except Exception as failure:
        headers = decode_headers(args.raw[:MAX_FRAME_BYTES]) if isinstance(args.raw, bytes) else None
        logger.error(  # noqa: TRY400 -- a traceback may hold mail
            "mailbox copy not written: sender=%s message_id=%s stage=%s error=%s",
            args.sender_address, headers and headers.message_id, run.stage, type(failure).__name__,
        )  # fmt: skip


async def _write(options: _Options, run: _Run[object]) -> None:
    """The steps of INBOX-41, in order."""
    args = run.args
    refuse_announcing(options.db, bus=options.bus, on_row=options.on_row)
    if len(args.raw) > MAX_FRAME_BYTES:
        raise MailboxRangeError(f"the frame must be at most {MAX_FRAME_BYTES} bytes")
    run.stage = "recipients"
    if len(args.recipients) > MAX_RECIPIENTS:
        raise MailboxRangeError(f"a frame has at most {MAX_RECIPIENTS} recipients")
    run.stage = "authorize_sender"
    authorization = await outcome_of(options.authorize_sender(args.sender_address))
    if authorization is None:
        logger.error("mailbox copy not written: sender=%s stage=authorize_sender error=refused", args.sender_address)
        return
    run.stage = "resolve_recipients"
    recipients = resolve_mailbox_recipients(args.recipients, domain=authorization.domain, prefixes=options.prefixes)
    run.stage = "scope"
    assert_mailbox_tenant_id(authorization.tenant_id)
    for recipient in recipients:
        assert_mailbox_scope(MailboxScope(authorization.tenant_id, recipient.principal_id))
    if not recipients:
        return
    run.stage = "decode"
    rows = _rows(args, authorization, recipients)
    run.stage = "resolve_refs"
    refs = await _refs(options, args, authorization, rows[0])
    run.stage = "insert"
    await _insert_and_announce(options, args, [replace(row, refs=refs) for row in rows])


def _rows(
    args: MailboxPersistArgs, authorization: SenderAuthorization, recipients: Sequence[MailboxRecipient]
) -> list[Row]:
    """One row a principal; a frame without a usable Message-ID is known by its content (INBOX-45, INBOX-46)."""
    headers, body = decode_headers(args.raw), decode_body(args.raw)
    known = headers.message_id if headers is not None else None
    rows = []
    for recipient in recipients:
        principal_id = recipient.principal_id
        by_content = mailbox_key.raw(args.raw, principal_id)
        key = by_content if known is None else mailbox_key.transport(known, principal_id)
        scope = MailboxScope(authorization.tenant_id, principal_id)
        rows.append(
            Row(scope=scope, address=recipient.address, raw=args.raw, headers=headers, body=body, message_key=key)
        )
    return rows


async def _refs(
    options: _Options, args: MailboxPersistArgs, authorization: SenderAuthorization, row: Row
) -> tuple[MailboxRef, ...]:
    if options.resolve_refs is None:
        return ()
    decoded = None if row.headers is None else DecodedFrame(row.headers, row.body)
    resolved = await outcome_of(options.resolve_refs(RefsRequest(args, authorization, decoded)))
    return require_refs(resolved, key=row.message_key)


async def _insert_and_announce(options: _Options, args: MailboxPersistArgs, rows: Sequence[Row]) -> None:
    """Insert what can be inserted; a principal deleted meanwhile costs the others one more try (INBOX-46)."""
    try:
        kept, events, conflicts = await _insert_known(options.db, rows)
    except IntegrityError:
        kept, events, conflicts = await _insert_known(options.db, rows)
    for row, event in zip(kept, events, strict=True):
        await publish(options.bus, (event,))
        persisted = PersistedRow(row.id, row.scope.tenant_id, row.scope.principal_id, row.address, args.sender_address)
        await _tell(options.on_row, persisted, "on_row", row.id)
    for conflict in conflicts:
        logger.warning("mailbox duplicate with other content dropped: stored=%s", conflict.stored_id)
        await _tell(options.on_conflict, conflict, "on_conflict", conflict.stored_id)


async def _insert_known(db: Handle, rows: Sequence[Row]) -> tuple[list[Row], list[PendingEvent], list[DedupeConflict]]:
    async with writing(db) as connection:
        known = await _known_rows(connection, rows)
        inserted = await insert_rows(connection, known)
        duplicates = [row for row, new in zip(known, inserted, strict=True) if new is None]
        conflicts = await _conflicts(connection, duplicates)
    pairs = [(row, new.event) for row, new in zip(known, inserted, strict=True) if new is not None]
    return [row for row, _ in pairs], [event for _, event in pairs], conflicts


async def _known_rows(connection: AsyncConnection, rows: Sequence[Row]) -> list[Row]:
    """The rows of principals that the tenant has; senders choose local parts, so the others are expected."""
    ids = [row.scope.principal_id for row in rows]
    found = await connection.scalars(statement("known_principals"), {"tenant_id": rows[0].scope.tenant_id, "ids": ids})
    known = set(found)
    unknown = [row.address for row in rows if row.scope.principal_id not in known]
    if unknown:
        logger.warning("mailbox recipients unknown: count=%d addresses=%s", len(unknown), unknown[:LOG_SAMPLE])
    return [row for row in rows if row.scope.principal_id in known]


async def _conflicts(connection: AsyncConnection, rows: Sequence[Row]) -> list[DedupeConflict]:
    """Which duplicates were none: the same key, other bytes."""
    if not rows:
        return []
    digest = hashlib.sha256(rows[0].raw).digest()
    stored = await connection.execute(
        statement("stored_frames"),
        {
            "tenant_id": [row.scope.tenant_id for row in rows],
            "principal_id": [row.scope.principal_id for row in rows],
            "message_key": [row.message_key for row in rows],
        },
    )
    return [
        DedupeConflict(MailboxScope(row.tenant_id, row.principal_id), row.message_key, row.id)
        for row in stored
        if bytes(row.digest) != digest
    ]


async def _tell(hook: Callable[[Value], object] | None, value: Value, name: str, row_id: str) -> None:
    if hook is None:
        return
    try:
        await outcome_of(hook(value))
    except Exception as failure:
        logger.error("mailbox hook failed: hook=%s id=%s error=%s", name, row_id, type(failure).__name__)  # noqa: TRY400 -- a traceback may hold mail
