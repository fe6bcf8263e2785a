"""Reading: pages that lose and repeat nothing, views, ranks, details, labels of senders."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from inbox_support.mail import ANN, BOB, PRIORITIES, message, rows, write
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    MailboxCursorError,
    MailboxFilter,
    MailboxPersistArgs,
    MailboxRangeError,
    MailboxView,
    ScopedMessage,
    SenderAuthorization,
    archive_mailbox_message,
    assign_mailbox_message,
    count_unread_active_mailbox,
    create_mailbox_persist,
    enrich_mailbox_message,
    get_mailbox_message,
    label_mailbox_message,
    list_user_mailbox,
    mark_mailbox_message_read,
    read_mailbox_attachment,
    read_mailbox_message_by_message_id,
    snooze_mailbox_message,
    trash_mailbox_message,
    write_mailbox_messages,
)

pytestmark = pytest.mark.anyio


async def walk(engine: AsyncEngine, limit: int, *, between: Any = None, **options: Any) -> list[str]:
    """Every id of a list, page by page."""
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await list_user_mailbox(
            engine, ANN, **({"priorities": PRIORITIES} | options), limit=limit, cursor=cursor
        )
        assert len(page.items) <= limit
        seen += [item.id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return seen
        if between is not None:
            await between()


async def fill(engine: AsyncEngine, *groups: tuple[int, str]) -> list[str]:
    """Rows in groups of one created_at each, priorities in turn; the ids as a list shows them."""
    for size, moment in groups:
        await write_mailbox_messages(
            engine, [ScopedMessage(ANN, message(priority=(*PRIORITIES, None, "gone")[n % 5])) for n in range(size)]
        )
        for table in ("mailbox", "principal_mail"):
            await rows(
                engine,
                f"UPDATE mailbox.{table} SET created_at = :moment WHERE created_at > timestamp '2026-11-01'",
                moment=datetime.fromisoformat(moment),
            )
    return [row.id for row in await rows(engine, "SELECT id FROM mailbox.mailbox ORDER BY created_at DESC, id DESC")]


@pytest.mark.spec("INBOX-60", "INBOX-64")
@pytest.mark.parametrize("sort", ["date", "priority"])
async def test_ties_page_identically_at_every_limit(engine: AsyncEngine, sort: str) -> None:
    """120 rows of one moment, three ties of ten, 200 rows inside one millisecond: nothing is lost or repeated."""
    await fill(
        engine, (120, "2020-01-01"), *((10, f"2020-02-0{day}") for day in (1, 2, 3)),
        *((20, f"2020-03-01 00:00:00.000{n}") for n in range(100, 1000, 90)),
    )  # fmt: skip
    whole = await walk(engine, 200, sort=sort)
    assert len(whole) == len(set(whole)) == 350
    for limit in (1, 7, 9, 10, 11, 13, 20, 119):
        assert await walk(engine, limit, sort=sort) == whole


@pytest.mark.spec("INBOX-60")
async def test_rows_that_arrive_between_pages_move_nobody(engine: AsyncEngine) -> None:
    """Inserts during a walk neither hide nor repeat a row that was there before."""
    before = await fill(engine, (30, "2020-01-01"), (30, "2020-01-02"))
    seen = await walk(engine, 7, between=lambda: write(engine))
    assert seen == before


@pytest.mark.spec("INBOX-60", "INBOX-103")
async def test_rank_is_the_place_in_the_hosts_list(engine: AsyncEngine) -> None:
    """Words by their place, then what the list lacks and what has none, newest first in each rank."""
    ids = {word: await write(engine, priority=word) for word in (None, "low", "gone", "normal", "high", "zzz")}
    assert await walk(engine, 1, sort="priority") == [ids[w] for w in ("high", "normal", "low", "zzz", "gone", None)]
    assert await walk(engine, 2, sort="priority", priorities=("low", "zzz")) == [
        ids[w] for w in ("low", "zzz", "high", "normal", "gone", None)
    ]
    first = await list_user_mailbox(engine, ANN, priorities=("high", "normal"), sort="priority", limit=2)
    import base64

    assert '"rank":1,' in base64.urlsafe_b64decode(str(first.next_cursor) + "==").decode()


@pytest.mark.spec("INBOX-59", "INBOX-60", "INBOX-103")
@pytest.mark.parametrize("sort", ["date", "priority"])
async def test_views_show_their_shelf_and_filters_hold_together(engine: AsyncEngine, sort: str) -> None:
    """Each view in both sorts and all directions; filters are equalities that all must hold."""
    ids = {name: await write(engine, priority="high", status="open", classification="") for name in
           ("plain", "read", "archived", "trash", "snoozed")}  # fmt: skip
    ids["other"] = await write(engine, priority="low", status="open")
    ids["sent"] = await write(engine, direction="outbound", priority="high")
    await write(engine, BOB)
    await mark_mailbox_message_read(engine, ANN, ids["read"])
    await archive_mailbox_message(engine, ANN, ids["archived"])
    await trash_mailbox_message(engine, ANN, ids["trash"])
    await snooze_mailbox_message(engine, ANN, ids["snoozed"], until=datetime.now(UTC) + timedelta(hours=1))

    async def shown(view: str, **options: Any) -> set[str]:
        found = await walk(engine, 1, view=view, sort=sort, **options)
        assert found == await walk(engine, 50, view=view, sort=sort, **options)
        return {name for name, row_id in ids.items() if row_id in found}

    assert await shown("all") == {"plain", "read", "other"}
    assert await shown("unread") == {"plain", "other"}
    assert await shown("archived") == {"archived"}
    assert await shown("trash") == {"trash"}
    assert await shown("snoozed") == {"snoozed"}
    assert await shown("sent") == {"sent"}
    assert await shown("all", direction="all") == {"plain", "read", "other", "sent"}
    assert await shown("all", direction="outbound") == {"sent"}
    chosen = MailboxFilter(priority="high", status="open", classification="")
    assert await shown("all", filter=chosen) == {"plain", "read"}
    assert await shown("all", filter=MailboxFilter(assignee="nobody")) == set()
    assert await count_unread_active_mailbox(engine, ANN) == 2


@pytest.mark.spec("INBOX-67", "INBOX-60")
async def test_cursors_of_other_lists_are_refused_by_the_function_itself(psycopg_engine: AsyncEngine) -> None:
    """Also by another vocabulary under the sort by priority; date cursors survive a reordering."""
    await fill(psycopg_engine, (4, "2020-01-01"))
    cursor = {}
    for sort in ("date", "priority"):
        page = await list_user_mailbox(psycopg_engine, ANN, priorities=PRIORITIES, sort=sort, limit=2)
        cursor[sort] = page.next_cursor
    other = PRIORITIES[::-1]
    await list_user_mailbox(psycopg_engine, ANN, priorities=other, cursor=cursor["date"])
    for options in (
        {"priorities": other, "sort": "priority", "cursor": cursor["priority"]},
        {"priorities": (*PRIORITIES, "x"), "sort": "priority", "cursor": cursor["priority"]},
        {"priorities": PRIORITIES, "cursor": cursor["date"], "view": "unread"},
        {"priorities": PRIORITIES, "cursor": cursor["date"], "filter": MailboxFilter(status="")},
        {"priorities": PRIORITIES, "cursor": cursor["date"], "direction": "all"},
    ):
        with pytest.raises(MailboxCursorError, match="does not match"):
            await list_user_mailbox(psycopg_engine, ANN, **options)  # type: ignore[arg-type]
    for options in ({"limit": 0}, {"limit": 201}, {"limit": True}, {"view": "x"}, {"sort": "x"}, {"priorities": []},
                    {"direction": "x"}, {"filter": MailboxFilter(status="x" * 257)},
                    {"filter": MailboxFilter(assignee="\0")}):  # fmt: skip
        with pytest.raises(MailboxRangeError):
            await list_user_mailbox(psycopg_engine, ANN, **({"priorities": PRIORITIES} | options))  # type: ignore[arg-type]


@pytest.mark.spec("INBOX-55", "INBOX-56", "INBOX-57", "INBOX-58")
async def test_frame_decides_details_and_caches_decide_lists(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """A list answers from its columns when the frame is 2 MiB of garbage and stored refs are no list."""
    written = await write(engine, subject="cached", message_id="<m@x>", in_reply_to="<p@x>")
    await rows(engine, "UPDATE mailbox.principal_mail SET raw = convert_to(repeat('junk', 524288), 'UTF8')")
    await rows(engine, "UPDATE mailbox.mailbox SET refs = '{}'")
    with caplog.at_level(logging.WARNING):
        (listed,) = (await list_user_mailbox(engine, ANN, priorities=PRIORITIES)).items
    assert (listed.subject, listed.message_id, listed.in_reply_to, listed.refs) == ("cached", "<m@x>", "<p@x>", ())
    assert "count=1" in caplog.text
    detail = await get_mailbox_message(engine, ANN, written)
    assert detail is not None
    assert (detail.subject, detail.body, detail.snippet, detail.message_id) == ("cached", "", None, written)
    await rows(engine, "UPDATE mailbox.principal_mail SET raw = :raw", raw=(
        b"Subject:\r\nFrom: F <f@x>\r\nTo: \"A, B\" <a@x>, c@x\r\nDate: Fri, 02 Jan 2026 12:00:00 +0100\r\n"
        b"Message-ID: <h@x>\r\nIn-Reply-To: <i@x>\r\n\r\n" + b"y" * 200))  # fmt: skip
    detail = await get_mailbox_message(engine, ANN, written)
    assert detail is not None
    wire = detail.as_wire()
    assert wire["to"] == ['"A, B" <a@x>', "c@x"]
    assert (wire["subject"], wire["from"], wire["messageId"], wire["inReplyTo"]) == ("", "F <f@x>", "<h@x>", "<i@x>")
    assert (wire["date"], wire["snippet"]) == ("2026-01-02T11:00:00.000Z", "y" * 160)


@pytest.mark.spec("INBOX-9", "INBOX-56")
async def test_wire_forms_leave_absent_fields_out(psycopg_engine: AsyncEngine) -> None:
    """camelCase, no nulls, `from` always there."""
    await rows(psycopg_engine, "INSERT INTO mailbox.principal_mail (tenant_id, principal_id, address, direction, raw) "
                               "VALUES ('acme', 'ann', 'a@x', 'inbound', '')")  # fmt: skip
    (bare,) = (await list_user_mailbox(psycopg_engine, ANN, priorities=PRIORITIES)).items
    wire = bare.as_wire()
    assert set(wire) == {"id", "from", "to", "date", "read", "messageId"}
    assert (wire["from"], wire["messageId"]) == ("", bare.id)


@pytest.mark.spec("INBOX-54")
async def test_labels_come_in_one_call_and_never_cost_a_page(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """One call with all senders of a page; a label that says nothing new is ignored; a raise is a WARNING."""
    for sender in ("Bo <bo@x>", "Bo <bo@x>", "Cy <cy@x>", "dee@x"):
        await write(engine, from_address=sender)
    calls: list[tuple[str, list[str]]] = []

    async def resolve(tenant_id: str, headers: Any) -> dict[str, str]:
        calls.append((tenant_id, list(headers)))
        return {"bo@x": "Bo of acme", "cy@x": "cy@x", "dee@x": "dee@x"}

    page = await list_user_mailbox(engine, ANN, priorities=PRIORITIES, resolve_sender_displays=resolve)
    assert calls == [("acme", ["dee@x", "Cy <cy@x>", "Bo <bo@x>"])]
    assert [item.from_display for item in page.items] == [None, None, "Bo of acme", "Bo of acme"]
    detail = await get_mailbox_message(engine, ANN, page.items[-1].id, resolve_sender_displays=resolve)
    assert detail is not None
    assert detail.from_display == "Bo of acme"

    def broken(*_: object) -> dict[str, str]:
        raise RuntimeError("down")

    with caplog.at_level(logging.WARNING):
        page = await list_user_mailbox(engine, ANN, priorities=PRIORITIES, resolve_sender_displays=broken)
    assert len(page.items) == 4
    assert len(caplog.records) == 1
    calls.clear()
    await list_user_mailbox(engine, BOB, priorities=PRIORITIES, resolve_sender_displays=resolve)
    assert calls == []


@pytest.mark.spec("INBOX-75")
async def test_message_by_its_id_is_the_oldest_of_this_mailbox(engine: AsyncEngine) -> None:
    """Exact match, the oldest carrier, and nothing that another principal holds."""
    first = await write(engine, message_id="<m@x>", message_key="1")
    await write(engine, message_id="<m@x>", message_key="2")
    await write(engine, BOB, message_id="<b@x>")
    found = await read_mailbox_message_by_message_id(engine, ANN, "<m@x>")
    assert found is not None
    assert found.id == first
    for absent in ("<b@x>", "<M@x>", "m@x", "\0", "\ud800"):
        assert await read_mailbox_message_by_message_id(engine, ANN, absent) is None


@pytest.mark.spec("INBOX-106")
async def test_snippets_and_files_are_listed_and_downloaded(engine: AsyncEngine) -> None:
    """Cached at write: HTML as text where there is no plain part, each file with the part to download it by."""
    raw = (
        b"From: a@acme.example\r\nMessage-ID: <m@x>\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"
        b"Content-Type: text/html\r\n\r\n<p>Hello <b>there</b></p>\r\n--b\r\n"
        b'Content-Type: application/pdf; name="a.pdf"\r\nContent-Disposition: attachment; filename="a.pdf"\r\n'
        b"Content-Transfer-Encoding: base64\r\n\r\nJVBERg==\r\n--b--\r\n"
    )
    persist = create_mailbox_persist(
        engine, upstream=lambda _: None, authorize_sender=lambda _: SenderAuthorization("acme", "acme.example")
    )
    await persist(MailboxPersistArgs(sender_address="a@acme.example", recipients=["ann@acme.example"], raw=raw))
    (listed,) = (await list_user_mailbox(engine, ANN, priorities=PRIORITIES)).items
    assert listed.snippet == "Hello there"
    assert listed.as_wire()["attachments"] == [{"part": 0, "name": "a.pdf", "mediaType": "application/pdf", "size": 4}]
    content = await read_mailbox_attachment(engine, ANN, listed.id, 0)
    assert content is not None
    assert (content.name, content.media_type, content.content) == ("a.pdf", "application/pdf", b"%PDF")
    for scope, row_id, part in ((ANN, listed.id, 1), (ANN, listed.id, -1), (ANN, "no", 0), (BOB, listed.id, 0)):
        assert await read_mailbox_attachment(engine, scope, row_id, part) is None


@pytest.mark.spec("INBOX-108")
async def test_labels_filter_lists(engine: AsyncEngine) -> None:
    """Added, removed, listed sorted, and a filter of every view; other triage is left alone."""
    first, second = await write(engine, priority="high"), await write(engine)
    assert await label_mailbox_message(engine, ANN, first, add=["work", "later", "work"])
    await label_mailbox_message(engine, ANN, second, add=["work"])
    await label_mailbox_message(engine, ANN, second, add=["done"], remove=["work"])
    await assign_mailbox_message(engine, ANN, first, assignee="bo")
    await enrich_mailbox_message(engine, ANN, first, status="open")
    page = await list_user_mailbox(engine, ANN, priorities=PRIORITIES, filter=MailboxFilter(label="work"))
    (item,) = page.items
    assert (item.id, item.labels, item.priority, item.assignee, item.status) == (
        first, ("later", "work"), "high", "bo", "open",
    )  # fmt: skip
    assert item.as_wire()["labels"] == ["later", "work"]
    assert not await label_mailbox_message(engine, ANN, first, add=[f"l{n}" for n in range(50)])
    assert await label_mailbox_message(engine, ANN, second, remove=["done"])
    (row,) = await rows(engine, "SELECT labels FROM mailbox.mailbox WHERE id = :id", id=second)
    assert row.labels is None
    for bad in ({"add": [" "]}, {"add": ["x" * 257]}, {}, {"add": ["\0"]}):
        with pytest.raises(MailboxRangeError):
            await label_mailbox_message(engine, ANN, first, **bad)  # type: ignore[arg-type]


@pytest.mark.spec("INBOX-98", "INBOX-99", "INBOX-100", "INBOX-103")
async def test_pages_of_every_view_are_index_scans_without_a_sort(psycopg_engine: AsyncEngine) -> None:
    """Date pages seek in one index and stop; priority pages read one bounded piece a band; the count reads no table."""
    await rows(psycopg_engine, "ALTER TABLE mailbox.principal_mail DISABLE TRIGGER principal_mail_add_list_row")
    await rows(psycopg_engine, "INSERT INTO mailbox.principal_mail (id, tenant_id, principal_id, address, direction, raw, "
        "created_at) SELECT 'r' || n, 'acme', 'ann', 'a', CASE WHEN n % 3 = 0 THEN 'outbound' ELSE 'inbound' END, '', "
        "timestamp '2020-01-01' + n * interval '1 minute' FROM generate_series(1, 6000) AS n")  # fmt: skip
    await rows(psycopg_engine, "INSERT INTO mailbox.mailbox (id, tenant_id, principal_id, address, direction, created_at, "
        "read_at, archived_at, trashed_at, priority) SELECT id, tenant_id, principal_id, address, direction, created_at, "
        "CASE WHEN direction = 'outbound' OR right(id, 1) <> '7' THEN created_at END, "
        "CASE WHEN right(id, 2) = '20' THEN created_at END, CASE WHEN right(id, 2) = '40' THEN created_at END, "
        "(ARRAY['high', 'normal', 'low', NULL])[1 + length(id) % 4] FROM mailbox.principal_mail")  # fmt: skip
    await rows(psycopg_engine, "ALTER TABLE mailbox.principal_mail ENABLE TRIGGER principal_mail_add_list_row")
    async with psycopg_engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.exec_driver_sql("VACUUM ANALYZE mailbox.mailbox")
    expected = {
        "all": "active", "unread": "unread", "archived": "archived_at", "trash": "trashed_at", "sent": "outbound",
    }  # fmt: skip
    for view, index in expected.items():
        first = await list_user_mailbox(psycopg_engine, ANN, priorities=PRIORITIES, view=MailboxView(view), limit=2)
        plan = await plan_of(psycopg_engine, view=view, cursor=first.next_cursor)
        assert f"mailbox_tenant_id_principal_id_{index}_idx" in plan, view
        assert "Sort" not in plan, view
        assert "ROW(created_at, id) <" in plan.split("Index Cond")[1].split("\n")[0], view
    ranked = await plan_of(psycopg_engine, sort="priority")
    assert "Seq Scan" not in ranked
    assert ranked.count("using mailbox_tenant_id_principal_id_priority_idx") >= 2
    assert ranked.count("using mailbox_tenant_id_principal_id_no_priority_idx") == 1
    assert ranked.count("Sort Key") == 1
    assert "Index Only Scan using mailbox_tenant_id_principal_id_unread_idx" in await plan_of(
        psycopg_engine, count=True
    )


async def plan_of(engine: AsyncEngine, *, count: bool = False, **options: Any) -> str:
    """The plan of the statement that a read executes."""
    from sqlalchemy import event

    taken: list[tuple[str, Any]] = []

    def take(_c: Any, _cur: Any, sql: str, parameters: Any, *_rest: Any) -> None:
        taken.append((sql, parameters))

    event.listen(engine.sync_engine, "before_cursor_execute", take)
    if count:
        await count_unread_active_mailbox(engine, ANN)
    else:
        await list_user_mailbox(engine, ANN, priorities=PRIORITIES, **options)
    event.remove(engine.sync_engine, "before_cursor_execute", take)
    ((sql, parameters),) = taken
    async with engine.connect() as connection:
        return "\n".join(row[0] for row in await connection.exec_driver_sql(f"EXPLAIN {sql}", parameters))
