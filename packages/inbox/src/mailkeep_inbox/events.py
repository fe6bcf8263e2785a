"""Events: how the host's bus is told, after the commit, that something in a mailbox changed (section 12)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from mailkeep_inbox.calls import outcome_of
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.model import MailboxEvent, MailboxEventOp, MailboxScope

logger = logging.getLogger("mailkeep_inbox")

PUBLISH_TIMEOUT_SECONDS: Final = 2.0


class MailboxEventBus(Protocol):
    """What the host supplies: fan-out keyed by the pair of tenant and principal (INBOX-92)."""

    def publish(self, scope: MailboxScope, event: MailboxEvent) -> Awaitable[None] | None:
        """Tell every subscriber of this mailbox."""

    def subscribe(self, scope: MailboxScope, listener: Callable[[MailboxEvent], None]) -> Callable[[], None]:
        """Call `listener` for each event until the returned callable is called."""


async def publish_mailbox_event(bus: MailboxEventBus, scope: MailboxScope, event: MailboxEvent) -> None:
    """Best effort: a bus that raises or needs more than two seconds is logged and forgotten (INBOX-91).

    Raises MailboxRangeError for an event without a known op: that is the caller's fault, not the bus's (INBOX-90).
    """
    if event.op not in set(MailboxEventOp):
        raise MailboxRangeError("a published event needs a known op")
    try:
        async with asyncio.timeout(PUBLISH_TIMEOUT_SECONDS):
            await outcome_of(bus.publish(scope, event))
    except Exception as failure:
        logger.warning("mailbox event not published: id=%s op=%s error=%s", event.id, event.op, type(failure).__name__)


def is_mailbox_event(value: object) -> bool:
    """Whether a decoded JSON value is an event. An absent op is an older sender's; an unknown one is not ours."""
    return (
        isinstance(value, dict)
        and value.get("type") == "mailbox"
        and isinstance(value.get("id"), str)
        and ("op" not in value or (isinstance(value["op"], str) and value["op"] in set(MailboxEventOp)))
    )
