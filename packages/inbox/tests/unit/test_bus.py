"""The in-memory bus, the event's shape and best-effort publishing (section 12)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mailkeep_inbox import (
    MailboxEvent,
    MailboxEventOp,
    MailboxRangeError,
    MailboxScope,
    create_in_memory_mailbox_event_bus,
    is_mailbox_event,
    publish_mailbox_event,
)
from mailkeep_inbox import events as events_module

pytestmark = pytest.mark.anyio

ANN = MailboxScope("acme", "ann")
OTHER_ANN = MailboxScope("other", "ann")


def event(number: int = 0) -> MailboxEvent:
    return MailboxEvent(str(number), MailboxEventOp.CREATE)


@pytest.mark.spec("INBOX-92")
async def test_events_reach_the_pair_of_tenant_and_principal_alone() -> None:
    """Equal principal ids of two tenants stay apart."""
    bus, heard = create_in_memory_mailbox_event_bus(), []
    bus.subscribe(OTHER_ANN, heard.append)
    bus.publish(ANN, event())
    assert heard == []
    bus.publish(OTHER_ANN, event(1))
    assert heard == [event(1)]


@pytest.mark.spec("INBOX-92")
async def test_raising_listener_starves_nobody() -> None:
    """The next one is told."""
    bus, heard = create_in_memory_mailbox_event_bus(), []

    def fail(_: MailboxEvent) -> None:
        raise RuntimeError

    bus.subscribe(ANN, fail)
    bus.subscribe(ANN, heard.append)
    bus.publish(ANN, event())
    assert heard == [event()]


@pytest.mark.spec("INBOX-92")
async def test_unsubscribing_twice_cannot_evict_a_later_subscriber() -> None:
    """The same listener subscribed again stays subscribed."""
    bus, heard = create_in_memory_mailbox_event_bus(), []
    first = bus.subscribe(ANN, heard.append)
    first()
    bus.subscribe(ANN, heard.append)
    first()
    bus.publish(ANN, event())
    assert heard == [event()]
    assert bus.subscriber_count == 1


@pytest.mark.spec("INBOX-92")
async def test_order_is_kept_when_a_listener_publishes() -> None:
    """What a listener publishes comes after what is being told."""
    bus, heard = create_in_memory_mailbox_event_bus(), []

    def answer(told: MailboxEvent) -> None:
        if told == event(1):
            bus.publish(ANN, event(2))

    bus.subscribe(ANN, answer)
    bus.subscribe(ANN, heard.append)
    bus.publish(ANN, event(1))
    assert heard == [event(1), event(2)]


@pytest.mark.spec("INBOX-92")
async def test_publishing_from_a_thread_hops_to_the_loop_in_order() -> None:
    """Listeners run on their loop's thread, and an event of the loop does not overtake those of the thread."""
    bus = create_in_memory_mailbox_event_bus()
    heard: list[tuple[str, int]] = []
    bus.subscribe(ANN, lambda told: heard.append((told.id, threading.get_ident())))
    thread = threading.Thread(target=lambda: [bus.publish(ANN, event(number)) for number in range(100)])
    thread.start()
    thread.join()
    assert heard == []
    bus.publish(ANN, event(100))
    assert heard == [(str(number), threading.get_ident()) for number in range(101)]


@pytest.mark.spec("INBOX-90")
def test_older_events_lack_an_op_and_unknown_ops_are_refused() -> None:
    """The validator of the wire shape."""
    assert is_mailbox_event({"type": "mailbox", "id": "a"})
    assert is_mailbox_event({"type": "mailbox", "id": "a", "op": "enrich"})
    for value in (None, [], {"type": "x", "id": "a"}, {"type": "mailbox"}, {"type": "mailbox", "id": "a", "op": "burn"},
                  {"type": "mailbox", "id": "a", "op": []}, {"type": "mailbox", "id": "a", "op": None}):  # fmt: skip
        assert not is_mailbox_event(value), value


@pytest.mark.spec("INBOX-90")
async def test_publishing_needs_a_known_op() -> None:
    """An event without one is the caller's fault."""
    with pytest.raises(MailboxRangeError):
        await publish_mailbox_event(create_in_memory_mailbox_event_bus(), ANN, MailboxEvent("a", "burn"))  # type: ignore[arg-type]


class SlowBus:
    """A bus that never finishes publishing."""

    def __init__(self) -> None:
        self.was_cancelled = False

    async def publish(self, scope: MailboxScope, event: MailboxEvent) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise

    def subscribe(self, scope: MailboxScope, listener: object) -> object:
        raise NotImplementedError


@pytest.mark.spec("INBOX-91")
async def test_slow_bus_is_abandoned_and_cancellation_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the bound the caller goes on; a caller that is cancelled is cancelled."""
    assert events_module.PUBLISH_TIMEOUT_SECONDS == 2.0
    monkeypatch.setattr(events_module, "PUBLISH_TIMEOUT_SECONDS", 0.01)
    bus = SlowBus()
    await publish_mailbox_event(bus, ANN, event())  # type: ignore[arg-type]
    assert bus.was_cancelled
    monkeypatch.setattr(events_module, "PUBLISH_TIMEOUT_SECONDS", 60)
    task = asyncio.ensure_future(publish_mailbox_event(SlowBus(), ANN, event()))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
