"""Idempotency keys and ids (INBOX-31 to INBOX-33)."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from typing import Final

from mailkeep_inbox.checks import is_storable
from mailkeep_inbox.model import Direction

FALLBACK_DOMAIN: Final = "hub.invalid"


class mailbox_key:  # noqa: N801 -- a namespace whose public name the contract fixes
    """The formats of message keys, each in a space of its own."""

    @staticmethod
    def inbox(source: str, external_id: str) -> str:
        """An item of another system. The length, in UTF-16 code units, keeps any two pairs apart."""
        length = len(source.encode("utf-16-le", "surrogatepass")) // 2
        return f"inbox2:{length}:{source}:{external_id}"

    @staticmethod
    def gate(id: str) -> str:  # noqa: A002 -- the contract's name
        """A gate of the host's."""
        return f"gate:{id}"

    @staticmethod
    def run(id: str) -> str:  # noqa: A002 -- the contract's name
        """A run of the host's."""
        return f"run:{id}"

    @staticmethod
    def transport(message_id: str, principal_id: str, direction: str = Direction.INBOUND) -> str:
        """A frame by its Message-ID, brackets included; the sender's own copy is another message."""
        suffix = ":outbound" if direction == Direction.OUTBOUND else ""
        return f"transport:mid:{message_id}:{principal_id}{suffix}"

    @staticmethod
    def raw(raw: bytes, principal_id: str) -> str:
        """A frame without a usable Message-ID, by its content."""
        return f"transport:raw:{hashlib.sha256(raw).hexdigest()}:{principal_id}"


def extract_sender_mailbox_address(from_address: str) -> str:
    """The bare address: between the first `<` and the last `>`, else the whole text, trimmed (INBOX-54)."""
    start, end = from_address.find("<"), from_address.rfind(">")
    return (from_address[start + 1 : end] if 0 <= start < end else from_address).strip()


def generate_mailbox_message_id(from_address: str) -> str:
    """`<uuid4@domain>`, the domain from the sender's bare address (INBOX-29)."""
    domain = extract_sender_mailbox_address(from_address).rpartition("@")[2]
    usable = domain.isascii() and domain.isprintable() and is_storable(domain) and not set(domain) & set(" <>@")
    return f"<{uuid.uuid4()}@{domain if domain and usable and len(domain) <= 255 else FALLBACK_DOMAIN}>"


class RowIds:
    """Ids of rows in ascending order: UUID version 7 with a counter (RFC 9562 §6.2, method 1).

    One transaction gives all its rows one `created_at`, so the id decides their order: ascending ids list a batch in
    the order it was given and keep neighbours in a list neighbours on disk.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        """A new id, greater than every one before it in this process."""
        stamp = (time.time_ns() // 1_000_000) << 12
        self._last = max(self._last + 1, stamp)
        milliseconds, counter = self._last >> 12, self._last & 0xFFF
        random = int.from_bytes(os.urandom(8)) & ((1 << 62) - 1)
        return str(uuid.UUID(int=(milliseconds << 80) | (7 << 76) | (counter << 64) | (2 << 62) | random))


row_ids: Final = RowIds()
