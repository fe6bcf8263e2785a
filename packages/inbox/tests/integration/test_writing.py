"""Writing: keys, caches, batches, events, and whose transaction it is."""

from __future__ import annotations

import asyncio

import pytest
from inbox_support.mail import (
    ANN,
    BOB,
    ODA,
    PRIORITIES,
    RecordingBus,
    count,
    message,
    message_to,
    rows,
    write,
)
from inbox_support.postgres import engine_of
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from mailkeep_inbox import (
    InboxItem,
    MailboxRangeError,
    MailboxRef,
    MailboxScope,
    MailboxScopeError,
    ScopedMessage,
    count_unread_active_mailbox,
    create_mailbox_db,
    deliver_inbox_items,
    get_mailbox_message,
    list_user_mailbox,
    mark_mailbox_message_read,
    purge_tenant_mailbox,
    write_mailbox_message,
    write_mailbox_messages,
)
from mailkeep_inbox.bounds import MAX_FRAME_BYTES

pytestmark = pytest.mark.anyio


def item(scope: MailboxScope = ANN, external_id: str = "1", **fields: object) -> InboxItem:
    """An item of another system."""
    values = {"address": "a@x", "from_address": "b@x", "subject": "s", "body": "t", "source": "crm"}
    return InboxItem(scope=scope, external_id=external_id, **(values | fields))  # type: ignore[arg-type]


@pytest.mark.spec("INBOX-26", "INBOX-30", "INBOX-55", "INBOX-11")
async def test_list_and_detail_agree_on_a_written_message(engine: AsyncEngine) -> None:
    """Caches hold what the frame says: flattened, trimmed; triage words are stored as given."""
    written = await write(
        engine, subject="  two\r\nlines ", from_address=" Bo\n<bo@x> ", body="text\n", priority="odd", status="",
        message_id="<m@x>", in_reply_to="<p@x>", references=["<r@x>", "<p@x>"], refs=[MailboxRef("case", "1", "One")],
    )  # fmt: skip
    (listed,) = (await list_user_mailbox(engine, ANN, priorities=PRIORITIES)).items
    detail = await get_mailbox_message(engine, ANN, written)
    assert detail is not None
    for name in ("id", "from_", "subject", "message_id", "in_reply_to", "refs", "priority", "status", "snippet"):
        assert getattr(listed, name) == getattr(detail, name), name
    assert (listed.subject, listed.from_, listed.priority, listed.status) == ("two lines", "Bo <bo@x>", "odd", "")
    assert detail.body == "text"
    assert await count(engine, "mailbox") == 1


@pytest.mark.spec("INBOX-28", "INBOX-33")
async def test_retry_of_one_message_id_is_a_duplicate_per_direction(engine: AsyncEngine) -> None:
    """The same id in the same direction dedupes, first triage kept, no second event; minted ids never collide."""
    bus = RecordingBus()
    for priority in ("high", "low"):
        await write_mailbox_message(engine, message_to(ANN, message_id="<m@x>", priority=priority), bus)
    await write(engine, message_id="<m@x>", direction="outbound")
    await write(engine)
    await write(engine)
    stored = await rows(engine, "SELECT priority FROM mailbox.mailbox WHERE message_id = '<m@x>' ORDER BY direction")
    assert [row.priority for row in stored] == ["high", None]
    assert len(bus.published) == 1
    assert await count(engine) == 4
    keys = await rows(engine, "SELECT message_key FROM mailbox.principal_mail WHERE message_id = '<m@x>' ORDER BY 1")
    assert [row.message_key for row in keys] == ["transport:mid:<m@x>:ann", "transport:mid:<m@x>:ann:outbound"]


@pytest.mark.spec("INBOX-35", "INBOX-80")
async def test_own_copy_is_read_and_out_of_the_way(engine: AsyncEngine) -> None:
    """An outbound row is read from the start, in neither list nor count, and no mutation finds it."""
    sent = await write(engine, direction="outbound")
    assert await count_unread_active_mailbox(engine, ANN) == 0
    assert (await list_user_mailbox(engine, ANN, priorities=PRIORITIES)).items == ()
    assert not await mark_mailbox_message_read(engine, ANN, sent)
    (shown,) = (await list_user_mailbox(engine, ANN, priorities=PRIORITIES, direction="all")).items
    assert (shown.id, shown.read) == (sent, True)
    assert await get_mailbox_message(engine, ANN, sent) is None
    assert await get_mailbox_message(engine, ANN, sent, direction="all") is not None
    (row,) = await rows(engine, "SELECT read_at = created_at AS same FROM mailbox.mailbox")
    assert row.same


