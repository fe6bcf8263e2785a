"""The session that changes a mailbox: flags, copies, moves and removals of named messages, and folders made (MUT-3).

A type of its own, from a factory of its own: nothing that reads can come to hold one. Its verbs are a closed list, and
within them only the forms that touch no message but the named ones can be sent: no EXPUNGE without UIDs and no CLOSE
(MUT-4), no STORE that replaces flags (MUT-5), no flag of the server's own but Seen and Flagged, and Deleted only set
and only alone (MUT-2), no APPEND, RENAME, DELETE or UNSUBSCRIBE, and no FETCH that marks mail as read.

Each command goes out once. What the server answered is returned and judged by the caller; a connection that breaks
raises MailServerUnavailable, and then nobody knows whether the command was carried out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from mailkeep.errors import CommandRefused, MailServerError
from mailkeep.imap.connection import Connection, mailbox_argument
from mailkeep.imap.dialogue import (
    AskedToComeBack,
    Command,
    Completion,
    Dialogue,
    Untagged,
    require_ok,
    speaks_of_passing_trouble,
)
from mailkeep.imap.fetching import Fetching
from mailkeep.imap.lexer import Unreadable
from mailkeep.imap.model import MAX_UID, FolderState, Identity, RemoteFolder, Timeouts
from mailkeep.imap.placing import Placements, merged, parse_copyuid
from mailkeep.imap.responses import code_number, parse_list, parse_status, response_code
from mailkeep.imap.searching import present
from mailkeep.imap.stream import Stream
from mailkeep.imap.uidset import UidSet

WRITING_VERBS: Final = frozenset(
    {
        b"CAPABILITY",
        b"CREATE",
        b"ID",
        b"LIST",
        b"LOGOUT",
        b"NOOP",
        b"SELECT",
        b"STATUS",
        b"SUBSCRIBE",
        b"UID COPY",
        b"UID EXPUNGE",
        b"UID FETCH",
        b"UID MOVE",
        b"UID SEARCH",
        b"UID STORE",
    }
)
SEEN: Final = "\\Seen"
FLAGGED: Final = "\\Flagged"
DELETED: Final = "\\Deleted"
_STORE = re.compile(rb"UID STORE [\d:,]+ ([+-])FLAGS\.SILENT \(([^()\\]*(?:\\(?:Seen|Flagged)(?![A-Za-z])[^()\\]*)*)\)")
_MARK_DELETED = re.compile(rb"UID STORE [\d:,]+ \+FLAGS\.SILENT \(\\Deleted\)")
_NAMES_UIDS = re.compile(rb"UID (?:EXPUNGE|COPY|MOVE|STORE) [\d:,]+(?: |$)")


class WritingDialogue(Dialogue):
    """The channel of a writing connection."""

    verbs = WRITING_VERBS

    def _may_send(self, verb: bytes, line: bytes) -> bool:
        if not super()._may_send(verb, line):
            return False
        if verb in {b"UID EXPUNGE", b"UID COPY", b"UID MOVE", b"UID STORE"} and not _NAMES_UIDS.match(line):
            return False
        return verb != b"UID STORE" or bool(_STORE.fullmatch(line) or _MARK_DELETED.fullmatch(line))


@dataclass(frozen=True, slots=True)
class Opened:
    """A folder opened with SELECT. `permanent` None: the server did not say which flags it keeps (then: all)."""

    path: str
    uid_validity: int
    is_read_only: bool
    permanent: frozenset[str] | None

    def keeps(self, names: Collection[str]) -> bool:
        """Whether flags or keywords of these names would outlive the session (RFC 9051 §7.1, PERMANENTFLAGS)."""
        if self.permanent is None:
            return True
        known = {name.casefold() for name in self.permanent}
        return all(name.casefold() in known or ("\\*" in known and not name.startswith("\\")) for name in names)


@dataclass(frozen=True, slots=True)
class Placed:
    """The answer to a copy or a move. `refusal` is there when the server says that it was not done, and why."""

    placements: Placements
    refusal: MailServerError | None = None
    lacks_destination: bool = False


class WritingSession(Connection):
    """Select, look, change. A UID set must fit into one command (`UidSet.commands`)."""

    thread_name = "mailkeep-write"

    def __init__(self, executor: ThreadPoolExecutor, stream: Stream, timeouts: Timeouts) -> None:
        super().__init__(executor, stream, timeouts)
        self._fetching = Fetching(self)

    async def select(self, path: str) -> Opened:
        """Open a folder. Raises CommandRefused when it cannot be opened or has no UIDVALIDITY."""
        return await self._run(partial(self._select, path))

    async def identities(self, uids: UidSet) -> dict[int, Identity]:
        """What tells messages apart, and their flags. A message that is gone is absent."""
        return await self._run(partial(self._fetching.identities, uids))

    async def flags(self, uids: UidSet) -> dict[int, tuple[str, ...]]:
        """The flags of each message that is there. Raises IncompleteAnswer when the server leaves some out."""
        return await self._run(partial(self._fetching.flags, uids))

    async def present(self, uids: UidSet) -> UidSet:
        """Those of `uids` that the open folder still holds."""
        return await self._run(partial(present, self, uids))

    async def state(self, path: str) -> FolderState | None:
        """The state of a folder; None when the server refuses to tell. Raises AskedToComeBack."""
        return await self._run(partial(self._state, path))

    async def find(self, path: str) -> RemoteFolder | None:
        """The folder of that path as LIST has it; None when the server lists none."""
        return await self._run(partial(self._find, path))

    async def add_flags(self, uids: UidSet, names: Sequence[str]) -> None:
        """Set flags and keywords. Raises CommandRefused and AskedToComeBack, and then none was set."""
        await self._run(partial(self._store, uids, b"+", names))

    async def remove_flags(self, uids: UidSet, names: Sequence[str]) -> None:
        """Take flags and keywords away; as `add_flags`."""
        await self._run(partial(self._store, uids, b"-", names))

    async def mark_deleted(self, uids: UidSet) -> None:
        """The first half of a removal, never anything else (MUT-2)."""
        await self._run(partial(self._store, uids, b"+", [DELETED]))

    async def expunge(self, uids: UidSet) -> None:
        """The second half: remove those of exactly these messages that are marked (RFC 4315 §2.1)."""
        await self._run(partial(self._ask, "UID EXPUNGE", [b"UID EXPUNGE", uids.wire()]))

    async def copy(self, uids: UidSet, path: str) -> Placed:
        """Copy into another folder, once."""
        return await self._run(partial(self._place, b"UID COPY", uids, path))

    async def move(self, uids: UidSet, path: str) -> Placed:
        """Move into another folder, once (RFC 6851)."""
        return await self._run(partial(self._place, b"UID MOVE", uids, path))

    async def create(self, path: str) -> bool:
        """Make a folder; False when the server refuses. Raises AskedToComeBack."""
        return await self._run(partial(self._accepts, [b"CREATE", mailbox_argument(path)], "CREATE"))

    async def subscribe(self, path: str) -> bool:
        """Subscribe to a folder; False when the server refuses."""
        return await self._run(partial(self._accepts, [b"SUBSCRIBE", mailbox_argument(path)], "SUBSCRIBE"))

    # What follows runs in the worker thread.

    def _new_dialogue(self, *, synchronizing_literals: bool) -> WritingDialogue:
        return WritingDialogue(
            self._stream, command_timeout=self._timeouts.command, synchronizing_literals=synchronizing_literals
        )

    def _select(self, path: str) -> Opened:
        self._fetching.forget()
        uid_validity: int | None = None
        permanent: frozenset[str] | None = None

        def receive(response: Untagged) -> None:
            nonlocal uid_validity, permanent
            if response.kind != b"OK":
                return
            code, argument = response_code(response.text)
            if code == b"UIDVALIDITY":
                uid_validity = code_number(argument, MAX_UID)
            elif code == b"PERMANENTFLAGS":
                permanent = frozenset(argument.decode("latin-1").strip("() ").split())

        completion = self.dialogue.run(Command([b"SELECT", mailbox_argument(path)], receive))
        require_ok(completion, "SELECT")
        if uid_validity is None:
            raise CommandRefused("the mail server keeps no UIDVALIDITY for this folder, so its UIDs mean nothing")
        return Opened(path, uid_validity, response_code(completion.text)[0] == b"READ-ONLY", permanent)

    def _state(self, path: str) -> FolderState | None:
        found: dict[str, FolderState] = {}

        def receive(response: Untagged) -> None:
            if response.kind == b"STATUS":
                with contextlib.suppress(Unreadable):
                    name, state = parse_status(response.pieces, response.start)
                    found[name] = state

        command = Command([b"STATUS", mailbox_argument(path), b"(UIDNEXT UIDVALIDITY)"], receive)
        completion = self.dialogue.run(command)
        if not _is_accepted(completion, "STATUS"):
            return None
        return found.get(path) or next(iter(found.values()), FolderState())

    def _find(self, path: str) -> RemoteFolder | None:
        found: list[RemoteFolder] = []

        def receive(response: Untagged) -> None:
            if response.kind == b"LIST":
                with contextlib.suppress(Unreadable):
                    found.append(parse_list(response.pieces, response.start))

        completion = self.dialogue.run(Command([b"LIST", b'""', mailbox_argument(path)], receive))
        require_ok(completion, "LIST")
        return next((folder for folder in found if folder.path == path), None)

    def _store(self, uids: UidSet, sign: bytes, names: Sequence[str]) -> None:
        flags = b"(" + " ".join(names).encode("ascii") + b")"
        self._ask("UID STORE", [b"UID STORE", uids.wire(), sign + b"FLAGS.SILENT", flags])

    def _ask(self, what: str, parts: Sequence[bytes]) -> None:
        require_ok(self.dialogue.run(Command(parts)), what)

    def _accepts(self, parts: Sequence[bytes], what: str) -> bool:
        return _is_accepted(self.dialogue.run(Command(parts)), what)

    def _place(self, verb: bytes, uids: UidSet, path: str) -> Placed:
        placements = Placements()

        def receive(response: Untagged) -> None:
            nonlocal placements
            if response.kind == b"OK":
                placements = merged(placements, parse_copyuid(response.text, at_most=len(uids)))

        completion = self.dialogue.run(Command([verb, uids.wire(), mailbox_argument(path)], receive))
        if completion.is_ok:
            return Placed(merged(placements, parse_copyuid(completion.text, at_most=len(uids))))
        code, _ = response_code(completion.text)
        return Placed(placements, _refusal(completion, code, verb.decode()), code == b"TRYCREATE")


def _refusal(completion: Completion, code: bytes, what: str) -> MailServerError:
    """The refusal of a copy or move. A full destination is no plea to leave the account alone (RFC 9208 §4.3)."""
    if code != b"OVERQUOTA":
        try:
            require_ok(completion, what)
        except AskedToComeBack as plea:
            return plea
        except CommandRefused as refusal:
            return refusal
    return CommandRefused(f"the mail server refused: {what}")


def _is_accepted(completion: Completion, what: str) -> bool:
    """Whether it was done. Raises AskedToComeBack for a refusal that is about load."""
    if not completion.is_ok and speaks_of_passing_trouble(completion):
        require_ok(completion, what)
    return completion.is_ok
