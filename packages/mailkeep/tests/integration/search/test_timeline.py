"""The timeline: every row once, in one order, through the index."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import psycopg
import pytest
from support.mail import message
from support.stored import folder, settings_for, store

from mailkeep.config import Settings
from mailkeep.db import Connection, Database
from mailkeep.errors import CursorForeign, CursorForOtherFilters, PageSizeRefused
from mailkeep.mailbox import Flags
from mailkeep.search import Direction, Filters, ListRequest, Page, list_emails
from mailkeep.search.cursor import Boundary
from mailkeep.search.queries import FolderNames, Selection
from mailkeep.search.timeline import read_page

pytestmark = pytest.mark.anyio
BASE = datetime(2026, 1, 1, tzinfo=UTC)
HOME = settings_for("home", "work")


async def fill(db: Database) -> list[UUID]:
    """60 messages in two accounts: shared instants, undated ones; their ids in the documented order."""
    for account in ("home", "work"):
        binding = await folder(db, account)
        mails = [
            message(
                f"{account} {n}", received_at=None if n % 10 == 0 else BASE + timedelta(minutes=n // 4), sent_at=None
            )
            for n in range(30)
        ]
        await store(db, binding, mails)
    async with db.connection() as connection:
        cursor = await connection.execute("SELECT id, received_at FROM stored_emails")
        rows = await cursor.fetchall()
    rows.sort(key=lambda row: (row[1] is not None, row[1] or BASE, row[0].bytes), reverse=True)
    return [row[0] for row in rows]


async def walk(db: Database, settings: Settings, **request: Any) -> list[UUID]:
    """Every id of a walk to its end."""
    found: list[UUID] = []
    cursor: str | None = None
    while True:
        page = await list_emails(db, settings, ListRequest(cursor=cursor, **request))
        found += [summary.stored_email_id for summary in page.emails]
        if page.next_cursor is None:
            return found
        cursor = page.next_cursor


@pytest.mark.spec("FIND-18", "FIND-19", "FIND-20", "FIND-22", "FIND-26", "DATA-38", "DATA-39", "DATA-40", "MCP-71")
@pytest.mark.parametrize("page_size", [1, 7, 30, 60, 100])
async def test_a_walk_meets_every_row_once_in_both_directions(db: Database, page_size: int) -> None:
    """Shared instants, undated mail and two accounts included; oldest first is the exact reversal."""
    expected = await fill(db)
    assert await walk(db, HOME, page_size=page_size) == expected
    assert await walk(db, HOME, page_size=page_size, direction=Direction.OLDEST_FIRST) == expected[::-1]


@pytest.mark.spec("FIND-21")
async def test_the_session_s_time_zone_changes_nothing(dsn: str) -> None:
    """Results and cursors are the same under a zone with daylight saving."""
    async with Database(dsn) as db:
        expected = await fill(db)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ALTER DATABASE " + connection.info.dbname + " SET timezone = 'Australia/Lord_Howe'")
    async with Database(dsn) as db:
        assert await walk(db, HOME, page_size=7) == expected


@pytest.mark.spec("FIND-26")
async def test_mail_that_arrives_during_a_walk_disturbs_nothing(db: Database) -> None:
    """New rows before the boundary are not repeated into later pages."""
    expected = await fill(db)
    first = await list_emails(db, HOME, ListRequest(page_size=10))
    await store(db, await folder(db, "home"), [message("new", received_at=BASE + timedelta(days=9))], first_uid=1000)
    rest: list[UUID] = []
    cursor = first.next_cursor
    while cursor is not None:
        page = await list_emails(db, HOME, ListRequest(page_size=10, cursor=cursor))
        rest += [summary.stored_email_id for summary in page.emails]
        cursor = page.next_cursor
    assert [summary.stored_email_id for summary in first.emails] + rest == expected


@pytest.mark.spec("FIND-24", "FIND-25")
async def test_a_cursor_serves_its_own_request_only(db: Database) -> None:
    """Another page size or spelling continues; other filters or direction do not; a blank one begins anew."""
    await fill(db)
    first = await list_emails(db, HOME, ListRequest(accounts=("home",), page_size=5))
    again = ListRequest(accounts=("HOME mail", "home"), page_size=9, cursor=first.next_cursor)
    assert len((await list_emails(db, HOME, again)).emails) == 9
    blank = await list_emails(db, HOME, ListRequest(accounts=("home",), page_size=5, cursor="  "))
    assert blank.emails == first.emails
    with pytest.raises(CursorForOtherFilters):
        await list_emails(db, HOME, ListRequest(accounts=("work",), cursor=first.next_cursor))
    with pytest.raises(CursorForOtherFilters):
        await list_emails(
            db, HOME, ListRequest(accounts=("home",), direction=Direction.OLDEST_FIRST, cursor=first.next_cursor)
        )
    with pytest.raises(CursorForeign):
        await list_emails(db, HOME, ListRequest(accounts=("home",), cursor=(first.next_cursor or "")[:-4]))


async def listed(db: Database, **filters: Any) -> set[str | None]:
    """Subjects of the mail that the filters select."""
    page = await list_emails(db, HOME, ListRequest(filters=Filters(**filters), page_size=100))
    return {summary.subject for summary in page.emails}


@pytest.mark.spec("FIND-12", "FIND-13", "FIND-14", "FIND-15", "FIND-16")
async def test_each_filter_selects_what_it_says(db: Database) -> None:
    """Whole addresses in any case, literal wildcards, half-open time, unobserved rows as unseen, real attachments."""
    binding = await folder(db, "home")
    await store(
        db,
        binding,
        [
            message("100% sure", from_="Ann@Example.com", to="bo@example.org", received_at=BASE),
            message("a_b\\c", cc="Cy <cy@example.net>", received_at=BASE + timedelta(days=1)),
            message("undated", headers=[("Reply-To", "re@example.net")], sent_at=None),
        ],
    )
    observed = Flags(seen=True, flagged=True, keywords=("TODO",))
    await store(db, binding, [message("observed", received_at=BASE)], first_uid=50, flags=observed)
    assert await listed(db, sender_address="ann@example.COM") >= {"100% sure"}
    assert await listed(db, recipient_address="cy@example.net") == {"a_b\\c"}
    assert await listed(db, recipient_address="re@example.net") == set()
    assert await listed(db, subject_fragment="0% S") == {"100% sure"}
    assert await listed(db, subject_fragment="%") == {"100% sure"}
    assert await listed(db, subject_fragment="_") == {"a_b\\c"}
    assert await listed(db, subject_fragment="b\\c") == {"a_b\\c"}
    assert await listed(db, received_on_or_after=BASE, received_before=BASE + timedelta(days=1)) == {
        "100% sure",
        "observed",
    }
    assert "undated" not in await listed(db, received_before=BASE + timedelta(days=400))
    assert await listed(db, is_remotely_seen=True) == {"observed"}
    assert "undated" in await listed(db, is_remotely_seen=False)
    assert await listed(db, is_remotely_flagged=True) == {"observed"}
    assert await listed(db, keyword="todo") == {"observed"}
    assert await listed(db, has_attachments=True) == set()
    assert len(await listed(db, has_attachments=False)) == 4


@pytest.mark.spec("FIND-27", "FIND-28")
async def test_a_summary_says_what_was_published_and_no_more(db: Database) -> None:
    """Names, addresses, counts and flags; no Cc, no body."""
    flags = Flags(seen=True, keywords=("A", "B"))
    binding = await folder(db, "home")
    mail = message(
        "Plan",
        from_="Ann Lee <Ann@Example.com>",
        to="bo@example.org",
        cc="cy@x.test",
        message_id="m@x.test",
        received_at=BASE,
    )
    await store(db, binding, [mail], flags=flags)
    (summary,) = (await list_emails(db, HOME, ListRequest())).emails
    assert (summary.account_id, summary.account_display_name, summary.folder_alias) == ("home", "Home Mail", "INBOX")
    assert (summary.subject, summary.internet_message_id, summary.received_at) == ("Plan", "m@x.test", BASE)
    assert (summary.sender_display_name, summary.sender_address) == ("Ann Lee", "Ann@Example.com")
    assert [address.casefold() for address in summary.to_addresses] == ["bo@example.org"]
    assert summary.flags == flags
    assert summary.was_observed
    assert summary.thread_id is not None
    assert not {"cc", "cc_addresses", "body", "reply_to"} & set(type(summary).__slots__)


class Recorder:
    """A connection that notes the statements it carries out."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.statements: list[tuple[Any, Any]] = []

    async def execute(self, statement: Any, parameters: Any = None, **keywords: Any) -> Any:
        self.statements.append((statement, parameters))
        return await self.connection.execute(statement, parameters, **keywords)


