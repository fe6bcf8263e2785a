"""Values of import and export. Octets stay `bytes`, exactly as they were in the file or in the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path


class SourceKind(StrEnum):
    """What a place on disk holds."""

    MBOX = "mbox"
    MAILDIR = "maildir"
    EML = "eml"


class ExportFormat(StrEnum):
    """What an export writes."""

    MBOX = "mbox"
    MAILDIR = "maildir"
    EML = "eml"


@dataclass(frozen=True, slots=True)
class Source:
    """One mailbox on disk. `alias` names the folder its mail goes to; EML sources list their files."""

    kind: SourceKind
    path: Path
    alias: str
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemFlags:
    """What the format says of a message's state; False also where the format says nothing."""

    seen: bool = False
    answered: bool = False
    flagged: bool = False
    draft: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One message read from a file, with the time of arrival the format knows, if any (aware UTC)."""

    octets: bytes
    arrived_at: datetime | None
    flags: ItemFlags | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One thing on disk that is not taken: where it is and why, in words for a person."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import came to. `quarantined` messages are kept aside by the store with their reason."""

    imported: int = 0
    already_present: int = 0
    quarantined: int = 0
    octets: int = 0
    folders: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = field(default=())
    unreadable_count: int = 0


@dataclass(frozen=True, slots=True)
class ExportOutcome:
    """What an export came to; `unreadable` names stored messages whose octets could not be given."""

    exported: int = 0
    octets: int = 0
    unreadable: tuple[Unreadable, ...] = ()
