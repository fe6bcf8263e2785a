"""iCloud Mail (imap.mail.me.com), as reported until 2025-06.

It names QRESYNC, answers ENABLE without ENABLED, and sends VANISHED lines that break the grammar or name sequence
numbers (Foundry376/Mailspring-Sync#91). Its CONDSTORE works, so flags still come by mod-sequence.
"""

from __future__ import annotations

_DOMAINS = ("mail.me.com", "mail.icloud.com")


def serves(host: str) -> bool:
    """Whether a host is one of iCloud's."""
    name = host.rstrip(".").lower()
    return any(name == domain or name.endswith("." + domain) for domain in _DOMAINS)
