"""What `mailkeep account add` makes of what people type."""

from __future__ import annotations

import pytest

from mailkeep.cli.adding import split_port


@pytest.mark.parametrize(
    ("typed", "host", "port"),
    [
        ("mail.example.org", "mail.example.org", None),
        (" mail.example.org:1993 ", "mail.example.org", 1993),
        ("127.0.0.1:143", "127.0.0.1", 143),
        ("::1", "::1", None),
        ("fe80::1:993", "fe80::1:993", None),
        ("mail.example.org:imap", "mail.example.org:imap", None),
        ("mail.example.org:99999", "mail.example.org:99999", None),
        (":993", ":993", None),
    ],
)
def test_a_port_may_stand_behind_the_server(typed: str, host: str, port: int | None) -> None:
    """As mail programs show it; what cannot be a port is left for the connection to fail on."""
    assert split_port(typed) == (host, port)
