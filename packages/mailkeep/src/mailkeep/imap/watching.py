"""One signed-in connection that waits for the server to speak: IDLE (RFC 2177), for many folders NOTIFY (RFC 5465).

It can look at states and wait. It has no command that fetches or searches and none that changes anything, and its list
of verbs is closed like that of `ReadOnlySession`. Like that one it is of no more use after a failure or a cancelled
wait, and is then closed without LOGOUT (SYNC-31).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from mailkeep.errors import MailServerUnavailable
from mailkeep.imap.connection import Connection, mailbox_argument
from mailkeep.imap.dialogue import Command, Completion, Dialogue, Untagged, require_ok
from mailkeep.imap.discovery import status_items
from mailkeep.imap.lexer import Unreadable
from mailkeep.imap.model import FolderState, Timeouts
from mailkeep.imap.names import octets_of_key, quote
from mailkeep.imap.responses import parse_status, response_code
from mailkeep.imap.stream import Stream

WATCHING_VERBS = frozenset(
    {b"CAPABILITY", b"EXAMINE", b"ID", b"IDLE", b"LOGOUT", b"NOOP", b"NOTIFY", b"STATUS"},
)
# Arrivals, removals and flags; no fetch of anything and no initial states (SYNC-87).
EVENTS = b"(MessageNew MessageExpunge FlagChange)"
_NEWS = frozenset({b"EXPUNGE", b"FETCH", b"VANISHED"})  # beside EXISTS and STATUS, which are compared


class WatchingDialogue(Dialogue):
    """The channel of a watching connection: its own closed list of verbs, and IDLE."""

    verbs = WATCHING_VERBS

    def idle(self, seconds: float, receive: Callable[[Untagged], bool]) -> bool:
        """Wait in IDLE for at most `seconds`; whether `receive` called anything that came news. Ends with DONE."""
        self._counter += 1
        tag = b"K%d" % self._counter
        self._stream.deadline = time.monotonic() + self._timeout
        self._send(tag, Command([b"IDLE"]))
        news = False
        while not (line := self._line()).startswith(b"+"):
            if line.startswith(tag + b" "):
                require_ok(_completion(line, tag), "IDLE")
                raise MailServerUnavailable("the mail server ended IDLE before it began")
            news |= receive(self._untagged(line, None))
        until = time.monotonic() + seconds
        while not news and self._stream.wait(until - time.monotonic()):
            self._stream.deadline = time.monotonic() + self._timeout
            line = self._line()
            if line.startswith(tag + b" "):
                require_ok(_completion(line, tag), "IDLE")
                return True  # ended by the server; whoever waits looks at the states next
            news |= receive(self._untagged(line, None))
        self._stream.deadline = time.monotonic() + self._timeout
        self._stream.send(b"DONE\r\n")
        while not (line := self._line()).startswith(tag + b" "):
            news |= receive(self._untagged(line, None))
        require_ok(_completion(line, tag), "IDLE")
        return news


def _completion(line: bytes, tag: bytes) -> Completion:
    status, _, text = line[len(tag) + 1 :].partition(b" ")
    return Completion(status.upper(), text)


class WatchingSession(Connection):
    """Examine, subscribe, look at states, wait."""

    thread_name = "mailkeep-watch"
    dialogue: WatchingDialogue

    def __init__(self, executor: ThreadPoolExecutor, stream: Stream, timeouts: Timeouts) -> None:
        super().__init__(executor, stream, timeouts)
        self._exists: int | None = None
        self._known: dict[str, FolderState] = {}
        self._has_news = False

    async def examine(self, path: str) -> None:
        """Open a folder read-only, whose events IDLE then tells. Raises CommandRefused."""
        await self._run(partial(self._examine, path))

    async def subscribe(self, paths: Sequence[str]) -> bool:
        """Ask for the events of these folders and of the open one (NOTIFY SET); False when the server will not.

        Folders whose names cannot be quoted are left out.
        """
        return await self._run(partial(self._subscribe, paths))

    async def states(self, paths: Sequence[str]) -> dict[str, FolderState]:
        """STATUS of each folder, in one round trip. One the server refuses to describe is absent."""
        return await self._run(partial(self._states, paths))

    async def wait(self, seconds: float) -> bool:
        """IDLE for at most `seconds`: True once anything has changed, also what was told since the last wait.

        Raises MailServerUnavailable when the server says BYE, closes, falls silent or stops telling events.
        """
        return await self._run(partial(self._wait, seconds))

    # What follows runs in the worker thread.

    def _new_dialogue(self, *, synchronizing_literals: bool) -> WatchingDialogue:
        return WatchingDialogue(
            self._stream, command_timeout=self._timeouts.idle, synchronizing_literals=synchronizing_literals
        )

    def _examine(self, path: str) -> None:
        def receive(response: Untagged) -> None:
            if response.kind == b"EXISTS":
                self._exists = response.number

        self._exists = None
        parameters = [b"(CONDSTORE)"] if self.offers("CONDSTORE") else []  # also makes flag changes tell their sequence
        completion = self.dialogue.run(Command([b"EXAMINE", mailbox_argument(path), *parameters], receive))
        if completion.status == b"BAD" and parameters:
            self.withdraw("CONDSTORE")
            return self._examine(path)
        return require_ok(completion, "EXAMINE")

    def _subscribe(self, paths: Sequence[str]) -> bool:
        names = [name for path in paths if (name := quote(octets_of_key(path))) is not None]
        groups = [b"(selected " + EVENTS + b")"]
        if names:
            groups.append(b"(mailboxes (" + b" ".join(names) + b") " + EVENTS + b")")

        def receive(response: Untagged) -> None:
            self._note(response)

        completion = self.dialogue.run(Command([b"NOTIFY SET", *groups], receive))
        if not completion.is_ok:
            self.withdraw("NOTIFY")
        return completion.is_ok

    def _states(self, paths: Sequence[str]) -> dict[str, FolderState]:
        found: dict[str, FolderState] = {}

        def receive(response: Untagged) -> None:
            if response.kind != b"STATUS":
                self._note(response)
                return
            with contextlib.suppress(Unreadable):
                path, state = parse_status(response.pieces, response.start)
                # A subscription's STATUS has some items only; together they are what the server last said.
                found[path] = _newer(found.get(path), state)

        items = b"(" + status_items(self) + b")"
        self.dialogue.run_all([Command([b"STATUS", mailbox_argument(path), items], receive) for path in paths])
        self._known = dict(found)
        return found

    def _wait(self, seconds: float) -> bool:
        news = self._has_news or self.dialogue.idle(seconds, self._note)
        self._has_news = False
        return news

    def _note(self, response: Untagged) -> bool:
        """Whether a response tells of a change; remembered until the next wait."""
        if response.kind == b"OK" and response_code(response.text)[0] == b"NOTIFICATIONOVERFLOW":
            raise MailServerUnavailable("the mail server stopped telling events")  # RFC 5465 §5.8
        if response.kind == b"EXISTS":
            changed = response.number != self._exists  # repeated by some servers just to be heard
            self._exists = response.number
        elif response.kind == b"STATUS":
            changed = self._is_new_state(response)
        else:
            changed = response.kind in _NEWS
            if response.kind in {b"EXPUNGE", b"VANISHED"}:
                self._exists = None
        self._has_news |= changed
        return changed

    def _is_new_state(self, response: Untagged) -> bool:
        """Whether an event of a subscribed folder says what was not known; Dovecot repeats what STATUS just said."""
        try:
            path, state = parse_status(response.pieces, response.start)
        except Unreadable:
            return True
        before = self._known.get(path)
        self._known[path] = _newer(before, state)
        return before is None or self._known[path] != before


def _newer(before: FolderState | None, state: FolderState) -> FolderState:
    if before is None:
        return state
    return FolderState(
        messages=before.messages if state.messages is None else state.messages,
        uid_next=before.uid_next if state.uid_next is None else state.uid_next,
        uid_validity=before.uid_validity if state.uid_validity is None else state.uid_validity,
        highest_modseq=before.highest_modseq if state.highest_modseq is None else state.highest_modseq,
    )
