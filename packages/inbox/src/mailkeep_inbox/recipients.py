"""Addresses of a frame, and which principals they name (INBOX-52, INBOX-53)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mailkeep_inbox.checks import is_storable


@dataclass(frozen=True, slots=True)
class RecipientPrefixes:
    """How local parts name things: `principal` is stripped, an address of an `instance` is no mailbox."""

    principal: str = "usr_"
    instance: str = "ins_"


@dataclass(frozen=True, slots=True)
class MailboxRecipient:
    """A principal and the address by which the frame reached it."""

    principal_id: str
    address: str


def parse_address_list(value: str) -> list[str]:
    """Split at commas outside double quotes and angle brackets; trimmed, empty entries dropped."""
    entries, start, quoted, bracketed, escaped = [], 0, False, False, False
    for position, character in enumerate(value):
        if escaped:
            escaped = False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"' and not bracketed:
            quoted = not quoted
        elif character == "<" and not quoted:
            bracketed = True
        elif character == ">" and not quoted:
            bracketed = False
        elif character == "," and not quoted and not bracketed:
            entries.append(value[start:position])
            start = position + 1
    entries.append(value[start:])
    return [entry.strip() for entry in entries if entry.strip()]


def resolve_mailbox_recipients(
    recipients: Iterable[str], *, domain: str, prefixes: RecipientPrefixes | None = None
) -> list[MailboxRecipient]:
    """The principals of `domain` among the entries, each once, in order; entries that are no single address go."""
    prefixes = prefixes or RecipientPrefixes()
    wanted = domain.strip().lower()
    found: dict[str, MailboxRecipient] = {}
    for entry in recipients:
        address = _bare_address(entry)
        if address is None:
            continue
        local, _, at = address.partition("@")
        if at != wanted or local.startswith(prefixes.instance):
            continue
        principal_id = local.removeprefix(prefixes.principal)
        if principal_id:
            found.setdefault(principal_id, MailboxRecipient(principal_id, address))
    return list(found.values())


def _bare_address(entry: str) -> str | None:
    """The one address of an entry in lower case; `None` for everything that could be read in two ways."""
    text = entry.strip()
    if "<" in text or ">" in text:
        name, _, rest = text.partition("<")
        if name.count('"') % 2 or (name.strip()[:1] != '"' and "," in name) or not rest.endswith(">"):
            return None
        text = rest[:-1].strip()
    is_one = text.count("@") == 1 and not any(mark in text for mark in '<>",;:') and not any(map(str.isspace, text))
    return text.lower() if is_one and is_storable(text) else None