def flat(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Every node of a plan."""
    return [plan, *(node for child in plan.get("Plans", ()) for node in flat(child))]


@pytest.mark.spec("DATA-17", "MCP-71")
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("depth", [0, 3_000])
async def test_pages_read_their_index_range_and_nothing_else(db: Database, direction: Direction, depth: int) -> None:
    """Two accounts, any depth: no sort of mail, no filtered-out rows, a handful of buffers."""
    async with db.connection() as connection:
        await connection.execute(MANY)
        await connection.execute("ANALYZE stored_emails")
        boundary = None
        if depth:
            cursor = await connection.execute(
                "SELECT received_at, id FROM stored_emails WHERE uid = %s LIMIT 1", [depth]
            )
            row = await cursor.fetchone()
            assert row is not None
            boundary = Boundary(row[0], row[1])
        names = {n: FolderNames(a, a, f"F{n}") for n, a in enumerate(["home"] * 6 + ["work"] * 6, start=1)}
        recorder = Recorder(connection)
        page = await read_page(
            cast(Connection, recorder),
            Selection(folders=cast(Any, names), filters=Filters()),
            direction=direction,
            boundary=boundary,
            limit=26,
            names_folders=False,
        )
        assert len(page) == 26
        for statement, parameters in recorder.statements:
            cursor = await connection.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters, prepare=False
            )
            row = await cursor.fetchone()
            assert row is not None
            nodes = flat(row[0][0]["Plan"])
            assert {n["Index Name"] for n in nodes if "Index Name" in n} == {"ix_stored_emails_account_timeline"}
            assert not [n for n in nodes if n["Node Type"] == "Sort" and n["Actual Rows"] > 60]
            assert sum(n.get("Rows Removed by Filter", 0) for n in nodes) == 0
            assert nodes[0]["Shared Hit Blocks"] + nodes[0]["Shared Read Blocks"] < 80


MANY = """
INSERT INTO mailbox_accounts (id) VALUES ('home'), ('work');
INSERT INTO mail_folders (id, mailbox_account_id, alias, resolution_generation, remote_path)
SELECT n, CASE WHEN n <= 6 THEN 'home' ELSE 'work' END, 'F' || n, 1, 'F' || n FROM generate_series(1, 12) n;
INSERT INTO stored_emails (id, mailbox_account_id, mail_folder_id, uid_validity, uid, received_at, size_octets,
    content_availability, to_addresses, cc_addresses, reply_to_addresses, thread_references, attachment_count,
    inline_resource_count, attachment_total_size_octets, is_encrypted, carries_unverified_signature,
    contains_unexpanded_tnef_part, is_structurally_read, stored_at)
SELECT gen_random_uuid(), CASE WHEN n % 12 < 6 THEN 'home' ELSE 'work' END, 1 + n % 12, 1, n,
    timestamptz '2016-01-01 00:00Z' + n * interval '4 hours', 100, 'Available', '{}', '{}', '{}', '{}', 0, 0, 0, false,
    false, false, true, now()
FROM generate_series(1, 6000) n;
"""


@pytest.mark.spec("FIND-4")
async def test_without_a_served_account_everything_is_still_checked_and_nothing_found(db: Database) -> None:
    """Rows of accounts that are no longer configured stay unseen; a bad request is refused all the same."""
    await fill(db)
    assert await list_emails(db, settings_for(), ListRequest()) == Page((), None, False, ())
    with pytest.raises(PageSizeRefused):
        await list_emails(db, settings_for(), ListRequest(page_size=0))
