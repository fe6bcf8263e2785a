"""Reading the content of messages that a list or a search named, with what their conversations hold (MCP-104..108)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.attachments import AttachmentReading, AttachmentText, attachment_readings, attachment_text
from mailkeep.config import EmailContentSettings, Settings
from mailkeep.db import Database
from mailkeep.errors import (
    ContentCountRefused,
    ContentRepeated,
    ContentSelectionRefused,
    EmailIdMalformed,
    FilterRefused,
    ReaderError,
    ThreadIdMalformed,
)
from mailkeep.mailbox import EmailContent, ReadOptions, ReadResult, read_contents, resolve_scope
from mailkeep.search.model import Conversation
from mailkeep.search.overview import read_conversation

MAX_EMAILS: Final = 10
MIN_CHARACTERS: Final = 1_000
DEFAULT_CHARACTERS: Final = 40_000
"""Of bodies in one answer when the caller says nothing: about what a model's tool result may hold (case 196)."""
MAX_BODY_OFFSET: Final = 10_000_000
MAX_POSITION: Final = 100_000
_ID_CHARACTERS: Final = 36


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Which messages: either ids or one conversation, as text. `max_characters` narrows the operator's bound.

    `attachment_position` asks for the text of one attachment of a single message, from `attachment_offset` on.
    """

    stored_email_ids: tuple[str, ...] | None = None
    thread_id: str | None = None
    include_sanitized_html: bool = False
    max_characters: int | None = None
    body_offset: int = 0
    attachment_position: int | None = None
    attachment_offset: int = 0


@dataclass(frozen=True, slots=True)
class ReadEmails:
    """The outcomes, and the conversation of each message read, by the thread id that the message names.

    `readings` says of each message what became of its attachments' texts, by position; `attachment_text` is the one
    that was asked for, None while it was not read yet.
    """

    result: ReadResult
    conversations: Mapping[UUID, Conversation]
    readings: Mapping[UUID, Mapping[int, AttachmentReading]]
    attachment_text: AttachmentText | None = None


async def read_emails(db: Database, settings: Settings, request: ReadRequest, *, now: datetime) -> ReadEmails:
    """Read one to ten messages or the beginning of one conversation.

    Raises ContentSelectionRefused, ContentCountRefused, EmailIdMalformed, ContentRepeated, ThreadIdMalformed,
    FilterRefused. Counts are checked before any id is parsed. The text of an attachment is given its characters before
    the body is.
    """
    ids, thread_id = _selected(request)
    options = _options(request, settings.email_content)
    text = await _attachment_text(db, request, ids, limit=options.max_characters_per_read)
    if text is not None:
        options = replace(options, max_characters_per_read=options.max_characters_per_read - len(text.text))
    # Whoever names a message by its id means that one, wherever it is filed; withheld folders stay withheld.
    scope = await resolve_scope(db, settings, include_junk=True)
    result = await read_contents(db, scope=scope, now=now, ids=ids, thread_id=thread_id, options=options)
    contents = [one for one in result.outcomes if isinstance(one, EmailContent)]
    _check_position(request, contents)
    threads = {one.thread_id for one in contents if one.thread_id is not None}
    conversations = {
        thread: await read_conversation(db, settings, scope=scope, thread_id=thread) for thread in sorted(threads)
    }
    readings = {
        one.stored_email_id: await attachment_readings(db, one.stored_email_id) for one in contents if one.attachments
    }
    # What may not be read has no content, and then no text of its attachments either.
    return ReadEmails(result, conversations, readings, text if contents else None)


async def _attachment_text(
    db: Database, request: ReadRequest, ids: Sequence[UUID], *, limit: int
) -> AttachmentText | None:
    if request.attachment_position is None:
        return None
    if len(ids) != 1:
        raise FilterRefused("attachment_position goes with exactly one of stored_email_ids.")
    if not 0 <= request.attachment_offset <= MAX_BODY_OFFSET:
        raise FilterRefused(f"attachment_offset must be between 0 and {MAX_BODY_OFFSET}.")
    if not 0 <= request.attachment_position <= MAX_POSITION:
        raise FilterRefused(f"attachment_position must be between 0 and {MAX_POSITION}.")
    return await attachment_text(db, ids[0], request.attachment_position, offset=request.attachment_offset, limit=limit)


def _check_position(request: ReadRequest, contents: Sequence[EmailContent]) -> None:
    """A place that the message does not have is refused, not answered with silence."""
    if request.attachment_position is None:
        return
    for content in contents:
        if not any(file.position == request.attachment_position for file in content.attachments or ()):
            raise FilterRefused("attachment_position names no attachment of this email.")


def _selected(request: ReadRequest) -> tuple[list[UUID], UUID | None]:
    if (request.stored_email_ids is None) == (request.thread_id is None):
        raise ContentSelectionRefused("Name either stored_email_ids or thread_id.")
    if request.thread_id is not None:
        return [], parse_id(request.thread_id, ThreadIdMalformed("thread_id is not a conversation id."))
    texts: Sequence[str] = request.stored_email_ids or ()
    if not 1 <= len(texts) <= MAX_EMAILS:
        raise ContentCountRefused(f"stored_email_ids takes 1 to {MAX_EMAILS} ids.")
    ids = [
        parse_id(text, EmailIdMalformed("stored_email_ids holds something that is not an email id.")) for text in texts
    ]
    if len(set(ids)) != len(ids):
        raise ContentRepeated("stored_email_ids names an email twice.")
    return ids, None


def parse_id(text: str, refusal: ReaderError) -> UUID:
    """An id in its canonical form or as 32 hexadecimal digits."""
    if len(text) <= _ID_CHARACTERS and text.isascii():
        try:
            return UUID(hex=text)
        except ValueError:
            pass
    raise refusal


def _options(request: ReadRequest, bounds: EmailContentSettings) -> ReadOptions:
    most = bounds.max_characters_per_read
    characters = min(DEFAULT_CHARACTERS, most) if request.max_characters is None else request.max_characters
    if not MIN_CHARACTERS <= characters <= most:
        raise FilterRefused(f"max_characters must be between {MIN_CHARACTERS} and {most}.")
    if not 0 <= request.body_offset <= MAX_BODY_OFFSET:
        raise FilterRefused(f"body_offset must be between 0 and {MAX_BODY_OFFSET}.")
    return ReadOptions(
        max_body_characters=bounds.max_body_characters,
        max_characters_per_read=characters,
        include_html=request.include_sanitized_html,
        body_offset=request.body_offset,
    )
