"""ZIP containers: office documents of either family, else the names of what is in them.

Containers are read member by member as a stream, never unpacked whole; what they expand to is counted.
"""

from __future__ import annotations

import zipfile
from io import BytesIO
from typing import Final

from mailkeep.extraction import office
from mailkeep.extraction.model import Budget, Outcome, Stopped

MAX_LISTED: Final = 5_000
_ENCRYPTED_FLAG: Final = 1
_ENCRYPTED_PACKAGE: Final = "EncryptedPackage".encode("utf-16-le")


def read(budget: Budget, octets: bytes) -> None:
    """Gather the text of an office document, or list the archive."""
    with zipfile.ZipFile(BytesIO(octets)) as container:
        members = {info.filename: info for info in container.infolist()}
        kind = office.kind_of(container, members)
        if kind is None:
            for name in list(members)[:MAX_LISTED]:
                budget.add(name.replace("/", " / ") + "\n")
            return
        if any(info.flag_bits & _ENCRYPTED_FLAG for info in members.values()):
            raise Stopped(Outcome.ENCRYPTED)
        office.read(budget, container, members, kind)


def read_compound(octets: bytes) -> None:
    """A compound file: an office document behind a password, else a format from before 2007, which is not read."""
    raise Stopped(Outcome.ENCRYPTED if _ENCRYPTED_PACKAGE in octets else Outcome.UNSUPPORTED)
