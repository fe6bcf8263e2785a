"""Labels for senders, from the host, in one call for a page (INBOX-54)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from mailkeep_inbox.calls import outcome_of
from mailkeep_inbox.keys import extract_sender_mailbox_address
from mailkeep_inbox.model import MailboxItem

logger = logging.getLogger("mailkeep_inbox")

ResolveSenderDisplays: TypeAlias = Callable[[str, Sequence[str]], "Mapping[str, str] | Awaitable[Mapping[str, str]]"]
Item = TypeVar("Item", bound=MailboxItem)


async def attach_from_display(
    items: Sequence[Item], *, tenant_id: str, resolve: ResolveSenderDisplays | None
) -> tuple[Item, ...]:
    """The items with their labels. A resolver that raises costs the labels and a WARNING, never the page."""
    headers = list(dict.fromkeys(item.from_ for item in items if item.from_))
    if resolve is None or not headers:
        return tuple(items)
    try:
        labels = await outcome_of(resolve(tenant_id, headers))
        return tuple(_labelled(item, labels) for item in items)
    except Exception as failure:
        logger.warning("mailbox sender labels failed: tenant=%s error=%s", tenant_id, type(failure).__name__)
        return tuple(items)


def _labelled(item: Item, labels: Mapping[str, str]) -> Item:
    address = extract_sender_mailbox_address(item.from_)
    label = labels.get(address)
    if not label or label in (address, item.from_.strip()):
        return item
    return replace(item, from_display=label)
