"""What a mail server tells us, as frozen values.

Folder paths are the server's own octets, one character per octet (latin-1), so that a name is never re-encoded on its
way back to the server; `names.display_name` makes the text that people read. UIDs, sizes and counts are plain integers.
A value of None always means "the server did not say", never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mailkeep.config import SpecialUse
from mailkeep.imap.names import display_name
from mailkeep.imap.uidset import UidSet

MAX_UID = 2**32 - 1
MAX_MODSEQ = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `idle` bounds one wait for octets, `command` a whole command however steadily it trickles."""

    connect: float = 30.0
    idle: float = 60.0
    command: float = 900.0
    farewell: float = 2.0


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """One line of LIST. `attributes` are upper-cased, with their backslash."""

    path: str
    delimiter: str | None
    attributes: frozenset[str] = frozenset()
    roles: frozenset[SpecialUse] = frozenset()

    @property
    def name(self) -> str:
        """The path as people read it."""
        return display_name(self.path)

    @property
    def is_selectable(self) -> bool:
        return not self.attributes & {"\\NOSELECT", "\\NONEXISTENT"}


@dataclass(frozen=True, slots=True)
class FolderState:
    """An answer to STATUS. A mod-sequence of 0 means that the server keeps none yet, and is reported as None."""

    messages: int | None = None
    uid_next: int | None = None
    uid_validity: int | None = None
    highest_modseq: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """All folders that were listed, the states that came with them, and how many lines could not be read."""

    folders: tuple[RemoteFolder, ...]
    states: Mapping[str, FolderState] = field(default_factory=dict)
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class Metadata:
    """What is asked before any content. `flags` are as the server spells them, without \\Recent.

    Gmail's labels follow among the flags, each behind `responses.LABEL_PREFIX`; its ids are digits.
    """

    uid: int
    size: int | None
    internaldate: datetime | None
    flags: tuple[str, ...] | None
    gmail_message_id: str | None = None
    gmail_thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells messages apart without their content. `header` has the Message-ID field, as octets, or nothing."""

    uid: int
    size: int | None
    flags: tuple[str, ...] | None
    header: bytes


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    """`messages` by UID. `refused`: the server answered NO. `unattributed`: items came without their UID."""

    messages: Mapping[int, Metadata]
    refused: bool = False
    unattributed: int = 0


@dataclass(frozen=True, slots=True)
class Ahead:
    """What was asked in one breath with opening a folder, of its UIDs `low` to `high`: which there are, and of them."""

    low: int
    high: int
    hits: UidSet
    metadata: MetadataAnswer


@dataclass(frozen=True, slots=True)
class Selected:
    """A folder opened with EXAMINE. `ahead` None: nothing was asked ahead, or it was not answered."""

    path: str
    uid_validity: int
    uid_next: int | None
    exists: int
    highest_modseq: int | None
    ahead: Ahead | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed after a mod-sequence: flags by UID, and the UIDs that vanished.

    `vanished` None means that the server does not tell, or told in a way that cannot be trusted. It may name UIDs that
    nobody ever saw (RFC 7162 §3.2.10.1).
    """

    flags: Mapping[int, tuple[str, ...]]
    vanished: UidSet | None = None


@dataclass(frozen=True, slots=True)
class ContentAnswer:
    """Octets by UID; `oversized` has the announced size of what was longer than the caller's limit and not kept."""

    bodies: Mapping[int, bytes]
    oversized: Mapping[int, int] = field(default_factory=dict)
    refused: bool = False
    unattributed: int = 0
