"""Mutations: guards, repeats, bulk, filters, snoozing, and the events they leave."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from inbox_support.mail import ANN, BOB, PRIORITIES, count, rows, write
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    MailboxFilter,
    MailboxRangeError,
    MailboxScope,
    PendingEvent,
    apply_mailbox_action_to_filter,
    apply_mailbox_bulk_action,
    archive_mailbox_message,
    assign_mailbox_message,
    count_unread_active_mailbox,
    enrich_mailbox_message,
    list_user_mailbox,
    mark_all_mailbox_read,
    mark_mailbox_message_read,
    mark_mailbox_message_unread,
    restore_mailbox_message,
    snooze_mailbox_message,
    trash_mailbox_message,
)
from mailkeep_inbox.model import MailboxAction, MailboxEventOp

pytestmark = pytest.mark.anyio

VERBS: dict[str, Any] = {
    "mark_read": mark_mailbox_message_read,
    "mark_unread": mark_mailbox_message_unread,
    "archive": archive_mailbox_message,
    "trash": trash_mailbox_message,
    "restore": restore_mailbox_message,
}


async def state(engine: AsyncEngine, row_id: str) -> tuple[bool, bool, bool]:
    """Whether a message is read, archived, in the trash."""
    (row,) = await rows(
        engine, "SELECT read_at, archived_at, trashed_at FROM mailbox.mailbox WHERE id = :id", id=row_id
    )
    return row.read_at is not None, row.archived_at is not None, row.trashed_at is not None


@pytest.mark.spec("INBOX-76", "INBOX-77")
async def test_table_of_actions(engine: AsyncEngine) -> None:
    """Every action from every state: what it sets, and where it finds no match."""
    start = {"new": [], "read": ["mark_read"], "archived": ["archive"], "trashed": ["trash"]}
    expected = {
        ("new", "mark_read"): (True, False, False), ("read", "mark_read"): (True, False, False),
        ("archived", "mark_read"): (True, True, False), ("trashed", "mark_read"): (True, False, True),
        ("new", "mark_unread"): (False, False, False), ("read", "mark_unread"): (False, False, False),
        ("archived", "mark_unread"): None, ("trashed", "mark_unread"): None,
        ("new", "archive"): (False, True, False), ("read", "archive"): (True, True, False),
        ("archived", "archive"): (False, True, False), ("trashed", "archive"): None,
        ("new", "trash"): (False, False, True), ("read", "trash"): (True, False, True),
        ("archived", "trash"): (False, False, True), ("trashed", "trash"): (False, False, True),
        ("new", "restore"): (False, False, False), ("read", "restore"): (True, False, False),
        ("archived", "restore"): (False, False, False), ("trashed", "restore"): (False, False, False),
    }  # fmt: skip
    for (name, verb), outcome in expected.items():
        row_id = await write(engine)
        for before in start[name]:
            assert await VERBS[before](engine, ANN, row_id)
        unchanged = await state(engine, row_id)
        events: list[PendingEvent] = []
        assert await VERBS[verb](engine, ANN, row_id, events=events) is (outcome is not None), (name, verb)
        assert await state(engine, row_id) == (outcome or unchanged), (name, verb)
        assert [(each.event.id, str(each.event.op)) for each in events] == ([(row_id, verb)] if outcome else [])


@pytest.mark.spec("INBOX-76")
async def test_repeats_keep_the_first_moment_also_together(engine: AsyncEngine) -> None:
    """Eight read-marks at once all succeed and leave one moment, as do later ones."""
    row_id = await write(engine)
    for verb, column in (("mark_read", "read_at"), ("archive", "archived_at"), ("trash", "trashed_at")):
        assert all(await asyncio.gather(*(VERBS[verb](engine, ANN, row_id) for _ in range(8))))
        sql = f"SELECT {column} AS moment FROM mailbox.mailbox"
        (first,) = await rows(engine, sql)
        assert await VERBS[verb](engine, ANN, row_id)
        assert await rows(engine, sql) == [first]
    await asyncio.gather(*(VERBS[verb](engine, ANN, row_id) for verb in ("archive", "trash") * 4))
    assert (await state(engine, row_id))[1:] == (False, True)


@pytest.mark.spec("INBOX-78")
async def test_enrichment_sets_clears_and_keeps(engine: AsyncEngine) -> None:
    """Given words are set, None clears, what is not given stays; nothing given is an error; so is a blank scope."""
    row_id = await write(engine, priority="high", classification="bill", status="open")
    assert await enrich_mailbox_message(engine, ANN, row_id, priority="low", status=None)
    (row,) = await rows(engine, "SELECT priority, classification, status FROM mailbox.mailbox")
    assert tuple(row) == ("low", "bill", None)
    with pytest.raises(MailboxRangeError, match="at least one of priority, classification, status"):
        await enrich_mailbox_message(engine, ANN, row_id)
    for bad in ({"priority": "x" * 257}, {"status": "\0"}):
        with pytest.raises(MailboxRangeError):
            await enrich_mailbox_message(engine, ANN, row_id, **bad)  # type: ignore[arg-type]
    assert await assign_mailbox_message(engine, ANN, row_id, assignee="whoever")
    (item,) = (await list_user_mailbox(engine, ANN, priorities=PRIORITIES)).items
    assert item.assignee == "whoever"
    assert await assign_mailbox_message(engine, ANN, row_id, assignee=None)
    for verb in (assign_mailbox_message, enrich_mailbox_message):
        with pytest.raises(MailboxRangeError):
            await verb(engine, MailboxScope("acme", " "), row_id, **{"assignee": "x"} if verb is assign_mailbox_message else {"status": "x"})  # type: ignore[operator]  # fmt: skip


@pytest.mark.spec("INBOX-79", "INBOX-90")
@pytest.mark.parametrize("action", list(MailboxAction))
async def test_bulk_gives_a_result_for_every_id_asked(engine: AsyncEngine, action: MailboxAction) -> None:
    """In order, duplicates repeated, absent and foreign ids False, at most fifty; each action is an event op."""
    mine, other = await write(engine), await write(engine, BOB)
    events: list[PendingEvent] = []
    asked = [other, mine, "absent", mine, "\0", ""]
    results = await apply_mailbox_bulk_action(engine, ANN, action, asked, events=events)
    assert [(result.id, result.ok) for result in results] == [(each, each == mine) for each in asked]
    assert [(each.event.id, each.event.op) for each in events] == [(mine, MailboxEventOp(action))]
    assert await apply_mailbox_bulk_action(engine, ANN, action, []) == []
    with pytest.raises(MailboxRangeError, match=r"^bulk mailbox action accepts at most 50 ids$"):
        await apply_mailbox_bulk_action(engine, ANN, action, ["x"] * 51)
    with pytest.raises(MailboxRangeError):
        await apply_mailbox_bulk_action(engine, ANN, "shred", [mine])


@pytest.mark.spec("INBOX-79")
async def test_overlapping_bulk_actions_do_not_deadlock(engine: AsyncEngine) -> None:
    """Opposite orders, and an action over a filter between them, all come to an end."""
    ids = [await write(engine) for _ in range(30)]
    orders = (ids, ids[::-1])
    await asyncio.gather(
        *(apply_mailbox_bulk_action(engine, ANN, "mark_read", orders[n % 2]) for n in range(6)),
        *(mark_all_mailbox_read(engine, ANN) for _ in range(2)),
    )
    assert await count_unread_active_mailbox(engine, ANN) == 0


@pytest.mark.spec("INBOX-81")
async def test_unread_count_leaves_out_what_is_away(engine: AsyncEngine) -> None:
    """Read, archived, trashed, snoozed, sent and other people's messages do not count."""
    ids = [await write(engine) for _ in range(6)]
    await write(engine, BOB)
    await write(engine, direction="outbound")
    for verb, row_id in zip(("mark_read", "archive", "trash"), ids, strict=False):
        await VERBS[verb](engine, ANN, row_id)
    assert await count_unread_active_mailbox(engine, ANN) == 3
    await snooze_mailbox_message(engine, ANN, ids[3], until=datetime.now(UTC) + timedelta(days=1))
    assert await count_unread_active_mailbox(engine, ANN) == 2


