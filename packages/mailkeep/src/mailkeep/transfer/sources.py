"""Find mail on disk and read it item by item: mbox files, Maildirs (with Maildir++ sub-folders), loose `.eml` files.

Symbolic links are not followed, only regular files are opened, and whatever cannot be read is named and passed by.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from mailkeep.errors import TransferSourceRefused
from mailkeep.transfer.files import open_regular, reason
from mailkeep.transfer.mbox import read_mbox
from mailkeep.transfer.model import Item, ItemFlags, Source, SourceKind, Unreadable

ROOT_ALIAS = "IMPORTED"
INBOX_ALIAS = "INBOX"
MAX_ALIAS_CHARACTERS = 128

_SNIFF_OCTETS = 4096
_HEADER_LINE = re.compile(rb"[!-9;-~]+[ \t]*:")
_MAIL_SUFFIXES = (".eml", ".mbox", ".mbx")


def find_sources(root: Path) -> Iterator[Source | Unreadable]:
    """What `root` holds: one file, one Maildir, or a folder of any of them, in a stable order.

    Raises TransferSourceRefused when `root` itself does not exist or cannot be read.
    """
    try:
        mode = root.stat().st_mode
    except OSError as error:
        raise TransferSourceRefused(f"{root} cannot be read: {error.strerror or type(error).__name__}") from error
    if stat.S_ISREG(mode):
        yield _file_source(root, alias=_alias(Path(root.stem)) if root.suffix in (".mbox", ".mbx") else ROOT_ALIAS)
    elif stat.S_ISDIR(mode):
        yield from _folder_sources(root, Path())
    else:
        raise TransferSourceRefused(f"{root} is neither a file nor a folder")


def read_items(source: Source, *, max_octets: int) -> Iterator[Item | Unreadable]:
    """The messages of one source; at most one is in memory at a time."""
    if source.kind is SourceKind.MBOX:
        try:
            with open_regular(source.path) as stream:
                yield from read_mbox(stream, place=str(source.path), max_octets=max_octets)
        except OSError as error:
            yield Unreadable(str(source.path), reason(error))
        return
    files: Iterable[Path] = _maildir_files(source.path) if source.kind is SourceKind.MAILDIR else source.files
    try:
        for file in files:
            yield _read_file(file, in_maildir=source.kind is SourceKind.MAILDIR, max_octets=max_octets)
    except OSError as error:  # listing the folder itself failed
        yield Unreadable(str(source.path), reason(error))


def maildir_flags(file_name: str) -> ItemFlags:
    """The state in a Maildir file name: the letters after `:2,` (some systems write `;2,` or `!2,`)."""
    match = re.search(r"[:;!]2,([A-Za-z]*)$", file_name)
    letters = match[1] if match else ""
    return ItemFlags(
        seen="S" in letters,
        answered="R" in letters,
        flagged="F" in letters,
        draft="D" in letters,
        deleted="T" in letters,
    )


def _folder_sources(folder: Path, relative: Path) -> Iterator[Source | Unreadable]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield Unreadable(str(folder), reason(error))
        return
    names = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
    is_maildir = "cur" in names and "new" in names
    if is_maildir:
        yield Source(SourceKind.MAILDIR, folder, _alias(relative) if relative.parts else INBOX_ALIAS)
    loose: list[Path] = []
    for entry in entries:
        if entry.is_symlink():
            continue
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            if not (is_maildir and entry.name in ("cur", "new", "tmp")):
                yield from _folder_sources(path, relative / entry.name)
        elif entry.is_file(follow_symlinks=False) and not is_maildir and not entry.name.startswith("."):
            try:
                kind = _sniff(path)
            except OSError as error:
                yield Unreadable(str(path), reason(error))
                continue
            if kind is SourceKind.MBOX:
                yield Source(
                    kind, path, _alias(relative / path.stem if path.suffix in _MAIL_SUFFIXES else relative / path.name)
                )
            elif kind is SourceKind.EML:
                loose.append(path)
            else:
                yield Unreadable(str(path), "does not look like mail")
    if loose:
        yield Source(SourceKind.EML, folder, _alias(relative) if relative.parts else ROOT_ALIAS, tuple(loose))


def _file_source(file: Path, *, alias: str) -> Source:
    try:
        kind = _sniff(file)
    except OSError as error:
        raise TransferSourceRefused(f"{file} cannot be read: {reason(error)}") from error
    if kind is None:
        raise TransferSourceRefused(f"{file} does not look like mail: neither an mbox nor a message")
    return Source(kind, file, alias, (file,) if kind is SourceKind.EML else ())


def _sniff(file: Path) -> SourceKind | None:
    with open_regular(file) as stream:
        start = stream.read(_SNIFF_OCTETS)
    if start.lstrip(b"\r\n").startswith(b"From "):
        return SourceKind.MBOX
    if _HEADER_LINE.match(start) or (file.suffix.lower() == ".eml" and start.strip()):
        return SourceKind.EML
    return None


def _alias(relative: Path) -> str:
    """The folder name for a place below the imported one: `.Sent` of a Maildir++ is SENT, `a/b` stays A/B."""
    parts = [part.lstrip(".").removesuffix(".mbox").removesuffix(".sbd") for part in relative.parts]
    text = "/".join(part for part in parts if part).upper()
    cleaned = "".join(character if character.isprintable() else "_" for character in text).strip()
    return cleaned[:MAX_ALIAS_CHARACTERS].strip() or ROOT_ALIAS


def _maildir_files(folder: Path) -> Iterator[Path]:
    """Messages of one Maildir, `cur` then `new`, by name, which begins with the delivery time."""
    for part in ("cur", "new"):
        names = sorted(
            entry.name
            for entry in os.scandir(folder / part)
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith(".")
        )
        for name in names:
            yield folder / part / name


def _read_file(file: Path, *, in_maildir: bool, max_octets: int) -> Item | Unreadable:
    try:
        with open_regular(file) as stream:
            octets = stream.read(max_octets + 1)
            modified = os.fstat(stream.fileno()).st_mtime
    except OSError as error:
        return Unreadable(str(file), reason(error))
    if len(octets) > max_octets:
        return Unreadable(str(file), f"more than mail_synchronization.max_raw_mime_bytes ({max_octets} octets)")
    if not octets.strip():
        return Unreadable(str(file), "empty file")
    if not in_maildir:
        return Item(octets, None, None)
    return Item(octets, datetime.fromtimestamp(modified, UTC), maildir_flags(file.name))
