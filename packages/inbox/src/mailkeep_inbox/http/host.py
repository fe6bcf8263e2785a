"""What a host hands over when it mounts the inbox, checked at once (INBOX-4, INBOX-5)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from starlette.requests import Request

from mailkeep_inbox.bounds import HEARTBEAT_SECONDS
from mailkeep_inbox.calls import outcome_of
from mailkeep_inbox.checks import assert_mailbox_scope
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.events import MailboxEventBus
from mailkeep_inbox.handle import Handle
from mailkeep_inbox.model import MailboxScope
from mailkeep_inbox.sender_displays import ResolveSenderDisplays
from mailkeep_inbox.vocabulary import MailboxVocabulary, assert_mailbox_vocabulary

Principal: TypeAlias = MailboxScope | Mapping[str, str] | None
ResolvePrincipal: TypeAlias = Callable[[Request], "Awaitable[Principal] | Principal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxHost:
    """The options of a mount. Raises MailboxRangeError for those that could only fail at the first request."""

    db: Handle
    bus: MailboxEventBus
    resolve_principal: ResolvePrincipal
    vocabulary: MailboxVocabulary
    resolve_sender_displays: ResolveSenderDisplays | None = None
    heartbeat_interval: float = HEARTBEAT_SECONDS
    resumable_events: bool = False

    def __post_init__(self) -> None:
        assert_mailbox_vocabulary(self.vocabulary)
        interval = self.heartbeat_interval
        if isinstance(interval, bool) or not isinstance(interval, int | float) or not math.isfinite(interval):
            raise MailboxRangeError("heartbeat_interval must be a finite number of seconds")
        if interval <= 0:
            raise MailboxRangeError("heartbeat_interval must be above 0 seconds")

    async def principal(self, request: Request) -> MailboxScope | None:
        """Whose inbox the request is about, as the host says; its answer is checked, never trimmed."""
        found = await outcome_of(self.resolve_principal(request))
        if found is None:
            return None
        scope = found if isinstance(found, MailboxScope) else MailboxScope(found["tenant_id"], found["principal_id"])
        assert_mailbox_scope(scope)
        return scope
