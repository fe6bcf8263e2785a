"""What passes between the process that prepares and its parent. Octets go one way only: the parent has them already."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from struct import Struct
from typing import Any, Final

from mailkeep.preparation.model import Arrival, Form, PreparedMessage

LENGTH: Final = Struct(">Q")
READY: Final = b"ready"

_FIELDS: Final = tuple(PreparedMessage.__slots__)[1:]  # without `arrival`, which comes first
_fields: Final = attrgetter(*_FIELDS)


def bare(message: PreparedMessage) -> tuple[Any, ...]:
    """A prepared message without its arrival, in built-in types."""
    form, *others = _fields(message)
    return int(form), *others


def whole(arrival: Arrival, fields: Sequence[Any]) -> PreparedMessage:
    """A prepared message, put together again."""
    form, *others = fields
    return PreparedMessage(arrival, Form(form), *others)
