"""Reading stored mail back: contents, octets, attachments. Reaches no mail server and changes no flag (SYNC-129).

Octets are verified by length and digest before anything is made of them; what is missing or damaged is noted for
repair and told as such (SYNC-120). Whether an email may be read is the scope's business alone.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.rows import namedtuple_row

from mailkeep.db import Database, load_queries
from mailkeep.errors import (
    ContentCountRefused,
    ContentNotStored,
    ContentRepeated,
    ContentSelectionRefused,
    EmailNotAccessible,
    ReaderError,
    StoredContentUnreadable,
)
from mailkeep.mailbox.content import (
    AttachmentPayload,
    ContentBody,
    ContentDefect,
    ContentFailure,
    EmailContent,
    ReadOptions,
    ReadResult,
    body_not_stored,
    shown_body,
)
from mailkeep.mailbox.model import ContentAvailability, Flags
from mailkeep.mailbox.scope import ReadableFolder, Scope
from mailkeep.threads import read_thread
from mailkeep_message import Address, Limits, Message, attachment_payload, read

_SQL: Final = load_queries("mailkeep.mailbox")

MAX_EMAILS_PER_READ: Final = 10
MAX_OTHERS_NAMED: Final = 50
DEFAULT_OPTIONS: Final = ReadOptions()


async def read_contents(
    db: Database,
    *,
    scope: Scope,
    now: datetime,
    ids: Sequence[UUID] = (),
    thread_id: UUID | None = None,
    options: ReadOptions = DEFAULT_OPTIONS,
) -> ReadResult:
    """Read one to ten emails, or one conversation.

    Raises ContentSelectionRefused for both or neither, ContentCountRefused, ContentRepeated. An unknown conversation
    has no outcomes. The character budget is spent in order; once it is spent, texts are empty and say so.
    """
    if bool(ids) == (thread_id is not None):
        raise ContentSelectionRefused("name either emails or one conversation")
    if len(ids) > MAX_EMAILS_PER_READ:
        raise ContentCountRefused(f"a read takes at most {MAX_EMAILS_PER_READ} emails")
    if len(set(ids)) != len(ids):
        raise ContentRepeated("a read names each email once")
    unread: Sequence[UUID] = ()
    if thread_id is not None:
        async with db.connection() as connection:
            thread = await read_thread(connection, thread_id, folder_ids=scope.folder_ids)
        found = [entry.stored_email_id for entry in thread.entries]
        ids, unread, thread_id = found[:MAX_EMAILS_PER_READ], found[MAX_EMAILS_PER_READ:], thread.thread_id
    rows = await _readable_rows(db, ids, scope)
    outcomes: list[EmailContent | ContentFailure] = []
    budget = options.max_characters_per_read
    for stored_email_id in ids:
        try:
            content = await _content(
                db, rows.get(stored_email_id), scope=scope, options=options, budget=budget, now=now
            )
        except ReaderError as error:
            outcomes.append(ContentFailure(stored_email_id, error))
            continue
        budget -= len(content.body.text) + len(content.body.html or "")
        outcomes.append(content)
    return ReadResult(tuple(outcomes), tuple(unread), thread_id)


async def raw_mime(db: Database, stored_email_id: UUID, *, scope: Scope, now: datetime) -> bytes:
    """The octets of one email exactly as fetched, verified.

    Raises EmailNotAccessible, ContentNotStored for mail that is here without its octets, StoredContentUnreadable.
    """
    row = (await _readable_rows(db, [stored_email_id], scope)).get(stored_email_id)
    if row is None:
        raise EmailNotAccessible("there is no readable email with that id")
    if row.content_availability is not ContentAvailability.AVAILABLE:
        raise ContentNotStored("the octets of this email are not stored: it is too large, or waits for room")
    return await _verified_octets(db, stored_email_id, now=now)


async def attachment(
    db: Database, stored_email_id: UUID, *, position: int, scope: Scope, now: datetime
) -> AttachmentPayload:
    """One attachment or inline resource by its place in the walk that lists them.

    Raises as `raw_mime` does, EmailNotAccessible also when there is no such place.
    """
    octets = await raw_mime(db, stored_email_id, scope=scope, now=now)
    message = await asyncio.to_thread(read, octets)
    for listed in (*message.attachments, *message.inline_resources):
        if listed.position == position:
            payload = await asyncio.to_thread(attachment_payload, octets, position)
            return AttachmentPayload(listed.file_name, listed.media_type, payload)
    raise EmailNotAccessible("there is no such attachment")


@dataclass(frozen=True, slots=True)
class _Row:
    """The columns of a readable row that a content read shows."""

    id: UUID
    folder_id: int
    thread_id: UUID | None
    size_octets: int
    content_availability: ContentAvailability
    internet_message_id: str | None
    subject: str | None
    sent_at: datetime | None
    received_at: datetime | None
    is_structurally_read: bool
    flags_observed_at: datetime | None
    flags: Flags
    sender_display_name: str | None
    sender_address: str | None
    sender_normalized_address: str | None
    reply_to: tuple[str, ...]
    to: tuple[str, ...]
    cc: tuple[str, ...]
    gmail_message_id: str | None
    gmail_thread_id: str | None


async def _readable_rows(db: Database, ids: Sequence[UUID], scope: Scope) -> dict[UUID, _Row]:
    async with db.connection() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
        await cursor.execute(_SQL["readable_rows"], {"ids": list(ids), "folder_ids": scope.folder_ids})
        rows = [_row(row) for row in await cursor.fetchall()]
    return {row.id: row for row in rows}


def _row(row: Any) -> _Row:
    return _Row(
        id=row.id,
        folder_id=row.mail_folder_id,
        thread_id=row.email_thread_id,
        size_octets=row.size_octets,
        content_availability=ContentAvailability(row.content_availability),
        internet_message_id=row.internet_message_id,
        subject=row.subject,
        sent_at=row.sent_at,
        received_at=row.received_at,
        is_structurally_read=row.is_structurally_read,
        flags_observed_at=row.remote_flags_observed_at,
        flags=Flags(
            seen=row.is_remotely_seen,
            answered=row.is_remotely_answered,
            flagged=row.is_remotely_flagged,
            draft=row.is_remotely_draft,
            deleted=row.is_remotely_deleted,
            keywords=tuple(row.remote_keywords),
        ),
        sender_display_name=row.sender_display_name,
        sender_address=row.sender_address,
        sender_normalized_address=row.sender_normalized_address,
        reply_to=tuple(row.reply_to_addresses),
        to=tuple(row.to_addresses),
        cc=tuple(row.cc_addresses),
        gmail_message_id=row.gmail_message_id,
        gmail_thread_id=row.gmail_thread_id,
    )


async def _content(
    db: Database, row: _Row | None, *, scope: Scope, options: ReadOptions, budget: int, now: datetime
) -> EmailContent:
    if row is None:
        raise EmailNotAccessible("there is no readable email with that id")
    folder = next(folder for folder in scope.folders if folder.folder_id == row.folder_id)
    message = None
    if row.content_availability is ContentAvailability.AVAILABLE:
        octets = await _verified_octets(db, row.id, now=now)
        limits = Limits(max_text_characters=options.max_body_characters)
        message = await asyncio.to_thread(read, octets, limits=limits)
    others: tuple[UUID, ...] = ()
    if row.thread_id is not None:
        async with db.connection() as connection:
            thread = await read_thread(connection, row.thread_id, folder_ids=scope.folder_ids)
        others = tuple(entry.stored_email_id for entry in thread.entries if entry.stored_email_id != row.id)
    if message is None:
        body = body_not_stored(row.content_availability)
    else:
        body = shown_body(message, options=options, budget=budget)
    return _assembled(row, folder, message, body, others[:MAX_OTHERS_NAMED])


async def _verified_octets(db: Database, stored_email_id: UUID, *, now: datetime) -> bytes:
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["content"], {"id": stored_email_id})
        found = await cursor.fetchone()
    if found is None:
        defect = ContentDefect.MISSING
    else:
        octets: bytes = found[0]
        if len(octets) != found[1]:
            defect = ContentDefect.BYTE_LENGTH_MISMATCH
        elif await asyncio.to_thread(_digest, octets) != found[2]:
            defect = ContentDefect.HASH_MISMATCH
        else:
            return octets
    async with db.connection() as connection:
        await connection.execute(_SQL["request_repair"], {"id": stored_email_id, "defect": defect.value, "now": now})
    raise StoredContentUnreadable("the stored octets of this email are missing or damaged; a repair is recorded")


def _digest(octets: bytes) -> bytes:
    return hashlib.sha256(octets).digest()


def _assembled(
    row: _Row, folder: ReadableFolder, message: Message | None, body: ContentBody, others: tuple[UUID, ...]
) -> EmailContent:
    return EmailContent(
        stored_email_id=row.id,
        account_id=folder.account_id,
        folder=folder.alias,
        size_octets=row.size_octets,
        content_availability=row.content_availability,
        internet_message_id=row.internet_message_id,
        in_reply_to=message.in_reply_to if message is not None else (),
        references=message.references if message is not None else (),
        subject=row.subject,
        sent_at=row.sent_at,
        received_at=row.received_at,
        from_=message.from_ if message is not None else _row_sender(row),
        sender=message.sender if message is not None else (),
        reply_to=message.reply_to if message is not None else _row_addresses(row.reply_to),
        to=message.to if message is not None else _row_addresses(row.to),
        cc=message.cc if message is not None else _row_addresses(row.cc),
        bcc=message.bcc if message is not None else (),
        body=body,
        attachments=message.attachments if message is not None else None,
        inline_resources=message.inline_resources if message is not None else None,
        is_encrypted=message is not None and message.is_encrypted,
        carries_unverified_signature=message is not None and message.carries_unverified_signature,
        contains_unexpanded_tnef_part=message is not None and message.contains_unexpanded_tnef_part,
        is_structurally_read=row.is_structurally_read,
        flags=row.flags if row.flags_observed_at is not None else None,
        flags_observed_at=row.flags_observed_at,
        thread_id=row.thread_id,
        other_stored_email_ids=others,
        gmail_message_id=row.gmail_message_id,
        gmail_thread_id=row.gmail_thread_id,
    )


def _row_sender(row: _Row) -> tuple[Address, ...]:
    if row.sender_address is None or row.sender_normalized_address is None:
        return ()
    return (Address(row.sender_display_name, row.sender_address, row.sender_normalized_address, None),)


def _row_addresses(addresses: Sequence[str]) -> tuple[Address, ...]:
    return tuple(Address(None, address, address, None) for address in addresses)
