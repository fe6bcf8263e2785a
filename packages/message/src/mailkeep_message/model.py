"""The values a read message consists of: frozen, slotted, free of I/O and of behaviour.

Every `str` in them is free of NUL, control characters (bodies keep LF and TAB) and lone surrogates (SYNC-107), so
that a database or a JSON encoder takes it as it is. Octets stay `bytes`. Datetimes are aware and in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

DEFECTS: Final = frozenset(
    {
        "broken_header_line",  # a line in the header section that is neither a field nor a continuation
        "broken_transfer_encoding",  # an unknown Content-Transfer-Encoding: read as it stands
        "lossy_quoted_printable",  # "=ZZ", a lone "=" at the end: kept as text (case 125)
        "missing_boundary",  # a multipart without a boundary parameter
        "missing_boundary_end",  # a multipart that is never closed
        "missing_boundary_start",  # a multipart whose boundary never occurs
        "missing_header_end",  # no empty line between header and body
        "reader_failure",  # an error of ours: the message is kept, its envelope only is read
        "structure_limit_crossed",  # Limits.max_part_count or .max_nesting_depth (SYNC-91)
        "truncated_base64",  # base64 that ends inside a group of four (case 122)
        "undecodable_characters",  # octets outside the charset, replaced by U+FFFD or read by a fallback
        "unknown_charset",  # a label nobody knows: read as UTF-8, else windows-1252
    }
)
"""The closed vocabulary of `Message.defects`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one read. Counts are entities, levels, characters, addresses and identifiers."""

    max_part_count: int = 1000
    max_nesting_depth: int = 30
    max_text_characters: int = 100_000
    max_addresses_per_role: int = 256
    max_references: int = 256


class HeaderField(NamedTuple):
    """One field of the message's own header: the name as written, the octets after the colon, still folded."""

    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Address:
    """One mailbox. `address` is the addr-spec as written, `normalized_address` its comparison form (SYNC-95)."""

    display_name: str | None
    address: str
    normalized_address: str
    group: str | None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A part that is a file to its reader. `size_octets` counts decoded octets.

    `position` is the place in the one walk that lists files: attachments 0, 1, 2 ..., inline resources after the last
    attachment. `attachment_payload` takes either.
    """

    position: int
    file_name: str | None
    was_file_name_normalized: bool
    media_type: str
    size_octets: int
    content_id: str | None


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file with its decoded octets. `charset` is its own label, `charset_hint` the first label in the message."""

    about: Attachment
    charset: str | None
    charset_hint: str | None
    octets: bytes


class TextSource(StrEnum):
    """Where the body text came from (SYNC-106)."""

    PlainTextBodyPart = "PlainTextBodyPart"
    DerivedFromHtmlBodyPart = "DerivedFromHtmlBodyPart"
    NoTextualBodyPart = "NoTextualBodyPart"
    EncryptedBody = "EncryptedBody"
    BodyNotExtracted = "BodyNotExtracted"


@dataclass(frozen=True, slots=True)
class Body:
    """The readable text. `text` is trimmed of quoted reply and signature, `text_before_trimming` is not.

    `html` is the decoded source, not sanitized, at most four times the text bound. `original_character_count` counts
    `text_before_trimming` as it would be without a bound; for an HTML body beyond the bound it is a lower bound.
    """

    text: str
    text_before_trimming: str
    html: str | None
    source: TextSource
    was_cut: bool
    original_character_count: int


@dataclass(frozen=True, slots=True)
class Invitation:
    """One calendar event, task or reply in the message: one per UID and SEQUENCE (case 137)."""

    method: str | None
    uid: str | None
    sequence: int | None
    summary: str | None
    starts_at: datetime | None
    ends_at: datetime | None
    organizer: str | None
    location: str | None


@dataclass(frozen=True, slots=True)
class AutomationClaim:
    """What the header says about a machine having written the message (SYNC-104); lower case, or absent."""

    list_headers: bool
    auto_submitted: str | None
    precedence: str | None

    @property
    def claims_automation(self) -> bool:
        """True for list headers, `Auto-Submitted` other than `no`, `Precedence` bulk, list or junk."""
        return (
            self.list_headers
            or (self.auto_submitted is not None and self.auto_submitted != "no")
            or self.precedence in ("bulk", "list", "junk")
        )


@dataclass(frozen=True, slots=True)
class PartInfo:
    """One entity of the message's own structure; offsets are octets into what was read, end exclusive.

    Entities of an embedded message are not listed: `message/rfc822` is one leaf (case 118).
    """

    media_type: str
    charset: str | None
    transfer_encoding: str
    disposition: str | None
    file_name: str | None
    content_id: str | None
    depth: int
    offset_header: int
    offset_body: int
    offset_end: int
    size_raw_octets: int
    size_decoded_octets: int
    is_multipart: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One message as read. Lists keep header order and are bounded by `Limits`."""

    headers: tuple[HeaderField, ...]
    message_id: str | None
    original_message_ids: tuple[str, ...]
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
    author: Address | None
    body: Body
    attachments: tuple[Attachment, ...]
    inline_resources: tuple[Attachment, ...]
    is_encrypted: bool
    carries_unverified_signature: bool
    contains_unexpanded_tnef_part: bool
    invitations: tuple[Invitation, ...]
    automation: AutomationClaim
    parts: tuple[PartInfo, ...]
    defects: frozenset[str]
    is_fully_read: bool
