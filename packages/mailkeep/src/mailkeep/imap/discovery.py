"""Which folders there are and what state they are in: LIST, NAMESPACE and STATUS, in the connection's worker thread."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from mailkeep.errors import TooManyFolders
from mailkeep.imap.connection import Connection, mailbox_argument
from mailkeep.imap.dialogue import Command, Literal, Untagged, require_ok, speaks_of_passing_trouble
from mailkeep.imap.lexer import Unreadable
from mailkeep.imap.model import FolderState, Listing, RemoteFolder
from mailkeep.imap.names import octets_of_key, quote
from mailkeep.imap.responses import parse_list, parse_namespaces, parse_status

MAX_FOLDERS = 10_000
MAX_UNREADABLE_LINES = 10_000
STATUS_PIPELINE = 25  # STATUS commands under way at once


def list_folders(connection: Connection, *, with_states: bool) -> Listing:
    """INBOX and every folder of all namespaces; see `ReadOnlySession.list_folders`."""
    folders: dict[str, RemoteFolder] = {}
    states: dict[str, FolderState] = {}
    unreadable = 0

    def receive(response: Untagged) -> None:
        nonlocal unreadable
        try:
            if response.kind == b"LIST":
                folder = parse_list(response.pieces, response.start)
                known = folders.setdefault(folder.path, folder)
                if len(known.roles) < len(folder.roles):
                    folders[folder.path] = folder
            elif response.kind == b"STATUS":
                path, state = parse_status(response.pieces, response.start)
                states[path] = state
        except Unreadable:
            unreadable = min(unreadable + 1, MAX_UNREADABLE_LINES)
        if len(folders) > MAX_FOLDERS:
            connection.break_off()
            raise TooManyFolders(f"the account lists more than {MAX_FOLDERS} folders")

    returns = _list_return_options(connection, with_states=with_states)
    for prefix in ("", *_further_prefixes(connection)):
        pattern = quote(octets_of_key(prefix) + b"*") or Literal(octets_of_key(prefix) + b"*")
        completion = connection.dialogue.run(Command([b"LIST", b'""', pattern, *returns], receive))
        if completion.status == b"BAD" and returns:
            connection.withdraw("LIST-EXTENDED")
            return list_folders(connection, with_states=with_states)
        require_ok(completion, "LIST")
    if "INBOX" not in folders:
        require_ok(connection.dialogue.run(Command([b"LIST", b'""', b'"INBOX"', *returns], receive)), "LIST")
    return Listing(tuple(folders.values()), states, unreadable)


def status_all(connection: Connection, paths: Sequence[str]) -> dict[str, FolderState]:
    """The state of each folder; see `ReadOnlySession.status_all`."""
    states: dict[str, FolderState] = {}

    def receive(response: Untagged) -> None:
        if response.kind == b"STATUS":
            with contextlib.suppress(Unreadable):
                path, state = parse_status(response.pieces, response.start)
                states[path] = state

    items = b"(" + status_items(connection) + b")"
    commands = [Command([b"STATUS", mailbox_argument(path), items], receive) for path in paths]
    for start in range(0, len(commands), STATUS_PIPELINE):
        for completion in connection.dialogue.run_all(commands[start : start + STATUS_PIPELINE]):
            if not completion.is_ok and speaks_of_passing_trouble(completion):
                require_ok(completion, "STATUS")
    return states


def status_items(connection: Connection) -> bytes:
    """What STATUS is asked for."""
    return b"MESSAGES UIDNEXT UIDVALIDITY" + (b" HIGHESTMODSEQ" if connection.offers("CONDSTORE") else b"")


def _list_return_options(connection: Connection, *, with_states: bool) -> list[bytes]:
    if not connection.offers("LIST-EXTENDED"):
        return []
    options = []
    if connection.offers("SPECIAL-USE"):
        options.append(b"SPECIAL-USE")
    if with_states and connection.offers("LIST-STATUS"):
        options.append(b"STATUS (" + status_items(connection) + b")")
    return [b"RETURN (" + b" ".join(options) + b")"] if options else []


def _further_prefixes(connection: Connection) -> list[str]:
    """Namespaces that `LIST "" "*"` does not reach: those with a prefix of their own (RFC 2342)."""
    if not connection.offers("NAMESPACE"):
        return []
    prefixes: list[str] = []

    def receive(response: Untagged) -> None:
        if response.kind == b"NAMESPACE":
            with contextlib.suppress(Unreadable):
                prefixes.extend(parse_namespaces(response.pieces, response.start))

    if not connection.dialogue.run(Command([b"NAMESPACE"], receive)).is_ok:
        return []
    return [prefix for prefix in dict.fromkeys(prefixes) if prefix and not prefix.upper().startswith("INBOX")]