@pytest.mark.spec("INBOX-25", "INBOX-16", "INBOX-29", "INBOX-34")
@pytest.mark.parametrize(
    "fields",
    [
        {"message_id": "m@x"}, {"message_id": "<m>"}, {"message_id": "<a b@x>"}, {"message_id": "<<a@x>>"},
        {"message_id": "<" + "a" * 1024 + "@x>"}, {"in_reply_to": "x"}, {"references": ["<a@x>", "b"]},
        {"references": "<a@x>"}, {"refs": [{"kind": "a"}]}, {"message_key": "k" * 1025}, {"priority": "p" * 257},
        {"subject": "a\0"}, {"body": "\ud800"}, {"address": None}, {"direction": "sideways"}, {"status": 1},
    ],
)  # fmt: skip
async def test_bad_arguments_are_refused_before_anything_is_written(
    psycopg_engine: AsyncEngine, fields: dict[str, object]
) -> None:
    """A MailboxRangeError, never a driver's error, and no row."""
    with pytest.raises(MailboxRangeError):
        await write(psycopg_engine, **fields)
    assert await count(psycopg_engine) == 0


@pytest.mark.spec("INBOX-25")
@pytest.mark.parametrize("blank", ["", " ", "\t", "\n"])
async def test_blank_ids_are_refused_and_others_never_trimmed(psycopg_engine: AsyncEngine, blank: str) -> None:
    """Tab and newline are blank; a padded id is another, unknown one, which is the driver's foreign-key error."""
    for scope in (MailboxScope(blank, "ann"), MailboxScope("acme", blank)):
        with pytest.raises(MailboxRangeError):
            await write(psycopg_engine, scope)
        with pytest.raises(MailboxRangeError):
            await deliver_inbox_items(psycopg_engine, [item(), item(scope)])
    with pytest.raises(MailboxRangeError):
        await purge_tenant_mailbox(psycopg_engine, blank)
    for scope in (MailboxScope(" acme", "nobody"), MailboxScope("acme", " ann")):
        with pytest.raises(IntegrityError):
            await write(psycopg_engine, scope)
    assert await count(psycopg_engine) == 0


@pytest.mark.spec("INBOX-15")
async def test_principal_of_another_tenant_is_refused(engine: AsyncEngine) -> None:
    """Ann belongs to acme: nobody writes her mail under another tenant, alone or in a batch."""
    foreign = MailboxScope("other", "ann")
    with pytest.raises(MailboxScopeError):
        await write(engine, foreign)
    with pytest.raises(MailboxScopeError):
        await write_mailbox_messages(engine, [ScopedMessage(ANN, message()), ScopedMessage(foreign, message())])
    assert await count(engine) == 0


@pytest.mark.spec("INBOX-27")
async def test_frame_of_exactly_the_cap_is_stored(psycopg_engine: AsyncEngine) -> None:
    """One byte more is refused, as is a single field that could not fit; a batch refuses before it writes."""
    probe = await write(psycopg_engine, message_id="<m1@x>", body="")
    (row,) = await rows(psycopg_engine, "SELECT octet_length(raw) AS size FROM mailbox.principal_mail")
    room = MAX_FRAME_BYTES - row.size
    assert await write(psycopg_engine, message_id="<m2@x>", body="x" * room) != probe
    for size in (room + 1, MAX_FRAME_BYTES):
        with pytest.raises(MailboxRangeError, match=str(MAX_FRAME_BYTES)):
            await write_mailbox_messages(
                psycopg_engine,
                [ScopedMessage(BOB, message()), ScopedMessage(ANN, message(message_id="<m3@x>", body="x" * size))],
            )
    assert await count(psycopg_engine) == 2


