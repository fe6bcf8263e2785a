"""Write stored messages to files, one at a time: an mbox, a Maildir with sub-folders, or a tree of `.eml` files.

The octets written are the octets stored (in an mbox with "From " lines escaped). Nothing that exists is overwritten.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from mailkeep.errors import TransferTargetRefused
from mailkeep.transfer.files import make_folder, reason, safe_file_name, write_new_file
from mailkeep.transfer.mbox import mbox_entry
from mailkeep.transfer.model import ExportOutcome, ItemFlags, Unreadable

MAX_NAMED_UNREADABLE = 100


@dataclass(frozen=True, slots=True)
class ExportedItem:
    """One stored message on its way out; `octets` is None, with the reason, when the store cannot give them."""

    id: str
    account_id: str
    folder: str
    sender: str | None
    received_at: datetime | None
    flags: ItemFlags
    octets: bytes | None
    trouble: str = ""


class Writer(Protocol):
    """A format's writer; opened as a context, which removes an unfinished mbox when the work fails."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, item: ExportedItem, octets: bytes) -> None:
        """Add one message."""
        ...


async def export_items(items: AsyncIterator[ExportedItem], writer: Writer) -> ExportOutcome:
    """Write every item; messages whose octets are not there are counted and named, never a reason to stop."""
    outcome = ExportOutcome()
    with writer:
        async for item in items:
            if item.octets is None:
                named = (*outcome.unreadable, Unreadable(item.id, item.trouble))
                outcome = replace(outcome, unreadable=named)
                continue
            writer.write(item, item.octets)
            outcome = replace(outcome, exported=outcome.exported + 1, octets=outcome.octets + len(item.octets))
    return outcome


class MboxWriter:
    """One mbox file, written beside its name and put in place at the end; an existing file is refused."""

    def __init__(self, target: Path) -> None:
        if target.exists() or target.is_symlink():
            raise TransferTargetRefused(f"{target} exists already; nothing is overwritten")
        self._target = target
        self._partial = target.with_name(f".{target.name}.part-{os.getpid()}")
        self._stream: BinaryIO | None = None

    def __enter__(self) -> Self:
        make_folder(self._target.absolute().parent)
        try:
            descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise TransferTargetRefused(f"{self._target} cannot be written: {reason(error)}") from error
        self._stream = os.fdopen(descriptor, "wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stream is not None
        self._stream.close()
        try:
            if kind is None:
                self._put_in_place()
        except OSError as refused:
            raise TransferTargetRefused(f"{self._target} cannot be written: {reason(refused)}") from refused
        finally:
            self._partial.unlink(missing_ok=True)

    def _put_in_place(self) -> None:
        """Link, since unlike a rename that refuses a file that appeared meanwhile; rename where links are unknown."""
        try:
            os.link(self._partial, self._target)
        except FileExistsError:
            raise
        except OSError:
            if self._target.exists():
                raise
            self._partial.rename(self._target)

    def write(self, item: ExportedItem, octets: bytes) -> None:
        """Append one message."""
        assert self._stream is not None
        self._stream.write(mbox_entry(octets, sender=item.sender, arrived_at=item.received_at))


class _TreeWriter:
    """A folder that must be new or empty; one sub-folder per account when there are several."""

    def __init__(self, root: Path, *, by_account: bool) -> None:
        if root.is_symlink() or (root.exists() and not root.is_dir()):
            raise TransferTargetRefused(f"{root} exists already and is not a folder")
        if root.is_dir() and any(root.iterdir()):
            raise TransferTargetRefused(f"{root} is not empty; nothing is overwritten or mixed")
        self._root = root
        self._by_account = by_account

    def __enter__(self) -> Self:
        make_folder(self._root)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def _base(self, item: ExportedItem) -> Path:
        return self._root / safe_file_name(item.account_id, fallback="account") if self._by_account else self._root


class EmlWriter(_TreeWriter):
    """`<folder>/<time>-<id>.eml`, each file dated as its message."""

    def write(self, item: ExportedItem, octets: bytes) -> None:
        """Write one file."""
        levels = [safe_file_name(level, fallback="folder") for level in item.folder.split("/")]
        folder = make_folder(self._base(item).joinpath(*levels))
        time = f"{item.received_at:%Y%m%dT%H%M%SZ}" if item.received_at else "undated"
        modified = item.received_at.timestamp() if item.received_at else None
        write_new_file(
            folder, f"{time}-{safe_file_name(item.id, fallback='message')}.eml", octets, modified_at=modified
        )


class MaildirWriter(_TreeWriter):
    """A Maildir++: INBOX at the root, every other folder as `.NAME`, state in the file names."""

    def write(self, item: ExportedItem, octets: bytes) -> None:
        """Deliver one message: written to `tmp`, moved to `cur`."""
        base = self._base(item)
        if item.folder != "INBOX":
            base = base / ("." + safe_file_name(item.folder.replace("/", "."), fallback="folder"))
        for part in ("cur", "new", "tmp"):
            make_folder(base / part)
        modified = item.received_at.timestamp() if item.received_at else None
        host = safe_file_name(socket.gethostname(), fallback="host")
        name = f"{int(modified or 0)}.{safe_file_name(item.id, fallback='message')}.{host}"
        written = write_new_file(base / "tmp", name, octets, modified_at=modified)
        written.rename(base / "cur" / f"{written.name}:2,{_maildir_letters(item.flags)}")


def _maildir_letters(flags: ItemFlags) -> str:
    chosen = (("D", flags.draft), ("F", flags.flagged), ("R", flags.answered), ("S", flags.seen), ("T", flags.deleted))
    return "".join(letter for letter, is_set in chosen if is_set)
