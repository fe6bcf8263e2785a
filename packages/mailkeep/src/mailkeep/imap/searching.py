"""Which UIDs a folder has: UID SEARCH, by ESEARCH where it is offered, in the connection's worker thread."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from mailkeep.errors import TooManyMessages
from mailkeep.imap.connection import Connection
from mailkeep.imap.dialogue import Command, Untagged, require_ok
from mailkeep.imap.model import MAX_UID
from mailkeep.imap.responses import parse_esearch, parse_search
from mailkeep.imap.uidset import UidSet

MAX_SEARCH_HITS = 20_000_000  # a range costs a server nothing to write; no folder holds so many messages
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Hits:
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


def search(connection: Connection, low: int, high: int | None, *, since: date | None) -> UidSet:
    """See `ReadOnlySession.search`."""
    criteria = [b"UID %d:%s" % (low, b"*" if high is None else b"%d" % high)]
    if since is not None:
        criteria.append(f"SINCE {since.day}-{_MONTHS[since.month - 1]}-{since.year:04d}".encode("ascii"))
    return _hits(connection, criteria).between(low, MAX_UID if high is None else high)


def present(connection: Connection, uids: UidSet) -> UidSet:
    """Those of `uids` that the folder still holds."""
    found = [_hits(connection, [b"UID " + part.wire()]) for part in uids.commands()]
    return UidSet.of_ranges(pair for hits in found for pair in hits.ranges)


def search_command(connection: Connection, criteria: Sequence[bytes], hits: Hits) -> Command:
    """The command whose answers `hits` collects."""
    returns = [b"RETURN (ALL)"] if connection.offers("ESEARCH") else []
    return Command([b"UID SEARCH", *returns, *criteria], hits.receive)


def _hits(connection: Connection, criteria: Sequence[bytes]) -> UidSet:
    hits = Hits()
    completion = connection.dialogue.run(search_command(connection, criteria, hits))
    if completion.status == b"BAD" and connection.offers("ESEARCH"):
        connection.withdraw("ESEARCH")
        return _hits(connection, criteria)
    require_ok(completion, "UID SEARCH")
    return hits.found()
