"""What an independent client sees of a mailbox, and what the mirror says of it, in one form that can be compared.

    assert await mirrored(db) == seen(server, user)

Folders by the server's own octets (latin-1), messages by UID: digest of the octets, flags, keywords.
"""

from __future__ import annotations

import hashlib
import imaplib
import re
from typing import TypeAlias

from support.dovecot import PASSWORD
from support.engine import rows

from mailkeep.db import Database

Message: TypeAlias = tuple[str, frozenset[str]]
Folder: TypeAlias = tuple[int, dict[int, Message]]
"""UIDVALIDITY and messages."""
View: TypeAlias = dict[str, Folder]

SYSTEM_FLAGS = ("Seen", "Answered", "Flagged", "Draft", "Deleted")
_LINE = re.compile(rb'\((?P<attributes>[^)]*)\) (?:"(?:[^"\\]|\\.)*"|NIL) (?P<name>.+)', re.DOTALL)
_UID = re.compile(rb"\bUID (\d+)")
_FLAGS = re.compile(rb"\bFLAGS \(([^)]*)\)")

MIRROR = """
SELECT f.remote_path, e.uid_validity, e.uid, encode(c.sha256_hash, 'hex'),
       ARRAY[e.is_remotely_seen, e.is_remotely_answered, e.is_remotely_flagged, e.is_remotely_draft,
             e.is_remotely_deleted], e.remote_keywords
FROM stored_emails e
JOIN mail_folders f ON f.id = e.mail_folder_id
LEFT JOIN email_message_contents c ON c.stored_email_id = e.id
WHERE e.remote_expunge_observed_at IS NULL
  AND f.resolution_generation = (SELECT max(g.resolution_generation) FROM mail_folders g
                                 WHERE g.mailbox_account_id = f.mailbox_account_id AND g.alias = f.alias)
"""
KNOWN = """
SELECT f.remote_path, s.uid_validity FROM synchronization_checkpoints s JOIN mail_folders f ON f.id = s.mail_folder_id
"""


def seen(port: int, user: str) -> View:
    """Everything in every folder that can be opened, by Python's own IMAP client. Flags are upper-cased."""
    with imaplib.IMAP4("127.0.0.1", port, timeout=30) as client:
        client.login(user, PASSWORD)
        return {name.decode("latin-1"): _folder(client, name) for name in _names(client)}


async def mirrored(db: Database, folders: set[str]) -> View:
    """The same from the store, of the folders with these paths; rows that nobody can see any more are left out."""
    found: View = {path: (validity, {}) for path, validity in await rows(db, KNOWN) if path in folders}
    for path, validity, uid, digest, flags, keywords in await rows(db, MIRROR):
        if path in folders:
            names = {f"\\{name}".upper() for name, is_set in zip(SYSTEM_FLAGS, flags, strict=True) if is_set}
            assert found[path][0] == validity
            found[path][1][uid] = (digest, frozenset({*names, *keywords}))
    return found


def _names(client: imaplib.IMAP4) -> list[bytes]:
    _, lines = client.list()
    names = []
    for line in lines:
        # A name that needs a literal comes as a pair.
        whole = b" ".join((line[0].rpartition(b"{")[0].rstrip(), line[1])) if isinstance(line, tuple) else line
        match = _LINE.match(whole or b"")
        if match is None or b"\\noselect" in match["attributes"].lower():
            continue
        if b"\\nonexistent" in match["attributes"].lower():
            continue
        name = match["name"]
        if not isinstance(line, tuple) and name.startswith(b'"'):
            name = re.sub(rb"\\(.)", rb"\1", name[1:-1])
        names.append(name)
    return names


def _folder(client: imaplib.IMAP4, name: bytes) -> Folder:
    quoted = name.decode("latin-1").replace("\\", "\\\\").replace('"', '\\"')
    status, answer = client.select(f'"{quoted}"', readonly=True)
    assert status == "OK", answer
    validity = int(client.untagged_responses["UIDVALIDITY"][-1])
    messages: dict[int, Message] = {}
    _, items = client.uid("FETCH", "1:*", "(UID FLAGS BODY.PEEK[])")
    for position, item in enumerate(items):
        if not isinstance(item, tuple):
            continue
        after = items[position + 1] if position + 1 < len(items) and isinstance(items[position + 1], bytes) else b""
        words = item[0] + b" " + after
        uid, flags = _UID.search(words), _FLAGS.search(words)
        assert uid is not None
        assert flags is not None
        names = frozenset(flag.decode().upper() for flag in flags[1].split()) - {"\\RECENT"}
        messages[int(uid[1])] = (hashlib.sha256(item[1]).hexdigest(), names)
    return validity, messages
