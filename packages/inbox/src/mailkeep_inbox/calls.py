"""Callables of the host may be plain or async (INBOX-8)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TypeVar

Value = TypeVar("Value")


async def outcome_of(value: Value | Awaitable[Value]) -> Value:
    """The value, awaited when it is awaitable. Cancellation passes through."""
    if inspect.isawaitable(value):
        return await value
    return value
