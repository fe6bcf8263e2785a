"""Answers: compact JSON, and errors as `{"error": "<text>"}` (section 11)."""

from __future__ import annotations

import json
from typing import Final

from starlette.responses import Response

NO_PRINCIPAL: Final = "No resolvable principalId"
NO_MESSAGE: Final = "Message not found"
PRIVATE: Final = {"cache-control": "no-store"}


class Refusal(Exception):  # noqa: N818 -- an answer, not a fault
    """The request is answered with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def answer(value: object, status: int = 200) -> Response:
    """A JSON answer. A lone surrogate, which only a sender's charset can bring here, becomes a question mark."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    return Response(body, status, headers=PRIVATE, media_type="application/json")


def refusal(status: int, text: str, *, allow: str | None = None) -> Response:
    """An error answer."""
    response = answer({"error": text}, status)
    if allow is not None:
        response.headers["allow"] = allow
    return response
