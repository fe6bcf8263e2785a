"""One signed-in, read-only connection, with an async surface over one worker thread.

Folders are opened with EXAMINE and bodies fetched with BODY.PEEK, so that mirroring never marks mail as read even on
servers that set \\Seen for PEEK (SYNC-29). A session that failed or was cancelled in the middle of a command is closed
without LOGOUT and is of no more use (SYNC-31); whoever needs it opens a new one and examines again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from mailkeep.config import AccountSettings
from mailkeep.errors import CommandRefused, IncompleteAnswer, MailServerUnavailable, TooManyFolders, TooManyMessages
from mailkeep.imap import icloud
from mailkeep.imap.dialogue import (
    Command,
    Completion,
    Dialogue,
    Literal,
    Untagged,
    require_ok,
    speaks_of_passing_trouble,
)
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
    Metadata,
    MetadataAnswer,
    RemoteFolder,
    Selected,
    Timeouts,
)
from mailkeep.imap.names import octets_of_key, quote
from mailkeep.imap.responses import (
    FetchItem,
    Interned,
    code_number,
    parse_esearch,
    parse_fetch,
    parse_list,
    parse_namespaces,
    parse_search,
    parse_status,
    parse_vanished,
    response_code,
)
from mailkeep.imap.signin import sign_in
from mailkeep.imap.stream import Stream
from mailkeep.imap.uidset import UidSet

if TYPE_CHECKING:
    from pydantic import SecretStr

T = TypeVar("T")

MAX_FOLDERS = 10_000
MAX_SEARCH_HITS = 20_000_000  # a range costs a server nothing to write; no folder holds so many messages
MAX_IDENTITY_OCTETS = 64 * 1024  # of one Message-ID field
MAX_UNREADABLE_LINES = 10_000
STATUS_PIPELINE = 25  # STATUS commands under way at once
METADATA_ITEMS = b"(UID FLAGS INTERNALDATE RFC822.SIZE)"
RECONCILIATION_ITEMS = b"(FLAGS UID)"
CONTENT_ITEMS = b"(UID BODY.PEEK[])"
IDENTITY_ITEMS = b"(UID FLAGS RFC822.SIZE BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])"
HEADER_ITEMS = b"(UID BODY.PEEK[HEADER])"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class ReadOnlySession:
    """List, examine, search, fetch. Use one method at a time; `connect` opens, `close` says LOGOUT."""

    def __init__(self, executor: ThreadPoolExecutor, stream: Stream, timeouts: Timeouts) -> None:
        self._executor = executor
        self._stream = stream
        self._timeouts = timeouts
        self._dialogue = Dialogue(stream, command_timeout=timeouts.command, vanished=self._note_vanished)
        self._interned: Interned = {}
        self._vanished: list[tuple[int, int]] = []
        self._earlier: list[tuple[int, int]] = []
        self._tells_removals: bool | None = None  # None until ENABLE was asked
        self.capabilities: frozenset[str] = frozenset()
        self.withdrawn: frozenset[str] = frozenset()
        self.selected: Selected | None = None
        self.is_usable = True

    @classmethod
    async def connect(
        cls,
        account: AccountSettings,
        secret: SecretStr | None,
        *,
        token: SecretStr | None = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """Connect, protect, sign in and read the capabilities. Raises what `signin.sign_in` raises."""
        timeouts = timeouts or Timeouts()
        stream = Stream(idle=timeouts.idle)
        session = cls(ThreadPoolExecutor(1, thread_name_prefix="mailkeep-imap"), stream, timeouts)
        try:
            await session._run(partial(session._establish, account, secret, token))
        except BaseException:
            session.abandon()
            raise
        return session

    @property
    def commands_sent(self) -> int:
        """Commands sent since signing in."""
        return self._dialogue.commands_sent

    @property
    def octets_received(self) -> int:
        return self._stream.octets_received

    @property
    def tells_removals(self) -> bool:
        """Whether the server names the UIDs that vanished: it said ENABLED to QRESYNC and nothing spoke against it."""
        return self._tells_removals is True and self.offers("QRESYNC")

    def take_vanished(self) -> UidSet:
        """The UIDs of the open folder that were said to vanish since the last call, with whatever command (case 16)."""
        taken, self._vanished = self._vanished, []
        return UidSet.of_ranges(taken) if self.tells_removals else UidSet()

    def withdraw(self, *capabilities: str) -> None:
        """Do without extensions that the server names and then does not understand, or lies about."""
        self.capabilities -= set(capabilities)
        self.withdrawn |= set(capabilities)

    def offers(self, capability: str) -> bool:
        """Whether the server named this capability after signing in, in whatever case."""
        return capability.upper() in self.capabilities

    async def list_folders(self, *, with_states: bool = False) -> Listing:
        """INBOX and every folder of the personal, other users' and shared namespaces, one line each (SYNC-17).

        `with_states` asks for their states in the same command where the server can (LIST-STATUS, RFC 5819).
        Lines that cannot be read are counted and left out. Raises TooManyFolders beyond 10,000.
        """
        return await self._run(partial(self._list_folders, with_states))

    async def status_all(self, paths: Sequence[str]) -> dict[str, FolderState]:
        """The state of each folder. One the server refuses to describe is absent from the answer."""
        return await self._run(partial(self._status_all, paths))

    async def examine(self, path: str, *, ahead: tuple[int, int] | None = None) -> Selected:
        """Open a folder read-only. Raises CommandRefused when it cannot be opened or has no UIDVALIDITY.

        `ahead` names the first and the last UID of few messages, which are searched and described in the same breath.
        """
        return await self._run(partial(self._examine, path, ahead))

    async def search(self, low: int, high: int | None, *, since: date | None = None) -> UidSet:
        """The UIDs from `low` to `high` (None: to the end) whose INTERNALDATE is not before `since` (SYNC-52, SYNC-54).

        A server answers `n:*` with its last message even when that is below `n`; such UIDs are dropped here.
        """
        return await self._run(partial(self._search, low, high, since))

    async def present(self, uids: UidSet) -> UidSet:
        """Those of `uids` that the folder still holds."""
        return await self._run(partial(self._present, uids))

    async def fetch_metadata(self, uids: UidSet) -> MetadataAnswer:
        """Size, INTERNALDATE and flags. A message that is gone is absent."""
        return await self._run(partial(self._fetch_metadata, uids))

    async def fetch_bodies(self, uids: UidSet, *, limit: int) -> ContentAnswer:
        """Whole messages; one that turns out longer than `limit` octets is not kept and is named in `oversized`.

        Raises dialogue.LiteralAbandoned when that one was so large that only closing the connection stopped it.
        """
        return await self._run(partial(self._fetch_content, uids, CONTENT_ITEMS, limit))

    async def fetch_headers(self, uids: UidSet, *, limit: int) -> ContentAnswer:
        """The header sections only, for messages that are too large to fetch."""
        return await self._run(partial(self._fetch_content, uids, HEADER_ITEMS, limit))

    async def fetch_identities(self, uids: UidSet) -> dict[int, Identity]:
        """Message-ID, size and flags; what the server leaves out of its answer is absent.

        Raises CommandRefused when it does not want to answer.
        """
        return await self._run(partial(self._fetch_identities, uids))

    async def fetch_flags(self, uids: UidSet, *, changed_since: int | None = None) -> dict[int, tuple[str, ...]]:
        """Flags by UID, only of what changed after mod-sequence `changed_since` when given (RFC 7162 §3.1.4.1).

        Raises IncompleteAnswer when a message is answered without its flags (SYNC-73).
        """
        return await self._run(partial(self._fetch_flags, uids, changed_since))

    async def fetch_changes(self, uids: UidSet, *, changed_since: int) -> Changes:
        """Flags that changed after a mod-sequence and, where the server tells, what vanished (RFC 7162 §3.2.6).

        One command for each. Raises IncompleteAnswer as `fetch_flags` does.
        """
        return await self._run(partial(self._fetch_changes, uids, changed_since))

    async def close(self) -> None:
        """Say LOGOUT when that is still possible, for at most the farewell time, and close."""
        if self.is_usable:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(self._timeouts.farewell):
                    await self._run(partial(self._dialogue.run, Command([b"LOGOUT"])))
        self.abandon()

    def abandon(self) -> None:
        """Close at once without LOGOUT: a dead server would hold the farewell (SYNC-31). Safe from any state."""
        self.is_usable = False
        self._stream.close()
        self._executor.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        """Run one piece of blocking work in the connection's own thread; cancelling it cuts the connection."""
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(future)
        except (CommandRefused, IncompleteAnswer):
            raise  # the dialogue is in step: only this command failed
        except BaseException:
            self.is_usable = False
            self._stream.cut()
            with contextlib.suppress(BaseException):
                await asyncio.wait([future], timeout=self._timeouts.farewell)
            if future.done() and not future.cancelled():
                future.exception()  # taken note of, so that nobody reports it as lost
            self._stream.close()
            raise

    # What follows runs in the worker thread.

    def _establish(self, account: AccountSettings, secret: SecretStr | None, token: SecretStr | None) -> None:
        if icloud.serves(account.host or ""):
            self._tells_removals = False
        self.capabilities = sign_in(account, secret, self._stream, connect_timeout=self._timeouts.connect, token=token)
        if not self.capabilities:
            self._dialogue.run(Command([b"CAPABILITY"], self._note_capabilities))
        self._dialogue = Dialogue(
            self._stream,
            command_timeout=self._timeouts.command,
            synchronizing_literals=not self.capabilities & {"LITERAL+", "LITERAL-"},
            vanished=self._note_vanished,
        )
        if self.offers("ID"):
            # `ID NIL`, since some servers answer BAD to an empty list. Its outcome does not matter.
            self._dialogue.run(Command([b"ID", b"NIL"]))

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
            self._dialogue.run(Command([b"ENABLE", b"QRESYNC"], receive))

    def _note_capabilities(self, response: Untagged) -> None:
        if response.kind == b"CAPABILITY":
            self.capabilities = frozenset(response.text.decode("latin-1").upper().split())

    def _list_folders(self, with_states: bool) -> Listing:
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
                self._stream.close()
                raise TooManyFolders(f"the account lists more than {MAX_FOLDERS} folders")

        returns = self._list_return_options(with_states)
        for prefix in ("", *self._further_prefixes()):
            pattern = quote(octets_of_key(prefix) + b"*") or Literal(octets_of_key(prefix) + b"*")
            completion = self._dialogue.run(Command([b"LIST", b'""', pattern, *returns], receive))
            if completion.status == b"BAD" and returns:
                self.withdraw("LIST-EXTENDED")
                return self._list_folders(with_states)
            require_ok(completion, "LIST")
        if "INBOX" not in folders:
            require_ok(self._dialogue.run(Command([b"LIST", b'""', b'"INBOX"', *returns], receive)), "LIST")
        return Listing(tuple(folders.values()), states, unreadable)

    def _list_return_options(self, with_states: bool) -> list[bytes]:
        if not self.offers("LIST-EXTENDED"):
            return []
        options = []
        if self.offers("SPECIAL-USE"):
            options.append(b"SPECIAL-USE")
        if with_states and self.offers("LIST-STATUS"):
            options.append(b"STATUS (" + self._status_items() + b")")
        return [b"RETURN (" + b" ".join(options) + b")"] if options else []

    def _further_prefixes(self) -> list[str]:
        """Namespaces that `LIST "" "*"` does not reach: those with a prefix of their own (RFC 2342)."""
        if not self.offers("NAMESPACE"):
            return []
        prefixes: list[str] = []

        def receive(response: Untagged) -> None:
            if response.kind == b"NAMESPACE":
                with contextlib.suppress(Unreadable):
                    prefixes.extend(parse_namespaces(response.pieces, response.start))

        if not self._dialogue.run(Command([b"NAMESPACE"], receive)).is_ok:
            return []
        return [prefix for prefix in dict.fromkeys(prefixes) if prefix and not prefix.upper().startswith("INBOX")]

    def _status_items(self) -> bytes:
        return b"MESSAGES UIDNEXT UIDVALIDITY" + (b" HIGHESTMODSEQ" if self.offers("CONDSTORE") else b"")

    def _status_all(self, paths: Sequence[str]) -> dict[str, FolderState]:
        states: dict[str, FolderState] = {}

        def receive(response: Untagged) -> None:
            if response.kind == b"STATUS":
                with contextlib.suppress(Unreadable):
                    path, state = parse_status(response.pieces, response.start)
                    states[path] = state

        items = b"(" + self._status_items() + b")"
        commands = [Command([b"STATUS", _mailbox(path), items], receive) for path in paths]
        for start in range(0, len(commands), STATUS_PIPELINE):
            for completion in self._dialogue.run_all(commands[start : start + STATUS_PIPELINE]):
                if not completion.is_ok and speaks_of_passing_trouble(completion):
                    require_ok(completion, "STATUS")
        return states

    def _examine(self, path: str, ahead: tuple[int, int] | None) -> Selected:
        self.selected = None
        self._interned.clear()
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
        hits, messages = _Hits(), _Messages(UidSet(() if ahead is None else (ahead,)))
        commands = [Command([b"EXAMINE", _mailbox(path), *parameters], receive)]
        if ahead is not None:
            search = self._search_command([b"UID %d:%d" % ahead], hits)
            fetch = self._fetch_command(messages.asked, METADATA_ITEMS, messages.take)

            def either(response: Untagged) -> None:  # Dovecot answers the second while it works on the first
                (fetch if response.kind == b"FETCH" else search).receive(response)

            commands += [Command(search.parts, either), Command(fetch.parts, either)]
        completion, *others = self._dialogue.run_all(commands)
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

    def _search(self, low: int, high: int | None, since: date | None) -> UidSet:
        criteria = [b"UID %d:%s" % (low, b"*" if high is None else b"%d" % high)]
        if since is not None:
            criteria.append(f"SINCE {since.day}-{_MONTHS[since.month - 1]}-{since.year:04d}".encode("ascii"))
        return self._hits(criteria).between(low, MAX_UID if high is None else high)

    def _present(self, uids: UidSet) -> UidSet:
        found = [self._hits([b"UID " + part.wire()]) for part in uids.commands()]
        return UidSet.of_ranges(pair for hits in found for pair in hits.ranges)

    def _hits(self, criteria: Sequence[bytes]) -> UidSet:
        hits = _Hits()
        completion = self._dialogue.run(self._search_command(criteria, hits))
        if completion.status == b"BAD" and self.offers("ESEARCH"):
            self.withdraw("ESEARCH")
            return self._hits(criteria)
        require_ok(completion, "UID SEARCH")
        return hits.found()

    def _search_command(self, criteria: Sequence[bytes], hits: _Hits) -> Command:
        returns = [b"RETURN (ALL)"] if self.offers("ESEARCH") else []
        return Command([b"UID SEARCH", *returns, *criteria], hits.receive)

    def _fetch(
        self, uids: UidSet, items: bytes, take: Callable[[FetchItem, Untagged], None], limit: int | None = None
    ) -> list[Completion]:
        completions = [self._dialogue.run(self._fetch_command(part, items, take, limit)) for part in uids.commands()]
        for completion in completions:
            if not completion.is_ok and speaks_of_passing_trouble(completion):
                require_ok(completion, "UID FETCH")
        return completions

    def _fetch_command(
        self, part: UidSet, items: bytes, take: Callable[[FetchItem, Untagged], None], limit: int | None = None
    ) -> Command:
        def receive(response: Untagged) -> None:
            if response.kind != b"FETCH":
                return
            try:
                item = parse_fetch(response.pieces, response.start, self._interned)
            except Unreadable as error:
                # A length that lies leaves mail where protocol should be, so the connection cannot be trusted further.
                self._stream.close()
                raise MailServerUnavailable("the mail server's answer lost its framing") from error
            take(item, response)

        return Command([b"UID FETCH", part.wire(), items], receive, limit)

    def _fetch_metadata(self, uids: UidSet) -> MetadataAnswer:
        messages = _Messages(uids)
        completions = self._fetch(uids, METADATA_ITEMS, messages.take)
        return messages.answer(refused=any(not completion.is_ok for completion in completions))

    def _fetch_content(self, uids: UidSet, items: bytes, limit: int) -> ContentAnswer:
        bodies: dict[int, bytes] = {}
        oversized: dict[int, int] = {}
        unattributed = 0
        only = next(iter(uids)) if len(uids) == 1 else None

        def take(item: FetchItem, response: Untagged) -> None:
            nonlocal unattributed
            if item.body is None:
                return  # flags that changed meanwhile, or NIL for a message that is gone
            uid = item.uid if item.uid is not None else only
            if uid is None:
                unattributed += 1
            elif uid in uids:
                if response.discarded is not None:
                    oversized[uid] = response.discarded
                elif len(item.body) > limit:
                    oversized[uid] = len(item.body)
                else:
                    bodies[uid] = item.body

        completions = self._fetch(uids, items, take, limit)
        refused = any(not completion.is_ok for completion in completions)
        return ContentAnswer(bodies, oversized, refused, unattributed)

    def _fetch_identities(self, uids: UidSet) -> dict[int, Identity]:
        found: dict[int, Identity] = {}

        def take(item: FetchItem, response: Untagged) -> None:
            if item.uid is not None and item.uid in uids and item.body is not None and response.discarded is None:
                found[item.uid] = Identity(item.uid, item.size, item.flags, item.body)

        for completion in self._fetch(uids, IDENTITY_ITEMS, take, MAX_IDENTITY_OCTETS):
            require_ok(completion, "UID FETCH of identities")
        return found

    def _fetch_flags(self, uids: UidSet, changed_since: int | None) -> dict[int, tuple[str, ...]]:
        return self._fetch_flags_with(uids, b"" if changed_since is None else b" (CHANGEDSINCE %d)" % changed_since)

    def _fetch_flags_with(self, uids: UidSet, modifier: bytes) -> dict[int, tuple[str, ...]]:
        found: dict[int, tuple[str, ...]] = {}
        lacking: set[int] = set()

        def take(item: FetchItem, _: Untagged) -> None:
            if item.uid is None or item.uid not in uids:
                return  # unsolicited, or of no message we can name
            if item.flags is None:
                lacking.add(item.uid)
            else:
                found[item.uid] = item.flags

        for completion in self._fetch(uids, RECONCILIATION_ITEMS + modifier, take):
            require_ok(completion, "UID FETCH of flags")
        if lacking - found.keys():
            raise IncompleteAnswer("the mail server left out the flags of messages it was asked for")
        return found

    def _fetch_changes(self, uids: UidSet, changed_since: int) -> Changes:
        modifier = b" (CHANGEDSINCE %d VANISHED)" % changed_since
        if not self.tells_removals:
            return Changes(self._fetch_flags(uids, changed_since))
        self._earlier.clear()
        try:
            flags = self._fetch_flags_with(uids, modifier)
        except CommandRefused:
            self.withdraw("QRESYNC")
            return Changes(self._fetch_flags(uids, changed_since))
        return Changes(flags, UidSet.of_ranges(self._earlier) if self.tells_removals else None)


