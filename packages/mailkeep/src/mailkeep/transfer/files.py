"""Files that are named by mail: a name is made harmless, an existing file is never touched, the folder never left."""

from __future__ import annotations

import mimetypes
import os
import re
import stat
import unicodedata
from pathlib import Path
from typing import BinaryIO

from mailkeep.errors import TransferTargetRefused

MAX_NAME_OCTETS = 200
"""Longest file name we write; file systems take 255 octets and a numbering suffix must fit."""
MAX_NUMBERED_COPIES = 10_000

_RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")
_FORBIDDEN = set('<>:"/\\|?*')


def safe_file_name(name: str | None, *, fallback: str, media_type: str | None = None) -> str:
    """A name that every common file system takes and that hides nothing.

    Path parts, control and format characters (bidi overrides among them), leading and trailing dots and spaces go;
    device names of Windows get an underscore. `fallback` is used when nothing is left, with the media type's suffix.
    """
    last = re.split(r"[/\\]", name or "")[-1]
    kept = "".join(
        "_" if character in _FORBIDDEN else character
        for character in unicodedata.normalize("NFC", last)
        if unicodedata.category(character)[0] not in ("C", "Z") or character == " "
    )
    kept = kept.strip(" .")
    if not kept:
        kept = fallback + (mimetypes.guess_extension(media_type or "", strict=True) or "")
    if _RESERVED.fullmatch(kept):
        kept = f"_{kept}"
    return _shortened(kept)


def _shortened(name: str) -> str:
    stem, suffix = os.path.splitext(name)
    if len(suffix.encode("utf-8")) > 20:
        stem, suffix = name, ""
    room = MAX_NAME_OCTETS - len(suffix.encode("utf-8"))
    return stem.encode("utf-8")[:room].decode("utf-8", "ignore").rstrip(" .") + suffix


def write_new_file(folder: Path, name: str, octets: bytes, *, modified_at: float | None = None) -> Path:
    """Write `octets` to a new file in `folder`; when the name is taken, `name (2)`, `name (3)`… are tried.

    `name` must come from `safe_file_name`. Raises TransferTargetRefused when the folder cannot be written.
    """
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise TransferTargetRefused("a file name would leave its folder")
    stem, suffix = os.path.splitext(name)
    for attempt in range(1, MAX_NUMBERED_COPIES):
        target = folder / (name if attempt == 1 else f"{stem} ({attempt}){suffix}")
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            raise TransferTargetRefused(f"{folder} cannot be written: {reason(error)}") from error
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(octets)
        if modified_at is not None:
            os.utime(target, (modified_at, modified_at))
        return target
    raise TransferTargetRefused(f"{folder} holds too many files of one name")


def make_folder(folder: Path) -> Path:
    """Create the folder with its parents; an existing one is used. Raises TransferTargetRefused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TransferTargetRefused(f"{folder} cannot be created: {reason(error)}") from error
    return folder


def open_regular(file: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe or device in its place is refused at once. Raises OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "not a regular file")
    return os.fdopen(descriptor, "rb")


def reason(error: OSError) -> str:
    """Why the system refused, in its own short words, without the path."""
    return error.strerror or type(error).__name__
