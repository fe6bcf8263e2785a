"""Keys that sort by the instant they record (DATA-3)."""

from __future__ import annotations

import secrets
from datetime import datetime
from uuid import UUID


def uuid7(now: datetime) -> UUID:
    """A version 7 UUID of `now` (RFC 9562 §5.7): 48 bits of Unix milliseconds, the rest random.

    `now` is aware. Two keys of one millisecond sort at random; `uuid7s` sorts them.
    """
    return UUID(bytes=_stamped(int(now.timestamp() * 1000), secrets.token_bytes(10)))


def uuid7s(now: datetime, count: int) -> list[UUID]:
    """`count` keys of the same instant in ascending order, so that rows written together keep their order."""
    milliseconds = int(now.timestamp() * 1000)
    entropy = secrets.token_bytes(10 * count)
    return [
        UUID(bytes=octets)
        for octets in sorted(_stamped(milliseconds, entropy[at : at + 10]) for at in range(0, 10 * count, 10))
    ]


def _stamped(milliseconds: int, entropy: bytes) -> bytes:
    octets = bytearray(milliseconds.to_bytes(6, "big") + entropy)
    octets[6] = 0x70 | (octets[6] & 0x0F)
    octets[8] = 0x80 | (octets[8] & 0x3F)
    return bytes(octets)
