"""Threads and search."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from inbox_support.mail import ANN, BOB, rows, write
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    MailboxCursorError,
    MailboxFilter,
    MailboxRangeError,
    MailboxRef,
    archive_mailbox_message,
    read_mailbox_thread,
    search_user_mailbox,
    trash_mailbox_message,
)

pytestmark = pytest.mark.anyio

REF = MailboxRef("case", "wb-1")


async def thread(engine: AsyncEngine, limit: int = 200, **options: Any) -> dict[str, Any]:
    """The whole conversation by subject, read in pages."""
    items: dict[str, Any] = {}
    cursor = None
    while True:
        page = await read_mailbox_thread(engine, ANN, ref=REF, limit=limit, cursor=cursor, **options)
        items |= {str(item.subject): item for item in page.items}
        cursor = page.next_cursor
        if cursor is None:
            return items


async def parents(engine: AsyncEngine, limit: int = 200, **options: Any) -> dict[str, str | None]:
    """The parent of each message, both by subject."""
    items = await thread(engine, limit, **options)
    names = {item.id: subject for subject, item in items.items()}
    return {subject: item.parent_id and names[item.parent_id] for subject, item in items.items()}


async def say(engine: AsyncEngine, name: str, *answers: str, **fields: Any) -> str:
    """A message of the conversation whose msg-id is its name."""
    values = {"subject": name, "message_id": f"<{name}@x>", "refs": [MailboxRef("case", "wb-1", "Label")]}
    if answers:
        values |= {"in_reply_to": f"<{answers[0]}@x>", "references": [f"<{each}@x>" for each in answers[:0:-1]]}
    return await write(engine, **(values | fields))


@pytest.mark.spec("INBOX-68", "INBOX-69", "INBOX-104")
async def test_conversation_is_what_carries_the_ref(engine: AsyncEngine) -> None:
    """Oldest first, archived and trashed included, labels ignored, other ids and kinds out, both sides when asked."""
    first = await say(engine, "a")
    second = await say(engine, "b", "a", from_address="Bo <bo@x>")
    await say(engine, "sent", "b", direction="outbound")
    await say(engine, "foreign", address="x", refs=[MailboxRef("case", "wb-10")])
    await say(engine, "kind", refs=[MailboxRef("task", "wb-1")])
    await archive_mailbox_message(engine, ANN, first)
    await trash_mailbox_message(engine, ANN, second)
    items = await thread(engine)
    assert list(items) == ["a", "b"]
    wire = items["b"].as_wire()
    assert (wire["parentId"], wire["inReplyTo"], wire["references"]) == (first, "<a@x>", [])
    assert (wire["fromAddress"], wire["read"], wire["archived"]) == ("Bo <bo@x>", False, False)
    assert items["a"].as_wire()["parentId"] is None
    assert items["a"].archived
    assert len(wire["createdAt"]) == len("2026-01-01T00:00:00.000000Z")
    assert await parents(engine, direction="all") == {"a": None, "b": "a", "sent": "b"}


@pytest.mark.spec("INBOX-70", "INBOX-71", "INBOX-72", "INBOX-73")
async def test_parents_do_not_depend_on_the_page(engine: AsyncEngine) -> None:
    """A long chain, a child before its parent, a self-reference, a copy and a 3-cycle are alike at every page size."""
    await say(engine, "early", "late")
    for n in range(12):
        await say(engine, f"c{n}", *([f"c{n - 1}"] if n else []))
    await say(engine, "late", "gone", "c3")
    await say(engine, "self", "self")
    await say(engine, "copy", "c0", message_id="<c5@x>", message_key="copy")
    for name, answer in (("x", "z"), ("y", "x"), ("z", "y")):
        await say(engine, name, answer)
    whole = await parents(engine)
    assert whole["early"] == "late"
    assert whole["late"] == "c3"
    assert (whole["self"], whole["copy"], whole["c11"], whole["c6"]) == (None, "c0", "c10", "c5")
    assert (whole["x"], whole["y"], whole["z"]) == ("z", "x", None)
    for limit in (1, 2, 5, 7):
        assert await parents(engine, limit) == whole


@pytest.mark.spec("INBOX-74")
async def test_walk_is_bounded_and_never_an_error(psycopg_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain longer than the walk still gives a page; a message naming thousands of ids is asked in pieces."""
    from sqlalchemy import event

    await rows(psycopg_engine, """
        INSERT INTO mailbox.principal_mail (id, tenant_id, principal_id, address, direction, raw, subject, message_id,
            in_reply_to, refs, created_at)
        SELECT 'n' || n, 'acme', 'ann', 'a', 'inbound', '', n::text, '<n' || n || '@x>', '<n' || n - 1 || '@x>',
            '[{"kind": "case", "id": "wb-1"}]', timestamp '2020-01-01' + n * interval '1 second'
        FROM generate_series(1, 400) AS n""")  # fmt: skip
    asked: list[int] = []

    def take(_c: Any, _cur: Any, sql: str, parameters: Any, *_rest: Any) -> None:
        if "wanted_id" in sql:
            asked.append(len(parameters["message_ids"]))

    monkeypatch.setattr("mailkeep_inbox.threads.MAX_ANCESTRY_NODES", 30)
    event.listen(psycopg_engine.sync_engine, "before_cursor_execute", take)
    page = await read_mailbox_thread(psycopg_engine, ANN, ref=REF, limit=10)
    assert page.items[0].parent_id is None
    assert [item.parent_id for item in page.items[1:]] == [f"n{n}" for n in range(1, 10)]
    last = await read_mailbox_thread(psycopg_engine, ANN, ref=REF, limit=10, cursor=page.next_cursor)
    assert last.items[0].parent_id == "n10"
    asked.clear()
    await say(psycopg_engine, "many", *(f"gone{n}" for n in range(3000)))
    await rows(psycopg_engine, "UPDATE mailbox.principal_mail SET created_at = '2019-01-01' WHERE subject = 'many'")
    found = await read_mailbox_thread(psycopg_engine, ANN, ref=REF, limit=1)
    assert found.items[0].parent_id is None
    assert max(asked) <= 1000
    assert sum(asked) == 3000


@pytest.mark.spec("INBOX-68")
async def test_thread_arguments_are_checked(psycopg_engine: AsyncEngine) -> None:
    """Limit, ref and cursor outside what is allowed are the caller's mistake."""
    for _ in range(3):
        await say(psycopg_engine, "a", message_id=None)
    page = await read_mailbox_thread(psycopg_engine, ANN, ref=REF, limit=1)
    for options in ({"limit": 0}, {"limit": 201}, {"limit": True}, {"cursor": "x"}, {"ref": {"kind": "case"}},
                    {"ref": MailboxRef("case", "wb-10"), "cursor": page.next_cursor}, {"direction": "x"},
                    {"ref": MailboxRef("case", "\0")}, {"direction": "all", "cursor": page.next_cursor}):  # fmt: skip
        with pytest.raises(MailboxRangeError):
            await read_mailbox_thread(psycopg_engine, ANN, **({"ref": REF} | options))  # type: ignore[arg-type]


async def found(engine: AsyncEngine, query: str, limit: int = 50, **options: Any) -> list[str]:
    """Subjects of all hits, page by page."""
    subjects: list[str] = []
    cursor = None
    while True:
        page = await search_user_mailbox(engine, ANN, query=query, limit=limit, cursor=cursor, **options)
        subjects += [str(hit.item.subject) for hit in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return subjects


@pytest.mark.spec("INBOX-102")
async def test_search_finds_words_in_subject_sender_and_text(engine: AsyncEngine) -> None:
    """All words, phrases, prefixes, absences and ideographs, newest first, marked where they matched."""
    await write(
        engine, subject="Invoice one", body="Der Rechnungsbetrag ist fällig", from_address="Ada <ada@x.example>"
    )
    await write(engine, subject="Invoice two", body="paid in full, 日本語の手紙")
    await write(engine, BOB, subject="Invoice three")
    assert await found(engine, "invoice") == ["Invoice two", "Invoice one"]
    assert await found(engine, "INVOICE fällig") == ["Invoice one"]
    assert await found(engine, "ada") == ["Invoice one"]
    assert await found(engine, "rechnung*") == ["Invoice one"]
    assert await found(engine, '"paid in full"') == ["Invoice two"]
    assert await found(engine, '"full paid"') == []
    assert await found(engine, "invoice -paid") == ["Invoice one"]
    assert await found(engine, "日本") == ["Invoice two"]
    assert await found(engine, "本日") == []
    assert await found(engine, "o'brien & | ! :* <-> (x)") == []
    (hit,) = (await search_user_mailbox(engine, ANN, query="fällig")).items
    assert hit.as_wire()["highlights"] == [
        {"field": "body", "text": "Der Rechnungsbetrag ist fällig", "marks": [[24, 30]]}
    ]


@pytest.mark.spec("INBOX-102")
@pytest.mark.parametrize("walked", [1, 1000])
async def test_search_pages_lose_nothing_whichever_way_they_are_found(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch, walked: int
) -> None:
    """By walking recent mail or month by month: the same hits in the same order at every limit, views and filters too."""
    monkeypatch.setattr("mailkeep_inbox.search.WALKED_ROWS", walked)
    for n in range(24):
        row_id = await write(
            engine, subject=str(n), body="word" + (" odd" if n % 2 else ""), status="open" if n < 9 else None
        )
        moment = datetime(2020 + n // 12, 1 + n % 12 if n % 5 else 1, 3)  # noqa: DTZ001 -- as the column holds it
        for table in ("mailbox", "principal_mail"):
            await rows(engine, f"UPDATE mailbox.{table} SET created_at = :at WHERE id = :id", at=moment, id=row_id)
        await rows(engine, """UPDATE mailbox.principal_mail SET search = to_tsvector('simple', body_text)
            || array_to_tsvector(ARRAY['M' || left(md5('4:acme:ann'), 16) || to_char(created_at, 'YYYYMM')])
            WHERE id = :id""", id=row_id)  # fmt: skip
        if n == 7:
            await trash_mailbox_message(engine, ANN, row_id)
    ordered = [row.subject for row in await rows(
        engine, "SELECT subject FROM mailbox.mailbox WHERE trashed_at IS NULL ORDER BY created_at DESC, id DESC")]  # fmt: skip
    for limit in (1, 5, 50):
        assert await found(engine, "word", limit) == ordered
        assert await found(engine, "odd", limit) == [each for each in ordered if int(each) % 2]
    assert await found(engine, "word", 2, view="trash") == ["7"]
    chosen = MailboxFilter(status="open")
    assert await found(engine, "word", 3, filter=chosen) == [each for each in ordered if int(each) < 9]
    page = await search_user_mailbox(engine, ANN, query="word", limit=1)
    for other in ({"query": "odd"}, {"query": "word", "view": "trash"}):
        with pytest.raises(MailboxCursorError):
            await search_user_mailbox(engine, ANN, cursor=page.next_cursor, **other)  # type: ignore[arg-type]
    with pytest.raises(MailboxRangeError):
        await search_user_mailbox(engine, ANN, query="-word")


@pytest.mark.spec("INBOX-102")
async def test_any_text_is_indexed(psycopg_engine: AsyncEngine) -> None:
    """A million characters of words, or of one word, do not fail the write."""
    await write(psycopg_engine, subject="big", body=" ".join(f"w{n}" for n in range(150_000))[:1_000_000])
    await write(psycopg_engine, subject="long", body="日" * 300_000 + " end")
    await write(psycopg_engine, subject="solid", body="x" * 1_000_000)
    assert await found(psycopg_engine, "w77") == ["big"]


@pytest.mark.spec("INBOX-101")
async def test_thread_pages_use_the_index_that_their_size_wants(psycopg_engine: AsyncEngine) -> None:
    """Few messages under a ref: the index of refs and the index of msg-ids. Most of them: an ordered scan, no sort."""
    from sqlalchemy import event

    await rows(psycopg_engine, """
        INSERT INTO mailbox.principal_mail (id, tenant_id, principal_id, address, direction, raw, message_id, in_reply_to,
            refs, created_at)
        SELECT 'n' || n, 'acme', 'ann', 'a', 'inbound', '', '<n' || n || '@x>', '<n' || n - 200 || '@x>',
            CASE WHEN n <= 10000 THEN jsonb_build_array(jsonb_build_object('kind', 'case', 'id', (n % 200)::text))
                ELSE '[{"kind": "case", "id": "big"}]' END, timestamp '2020-01-01' + n * interval '1 second'
        FROM generate_series(1, 20000) AS n""")  # fmt: skip
    async with psycopg_engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        for table in ("principal_mail", "mailbox"):
            await connection.exec_driver_sql(f"VACUUM ANALYZE mailbox.{table}")
    plans: list[str] = []
    taken: list[tuple[str, Any]] = []

    def take(_c: Any, _cur: Any, sql: str, parameters: Any, *_rest: Any) -> None:
        taken.append((sql, parameters))

    for ref in ("7", "big"):
        event.listen(psycopg_engine.sync_engine, "before_cursor_execute", take)
        await read_mailbox_thread(psycopg_engine, ANN, ref=MailboxRef("case", ref))
        event.remove(psycopg_engine.sync_engine, "before_cursor_execute", take)
    async with psycopg_engine.connect() as connection:
        for sql, parameters in taken:
            result = await connection.exec_driver_sql(f"EXPLAIN (COSTS OFF) {sql}", parameters)
            plans.append("\n".join(row[0] for row in result))
    few, ancestors, big = plans[0], plans[1], next(plan for plan in plans[2:] if "wanted" not in plan)
    assert "principal_mail_refs_idx" in few
    assert "principal_mail_tenant_id_principal_id_message_id_idx" in ancestors
    assert "principal_mail_tenant_id_principal_id_created_at_id_asc_idx" in big
    assert "Sort" not in big.split("Index Scan using principal_mail_tenant")[0]
