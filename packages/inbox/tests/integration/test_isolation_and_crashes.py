"""A second tenant with equal ids sees, counts and changes nothing; a broken connection leaves nothing half done."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inbox_support.mail import ANN, PRIORITIES, STRANGER, count, message, rows, write
from inbox_support.postgres import engine_of
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.ext.asyncio import AsyncEngine

import mailkeep_inbox as inbox

pytestmark = pytest.mark.anyio

REF = inbox.MailboxRef("case", "1")
NOW = datetime(2030, 1, 1, tzinfo=UTC)

READS: dict[str, Callable[[Any, str], Awaitable[Any]]] = {
    "list": lambda db, _: inbox.list_user_mailbox(db, STRANGER, priorities=PRIORITIES, direction="all"),
    "list by priority": lambda db, _: inbox.list_user_mailbox(db, STRANGER, priorities=PRIORITIES, sort="priority"),
    "list by label": lambda db, _: inbox.list_user_mailbox(
        db, STRANGER, priorities=PRIORITIES, filter=inbox.MailboxFilter(label="x")
    ),
    "search": lambda db, _: inbox.search_user_mailbox(db, STRANGER, query="text"),
    "thread": lambda db, _: inbox.read_mailbox_thread(db, STRANGER, ref=REF, direction="all"),
    "events": lambda db, _: inbox.read_mailbox_events(db, STRANGER, after="0.0"),
    "detail": lambda db, row_id: inbox.get_mailbox_message(db, STRANGER, row_id, direction="all"),
    "by message id": lambda db, _: inbox.read_mailbox_message_by_message_id(db, STRANGER, "<m@x>"),
    "attachment": lambda db, row_id: inbox.read_mailbox_attachment(db, STRANGER, row_id, 0),
    "unread": lambda db, _: inbox.count_unread_active_mailbox(db, STRANGER),
}
CHANGES: dict[str, Callable[[Any, str], Awaitable[Any]]] = {
    "read": lambda db, row_id: inbox.mark_mailbox_message_read(db, STRANGER, row_id),
    "unread": lambda db, row_id: inbox.mark_mailbox_message_unread(db, STRANGER, row_id),
    "archive": lambda db, row_id: inbox.archive_mailbox_message(db, STRANGER, row_id),
    "trash": lambda db, row_id: inbox.trash_mailbox_message(db, STRANGER, row_id),
    "restore": lambda db, row_id: inbox.restore_mailbox_message(db, STRANGER, row_id),
    "assign": lambda db, row_id: inbox.assign_mailbox_message(db, STRANGER, row_id, assignee="x"),
    "enrich": lambda db, row_id: inbox.enrich_mailbox_message(db, STRANGER, row_id, status="x"),
    "snooze": lambda db, row_id: inbox.snooze_mailbox_message(db, STRANGER, row_id, until=NOW),
    "label": lambda db, row_id: inbox.label_mailbox_message(db, STRANGER, row_id, add=["y"]),
    "mark all": lambda db, _: inbox.mark_all_mailbox_read(db, STRANGER),
    "filter": lambda db, _: inbox.apply_mailbox_action_to_filter(db, STRANGER, "trash"),
    "purge": lambda db, _: inbox.purge_principal_mailbox(db, STRANGER),
    "purge tenant": lambda db, _: inbox.purge_tenant_mailbox(db, "other"),
    "purge batches": lambda db, _: inbox.purge_mailbox_in_batches(db, STRANGER),
    "retention": lambda db, _: inbox.purge_mailbox_older_than(db, STRANGER, cutoff=NOW),
    "retention of a tenant": lambda db, _: inbox.purge_mailbox_older_than(db, "other", cutoff=NOW),
}


async def everything(engine: AsyncEngine) -> list[Any]:
    """All that is stored."""
    return [
        list(await rows(engine, f"SELECT * FROM mailbox.{table} ORDER BY 1"))
        for table in ("principal_mail", "mailbox", "mailbox_event")
    ]


@pytest.mark.spec("INBOX-77", "INBOX-15", "INBOX-97")
async def test_second_tenant_with_equal_ids_gets_nothing(engine: AsyncEngine) -> None:
    """Every read is empty, every change matches nothing, every write is refused, and no row differs after it."""
    row_id = await write(engine, refs=[REF], message_id="<m@x>", message_key="k", priority="high")
    await inbox.label_mailbox_message(engine, ANN, row_id, add=["x"])
    await write(engine, direction="outbound", refs=[REF])
    before = await everything(engine)
    for name, call in READS.items():
        found = await call(engine, row_id)
        assert getattr(found, "items", getattr(found, "events", found)) in ((), None, 0), name
    for name, call in CHANGES.items():
        assert await call(engine, row_id) in (False, 0), name
    bulk = await inbox.apply_mailbox_bulk_action(engine, STRANGER, "trash", [row_id])
    assert [result.ok for result in bulk] == [False]
    assert [each async for each in inbox.export_tenant_mailbox(engine, "other")] == []
    for write_it in (
        lambda: write(engine, STRANGER, message_key="k"),
        lambda: inbox.write_mailbox_messages(engine, [inbox.ScopedMessage(STRANGER, message())]),
        lambda: inbox.deliver_inbox_items(engine, [inbox.InboxItem(
            scope=STRANGER, source="s", external_id="e", address="a", from_address="b", subject="c", body="d")]),
    ):  # fmt: skip
        with pytest.raises(inbox.MailboxScopeError):
            await write_it()
    assert await everything(engine) == before


@pytest.mark.spec("INBOX-8", "INBOX-16")
async def test_ids_no_row_can_have_match_nothing(psycopg_engine: AsyncEngine) -> None:
    """NUL, surrogates, blanks and endless ids never reach the server."""
    for row_id in ("", "\0", "\ud800", "x" * 256):
        assert await inbox.get_mailbox_message(psycopg_engine, ANN, row_id) is None
        assert not await inbox.mark_mailbox_message_read(psycopg_engine, ANN, row_id)


@pytest.mark.spec("INBOX-11", "INBOX-36", "INBOX-20")
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_connection_killed_before_any_statement_leaves_all_or_nothing(inbox_dsn: str, driver: str) -> None:
    """A batch in two statements, cut before each one and before its commit: no row, and the retry writes all."""
    engine = engine_of(inbox_dsn, driver=driver)
    items = [inbox.ScopedMessage(ANN, message(message_key=f"k{n}")) for n in range(205)]
    cut_at = 0
    while True:
        cut_at += 1
        if not await cut(engine, inbox_dsn, cut_at, lambda: inbox.write_mailbox_messages(engine, items)):
            break
        stored = [await count(engine, table) for table in ("principal_mail", "mailbox", "mailbox_event")]
        assert stored == [0, 0, 0], cut_at
    assert cut_at >= 4
    assert [await count(engine, table) for table in ("principal_mail", "mailbox")] == [205, 205]
    await engine.dispose()


async def cut(engine: AsyncEngine, dsn: str, place: int, call: Callable[[], Awaitable[Any]]) -> bool:
    """Run a call whose connection is ended before its statement number `place`, or its commit; whether it broke."""
    seen = 0

    def kill(raw: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == place:
            with psycopg.connect(dsn, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )

    def before(_connection: Any, cursor: Any, *_rest: Any) -> None:
        kill(cursor)

    event.listen(engine.sync_engine, "before_cursor_execute", before)
    event.listen(engine.sync_engine, "commit", kill)
    try:
        await call()
    except (DBAPIError, InterfaceError, OSError):
        broke = True
    else:
        broke = False
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", before)
        event.remove(engine.sync_engine, "commit", kill)
    await engine.dispose()
    return broke


@pytest.mark.spec("INBOX-1")
def test_public_names_exist_and_loading_one_loads_no_database_library() -> None:
    """Every exported name resolves; the errors alone come without SQLAlchemy."""
    import subprocess
    import sys

    for name in inbox.__all__:
        assert getattr(inbox, name) is not None
    stub = Path(inbox.__file__).with_suffix(".pyi").read_text()
    assert sorted(re.findall(r" as (\w+)", stub)) == inbox.__all__
    script = "import sys; from mailkeep_inbox import MailboxRangeError; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
