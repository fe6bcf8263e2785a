"""What a server's refusal says about load and quota: why, and for how long to stay away. Pure.

Servers say this in words, so words are what is read; each was seen in the field: Office 365 names a time in
milliseconds (case 56), Gmail counts connections (case 58) and octets (case 59). The text itself goes no further.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class PauseReason(StrEnum):
    """Why a server asked for patience."""

    THROTTLED = "Throttled"
    TOO_MANY_CONNECTIONS = "TooManyConnections"
    QUOTA_EXHAUSTED = "QuotaExhausted"
    BUSY = "Busy"


@dataclass(frozen=True, slots=True)
class Advice:
    """`wait` is None where the account as a whole need not be left alone: a locked folder, a busy moment."""

    reason: PauseReason
    wait: timedelta | None


LONGEST_WAIT = timedelta(days=1)
TOO_MANY_CONNECTIONS_WAIT = timedelta(minutes=2)
THROTTLED_WAIT = timedelta(minutes=5)
QUOTA_WAIT = timedelta(hours=1)  # Gmail's lasts some hours; asking once an hour costs nothing

_UNITS = {b"ms": 1, b"millisecond": 1, b"s": 1000, b"second": 1000, b"minute": 60_000}
_SUGGESTED = re.compile(rb"backoff\s+time:?\s*(\d{1,12})\s*(millisecond|ms|second|s|minute)s?\b", re.IGNORECASE)
_CONNECTIONS = re.compile(
    rb"too many (?:simultaneous |concurrent |open )?(?:imap )?(?:connections|sessions|logins)"
    rb"|max(?:imum)? number of (?:simultaneous |concurrent )?connections|connection limit",
    re.IGNORECASE,
)
_QUOTA = re.compile(rb"\[OVERQUOTA\]|bandwidth|exceeded command", re.IGNORECASE)
_THROTTLED = re.compile(rb"throttl|rate limit|backoff", re.IGNORECASE)


def read_advice(text: bytes) -> Advice:
    """The advice in a refusal that is about load or quota. A time that the server names is taken, up to a day."""
    if match := _SUGGESTED.search(text):
        named = timedelta(milliseconds=int(match[1]) * _UNITS[match[2].lower()])
        return Advice(PauseReason.THROTTLED, min(named, LONGEST_WAIT))
    if _CONNECTIONS.search(text):
        return Advice(PauseReason.TOO_MANY_CONNECTIONS, TOO_MANY_CONNECTIONS_WAIT)
    if _QUOTA.search(text):
        return Advice(PauseReason.QUOTA_EXHAUSTED, QUOTA_WAIT)
    if _THROTTLED.search(text):
        return Advice(PauseReason.THROTTLED, THROTTLED_WAIT)
    return Advice(PauseReason.BUSY, None)
