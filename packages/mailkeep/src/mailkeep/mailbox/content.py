"""What a content read gives: values, and the decision how much of a body is shown. Pure."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from mailkeep.errors import ReaderError
from mailkeep.mailbox.model import AccountId, ContentAvailability, Flags
from mailkeep_message import Address, Attachment, Message, sanitize_html

_MAX_GRAPHEME_BACKTRACK: Final = 32


class BodyState(StrEnum):
    """Whether there is a body to show, and if not, why (SYNC-132)."""

    READABLE = "Readable"
    ENCRYPTED_NOT_READABLE_LOCALLY = "EncryptedNotReadableLocally"
    NOT_STORED_EXCEEDED_SIZE_LIMIT = "NotStoredExceededSizeLimit"
    NOT_STORED_AWAITING_STORAGE_HEADROOM = "NotStoredAwaitingStorageHeadroom"


class Truncation(StrEnum):
    """What cut a body short (SYNC-133)."""

    NONE = "None"
    BODY_CHARACTER_LIMIT = "BodyCharacterLimit"
    READ_CHARACTER_BUDGET = "ReadCharacterBudget"


class ContentDefect(StrEnum):
    """What is wrong with stored octets."""

    MISSING = "Missing"
    BYTE_LENGTH_MISMATCH = "ByteLengthMismatch"
    HASH_MISMATCH = "HashMismatch"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Bounds of one read, in characters, and whether sanitized HTML is wanted beside the text.

    `body_offset` skips so many characters of each text, to read on where an earlier read was cut.
    """

    max_body_characters: int = 100_000
    max_characters_per_read: int = 200_000
    include_html: bool = False
    body_offset: int = 0


@dataclass(frozen=True, slots=True)
class ContentBody:
    """The readable body. `text` is the whole text before trimming, cut as `truncation` says.

    `html` is sanitized (SYNC-134), None when there is none or it was not asked for. `original_character_count` is the
    length of the uncut text.
    """

    state: BodyState
    text: str
    html: str | None
    is_html_truncated: bool
    truncation: Truncation
    original_character_count: int


@dataclass(frozen=True, slots=True)
class EmailContent:
    """One email as read. Addresses carry names only when the octets are here; else they are the row's own forms.

    `attachments` and `inline_resources` are None when the message was never parsed. `flags` is None when nobody looked
    yet; its keywords are followed by Gmail's labels. The ids of Gmail are digits. `other_stored_email_ids` are up to 50
    other readable messages of the conversation, in reading order.
    """

    stored_email_id: UUID
    account_id: AccountId
    folder: str
    size_octets: int
    content_availability: ContentAvailability
    internet_message_id: str | None
    in_reply_to: tuple[str, ...]
    references: tuple[str, ...]
    subject: str | None
    sent_at: datetime | None
    received_at: datetime | None
    from_: tuple[Address, ...]
    sender: tuple[Address, ...]
    reply_to: tuple[Address, ...]
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    body: ContentBody
    attachments: tuple[Attachment, ...] | None
    inline_resources: tuple[Attachment, ...] | None
    is_encrypted: bool
    carries_unverified_signature: bool
    contains_unexpanded_tnef_part: bool
    is_structurally_read: bool
    flags: Flags | None
    flags_observed_at: datetime | None
    thread_id: UUID | None
    other_stored_email_ids: tuple[UUID, ...]
    gmail_message_id: str | None = None
    gmail_thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class ContentFailure:
    """Why one email of a read could not be given; the others still are (SYNC-130)."""

    stored_email_id: UUID
    error: ReaderError


@dataclass(frozen=True, slots=True)
class ReadResult:
    """One outcome per email, in the order asked for, or in reading order for a conversation.

    `unread_ids` are the messages of a conversation beyond the first ten. `thread_id` is the conversation read.
    """

    outcomes: tuple[EmailContent | ContentFailure, ...]
    unread_ids: tuple[UUID, ...] = ()
    thread_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class AttachmentPayload:
    """One file of a message: its name cleaned of paths, a validated media type, the decoded octets."""

    file_name: str | None
    media_type: str
    octets: bytes


def body_not_stored(availability: ContentAvailability) -> ContentBody:
    """The body of a message whose octets are not here."""
    is_oversized = availability is ContentAvailability.EXCEEDED_SIZE_LIMIT
    state = BodyState.NOT_STORED_EXCEEDED_SIZE_LIMIT if is_oversized else BodyState.NOT_STORED_AWAITING_STORAGE_HEADROOM
    return ContentBody(state, "", None, False, Truncation.NONE, 0)


def shown_body(message: Message, *, options: ReadOptions, budget: int) -> ContentBody:
    """The body within its own bound and within what is left of the read's budget, text before HTML (SYNC-133)."""
    body = message.body
    if message.is_encrypted and not body.text_before_trimming:
        return ContentBody(BodyState.ENCRYPTED_NOT_READABLE_LOCALLY, "", None, False, Truncation.NONE, 0)
    limit = min(options.max_body_characters, max(budget, 0))
    remaining = body.text_before_trimming[options.body_offset :]
    text = cut_text(remaining, limit)
    truncation = Truncation.NONE
    if options.body_offset + len(text) < body.original_character_count:
        is_budget = limit < options.max_body_characters and len(text) < len(remaining)
        truncation = Truncation.READ_CHARACTER_BUDGET if is_budget else Truncation.BODY_CHARACTER_LIMIT
    html, is_html_truncated = None, False
    room = min(options.max_body_characters, max(budget - len(text), 0))
    if options.include_html and body.html is not None and room:
        html, is_html_truncated = sanitize_html(body.html, max_characters=room)
    return ContentBody(BodyState.READABLE, text, html, is_html_truncated, truncation, body.original_character_count)


def cut_text(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, not ending inside what a reader sees as one character.

    Steps back over marks, joiners and modifiers (UAX #29, without its tables), at most 32 characters.
    """
    if len(text) <= limit:
        return text
    end = limit
    while end > 0 and limit - end < _MAX_GRAPHEME_BACKTRACK and (_extends(text[end]) or text[end - 1] == "\u200d"):
        end -= 1
    return text[:end]


def _extends(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Mn", "Me", "Mc")
        or character in "\u200d\n"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )
