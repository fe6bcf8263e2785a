"""A stream's place in the event log: each look gives what is new, nothing twice, nothing passed over (INBOX-110).

Transactions commit in another order than they began, so a look goes back to the horizon of the last one and leaves out
what it has seen by number. The log holds about a thousand events of a mailbox, which bounds both.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.event_log import MAX_EVENT_PAGE, mailbox_event_position, read_mailbox_events
from mailkeep_inbox.handle import Handle
from mailkeep_inbox.model import MailboxEvent, MailboxScope

logger = logging.getLogger("mailkeep_inbox")


@dataclass(frozen=True, slots=True)
class News:
    """New events, and the position after them. Not complete: the client was away for longer than the log reaches."""

    events: tuple[MailboxEvent, ...]
    position: str
    is_complete: bool
    is_first: bool


class LogReader:
    """Reads on from `last_event_id`, or from now when there is none."""

    def __init__(self, db: Handle, scope: MailboxScope, *, last_event_id: str | None) -> None:
        self._db = db
        self._scope = scope
        self._position = last_event_id
        self._seen: frozenset[int] = frozenset()
        self._is_first = True

    async def read(self) -> News | None:
        """What is new; `None` while the database does not answer, which the next look makes good."""
        try:
            news = await (self._begin() if self._position is None else self._read(self._position))
        except MailboxRangeError:
            begun = await self._begin()
            news = News((), begun.position, False, True)
        except Exception as failure:
            logger.warning("mailbox event log not read: error=%s", type(failure).__name__)
            return None
        self._is_first = False
        return news

    async def _begin(self) -> News:
        self._position = await mailbox_event_position(self._db)
        return News((), self._position, True, self._is_first)

    async def _read(self, after: str) -> News:
        horizon: str | None = None
        is_complete = True
        events: list[MailboxEvent] = []
        seen: set[int] = set()
        while True:
            page = await read_mailbox_events(self._db, self._scope, after=after, limit=MAX_EVENT_PAGE)
            horizon = horizon or page.horizon
            is_complete = is_complete and page.is_complete
            for seq, pending in zip(page.seqs, page.events, strict=True):
                if seq not in self._seen and seq not in seen:
                    events.append(pending.event)
                seen.add(seq)
            if not page.has_more:
                break
            after = page.next
        self._position, self._seen = horizon, frozenset(seen)
        return News(tuple(events), horizon, is_complete, self._is_first)
