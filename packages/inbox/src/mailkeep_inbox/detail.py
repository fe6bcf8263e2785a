"""One message whole, and its files, from the stored frame (INBOX-55). Reading never raises from what a frame holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from mailkeep_inbox.bounds import SNIPPET_CHARACTERS
from mailkeep_inbox.checks import assert_mailbox_scope, is_row_id, require_directions
from mailkeep_inbox.frames import FrameHeaders, decode_body, decode_headers
from mailkeep_inbox.handle import Handle, reading
from mailkeep_inbox.list_sql import sides_of
from mailkeep_inbox.lists import aware, scope_parameters
from mailkeep_inbox.model import Attachment, Direction, Directions, MailboxDetail, MailboxScope
from mailkeep_inbox.recipients import parse_address_list
from mailkeep_inbox.refs import StoredLists
from mailkeep_inbox.sender_displays import ResolveSenderDisplays, attach_from_display
from mailkeep_inbox.statements import statement
from mailkeep_message import attachment_payload


@dataclass(frozen=True, slots=True)
class AttachmentContent:
    """A file of a message, decoded. `name` and `media_type` are the sender's words: never trust either."""

    name: str | None
    media_type: str
    content: bytes


async def get_mailbox_message(
    db: Handle,
    scope: MailboxScope,
    id: str,  # noqa: A002 -- the contract's name
    *,
    direction: Directions = "inbound",
    resolve_sender_displays: ResolveSenderDisplays | None = None,
) -> MailboxDetail | None:
    """The message, header fields before caches before defaults; `None` when this mailbox does not hold it."""
    row = await _row(db, scope, id, direction)
    if row is None:
        return None
    raw = bytes(row.raw)
    headers, body = decode_headers(raw), decode_body(raw)
    stored = StoredLists()
    detail = _detail(row, stored, headers, text="" if headers is None else body.text, attachments=body.attachments)
    stored.report()
    (labelled,) = await attach_from_display([detail], tenant_id=scope.tenant_id, resolve=resolve_sender_displays)
    return labelled


async def read_mailbox_attachment(
    db: Handle,
    scope: MailboxScope,
    id: str,  # noqa: A002 -- the contract's name
    part: int,
    *,
    direction: Directions = "inbound",
) -> AttachmentContent | None:
    """The file that `attachments` lists under `part`; `None` when there is no such message or file."""
    row = await _row(db, scope, id, direction)
    if row is None or isinstance(part, bool) or not isinstance(part, int):
        return None
    raw = bytes(row.raw)
    listed = next((file for file in decode_body(raw).attachments if file.part == part), None)
    if listed is None:
        return None
    return AttachmentContent(listed.name, listed.media_type, attachment_payload(raw, part))


async def _row(db: Handle, scope: MailboxScope, row_id: str, direction: Directions) -> Row[Any] | None:
    assert_mailbox_scope(scope)
    directions = sides_of(require_directions(direction))
    if not is_row_id(row_id):
        return None
    parameters = scope_parameters(scope) | {"id": row_id, "directions": list(directions)}
    async with reading(db) as connection:
        return (await connection.execute(statement("read_detail"), parameters)).one_or_none()


def _detail(
    row: Row[Any], stored: StoredLists, headers: FrameHeaders | None, *, text: str, attachments: tuple[Attachment, ...]
) -> MailboxDetail:
    """Header, then cache, then default; a present empty subject stays empty (INBOX-56)."""
    sent_at = headers.sent_at if headers else None
    to = parse_address_list(headers.to) if headers and headers.to else []
    from_ = headers.from_ if headers and headers.from_ is not None else row.from_address
    subject = headers.subject if headers and headers.subject is not None else row.subject
    return MailboxDetail(
        id=row.id,
        from_=from_ or "",
        to=tuple(to) or (row.address,),
        date=sent_at or aware(row.created_at),
        read=row.read_at is not None,
        message_id=(headers.written_message_id if headers else None) or row.id,
        direction=Direction(row.direction),
        subject=subject,
        in_reply_to=headers.in_reply_to if headers else None,
        refs=stored.refs(row.id, row.refs),
        priority=row.priority,
        classification=row.classification,
        status=row.status,
        assignee=row.assignee,
        snippet=text[:SNIPPET_CHARACTERS] or None,
        attachments=attachments,
        labels=tuple(row.labels or ()),
        snoozed_until=None if row.snoozed_until is None else aware(row.snoozed_until),
        body=text,
    )
