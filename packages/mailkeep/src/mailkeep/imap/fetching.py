"""What messages are: UID FETCH of metadata, contents, identities and flags, in the connection's worker thread."""

from __future__ import annotations

from collections.abc import Callable

from mailkeep.errors import IncompleteAnswer, MailServerUnavailable
from mailkeep.imap.connection import Connection
from mailkeep.imap.dialogue import Command, Completion, Untagged, require_ok, speaks_of_passing_trouble
from mailkeep.imap.lexer import Unreadable
from mailkeep.imap.model import ContentAnswer, Identity, Metadata, MetadataAnswer
from mailkeep.imap.responses import FetchItem, Interned, parse_fetch
from mailkeep.imap.uidset import UidSet

MAX_IDENTITY_OCTETS = 64 * 1024  # of one Message-ID field
METADATA_ITEMS = b"(UID FLAGS INTERNALDATE RFC822.SIZE)"
RECONCILIATION_ITEMS = b"(FLAGS UID)"
CONTENT_ITEMS = b"(UID BODY.PEEK[])"
IDENTITY_ITEMS = b"(UID FLAGS RFC822.SIZE BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])"
HEADER_ITEMS = b"(UID BODY.PEEK[HEADER])"

Take = Callable[[FetchItem, Untagged], None]


class Messages:
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


class Fetching:
    """The FETCH commands of one connection. Flag names that repeat are kept once per folder: see `forget`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._interned: Interned = {}

    def forget(self) -> None:
        """Another folder is being opened."""
        self._interned.clear()

    def command(self, part: UidSet, items: bytes, take: Take, limit: int | None = None) -> Command:
        """One UID FETCH whose items `take` gets; `limit` is the longest literal that is kept."""

        def receive(response: Untagged) -> None:
            if response.kind != b"FETCH":
                return
            try:
                item = parse_fetch(response.pieces, response.start, self._interned)
            except Unreadable as error:
                # A length that lies leaves mail where protocol should be, so the connection cannot be trusted further.
                self._connection.break_off()
                raise MailServerUnavailable("the mail server's answer lost its framing") from error
            take(item, response)

        return Command([b"UID FETCH", part.wire(), items], receive, limit)

    def metadata(self, uids: UidSet) -> MetadataAnswer:
        messages = Messages(uids)
        completions = self._fetch(uids, METADATA_ITEMS, messages.take)
        return messages.answer(refused=any(not completion.is_ok for completion in completions))

    def content(self, uids: UidSet, items: bytes, limit: int) -> ContentAnswer:
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

    def identities(self, uids: UidSet) -> dict[int, Identity]:
        found: dict[int, Identity] = {}

        def take(item: FetchItem, response: Untagged) -> None:
            if item.uid is not None and item.uid in uids and item.body is not None and response.discarded is None:
                found[item.uid] = Identity(item.uid, item.size, item.flags, item.body)

        for completion in self._fetch(uids, IDENTITY_ITEMS, take, MAX_IDENTITY_OCTETS):
            require_ok(completion, "UID FETCH of identities")
        return found

    def flags(self, uids: UidSet, modifier: bytes = b"") -> dict[int, tuple[str, ...]]:
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

    def _fetch(self, uids: UidSet, items: bytes, take: Take, limit: int | None = None) -> list[Completion]:
        dialogue = self._connection.dialogue
        completions = [dialogue.run(self.command(part, items, take, limit)) for part in uids.commands()]
        for completion in completions:
            if not completion.is_ok and speaks_of_passing_trouble(completion):
                require_ok(completion, "UID FETCH")
        return completions


def changed_since(modseq: int | None, *, vanished: bool = False) -> bytes:
    """The modifier that asks only for what changed after a mod-sequence (RFC 7162 §3.1.4.1); nothing for None."""
    if modseq is None:
        return b""
    return b" (CHANGEDSINCE %d%s)" % (modseq, b" VANISHED" if vanished else b"")
