"""One stored email as a person reads it, in a terminal or on a page: fields, text, files, and what to know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.attachments import AttachmentReading
from mailkeep.display import moment
from mailkeep.extraction import Outcome
from mailkeep.mailbox import BodyState, EmailContent, Flags, Truncation
from mailkeep_message import Address, Attachment

_STATES: Final = {
    BodyState.ENCRYPTED_NOT_READABLE_LOCALLY: "This message is encrypted; it cannot be read here.",
    BodyState.NOT_STORED_EXCEEDED_SIZE_LIMIT: "Only the header of this message is stored: it is larger than the limit.",
    BodyState.NOT_STORED_AWAITING_STORAGE_HEADROOM: "The body of this message waits for storage room.",
}


_OUTCOMES: Final = {
    Outcome.EXTRACTED: "searchable",
    Outcome.NO_TEXT: "holds no text",
    Outcome.SCANNED_PAGES: "scanned pages without text, found by name only",
    Outcome.ENCRYPTED: "behind a password, found by name only",
    Outcome.UNSUPPORTED: "found by name only",
    Outcome.BROKEN: "could not be read: it is damaged",
    Outcome.TOO_LARGE: "not read: it is larger than attachment_text.max_attachment_bytes",
    Outcome.EXPANDED_TOO_FAR: "not read: it unpacks to more than attachment_text.max_expanded_bytes",
    Outcome.TIMED_OUT: "not read: it took longer than attachment_text allows",
    Outcome.OUT_OF_MEMORY: "not read: it needs more memory than attachment_text allows",
    Outcome.WORKER_DIED: "could not be read: the process that tried it died",
    Outcome.GAVE_UP: "could not be read: every attempt ended with the service",
}


@dataclass(frozen=True, slots=True)
class ShownAttachment:
    """A file of the message; `name` is None for an unnamed one, `size` its decoded octets.

    `text` is what became of its text, None while it was not read yet; `characters` how many of it can be searched.
    """

    position: int
    name: str | None
    media_type: str
    size: int
    text: Outcome | None = None
    is_partial: bool = False
    characters: int = 0

    @property
    def remark(self) -> str:
        """Whether it can be searched, in words."""
        if self.text is None:
            return "not read yet"
        return "searchable in part" if self.is_partial else _OUTCOMES[self.text]


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """`fields` are the lines above the text, in order; `html` is sanitized. Texts are the mail's own, unneutralised."""

    id: UUID
    account: str
    folder: str
    subject: str | None
    sent_at: datetime | None
    received_at: datetime | None
    fields: tuple[tuple[str, str], ...]
    text: str
    html: str | None
    attachments: tuple[ShownAttachment, ...]
    flags: Flags | None
    thread_id: UUID | None
    notes: tuple[str, ...]


def shown_message(content: EmailContent, readings: Mapping[int, AttachmentReading]) -> ShownMessage:
    """What a person is shown of an email that was read; `readings` is what became of its attachments, by position."""
    fields = (
        ("From", addresses(content.from_ or content.sender)),
        ("To", addresses(content.to)),
        ("Cc", addresses(content.cc)),
        ("Bcc", addresses(content.bcc)),
        ("Subject", content.subject or ""),
        ("Date", moment(content.sent_at) if content.sent_at else ""),
        ("Received", moment(content.received_at) if content.received_at else ""),
        ("Folder", f"{content.account_id}/{content.folder}"),
    )
    return ShownMessage(
        id=content.stored_email_id,
        account=content.account_id,
        folder=content.folder,
        subject=content.subject,
        sent_at=content.sent_at,
        received_at=content.received_at,
        fields=tuple((name, value) for name, value in fields if value),
        text=content.body.text,
        html=content.body.html,
        attachments=tuple(_shown_attachment(file, readings.get(file.position)) for file in content.attachments or ()),
        flags=content.flags,
        thread_id=content.thread_id,
        notes=tuple(_notes(content)),
    )


def _shown_attachment(file: Attachment, reading: AttachmentReading | None) -> ShownAttachment:
    known = (file.position, file.file_name, file.media_type, file.size_octets)
    if reading is None:
        return ShownAttachment(*known)
    return ShownAttachment(*known, reading.outcome, reading.is_partial, reading.character_count)


def addresses(people: Iterable[Address]) -> str:
    """People as mail programs write them, comma between."""
    return ", ".join(f"{one.display_name} <{one.address}>" if one.display_name else one.address for one in people)


def _notes(content: EmailContent) -> Iterable[str]:
    if content.body.state in _STATES:
        yield _STATES[content.body.state]
    if content.body.truncation is not Truncation.NONE:
        yield f"The text is cut; the whole has {content.body.original_character_count} characters."
    if not content.is_structurally_read:
        yield "The structure of this message could not be read whole; its octets are stored."
    if content.carries_unverified_signature:
        yield "This message carries a signature that was not verified."
    if content.contains_unexpanded_tnef_part:
        yield "This message holds a winmail.dat, which is not unpacked."
