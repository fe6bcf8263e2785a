"""The bus of one process: listeners by mailbox, told in the order of publishing (INBOX-92)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakKeyDictionary

from mailkeep_inbox.model import MailboxEvent, MailboxScope

logger = logging.getLogger("mailkeep_inbox")

Listener: TypeAlias = Callable[[MailboxEvent], None]


class _Subscription:
    """One call of `subscribe`; an object of its own, so that ending it twice cannot end another."""

    __slots__ = ("is_active", "lane", "listener")

    def __init__(self, listener: Listener, lane: _Lane) -> None:
        self.listener = listener
        self.lane = lane
        self.is_active = True

    def tell(self, event: MailboxEvent) -> None:
        if not self.is_active:
            return
        try:
            self.listener(event)
        except Exception as failure:
            logger.warning("mailbox listener failed: id=%s error=%s", event.id, type(failure).__name__)


class _Lane:
    """What waits for the listeners of one event loop. Only that loop's thread takes from it, so order is kept."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._waiting: deque[tuple[tuple[_Subscription, ...], MailboxEvent]] = deque()
        self._is_draining = False

    def put(self, subscriptions: tuple[_Subscription, ...], event: MailboxEvent) -> None:
        self._waiting.append((subscriptions, event))
        if self._loop is None or self._loop is _running_loop():
            self.drain()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.drain)

    def drain(self) -> None:
        """Tell everybody. A listener that publishes adds to the end instead of overtaking."""
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._waiting:
                subscriptions, event = self._waiting.popleft()
                for subscription in subscriptions:
                    subscription.tell(event)
        finally:
            self._is_draining = False


class InMemoryMailboxEventBus:
    """Fan-out within this process. May be published to from any thread; listeners run on the loop they came from."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._subscriptions: dict[MailboxScope, list[_Subscription]] = {}
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane] = WeakKeyDictionary()
        self._plain_lane = _Lane(None)

    def publish(self, scope: MailboxScope, event: MailboxEvent) -> None:
        """Tell every subscriber of this mailbox; one that raises is logged and starves nobody."""
        with self._guard:
            subscriptions = tuple(self._subscriptions.get(scope, ()))
        for lane in dict.fromkeys(subscription.lane for subscription in subscriptions):
            lane.put(tuple(each for each in subscriptions if each.lane is lane), event)

    def subscribe(self, scope: MailboxScope, listener: Listener) -> Callable[[], None]:
        """Call `listener` for each event until the returned callable is called, which may happen more than once."""
        with self._guard:
            subscription = _Subscription(listener, self._lane_here())
            self._subscriptions.setdefault(scope, []).append(subscription)

        def unsubscribe() -> None:
            with self._guard:
                if not subscription.is_active:
                    return
                subscription.is_active = False
                remaining = self._subscriptions[scope]
                remaining.remove(subscription)
                if not remaining:
                    del self._subscriptions[scope]

        return unsubscribe

    @property
    def subscriber_count(self) -> int:
        """How many subscriptions there are, over all mailboxes."""
        with self._guard:
            return sum(len(subscriptions) for subscriptions in self._subscriptions.values())

    def scopes(self) -> tuple[MailboxScope, ...]:
        """The mailboxes that somebody listens to."""
        with self._guard:
            return tuple(self._subscriptions)

    def _lane_here(self) -> _Lane:
        loop = _running_loop()
        return self._plain_lane if loop is None else self._lanes.setdefault(loop, _Lane(loop))


def create_in_memory_mailbox_event_bus() -> InMemoryMailboxEventBus:
    """A bus for a host of one process."""
    return InMemoryMailboxEventBus()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