@pytest.mark.spec("INBOX-108")
async def test_snoozed_message_comes_back_by_itself(engine: AsyncEngine) -> None:
    """Away until its moment, then listed and counted again where it was; putting it away wakes it for good."""
    row_id = await write(engine)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert await snooze_mailbox_message(engine, ANN, row_id, until=tomorrow)
    assert (await list_user_mailbox(engine, ANN, priorities=PRIORITIES)).items == ()
    (item,) = (await list_user_mailbox(engine, ANN, priorities=PRIORITIES, view="snoozed")).items
    assert item.snoozed_until == tomorrow
    await rows(engine, "UPDATE mailbox.mailbox SET snoozed_until = now() AT TIME ZONE 'UTC' - interval '1 second'")
    assert (await list_user_mailbox(engine, ANN, priorities=PRIORITIES, view="snoozed")).items == ()
    (item,) = (await list_user_mailbox(engine, ANN, priorities=PRIORITIES, view="unread")).items
    assert await count_unread_active_mailbox(engine, ANN) == 1
    await snooze_mailbox_message(engine, ANN, row_id, until=tomorrow)
    await archive_mailbox_message(engine, ANN, row_id)
    assert not await snooze_mailbox_message(engine, ANN, row_id, until=tomorrow)
    await restore_mailbox_message(engine, ANN, row_id)
    assert len((await list_user_mailbox(engine, ANN, priorities=PRIORITIES)).items) == 1
    with pytest.raises(MailboxRangeError):
        await snooze_mailbox_message(engine, ANN, row_id, until=datetime(2030, 1, 1))  # noqa: DTZ001


