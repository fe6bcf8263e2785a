"""JSON bodies: read, decoded strictly, and compared with the shape that the route documents."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.requests import Request

from mailkeep_inbox.http.answers import Refusal
from mailkeep_inbox.shapes import Schema, conforms

MAX_BODY_BYTES: Final = 65_536
"""Fifty ids are two kilobytes; every text of a body is bounded far below this."""
NOT_JSON: Final = "invalid JSON body"


async def body_of(request: Request, shape: Schema, text: str) -> dict[str, Any]:
    """The decoded body; refused with `text` when it has another shape. Unknown keys are ignored."""
    octets = bytearray()
    async for chunk in request.stream():
        octets += chunk
        if len(octets) > MAX_BODY_BYTES:
            raise Refusal(413, "request body too large")
    value = _decoded(bytes(octets))
    if not conforms(value, shape):
        raise Refusal(400, text)
    assert isinstance(value, dict)
    return value


def _decoded(octets: bytes) -> object:
    try:
        value = json.loads(octets.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refusal(400, NOT_JSON) from None
    if value is None:
        raise Refusal(400, NOT_JSON)
    return value


def _no_constant(name: str) -> None:
    raise ValueError(name)
