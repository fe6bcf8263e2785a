"""The values of preparation: a message as the server handed it over, and the same read and encoded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Final, NewType

from mailkeep_message import Limits

Uid = NewType("Uid", int)
"""1 to 4,294,967,295 (RFC 9051 §2.3.1.1)."""

MAX_KEYWORDS: Final = 64
MAX_KEYWORD_CHARACTERS: Final = 64
MAX_LABELS: Final = 256
MAX_LABEL_CHARACTERS: Final = 255
_LABEL_PREFIX: Final = "X-GM-LABELS "
DEFAULT_LIMITS: Final = Limits()


class ContentAvailability(StrEnum):
    """Why a message's octets are here, or why not."""

    AVAILABLE = "Available"
    EXCEEDED_SIZE_LIMIT = "ExceededSizeLimit"
    """Larger than the configured limit: permanent, the row comes from the header alone (SYNC-60)."""
    AWAITING_STORAGE_HEADROOM = "AwaitingStorageHeadroom"
    """The storage ceiling was met: a queue, filled later (SYNC-64, SYNC-68)."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The server's flags of one message at one moment. `keywords` upper-cased, distinct, sorted, at most 64.

    `labels` are Gmail's (X-GM-LABELS), in the same way, at most 256; system labels without their backslash.
    """

    seen: bool = False
    answered: bool = False
    flagged: bool = False
    draft: bool = False
    deleted: bool = False
    keywords: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @classmethod
    def from_imap(cls, names: Iterable[str]) -> Flags:
        """Fold the names of a FETCH FLAGS answer (RFC 9051 §2.3.2), any case, any order.

        `\\Recent` and system flags nobody knows are dropped. Keywords that are over 64 characters, blank or hold
        blanks or control characters are dropped; of more than 64 the lowest sorted stay (SYNC-76). A name that begins
        with `X-GM-LABELS` and a blank is a label (SYNC-146).
        """
        folded = {name.upper() for name in names}
        keywords = sorted(name for name in folded if not name.startswith("\\") and _is_usable_keyword(name))
        labels = {_label(name) for name in folded if name.startswith(_LABEL_PREFIX)} - {""}
        return cls(
            seen="\\SEEN" in folded,
            answered="\\ANSWERED" in folded,
            flagged="\\FLAGGED" in folded,
            draft="\\DRAFT" in folded,
            deleted="\\DELETED" in folded,
            keywords=tuple(keywords[:MAX_KEYWORDS]),
            labels=tuple(sorted(labels)[:MAX_LABELS]),
        )


def _label(name: str) -> str:
    """The text of a label, for comparing: no control characters, no lone surrogates, single blanks."""
    text = name.removeprefix(_LABEL_PREFIX).removeprefix("\\")
    kept = "".join(" " if ch.isspace() else ch for ch in text if ch >= " " and not "\x7f" <= ch <= "\x9f")
    return " ".join(kept.encode(errors="ignore").decode().split())[:MAX_LABEL_CHARACTERS]


def _is_usable_keyword(name: str) -> bool:
    """An IMAP atom that PostgreSQL takes: no blank, no control character, no lone surrogate (RFC 9051 §9)."""
    if not 0 < len(name) <= MAX_KEYWORD_CHARACTERS:
        return False
    return not any(ch <= " " or "\x7f" <= ch <= "\x9f" or "\ud800" <= ch <= "\udfff" or ch.isspace() for ch in name)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message as the server handed it over.

    `size_octets` is what the server reported, 0 when it did not. `octets` is the whole message when `availability` is
    `Available`; otherwise it is None and `header_octets` is what `BODY.PEEK[HEADER]` gave. `flags` is None when the
    fetch did not report them: the row then waits to be observed. The ids are Gmail's, digits, None elsewhere.
    """

    uid: Uid
    size_octets: int
    internaldate: datetime | None
    flags: Flags | None
    octets: bytes | None
    header_octets: bytes | None = None
    gmail_message_id: str | None = None
    gmail_thread_id: str | None = None
    availability: ContentAvailability = ContentAvailability.AVAILABLE

    def __post_init__(self) -> None:
        if (self.octets is not None) != (self.availability is ContentAvailability.AVAILABLE):
            raise ValueError("octets are present exactly when the content is available")


class Form(IntEnum):
    """How much of a message its row and document hold; the octets are kept whole in every form.

    The next form is tried when PostgreSQL refuses one (cases 182, 185, 187).
    """

    WHOLE = 0
    PARTLY_INDEXED = 1
    """A quarter of the body is indexed, without extra terms; the document says so in indexed_body_characters."""
    BODY_NOT_INDEXED = 2
    HEADERS_ONLY = 3
    BARE = 4
    """Nothing of the message is read but its octets, size, flags and INTERNALDATE."""


@dataclass(frozen=True, slots=True)
class PreparedMessage:
    """One arrival, ready to be stored. `row` and `document` are the binary COPY fields of ROW_COLUMNS and of
    SearchDocument.COLUMNS; `sha256` is None without octets."""

    arrival: Arrival
    form: Form
    sha256: bytes | None
    message_id: str | None
    in_reply_to: tuple[str, ...]
    references: tuple[str, ...]
    also_known_as: tuple[str, ...]
    is_structurally_read: bool
    row: bytes
    document: bytes


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch in the order of its arrivals, with the limits it was read under."""

    messages: tuple[PreparedMessage, ...]
    limits: Limits