@pytest.mark.spec("INBOX-108")
async def test_action_over_a_filter_changes_what_the_view_shows(engine: AsyncEngine) -> None:
    """All matching rows, bounded and repeatable, nothing after `before`, one event for all of them."""
    for n in range(5):
        await write(engine, status="open" if n % 2 else "done")
    await write(engine, BOB, status="open")
    events: list[PendingEvent] = []
    chosen = MailboxFilter(status="open")
    assert await apply_mailbox_action_to_filter(engine, ANN, "archive", filter=chosen, limit=1, events=events) == 1
    assert await apply_mailbox_action_to_filter(engine, ANN, "archive", filter=chosen, events=events) == 1
    assert await apply_mailbox_action_to_filter(engine, ANN, "archive", filter=chosen, events=events) == 0
    assert [(each.event.id, each.event.op) for each in events] == [("*", "archive")] * 2
    assert await apply_mailbox_action_to_filter(engine, ANN, "restore", view="archived") == 2
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    assert await mark_all_mailbox_read(engine, ANN, before=long_ago) == 0
    assert await mark_all_mailbox_read(engine, ANN) == 5
    assert await mark_all_mailbox_read(engine, ANN) == 0
    assert await count_unread_active_mailbox(engine, BOB) == 1
    for bad in ({"view": "x"}, {"limit": 10_001}, {"before": datetime(2030, 1, 1)}):  # noqa: DTZ001
        with pytest.raises(MailboxRangeError):
            await apply_mailbox_action_to_filter(engine, ANN, "archive", **bad)  # type: ignore[arg-type]


@pytest.mark.spec("INBOX-7", "INBOX-110")
async def test_changes_in_a_callers_transaction_are_handed_back(engine: AsyncEngine) -> None:
    """Events for the caller to publish; a rollback undoes change and log."""
    row_id = await write(engine)
    events: list[PendingEvent] = []
    async with engine.connect() as connection:
        await connection.begin()
        assert await mark_mailbox_message_read(connection, ANN, row_id, events=events)
        await connection.rollback()
    assert len(events) == 1
    assert await state(engine, row_id) == (False, False, False)
    assert await count(engine, "mailbox_event") == 1
