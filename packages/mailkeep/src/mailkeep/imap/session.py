"""The session that mirrors: list, examine, search and fetch, and nothing else.

Folders are opened with EXAMINE and bodies fetched with BODY.PEEK, so that mirroring never marks mail as read even on
servers that set \\Seen for PEEK (SYNC-29). How the commands are spelled and their answers collected is in
`discovery.py`, `searching.py` and `fetching.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from mailkeep.config import AccountSettings
from mailkeep.errors import CommandRefused
from mailkeep.imap import icloud
from mailkeep.imap.connection import Connection, mailbox_argument
from mailkeep.imap.dialogue import Command, Dialogue, Untagged, require_ok
from mailkeep.imap.discovery import list_folders, status_all
from mailkeep.imap.fetching import CONTENT_ITEMS, HEADER_ITEMS, Fetching
from mailkeep.imap.fetching import changed_since as since_modseq
from mailkeep.imap.lexer import Unreadable
from mailkeep.imap.model import (
    MAX_MODSEQ,
    MAX_UID,
    Ahead,
    Changes,
    ContentAnswer,
    FolderState,
    Identity,
    Listing,
    MetadataAnswer,
    Selected,
    Timeouts,
)
from mailkeep.imap.responses import code_number, parse_vanished, response_code
from mailkeep.imap.searching import Hits, present, search, search_command
from mailkeep.imap.stream import Stream
from mailkeep.imap.uidset import UidSet

if TYPE_CHECKING:
    from pydantic import SecretStr


class ReadOnlySession(Connection):
    """List, examine, search, fetch."""

    def __init__(self, executor: ThreadPoolExecutor, stream: Stream, timeouts: Timeouts) -> None:
        super().__init__(executor, stream, timeouts)
        self._fetching = Fetching(self)
        self._vanished: list[tuple[int, int]] = []
        self._earlier: list[tuple[int, int]] = []
        self._tells_removals: bool | None = None  # None until ENABLE was asked
        self.selected: Selected | None = None

    @property
    def tells_removals(self) -> bool:
        """Whether the server names the UIDs that vanished: it said ENABLED to QRESYNC and nothing spoke against it."""
        return self._tells_removals is True and self.offers("QRESYNC")

    def take_vanished(self) -> UidSet:
        """The UIDs of the open folder that were said to vanish since the last call, with whatever command (case 16)."""
        taken, self._vanished = self._vanished, []
        return UidSet.of_ranges(taken) if self.tells_removals else UidSet()

    async def list_folders(self, *, with_states: bool = False) -> Listing:
        """INBOX and every folder of the personal, other users' and shared namespaces, one line each (SYNC-17).

        `with_states` asks for their states in the same command where the server can (LIST-STATUS, RFC 5819).
        Lines that cannot be read are counted and left out. Raises TooManyFolders beyond 10,000.
        """
        return await self._run(partial(list_folders, self, with_states=with_states))

    async def status_all(self, paths: Sequence[str]) -> dict[str, FolderState]:
        """The state of each folder. One the server refuses to describe is absent from the answer."""
        return await self._run(partial(status_all, self, paths))

    async def examine(self, path: str, *, ahead: tuple[int, int] | None = None) -> Selected:
        """Open a folder read-only. Raises CommandRefused when it cannot be opened or has no UIDVALIDITY.

        `ahead` names the first and the last UID of few messages, which are searched and described in the same breath.
        """
        return await self._run(partial(self._examine, path, ahead))

    async def search(self, low: int, high: int | None, *, since: date | None = None) -> UidSet:
        """The UIDs from `low` to `high` (None: to the end) whose INTERNALDATE is not before `since` (SYNC-52, SYNC-54).

        A server answers `n:*` with its last message even when that is below `n`; such UIDs are dropped here.
        """
        return await self._run(partial(search, self, low, high, since=since))

    async def present(self, uids: UidSet) -> UidSet:
        """Those of `uids` that the folder still holds."""
        return await self._run(partial(present, self, uids))

    async def fetch_metadata(self, uids: UidSet) -> MetadataAnswer:
        """Size, INTERNALDATE and flags. A message that is gone is absent."""
        return await self._run(partial(self._fetching.metadata, uids))

    async def fetch_bodies(self, uids: UidSet, *, limit: int) -> ContentAnswer:
        """Whole messages; one that turns out longer than `limit` octets is not kept and is named in `oversized`.

        Raises dialogue.LiteralAbandoned when that one was so large that only closing the connection stopped it.
        """
        return await self._run(partial(self._fetching.content, uids, CONTENT_ITEMS, limit))

    async def fetch_headers(self, uids: UidSet, *, limit: int) -> ContentAnswer:
        """The header sections only, for messages that are too large to fetch."""
        return await self._run(partial(self._fetching.content, uids, HEADER_ITEMS, limit))

    async def fetch_identities(self, uids: UidSet) -> dict[int, Identity]:
        """Message-ID, size and flags; what the server leaves out of its answer is absent.

        Raises CommandRefused when it does not want to answer.
        """
        return await self._run(partial(self._fetching.identities, uids))

    async def fetch_flags(self, uids: UidSet, *, changed_since: int | None = None) -> dict[int, tuple[str, ...]]:
        """Flags by UID, only of what changed after mod-sequence `changed_since` when given (RFC 7162 §3.1.4.1).

        Raises IncompleteAnswer when a message is answered without its flags (SYNC-73).
        """
        return await self._run(partial(self._fetching.flags, uids, since_modseq(changed_since)))

    async def fetch_changes(self, uids: UidSet, *, changed_since: int) -> Changes:
        """Flags that changed after a mod-sequence and, where the server tells, what vanished (RFC 7162 §3.2.6).

        One command for each. Raises IncompleteAnswer as `fetch_flags` does.
        """
        return await self._run(partial(self._changes, uids, changed_since))

    # What follows runs in the worker thread.

    def _new_dialogue(self, *, synchronizing_literals: bool) -> Dialogue:
        return Dialogue(
            self._stream,
            command_timeout=self._timeouts.command,
            synchronizing_literals=synchronizing_literals,
            vanished=self._note_vanished,
        )

    def _establish(self, account: AccountSettings, secret: SecretStr | None, token: SecretStr | None) -> None:
        if icloud.serves(account.host or ""):
            self._tells_removals = False
        super()._establish(account, secret, token)

    def _note_vanished(self, response: Untagged) -> None:
        """Keep what a VANISHED response says. One that cannot be read makes all of them doubtful (case 17)."""
        try:
            is_earlier, gone = parse_vanished(response.text)
        except Unreadable:
            self.withdraw("QRESYNC")
            return
        self._vanished += gone.ranges
        if is_earlier:
            self._earlier += gone.ranges

    def _enable(self) -> None:
        """Ask once, before the first folder is opened, to be told removals by UID (RFC 7162 §3.2.3; SYNC-30)."""

        def receive(response: Untagged) -> None:
            if response.kind == b"ENABLED" and b"QRESYNC" in response.text.upper().split():
                self._tells_removals = True

        if self._tells_removals is None and self.offers("QRESYNC"):
            self._tells_removals = False
            self.dialogue.run(Command([b"ENABLE", b"QRESYNC"], receive))

    def _examine(self, path: str, ahead: tuple[int, int] | None) -> Selected:
        self.selected = None
        self._fetching.forget()
        self._enable()
        found: dict[str, int | None] = {}

        def receive(response: Untagged) -> None:
            if response.kind == b"EXISTS":
                found["exists"] = response.number
            elif response.kind == b"OK":
                code, argument = response_code(response.text)
                if code in {b"UIDVALIDITY", b"UIDNEXT"}:
                    found[code.decode()] = code_number(argument, MAX_UID)
                elif code == b"HIGHESTMODSEQ":
                    found[code.decode()] = code_number(argument, MAX_MODSEQ)

        parameters = [b"(CONDSTORE)"] if self.offers("CONDSTORE") else []
        hits, messages = Hits(), self._fetching.messages(UidSet(() if ahead is None else (ahead,)))
        commands = [Command([b"EXAMINE", mailbox_argument(path), *parameters], receive)]
        if ahead is not None:
            search = search_command(self, [b"UID %d:%d" % ahead], hits)
            fetch = self._fetching.command(messages.asked, self._fetching.metadata_items, messages.take)

            def either(response: Untagged) -> None:  # Dovecot answers the second while it works on the first
                (fetch if response.kind == b"FETCH" else search).receive(response)

            commands += [Command(search.parts, either), Command(fetch.parts, either)]
        completion, *others = self.dialogue.run_all(commands)
        if completion.status == b"BAD" and parameters:
            self.withdraw("CONDSTORE")
            return self._examine(path, None)
        require_ok(completion, "EXAMINE")
        self._vanished.clear()  # of the folder that was open before; this one's state is newer than any of it
        uid_validity = found.get("UIDVALIDITY")
        if uid_validity is None:
            raise CommandRefused("the mail server keeps no UIDVALIDITY for this folder, so its UIDs mean nothing")
        is_answered = ahead is not None and all(other.is_ok for other in others)
        self.selected = Selected(
            path,
            uid_validity,
            found.get("UIDNEXT"),
            found.get("exists") or 0,
            found.get("HIGHESTMODSEQ"),
            Ahead(*ahead, hits.found().between(*ahead), messages.answer()) if ahead and is_answered else None,
        )
        return self.selected

    def _changes(self, uids: UidSet, modseq: int) -> Changes:
        if not self.tells_removals:
            return Changes(self._fetching.flags(uids, since_modseq(modseq)))
        self._earlier.clear()
        try:
            flags = self._fetching.flags(uids, since_modseq(modseq, vanished=True))
        except CommandRefused:
            self.withdraw("QRESYNC")
            return Changes(self._fetching.flags(uids, since_modseq(modseq)))
        return Changes(flags, UidSet.of_ranges(self._earlier) if self.tells_removals else None)