class _Hits:
    """The UIDs that SEARCH or ESEARCH responses name."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def receive(self, response: Untagged) -> None:
        if response.kind == b"SEARCH":
            self._ranges += [(uid, uid) for uid in parse_search(response.text)]
        elif response.kind == b"ESEARCH":
            self._ranges += parse_esearch(response.text).ranges

    def found(self) -> UidSet:
        found = UidSet.of_ranges(self._ranges)
        if len(found) > MAX_SEARCH_HITS:
            raise TooManyMessages(f"the mail server named more than {MAX_SEARCH_HITS} messages in one folder")
        return found


class _Messages:
    """The metadata that FETCH responses give of the messages asked for, however many responses each comes in."""

    def __init__(self, asked: UidSet) -> None:
        self.asked = asked
        self._found: dict[int, Metadata] = {}
        self._unattributed = 0

    def take(self, item: FetchItem, _: Untagged) -> None:
        if item.uid is None:
            self._unattributed += b"RFC822.SIZE" in item.names or b"INTERNALDATE" in item.names
        elif item.uid in self.asked:
            before = self._found.get(item.uid)
            self._found[item.uid] = Metadata(
                item.uid,
                item.size if item.size is not None or before is None else before.size,
                item.internaldate or (before.internaldate if before else None),
                item.flags if item.flags is not None or before is None else before.flags,
            )

    def answer(self, *, refused: bool = False) -> MetadataAnswer:
        return MetadataAnswer(self._found, refused, self._unattributed)


def _mailbox(path: str) -> bytes:
    octets = octets_of_key(path)
    return quote(octets) or Literal(octets)
