"""Several replicas on one database: LISTEN and NOTIFY with either driver (INBOX-111)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from inbox_support.hosts import client_of, make_host
from inbox_support.mail import ANN, BOB, ODA, rows, write
from inbox_support.postgres import engine_of
from inbox_support.servers import open_stream, served, until
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    EVERY_MESSAGE,
    MailboxEvent,
    MailboxEventOp,
    MailboxScope,
    PostgresMailboxEventBus,
    create_mailbox_db,
    postgres_mailbox_event_bus,
)
from mailkeep_inbox import bus_postgres as bus_module
from mailkeep_inbox.bus_postgres import payload_of, scope_digest

pytestmark = pytest.mark.anyio


def event(name: str) -> MailboxEvent:
    return MailboxEvent(name, MailboxEventOp.CREATE, "7.0")


@pytest.fixture
async def replicas(
    engine: AsyncEngine,
) -> AsyncIterator[tuple[PostgresMailboxEventBus, PostgresMailboxEventBus]]:
    """Two buses of two processes, as far as the database can tell."""
    async with postgres_mailbox_event_bus(engine) as one, postgres_mailbox_event_bus(engine) as two:
        assert one.is_listening.is_set()
        assert two.is_listening.is_set()
        yield one, two


@pytest.mark.spec("INBOX-111")
async def test_event_of_one_replica_is_heard_on_each_once_and_in_order(
    replicas: tuple[PostgresMailboxEventBus, PostgresMailboxEventBus],
) -> None:
    """Here at once, there through the database, for this mailbox alone."""
    one, two = replicas
    here: list[MailboxEvent] = []
    there: list[MailboxEvent] = []
    others: list[MailboxEvent] = []
    one.subscribe(ANN, here.append)
    two.subscribe(ANN, there.append)
    two.subscribe(MailboxScope("other", "ann"), others.append)
    sent = [event(str(number)) for number in range(20)]
    for each in sent:
        await one.publish(ANN, each)
    assert here == sent
    await until(lambda: len(there) == 20)
    assert there == sent
    await two.publish(ANN, event("back"))
    await until(lambda: len(here) == 21)
    assert there[-1] == event("back")
    assert others == []


@pytest.mark.spec("INBOX-111")
async def test_ids_too_long_for_a_notification_go_by_their_digest(
    replicas: tuple[PostgresMailboxEventBus, PostgresMailboxEventBus],
) -> None:
    """A mailbox with ids of ten thousand characters is told; its neighbour is not."""
    one, two = replicas
    long, neighbour = MailboxScope("t" * 10_000, "p"), MailboxScope("t" * 10_000, "q")
    heard: list[MailboxEvent] = []
    wrong: list[MailboxEvent] = []
    two.subscribe(long, heard.append)
    two.subscribe(neighbour, wrong.append)
    await one.publish(long, event("a"))
    await until(lambda: bool(heard))
    assert (heard, wrong) == ([event("a")], [])
    assert scope_digest(long) in payload_of("x", long, event("a"))


async def _cut(engine: AsyncEngine) -> None:
    """End every other connection to this database, as a restart of the server would."""
    await rows(
        engine,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR query = 'SELECT 1') AND pid <> pg_backend_pid()",
    )


@pytest.mark.spec("INBOX-111", "INBOX-110")
async def test_replica_that_lost_its_connection_comes_back_and_is_told_what_was_logged(
    inbox_dsn: str, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed while nobody listened is read from the event log after the reconnection."""
    monkeypatch.setattr(bus_module, "POSITION_SECONDS", 0.05)
    outside = engine_of(inbox_dsn)
    heard: list[str] = []
    async with postgres_mailbox_event_bus(engine) as bus:
        bus.subscribe(ANN, lambda told: heard.append(told.id))
        await until(lambda: len(bus._positions) == 2)
        monkeypatch.setattr(bus_module, "SHORTEST_PAUSE_SECONDS", 0.2)
        await _cut(outside)
        await until(lambda: not bus.is_listening.is_set())
        message_id = await write(outside, ANN)
        await write(outside, BOB)
        await until(lambda: bus.is_listening.is_set())
        await until(lambda: bool(heard))
        assert set(heard) == {message_id}
    await outside.dispose()


@pytest.mark.spec("INBOX-111")
async def test_listener_is_told_to_fetch_again_when_the_log_does_not_reach_back(engine: AsyncEngine) -> None:
    """A position of another database: everybody who listens hears of every message."""
    heard: list[MailboxEvent] = []
    bus = PostgresMailboxEventBus(engine)
    bus.subscribe(ODA, heard.append)
    bus._positions.append("9223372036854775807.0")
    await bus._catch_up()
    assert heard == [MailboxEvent(EVERY_MESSAGE, MailboxEventOp.CREATE)]


@pytest.mark.spec("INBOX-111", "INBOX-91")
async def test_bus_of_an_unreachable_database_starts_serves_this_process_and_ends(
    monkeypatch: pytest.MonkeyPatch, engine: AsyncEngine
) -> None:
    """The host comes up; its own listeners are told; a change is answered; the end is prompt."""
    monkeypatch.setattr(bus_module, "FIRST_LISTEN_SECONDS", 0.05)
    nowhere, close = create_mailbox_db("postgresql+psycopg://nobody@127.0.0.1:1/none")
    heard: list[str] = []
    message_id = await write(engine, ANN)
    async with postgres_mailbox_event_bus(nowhere) as bus:
        assert not bus.is_listening.is_set()
        bus.subscribe(ANN, lambda told: heard.append(told.id))
        async with client_of(make_host("asgi", engine, bus=bus)) as client:
            assert (await client.post(f"/{message_id}/read")).status == 200
        assert heard == [message_id]
    await close()


@pytest.mark.spec("INBOX-111")
async def test_what_the_host_raises_passes_through_the_bus_as_it_is(engine: AsyncEngine) -> None:
    """No group is made of it, and the bus has ended."""
    before = len(asyncio.all_tasks())
    with pytest.raises(ZeroDivisionError):
        async with postgres_mailbox_event_bus(engine):
            raise ZeroDivisionError
    assert len(asyncio.all_tasks()) == before


@pytest.mark.spec("INBOX-111")
async def test_ended_bus_leaves_neither_task_nor_connection(inbox_dsn: str, engine: AsyncEngine) -> None:
    """The listening connection is closed for good, not given back to the pool."""
    before = len(asyncio.all_tasks())
    async with postgres_mailbox_event_bus(engine):
        pass
    assert len(asyncio.all_tasks()) == before
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    found = await rows(
        engine, "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    )
    assert found[0].n == 0


@pytest.mark.spec("INBOX-111", "INBOX-88")
async def test_change_on_one_replica_reaches_a_stream_on_the_other(engine: AsyncEngine) -> None:
    """Two served hosts: the request goes to one, the browser listens at the other."""
    message_id = await write(engine, ANN)
    async with (
        postgres_mailbox_event_bus(engine) as one,
        postgres_mailbox_event_bus(engine) as two,
        served(make_host("starlette", engine, bus=two)) as other,
    ):
        stream = await open_stream(other.port)
        async with client_of(make_host("fastapi", engine, bus=one)) as client:
            assert (await client.post(f"/{message_id}/archive")).status == 200
        assert f'"id":"{message_id}","op":"archive"'.encode() in await stream.frame()
        stream.reset()
        await until(lambda: two.subscriber_count == 0)
