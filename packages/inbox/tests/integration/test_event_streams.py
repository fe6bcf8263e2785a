"""Event streams over real sockets (INBOX-93 to INBOX-95, INBOX-110)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from inbox_support.hosts import HOSTS, make_host
from inbox_support.mail import ANN, BOB, write
from inbox_support.servers import Running, Stream, open_stream, served, until
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    InMemoryMailboxEventBus,
    MailboxEvent,
    MailboxEventOp,
    MailboxScope,
    MessageArgs,
    ScopedMessage,
    create_in_memory_mailbox_event_bus,
    mark_mailbox_message_read,
    mark_mailbox_message_unread,
    write_mailbox_messages,
)

pytestmark = pytest.mark.anyio


def event(number: int, size: int = 0) -> MailboxEvent:
    return MailboxEvent(f"{number}" + "x" * size, MailboxEventOp.CREATE)


def frame(number: int) -> bytes:
    return f'event: mailbox\ndata: {{"type":"mailbox","id":"{number}","op":"create"}}\n\n'.encode()


@pytest.fixture
def bus() -> InMemoryMailboxEventBus:
    return create_in_memory_mailbox_event_bus()


@pytest.fixture(params=HOSTS)
async def server(bus: InMemoryMailboxEventBus, request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    """A served host that needs no database for its streams."""
    async with served(make_host(request.param, None, bus=bus)) as running:
        yield running


@pytest.mark.spec("INBOX-93", "INBOX-94")
async def test_stream_has_the_documented_bytes_and_misses_nothing_after_its_start(
    server: Running, bus: InMemoryMailboxEventBus
) -> None:
    """Whoever has the head of the response is subscribed; nothing but events is written."""
    stream = await open_stream(server.port)
    assert bus.subscriber_count == 1
    bus.publish(ANN, event(1))
    bus.publish(BOB, event(7))
    bus.publish(ANN, event(2))
    assert [await stream.frame(), await stream.frame()] == [frame(1), frame(2)]
    head = stream.head.lower()
    assert b"200 ok" in head
    assert b"content-type: text/event-stream" in head
    assert b"cache-control: no-store" in head
    stream.close()
    await until(lambda: bus.subscriber_count == 0)


@pytest.mark.spec("INBOX-93", "INBOX-4")
async def test_idle_stream_is_silent_until_its_heartbeat(bus: InMemoryMailboxEventBus) -> None:
    """The first bytes of an idle stream are the comment of the first interval, and then of the next."""
    async with served(make_host("asgi", None, bus=bus, heartbeat_interval=0.05)) as running:
        stream = await open_stream(running.port)
        assert [await stream.frame(), await stream.frame()] == [b": heartbeat\n\n"] * 2
        stream.close()
        await until(lambda: bus.subscriber_count == 0)


@pytest.mark.spec("INBOX-95")
async def test_each_stream_of_a_principal_gets_every_event(server: Running, bus: InMemoryMailboxEventBus) -> None:
    """Three tabs."""
    streams = [await open_stream(server.port) for _ in range(3)]
    for number in range(5):
        bus.publish(ANN, event(number))
    for stream in streams:
        assert [await stream.frame() for _ in range(5)] == [frame(number) for number in range(5)]
        stream.reset()
    await until(lambda: bus.subscriber_count == 0)


@pytest.mark.spec("INBOX-95")
async def test_exactly_a_hundred_wait_and_one_more_ends_the_stream(bus: InMemoryMailboxEventBus) -> None:
    """A hundred published at once arrive; of a hundred and one nothing does, and the stream ends."""
    async with served(make_host("asgi", None, bus=bus)) as running:
        stream = await open_stream(running.port)
        for number in range(100):
            bus.publish(ANN, event(number))
        assert [await stream.frame() for _ in range(100)] == [frame(number) for number in range(100)]
        for number in range(101):
            bus.publish(ANN, event(number))
        assert bus.subscriber_count == 0
        assert await stream.frame() == b""
        stream.reset()


@pytest.mark.spec("INBOX-95")
async def test_slow_reader_is_cut_and_costs_its_neighbour_nothing(
    server: Running, bus: InMemoryMailboxEventBus
) -> None:
    """A reader that does not read fills its buffers, then its hundred, and is gone; the other one hears all."""
    slow = await open_stream(server.port, receive_buffer=2048)
    quick = await open_stream(server.port)
    published = 0
    while bus.subscriber_count == 2:
        bus.publish(ANN, event(published, size=100_000))
        assert len(await quick.frame()) > 100_000
        published += 1
        assert published < 2_000
    bus.publish(ANN, event(1))
    assert await quick.frame() == frame(1)
    slow.reset()
    quick.reset()
    await until(lambda: bus.subscriber_count == 0)


@pytest.mark.spec("INBOX-95")
@pytest.mark.parametrize("leave", [Stream.close, Stream.reset])
async def test_client_that_goes_is_unsubscribed_and_leaves_no_task(
    server: Running, bus: InMemoryMailboxEventBus, leave: Callable[[Stream], None]
) -> None:
    """Politely or by a reset."""
    before = len(asyncio.all_tasks())
    streams = [await open_stream(server.port) for _ in range(5)]
    assert bus.subscriber_count == 5
    for stream in streams:
        leave(stream)
    await until(lambda: bus.subscriber_count == 0)
    await until(lambda: len(asyncio.all_tasks()) <= before)


@pytest.mark.spec("INBOX-95")
async def test_server_shutdown_ends_streams(server: Running, bus: InMemoryMailboxEventBus) -> None:
    """The server cancels what is open; nobody stays subscribed."""
    stream = await open_stream(server.port)
    await server.stop()
    await until(lambda: bus.subscriber_count == 0)
    stream.reset()


class CountingBus(InMemoryMailboxEventBus):
    """Counts how often each subscription is ended."""

    def __init__(self) -> None:
        super().__init__()
        self.endings = 0

    def subscribe(self, scope: MailboxScope, listener: Any) -> Callable[[], None]:
        end = super().subscribe(scope, listener)

        def count() -> None:
            self.endings += 1
            end()

        return count


@pytest.mark.spec("INBOX-94", "INBOX-95")
@pytest.mark.parametrize("fault", ["start", "frame", "cancelled", "overflow", "gone", "receive"])
async def test_each_end_unsubscribes_exactly_once(fault: str) -> None:
    """A write that fails at the start or later, cancellation, overflow and a client that goes."""
    from mailkeep_inbox.sse import MailboxEventStream

    bus = CountingBus()
    sent: list[Any] = []
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        if fault == "receive":
            raise RuntimeError
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        assert bus.subscriber_count == 1 or message["type"] != "http.response.start"
        if fault == "start" or (fault == "frame" and message.get("body")):
            raise OSError
        sent.append(message)

    stream = MailboxEventStream(ANN, bus=bus, heartbeat_interval=60)
    task = asyncio.ensure_future(stream({}, receive, send))
    await until(lambda: len(sent) == 2 or fault == "start")
    if fault == "frame":
        bus.publish(ANN, event(1))
    if fault == "overflow":
        for number in range(101):
            bus.publish(ANN, event(number))
    if fault in ("gone", "receive"):
        gone.set()
    if fault == "cancelled":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task
    assert bus.endings == 1
    assert bus.subscriber_count == 0


@pytest.mark.spec("INBOX-110")
async def test_resumed_stream_is_told_what_it_missed(engine: AsyncEngine, bus: InMemoryMailboxEventBus) -> None:
    """The id of the last frame, sent back, brings what happened meanwhile, each change once and in order."""
    async with served(make_host("starlette", engine, bus=bus, resumable_events=True)) as running:
        stream = await open_stream(running.port)
        opening = await stream.frame()
        assert opening.startswith(b"id: ")
        stream.reset()
        await until(lambda: bus.subscriber_count == 0)
        message_id = await write(engine, ANN)
        await mark_mailbox_message_read(engine, ANN, message_id)
        await mark_mailbox_message_unread(engine, ANN, message_id)
        await mark_mailbox_message_read(engine, ANN, message_id)
        stream = await open_stream(running.port, last_event_id=opening[4:].decode().strip())
        frames = [await stream.frame() for _ in range(4)]
        ops = [each.split(b'"op":"')[1].split(b'"')[0].decode() for each in frames]
        assert ops == ["create", "mark_read", "mark_unread", "mark_read"]
        assert all(each.startswith(b"id: ") for each in frames)
        second = await write(engine, ANN)
        bus.publish(ANN, MailboxEvent(second, MailboxEventOp.CREATE))
        assert second.encode() in await stream.frame()
        stream.reset()
        await until(lambda: bus.subscriber_count == 0)


@pytest.mark.spec("INBOX-110")
async def test_stream_hears_what_a_silent_bus_never_told(engine: AsyncEngine, bus: InMemoryMailboxEventBus) -> None:
    """The log is looked at with each heartbeat."""
    app = make_host("asgi", engine, bus=bus, resumable_events=True, heartbeat_interval=0.05)
    async with served(app) as running:
        stream = await open_stream(running.port)
        await stream.frame()
        message_id = await write(engine, ANN)
        async with asyncio.timeout(10):
            while message_id.encode() not in (received := await stream.frame()):
                assert received == b": heartbeat\n\n"
        stream.reset()
        await until(lambda: bus.subscriber_count == 0)


@pytest.mark.spec("INBOX-110")
@pytest.mark.parametrize("position", ["nonsense", "9223372036854775807.0"])
async def test_position_that_the_log_does_not_know_means_fetch_again(
    psycopg_engine: AsyncEngine, bus: InMemoryMailboxEventBus, position: str
) -> None:
    """The stream starts with the reset event, then goes on from now."""
    app = make_host("asgi", psycopg_engine, bus=bus, resumable_events=True)
    async with served(app) as running:
        stream = await open_stream(running.port, last_event_id=position)
        assert await stream.frame() == b'event: reset\ndata: {"type":"reset"}\n\n'
        assert (await stream.frame()).startswith(b"id: ")
        stream.reset()
        await until(lambda: bus.subscriber_count == 0)


@pytest.mark.spec("INBOX-110")
async def test_open_transaction_makes_a_stream_neither_repeat_nor_pass_over(
    engine: AsyncEngine, bus: InMemoryMailboxEventBus
) -> None:
    """A change that commits after later ones is still told, and what was told meanwhile is not told again."""
    late = MessageArgs(address="ann@acme.example", from_address="bo@x.example", subject="late", body="")
    app = make_host("asgi", engine, bus=bus, resumable_events=True)
    async with served(app) as running:
        stream = await open_stream(running.port)
        await stream.frame()
        async with engine.connect() as connection:
            async with connection.begin():
                (first,) = await write_mailbox_messages(connection, [ScopedMessage(ANN, late)])
                told = []
                for _ in range(3):
                    told.append(await write(engine, ANN))
                    bus.publish(ANN, MailboxEvent(told[-1], MailboxEventOp.CREATE))
                    assert told[-1].encode() in await stream.frame()
            bus.publish(ANN, first.events[0].event)
        assert str(first.id).encode() in await stream.frame()
        last = await write(engine, ANN)
        bus.publish(ANN, MailboxEvent(last, MailboxEventOp.CREATE))
        assert last.encode() in await stream.frame()
        stream.reset()
        await until(lambda: bus.subscriber_count == 0)
