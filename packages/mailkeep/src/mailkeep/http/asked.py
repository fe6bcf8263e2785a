"""Requests that change something: bounded bodies, and proof that they come from our own page or from no page at all.

A form carries the token of this process, which no foreign page can read. A script sends JSON, which no foreign page can
send without asking first, and that question is never answered. `guard` has refused foreign hosts and origins before.
"""

from __future__ import annotations

import hmac
import json
import secrets
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import Request

from mailkeep.http.pages import escaped

MAX_OCTETS: Final = 4096
TOKEN: Final = secrets.token_urlsafe(32)
FORM: Final = "application/x-www-form-urlencoded"


class RequestRefused(Exception):  # noqa: N818  -- named as the errors of the service are
    """The request cannot be acted on; `status` and a sentence that quotes nothing of it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


async def form_of(request: Request) -> dict[str, str]:
    """The fields of one of our own forms. Raises RequestRefused."""
    _check_type(request, FORM)
    try:
        fields = dict(parse_qsl((await _body(request)).decode(), keep_blank_values=True, max_num_fields=16))
    except ValueError:
        raise RequestRefused(400, "That form cannot be read.") from None
    if not hmac.compare_digest(fields.pop("token", "").encode(), TOKEN.encode()):
        raise RequestRefused(403, "That page is from before a restart. Load it again, then repeat.")
    return fields


async def document_of(request: Request) -> dict[str, Any]:
    """The JSON object that a script sent. Raises RequestRefused."""
    _check_type(request, "application/json")
    try:
        document = json.loads(await _body(request))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise RequestRefused(400, "The body is no JSON object.")
    return document


def button(action: str, label: str, *, title: str = "", **fields: object) -> str:
    """A form of one button that sends these fields and the token."""
    hidden = "".join(
        f'<input type=hidden name="{escaped(name)}" value="{escaped(value)}">'
        for name, value in {**fields, "token": TOKEN}.items()
    )
    hint = f' title="{escaped(title)}"' if title else ""
    return f'<form method=post action="{escaped(action)}">{hidden}<button{hint}>{escaped(label)}</button></form>'


def _check_type(request: Request, expected: str) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != expected:
        raise RequestRefused(415, f"The body should be {expected}.")


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_OCTETS:
            raise RequestRefused(413, f"The body is larger than {MAX_OCTETS} octets.")
    return body
