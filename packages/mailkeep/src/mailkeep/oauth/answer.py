"""Reading what an authorization server answers; pure, and nothing of the answer's text leaves it but an error code.

A JSON object is read whatever the status. A value of `error` is final, since repeating spends the rate limit; without
one, 408, 429 and 5xx may pass, and any other answer that cannot be read is final (SYNC-44).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from pydantic import SecretStr

from mailkeep.errors import AccessTokenUnavailable
from mailkeep.oauth.model import DeviceCode, TokenAnswer

MAX_ANSWER_BYTES: Final = 64 * 1024
DEFAULT_LIFETIME: Final = timedelta(seconds=3600)
MAX_LIFETIME: Final = timedelta(days=1)
DEFAULT_POLL_INTERVAL: Final = timedelta(seconds=5)
DEFAULT_DEVICE_LIFETIME: Final = timedelta(minutes=15)

_PASSING_STATUSES: Final = frozenset({408, 429})
# The registered codes have this form. Anything else could be a token that the server repeats to us.
_ERROR_CODE: Final = re.compile(r"[a-z]{2,20}(?:_[a-z]{2,20}){0,4}")
# What may stand between the separators of a SASL answer and in a header (RFC 6750 §2.1, wider: all visible ASCII).
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")


def read_answer(status: int, octets: bytes | None) -> Mapping[str, object]:
    """The JSON object of an answer that reports success; `octets` is None when it was too long to be read.

    Raises AccessTokenUnavailable with the server's error code, or with `retryable` where the trouble may pass.
    """
    payload = _json_object(octets)
    if payload is not None and payload.get("error") not in (None, ""):
        reason = _error_code(payload["error"])
        raise AccessTokenUnavailable(
            f"the authorization server refuses: {reason or 'an error code that cannot be read'}", reason=reason
        )
    if status in _PASSING_STATUSES or status >= 500:
        raise AccessTokenUnavailable(f"the authorization server is not available (status {status})", retryable=True)
    if payload is None or not 200 <= status < 300:
        raise AccessTokenUnavailable(f"the authorization server's answer cannot be read (status {status})")
    return payload


def token_answer(payload: Mapping[str, object]) -> TokenAnswer:
    """The tokens of a successful answer. Raises AccessTokenUnavailable when there is no usable access token."""
    token, kind = payload.get("access_token"), payload.get("token_type", "Bearer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise AccessTokenUnavailable("the authorization server's answer holds no usable access token")
    if not isinstance(kind, str) or kind.casefold() != "bearer":
        raise AccessTokenUnavailable("the authorization server gives tokens of a kind that mail servers do not take")
    rotated = payload.get("refresh_token")
    return TokenAnswer(
        access_token=SecretStr(token),
        lifetime=min(_seconds(payload.get("expires_in")) or DEFAULT_LIFETIME, MAX_LIFETIME),
        refresh_token=SecretStr(rotated) if isinstance(rotated, str) and rotated else None,
    )


def device_answer(payload: Mapping[str, object]) -> DeviceCode:
    """The codes of a device flow. Raises AccessTokenUnavailable when one is missing.

    `verification_url` is what some servers call the address that RFC 8628 names `verification_uri`.
    """
    code, user_code = payload.get("device_code"), payload.get("user_code")
    address = payload.get("verification_uri", payload.get("verification_url"))
    if not (isinstance(code, str) and code and isinstance(user_code, str) and user_code and isinstance(address, str)):
        raise AccessTokenUnavailable("the authorization server's answer holds no codes for another device")
    return DeviceCode(
        device_code=SecretStr(code),
        user_code=user_code,
        verification_address=address,
        lifetime=_seconds(payload.get("expires_in")) or DEFAULT_DEVICE_LIFETIME,
        interval=_seconds(payload.get("interval")) or DEFAULT_POLL_INTERVAL,
    )


def _json_object(octets: bytes | None) -> dict[str, object] | None:
    if octets is None:
        return None
    try:
        payload = json.loads(octets)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def _error_code(value: object) -> str | None:
    return value if isinstance(value, str) and _ERROR_CODE.fullmatch(value) else None


def _seconds(value: object) -> timedelta | None:
    """A positive number of seconds, also when it comes as text, as some servers send it; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 10**9:
        return None
    return timedelta(seconds=value)
