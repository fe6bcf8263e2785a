"""PostgreSQL's binary COPY format, for the few types that arriving mail is made of (PostgreSQL manual, COPY).

Each function gives one field: four octets of length, then the value. Encoding a row beside the parser, away from the
connection, leaves the storing transaction nothing to do but to send octets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Final
from uuid import UUID

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"
NULL: Final = b"\xff\xff\xff\xff"

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TEXT_OID: Final = 25
_TRUE: Final = b"\0\0\0\1\1"
_FALSE: Final = b"\0\0\0\1\0"
_length: Final = Struct("!i").pack
_count: Final = Struct("!h").pack
_int4: Final = Struct("!ii").pack
_int8: Final = Struct("!iq").pack
_array: Final = Struct("!iiiiii").pack
_EMPTY_ARRAY: Final = Struct("!iiii").pack(12, 0, 0, _TEXT_OID)


def row(field_count: int, fields: Iterable[bytes]) -> bytes:
    """One row of `field_count` fields; an item of `fields` may hold several of them."""
    return _count(field_count) + b"".join(fields)


def text(value: str | None) -> bytes:
    """A text or varchar. Raises UnicodeEncodeError for lone surrogates."""
    if value is None:
        return NULL
    octets = value.encode()
    return _length(len(octets)) + octets


def octets(value: bytes) -> bytes:
    """A bytea."""
    return _length(len(value)) + value


def octets_length(length: int) -> bytes:
    """What stands before the octets of a bytea that are sent by themselves."""
    return _length(length)


def boolean(value: bool) -> bytes:
    """A boolean."""
    return _TRUE if value else _FALSE


def integer(value: int) -> bytes:
    """An integer: 32 bits, signed."""
    return _int4(4, value)


def bigint(value: int) -> bytes:
    """A bigint: 64 bits, signed."""
    return _int8(8, value)


def uuid(value: UUID | None) -> bytes:
    """A uuid."""
    return NULL if value is None else b"\0\0\0\x10" + value.bytes


def timestamptz(value: datetime | None) -> bytes:
    """A timestamp with time zone from an aware datetime, to the microsecond."""
    return NULL if value is None else _int8(8, (value - _EPOCH) // _MICROSECOND)


def text_array(values: Sequence[str]) -> bytes:
    """A one-dimensional text[] without nulls."""
    if not values:
        return _EMPTY_ARRAY
    body = b"".join(map(text, values))
    return _array(20 + len(body), 1, 0, _TEXT_OID, len(values), 1) + body
