"""A Dovecot with a mailbox of the wanted size, filled by writing Maildir files (the server's own format, no protocol).

File names carry the sizes (S= and W=) that Dovecot would otherwise work out at its first look, so that no client under
measurement pays for it.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import imapclient
from examples.demo.imap_server import ImapServer, give_to_owner, running_dovecot

__all__ = ["ImapServer", "fill_folder", "running_dovecot", "warm"]

FIRST_ARRIVAL = 1_020_000_000  # February 2002, the time of the corpus: one message a minute
WARM_BATCH = 500  # UIDs in one command, so that its line stays short


def fill_folder(maildir: Path, name: str, messages: Iterable[bytes], *, first: int = 0) -> int:
    """Write `messages` as seen mail into folder `name` (INBOX is the Maildir itself); return how many were written."""
    folder = maildir if name == "INBOX" else maildir / name
    for part in ("cur", "new", "tmp"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    count = 0
    for count, octets in enumerate(messages, start=1):
        arrived = FIRST_ARRIVAL + (first + count) * 60
        path = folder / "cur" / f"{arrived}.M{count}.bench,S={len(octets)},W={len(octets)}:2,S"
        path.write_bytes(octets)
        os.utime(path, (arrived, arrived))
    give_to_owner(folder)
    return count


def warm(server: ImapServer) -> dict[str, int]:
    """Let Dovecot build its own indexes of every folder; return the message counts."""
    counts = {}
    with imapclient.IMAPClient(server.host, server.port, ssl=False) as client:
        client.login(server.user_name, server.password)
        for _flags, _delimiter, name in client.list_folders():
            counts[name] = int(client.select_folder(name, readonly=True)[b"EXISTS"])
            uids = client.search()
            for start in range(0, len(uids), WARM_BATCH):
                client.fetch(uids[start : start + WARM_BATCH], ["RFC822.SIZE", "INTERNALDATE", "FLAGS"])
    return counts
