"""What an argument must be before anything is asked of the server. Every refusal is a MailboxRangeError."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, cast

from mailkeep_inbox.bounds import MAX_ID_CHARACTERS, MAX_KEY_BYTES, MAX_TRIAGE_CHARACTERS
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.model import Directions, MailboxFilter, MailboxScope

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_MESSAGE_ID: Final = re.compile(r"<[^<>\s@]*@[^<>\s]*>")


def is_storable(text: str) -> bool:
    """Whether PostgreSQL takes the text: no U+0000, no lone surrogate (INBOX-16)."""
    return _UNSTORABLE.search(text) is None


def storable(text: str) -> str:
    """The text without what PostgreSQL refuses: for what senders wrote, never for what callers pass."""
    return _UNSTORABLE.sub("", text)


def require_text(name: str, value: object) -> str:
    """The value, when it is a text that can be stored."""
    if not isinstance(value, str):
        raise MailboxRangeError(f"{name} must be a string")
    if not is_storable(value):
        raise MailboxRangeError(f"{name} holds U+0000 or a lone surrogate")
    return value


def assert_mailbox_tenant_id(tenant_id: str) -> None:
    """Raise MailboxRangeError for a blank tenant id; tab and newline are blank (INBOX-25)."""
    if not require_text("tenant_id", tenant_id).strip():
        raise MailboxRangeError("tenant_id must not be blank")


def assert_mailbox_scope(scope: MailboxScope) -> None:
    """Raise MailboxRangeError for a blank tenant or principal id (INBOX-25)."""
    if not isinstance(scope, MailboxScope):
        raise MailboxRangeError("scope must be a MailboxScope")
    assert_mailbox_tenant_id(scope.tenant_id)
    if not require_text("principal_id", scope.principal_id).strip():
        raise MailboxRangeError("principal_id must not be blank")


def require_message_id(name: str, value: str) -> str:
    """One bracket pair, an `@`, no white space or inner brackets, at most 1,024 bytes (INBOX-29, INBOX-16)."""
    require_key(name, value)
    if not _MESSAGE_ID.fullmatch(value):
        raise MailboxRangeError(f"{name} must be a message id in angle brackets")
    return value


def require_key(name: str, value: str) -> str:
    """A text of at most 1,024 bytes in UTF-8."""
    if len(require_text(name, value).encode()) > MAX_KEY_BYTES:
        raise MailboxRangeError(f"{name} must be at most {MAX_KEY_BYTES} bytes")
    return value


def require_triage(name: str, value: str | None) -> str | None:
    """A triage word, an assignee or a label: at most 256 characters; `None` passes."""
    if value is not None and len(require_text(name, value)) > MAX_TRIAGE_CHARACTERS:
        raise MailboxRangeError(f"{name} must be at most {MAX_TRIAGE_CHARACTERS} characters")
    return value


def require_filter(chosen: MailboxFilter) -> None:
    """Every value of a filter."""
    for name in MailboxFilter.__slots__:
        require_triage(name, getattr(chosen, name))


def require_directions(direction: str) -> Directions:
    """`inbound`, `outbound` or `all`."""
    if direction not in ("inbound", "outbound", "all"):
        raise MailboxRangeError("direction must be inbound, outbound or all")
    return cast("Directions", direction)


def require_limit(limit: int, *, maximum: int) -> int:
    """An integer within 1..maximum; refused, never clamped."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= maximum:
        raise MailboxRangeError(f"limit must be an integer from 1 to {maximum}")
    return limit


def is_row_id(value: str) -> bool:
    """Whether a text could be the id of a row: anything else matches no row and is not asked for."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARACTERS and is_storable(value)


def row_ids(values: Sequence[str]) -> list[str]:
    """Those that could be ids of rows."""
    return [value for value in values if is_row_id(value)]