@pytest.mark.spec("INBOX-14", "INBOX-13")
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_every_stored_moment_is_utc_on_a_session_in_new_york(inbox_dsn: str, driver: str) -> None:
    """created_at, read_at, archived_at and trashed_at do not follow the session's zone; nor do pages and dates."""
    from mailkeep_inbox import archive_mailbox_message, trash_mailbox_message

    engine = engine_of(inbox_dsn, driver=driver, time_zone="America/New_York")
    ids = [await write(engine) for _ in range(3)]
    await mark_mailbox_message_read(engine, ANN, ids[0])
    await archive_mailbox_message(engine, ANN, ids[1])
    await trash_mailbox_message(engine, ANN, ids[2])
    (row,) = await rows(
        engine,
        "SELECT bool_and(abs(extract(epoch FROM now() AT TIME ZONE 'UTC' - moment)) < 600) AS near, count(*) AS n FROM ("
        "SELECT created_at AS moment FROM mailbox.principal_mail UNION ALL SELECT read_at FROM mailbox.mailbox "
        "UNION ALL SELECT archived_at FROM mailbox.mailbox UNION ALL SELECT trashed_at FROM mailbox.mailbox "
        "UNION ALL SELECT created_at FROM mailbox.mailbox) AS moments WHERE moment IS NOT NULL",
    )
    assert (row.near, row.n) == (True, 9)
    more = [await write(engine) for _ in range(4)]
    seen, cursor = [], None
    while True:
        page = await list_user_mailbox(engine, ANN, priorities=PRIORITIES, limit=2, cursor=cursor)
        seen += [each.id for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [*reversed(more), ids[0]]
    await engine.dispose()


@pytest.mark.spec("INBOX-36", "INBOX-31", "INBOX-91")
async def test_delivery_announces_new_items_in_order_after_the_commit(engine: AsyncEngine) -> None:
    """For each new row its event, then the hook; duplicates neither; what a bus or a hook raises costs nothing."""
    bus = RecordingBus(RuntimeError("bus down"))
    seen: list[tuple[str, str, int]] = []

    async def enqueue(row_id: str, delivered: InboxItem) -> None:
        seen.append((row_id, delivered.external_id, await count(engine)))
        raise RuntimeError("queue down")

    await deliver_inbox_items(engine, [item(external_id="2")])
    results = await deliver_inbox_items(
        engine, [item(external_id="3"), item(external_id="2"), item(BOB, "1"), item(external_id="3")],
        bus=bus, enqueue=enqueue,
    )  # fmt: skip
    assert [result.message_key for result in results] == [
        "inbox2:3:crm:3", "inbox2:3:crm:2", "inbox2:3:crm:1", "inbox2:3:crm:3",
    ]  # fmt: skip
    ids = [result.id for result in results]
    assert [each is None for each in ids] == [False, True, False, True]
    assert seen == [(ids[0], "3", 3), (ids[2], "1", 3)]
    assert bus.wire == [("ann", ids[0], "create"), ("bob", ids[2], "create")]


@pytest.mark.spec("INBOX-36", "INBOX-37")
async def test_failing_item_undoes_the_batch(engine: AsyncEngine) -> None:
    """No row, event or hook of it; duplicates committed before stay; the rolled-back sibling inserts later."""
    bus, hooked = RecordingBus(), []
    await deliver_inbox_items(engine, [item(external_id="old")])
    batch = [item(external_id="old"), item(external_id="new"), item(MailboxScope("acme", "gone"), "x")]
    with pytest.raises(IntegrityError):
        await deliver_inbox_items(engine, batch, bus=bus, enqueue=lambda row_id, _: hooked.append(row_id))
    assert (await count(engine), await count(engine, "mailbox_event"), bus.published, hooked) == (1, 1, [], [])
    (again,) = await deliver_inbox_items(engine, [item(external_id="new")])
    assert again.id is not None


@pytest.mark.spec("INBOX-37", "INBOX-39")
async def test_conversation_batch_reaches_both_sides(engine: AsyncEngine) -> None:
    """Mixed tenants, principals and directions; one created_at, listed in the order given, newest first."""
    items = [
        ScopedMessage(ANN, message(direction="outbound", message_id="<m@x>")),
        *(ScopedMessage(BOB, message(message_id=f"<m{n}@x>")) for n in range(5)),
        ScopedMessage(ODA, message(message_id="<m@x>")),
    ]
    results = await write_mailbox_messages(engine, items)
    assert all(result.id for result in results)
    (row,) = await rows(engine, "SELECT count(DISTINCT created_at) AS n FROM mailbox.principal_mail")
    assert row.n == 1
    page = await list_user_mailbox(engine, BOB, priorities=PRIORITIES)
    assert [each.id for each in page.items] == [result.id for result in reversed(results[1:6])]
    with pytest.raises(MailboxRangeError, match="ids"):
        await write_mailbox_messages(engine, [ScopedMessage(ANN, message_to(ANN))])


@pytest.mark.spec("INBOX-7", "INBOX-6")
@pytest.mark.parametrize("kind", ["connection", "session"])
async def test_in_a_callers_transaction_nothing_is_announced(engine: AsyncEngine, kind: str) -> None:
    """Bus and hook are refused; events come back with the result; a rollback leaves nothing; a failure undoes itself."""
    bus = RecordingBus()
    for outcome in ("rollback", "commit"):
        async with engine.connect() if kind == "connection" else AsyncSession(engine) as handle:
            await handle.execute(text("SELECT 1"))
            with pytest.raises(MailboxRangeError, match="transaction"):
                await write_mailbox_message(handle, message_to(ANN), bus)
            with pytest.raises(MailboxRangeError, match="transaction"):
                await deliver_inbox_items(handle, [item()], enqueue=lambda *_: None)
            with pytest.raises(IntegrityError):
                await write(handle, MailboxScope("acme", "gone"))
            written = await write_mailbox_message(handle, message_to(ANN, message_key="k"))
            assert written is not None
            assert [(each.scope, each.event.id, each.event.op) for each in written.events] == [
                (ANN, written.id, "create")
            ]
            await getattr(handle, outcome)()
        assert await count(engine) == (0 if outcome == "rollback" else 1)
        assert await count(engine, "mailbox_event") == (0 if outcome == "rollback" else 1)
    assert bus.published == []


@pytest.mark.spec("INBOX-6")
async def test_handle_without_a_transaction_commits_for_itself(engine: AsyncEngine) -> None:
    """A fresh connection or session is as good as an engine."""
    bus = RecordingBus()
    async with engine.connect() as connection:
        await write_mailbox_message(connection, message_to(ANN), bus)
    async with AsyncSession(engine) as session:
        await write_mailbox_message(session, message_to(ANN), bus)
    assert (await count(engine), len(bus.published)) == (2, 2)


@pytest.mark.spec("INBOX-38")
async def test_batches_in_opposite_orders_do_not_deadlock(engine: AsyncEngine) -> None:
    """Eight writers share keys, half of them in reverse order: each key is stored once, and nobody fails."""
    keys = [f"k{n}" for n in range(20)]
    batches = [[ScopedMessage(ANN, message(message_key=key)) for key in order] for order in (keys, keys[::-1]) * 4]
    results = await asyncio.gather(*(write_mailbox_messages(engine, batch) for batch in batches))
    assert await count(engine) == await count(engine, "mailbox") == len(keys)
    assert sum(result.id is not None for batch in results for result in batch) == len(keys)
    assert [result.message_key for result in results[1]] == keys[::-1]


@pytest.mark.spec("INBOX-28", "INBOX-38")
async def test_first_of_two_items_with_one_key_wins(engine: AsyncEngine) -> None:
    """Also when both are in one statement."""
    results = await write_mailbox_messages(
        engine, [ScopedMessage(ANN, message(message_key="k", subject=subject)) for subject in ("first", "second")]
    )
    assert [result.id is None for result in results] == [False, True]
    (shown,) = (await list_user_mailbox(engine, ANN, priorities=PRIORITIES)).items
    assert shown.subject == "first"


@pytest.mark.spec("INBOX-27")
async def test_large_batches_are_several_statements_of_one_transaction(
    psycopg_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows and more octets than one statement takes still commit together, in the order given."""
    monkeypatch.setattr("mailkeep_inbox.write.MAX_STATEMENT_BYTES", 50_000)
    sizes: list[int] = []

    def take(_c: object, _cur: object, sql: str, parameters: dict[str, list[bytes]], *_rest: object) -> None:
        if "INSERT INTO mailbox.principal_mail" in sql:
            sizes.append(sum(map(len, parameters["raw"])))

    event.listen(psycopg_engine.sync_engine, "before_cursor_execute", take)
    items = [ScopedMessage(ANN, message(body="x" * (20_000 if n < 4 else 1), subject=str(n))) for n in range(250)]
    results = await write_mailbox_messages(psycopg_engine, items)
    assert len({result.id for result in results}) == 250
    assert len(sizes) >= 3
    assert max(sizes) <= 50_000
    page = await list_user_mailbox(psycopg_engine, ANN, priorities=PRIORITIES, limit=3)
    assert [item.subject for item in page.items] == ["249", "248", "247"]


@pytest.mark.spec("INBOX-6", "INBOX-1")
async def test_scripts_get_an_engine_and_what_closes_it(inbox_dsn: str) -> None:
    """A plain URL means psycopg; after closing, the pool holds no connection and a loop can end."""
    url = engine_of(inbox_dsn).url.set(drivername="postgresql").render_as_string(hide_password=False)
    db, close = create_mailbox_db(url)
    assert db.url.drivername == "postgresql+psycopg"
    await write(db)
    assert db.pool.checkedin() == 1  # type: ignore[attr-defined]
    await close()
    assert db.pool.checkedin() == 0  # type: ignore[attr-defined]
    with pytest.raises(MailboxRangeError):
        await write(url)  # type: ignore[arg-type]
