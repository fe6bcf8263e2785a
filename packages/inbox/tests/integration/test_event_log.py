"""The event log: written with the change, resumable without a gap, bounded."""

from __future__ import annotations

from datetime import timedelta

import pytest
from inbox_support.mail import ANN, BOB, ODA, RecordingBus, count, message_to, rows, write
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    MailboxRangeError,
    PendingEvent,
    mailbox_event_position,
    mark_mailbox_message_read,
    prune_mailbox_events,
    read_events_of_all_mailboxes,
    read_mailbox_events,
    write_mailbox_message,
)

pytestmark = pytest.mark.anyio


def told(events: tuple[PendingEvent, ...]) -> list[tuple[str, str]]:
    """Id and op of each event."""
    return [(pending.event.id, str(pending.event.op)) for pending in events]


@pytest.mark.spec("INBOX-110")
async def test_reader_resumes_where_it_was(engine: AsyncEngine) -> None:
    """After a position come the later events of this mailbox alone, in pages that continue each other."""
    start = await mailbox_event_position(engine)
    first, second = await write(engine), await write(engine)
    await write(engine, BOB)
    await mark_mailbox_message_read(engine, ANN, first)
    page = await read_mailbox_events(engine, ANN, after=start, limit=2)
    assert told(page.events) == [(first, "create"), (second, "create")]
    assert (page.has_more, page.is_complete) == (True, True)
    rest = await read_mailbox_events(engine, ANN, after=page.next, limit=2)
    assert (told(rest.events), rest.has_more) == ([(first, "mark_read")], False)
    assert (await read_mailbox_events(engine, ANN, after=rest.next)).events == ()
    everything = await read_events_of_all_mailboxes(engine, after=start)
    assert [pending.scope for pending in everything.events] == [ANN, ANN, BOB, ANN]


@pytest.mark.spec("INBOX-110")
async def test_slow_transaction_is_not_overtaken(engine: AsyncEngine) -> None:
    """What commits late, behind an event already seen, is read by whoever resumes after that event."""
    bus = RecordingBus()
    async with engine.connect() as slow:
        await slow.begin()
        late = await write(slow)
        await write_mailbox_message(engine, message_to(ANN), bus)
        ((_, seen),) = bus.published
        read = await read_mailbox_events(engine, ANN, after="0.0")
        await slow.commit()
    assert seen.position is not None
    for position in (seen.position, read.next):
        page = await read_mailbox_events(engine, ANN, after=position)
        assert (late, "create") in told(page.events)


@pytest.mark.spec("INBOX-110")
async def test_log_is_bounded_and_says_what_it_lost(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers keep the newest events of their mailbox; an older position is told that some are gone, a newer is not."""
    monkeypatch.setattr("mailkeep_inbox.event_log.TRIM_EVERY", 1)
    monkeypatch.setattr("mailkeep_inbox.event_log.MAX_EVENTS_PER_MAILBOX", 5)
    await write(engine, BOB)
    start = await mailbox_event_position(engine)
    written = [await write(engine) for _ in range(12)]
    page = await read_mailbox_events(engine, ANN, after=start)
    assert told(page.events) == [(row_id, "create") for row_id in written[-5:]]
    assert not page.is_complete
    assert (await read_mailbox_events(engine, ANN, after=page.events[-1].event.position or "")).is_complete
    assert (await read_mailbox_events(engine, BOB, after="0.0")).is_complete
    assert not (await read_events_of_all_mailboxes(engine, after=start)).is_complete
    assert await count(engine, "mailbox_event") == 7


@pytest.mark.spec("INBOX-110")
async def test_age_prunes_mailboxes_nobody_writes_to(engine: AsyncEngine) -> None:
    """Older events go and leave the mark; younger ones stay."""
    old = await write(engine)
    await rows(engine, "UPDATE mailbox.mailbox_event SET created_at = created_at - interval '9 days'")
    await mark_mailbox_message_read(engine, ANN, old)
    await rows(engine, "UPDATE mailbox.mailbox_event SET created_at = created_at - interval '8 days'")
    await mark_mailbox_message_read(engine, ANN, old)
    assert await prune_mailbox_events(engine, older_than=timedelta(days=7)) == 1
    page = await read_mailbox_events(engine, ANN, after="0.0")
    assert (told(page.events), page.is_complete) == ([(old, "mark_read")], False)


@pytest.mark.spec("INBOX-110")
async def test_positions_are_checked(psycopg_engine: AsyncEngine) -> None:
    """What is no position is refused; one from another database is told that it is of no use."""
    for bad in ("", "1", "1.", "1.2.3", "-1.0", "01.0", "x.y", "٣.0", "1.9999999999999999999", "9" * 20 + ".0"):
        with pytest.raises(MailboxRangeError):
            await read_mailbox_events(psycopg_engine, ANN, after=bad)
    assert not (await read_mailbox_events(psycopg_engine, ODA, after="9223372036854775807.0")).is_complete
