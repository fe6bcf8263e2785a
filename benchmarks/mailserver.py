"""A Dovecot with a mailbox of the wanted size, and the sizes of its folders.

The server is the one of the tests. Before anything is measured it looks at every message once (`warm`), so that no
client under measurement pays for the server's own indexes.
"""

import imaplib
import re

from packages.mailkeep.tests.support.dovecot import PASSWORD, Dovecot

__all__ = ["PASSWORD", "USER", "Dovecot", "warm"]

USER = "bench"
_LIST_ANSWER = re.compile(rb'\([^)]*\) (?:"[^"]*"|NIL) "?(?P<name>[^"]+)"?$')


def warm(server: Dovecot) -> dict[str, int]:
    """Let Dovecot build its own indexes of every folder; return the message counts by folder."""
    counts = {}
    with imaplib.IMAP4(server.host, server.ports.plain) as client:
        client.login(USER, PASSWORD)
        _status, lines = client.list()
        for line in lines:
            found = _LIST_ANSWER.search(line) if isinstance(line, bytes) else None
            if found is None:
                continue
            name = found["name"].decode("ascii")
            _status, answer = client.select(f'"{name}"', readonly=True)
            counts[name] = int(answer[0] or 0)
            if counts[name]:
                client.fetch("1:*", "(UID RFC822.SIZE INTERNALDATE FLAGS)")
    return counts
