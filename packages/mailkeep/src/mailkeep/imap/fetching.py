"""What messages are: UID FETCH of metadata, contents, identities and flags, in the connection's worker thread."""

from __future__ import annotations

from collections.abc import Callable

from mailkeep.errors import IncompleteAnswer, MailServerUnavailable
from mailkeep.imap.connection import Connection
from mailkeep.imap.dialogue import Command, Completion, Untagged, require_ok, speaks_of_passing_trouble
from mailkeep.imap.lexer import Unreadable
from mailkeep.imap.model import ContentAnswer, Identity, Metadata, MetadataAnswer
from mailkeep.imap.responses import LABELS_ITEM, FetchItem, Interned, parse_fetch
from mailkeep.imap.uidset import UidSet

MAX_IDENTITY_OCTETS = 64 * 1024  # of one Message-ID field
METADATA_ITEMS = b"(UID FLAGS INTERNALDATE RFC822.SIZE)"
RECONCILIATION_ITEMS = b"(FLAGS UID)"
CONTENT_ITEMS = b"(UID BODY.PEEK[])"
IDENTITY_ITEMS = b"(UID FLAGS RFC822.SIZE BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])"
GMAIL = "X-GM-EXT-1"
"""Gmail's extension: X-GM-MSGID, X-GM-THRID and X-GM-LABELS, which are asked for wherever flags are."""
HEADER_ITEMS = b"(UID BODY.PEEK[HEADER])"

Take = Callable[[FetchItem, Untagged], None]


class Messages:
    """The metadata that FETCH responses give of the messages asked for, however many responses each comes in."""

    def __init__(self, asked: UidSet, *, with_labels: bool = False) -> None:
        self.asked = asked
        self._with_labels = with_labels
        self._found: dict[int, Metadata] = {}
        self._unattributed = 0

    def take(self, item: FetchItem, _: Untagged) -> None:
        if item.uid is None:
            self._unattributed += b"RFC822.SIZE" in item.names or b"INTERNALDATE" in item.names
        elif item.uid in self.asked:
            before = self._found.get(item.uid) or Metadata(item.uid, None, None, None)
            flags = _told_flags(item, with_labels=self._with_labels)
            self._found[item.uid] = Metadata(
                item.uid,
                before.size if item.size is None else item.size,
                item.internaldate or before.internaldate,
                before.flags if flags is None else flags,
                item.gmail_message_id or before.gmail_message_id,
                item.gmail_thread_id or before.gmail_thread_id,
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

    @property
    def has_labels(self) -> bool:
        """Whether labels come with flags."""
        return self._connection.offers(GMAIL)

    @property
    def metadata_items(self) -> bytes:
        """What describes a message before its content is fetched."""
        return self._items(METADATA_ITEMS, b" X-GM-LABELS X-GM-MSGID X-GM-THRID")

    def messages(self, asked: UidSet) -> Messages:
        """Who takes the answer to `metadata_items`."""
        return Messages(asked, with_labels=self.has_labels)

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
        messages = self.messages(uids)
        completions = self._fetch(uids, self.metadata_items, messages.take)
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
                flags = _told_flags(item, with_labels=with_labels)
                found[item.uid] = Identity(item.uid, item.size, flags, item.body)

        with_labels = self.has_labels
        for completion in self._fetch(uids, self._items(IDENTITY_ITEMS), take, MAX_IDENTITY_OCTETS):
            require_ok(completion, "UID FETCH of identities")
        return found

    def flags(self, uids: UidSet, modifier: bytes = b"") -> dict[int, tuple[str, ...]]:
        found: dict[int, tuple[str, ...]] = {}
        lacking: set[int] = set()

        def take(item: FetchItem, _: Untagged) -> None:
            if item.uid is None or item.uid not in uids:
                return  # unsolicited, or of no message we can name
            flags = _told_flags(item, with_labels=with_labels)
            if flags is None:
                lacking.add(item.uid)
            else:
                found[item.uid] = flags

        with_labels = self.has_labels
        for completion in self._fetch(uids, self._items(RECONCILIATION_ITEMS) + modifier, take):
            require_ok(completion, "UID FETCH of flags")
        if lacking - found.keys():
            raise IncompleteAnswer("the mail server left out the flags of messages it was asked for")
        return found

    def _items(self, items: bytes, gmail: bytes = b" X-GM-LABELS") -> bytes:
        return items[:-1] + gmail + b")" if self.has_labels else items

    def _fetch(self, uids: UidSet, items: bytes, take: Take, limit: int | None = None) -> list[Completion]:
        dialogue = self._connection.dialogue
        completions = [dialogue.run(self.command(part, items, take, limit)) for part in uids.commands()]
        for completion in completions:
            if not completion.is_ok and speaks_of_passing_trouble(completion):
                require_ok(completion, "UID FETCH")
        return completions


def _told_flags(item: FetchItem, *, with_labels: bool) -> tuple[str, ...] | None:
    """The flags of a response, None when it has none or not the labels that belong to them: unknown, never none."""
    return None if with_labels and LABELS_ITEM not in item.names else item.flags


def changed_since(modseq: int | None, *, vanished: bool = False) -> bytes:
    """The modifier that asks only for what changed after a mod-sequence (RFC 7162 §3.1.4.1); nothing for None."""
    if modseq is None:
        return b""
    return b" (CHANGEDSINCE %d%s)" % (modseq, b" VANISHED" if vanished else b"")
