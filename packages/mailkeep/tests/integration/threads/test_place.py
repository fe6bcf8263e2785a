"""Conversations of stored mail: out of order, merged, read within a scope."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from support.mail import conversation, message
from support.store import NOW, execute, inbox, rows, store

from mailkeep.db import Database
from mailkeep.threads import read_thread

pytestmark = pytest.mark.anyio

SHAPE = (
    "SELECT e.internet_message_id, p.internet_message_id FROM stored_emails e "
    "LEFT JOIN stored_emails p ON p.id = e.parent_stored_email_id ORDER BY e.internet_message_id"
)


@pytest.mark.spec("SYNC-115", "SYNC-116")
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (1, 3, 0, 2)])
@pytest.mark.parametrize("batch_size", [1, 2, 4])
async def test_conversation_is_the_same_in_any_order_and_batching(
    db: Database, order: tuple[int, ...], batch_size: int
) -> None:
    """Replies before the message they answer end up where they would have been."""
    binding = await inbox(db)
    mails = conversation(4)
    for first in range(0, 4, batch_size):
        await store(
            db,
            binding,
            *(mails[position] for position in order[first : first + batch_size]),
            first_uid=first + 1,
            now=NOW + timedelta(minutes=first),
        )
    assert await rows(db, SHAPE) == [
        ("c0@example.com", None),
        ("c1@example.com", "c0@example.com"),
        ("c2@example.com", "c1@example.com"),
        ("c3@example.com", "c2@example.com"),
    ]
    assert await rows(db, "SELECT count(DISTINCT email_thread_id) FROM stored_emails") == [(1,)]


@pytest.mark.spec("SYNC-115")
async def test_two_replies_to_an_absent_message_meet(db: Database) -> None:
    """The identifier of a message never fetched is a row too."""
    binding = await inbox(db)
    await store(db, binding, message("a", in_reply_to="gone@example.com"))
    await store(db, binding, message("b", references=["gone@example.com"]), first_uid=2)
    assert await rows(db, "SELECT count(DISTINCT email_thread_id) FROM stored_emails") == [(1,)]


@pytest.mark.spec("SYNC-113", "DATA-31")
async def test_equal_subjects_and_other_accounts_never_link(db: Database) -> None:
    """Conversations follow identifiers alone and never span accounts."""
    mail = message("Same", message_id="same@example.com")
    await store(db, await inbox(db), mail, message("Same"), message("Re: Same"))
    await store(db, await inbox(db, "bob"), mail)
    assert await rows(db, "SELECT count(DISTINCT email_thread_id) FROM stored_emails") == [(4,)]


@pytest.mark.spec("SYNC-115", "SYNC-118")
async def test_merged_conversations_keep_their_published_ids(db: Database) -> None:
    """A chain of merges: the earliest survives, mail and identifiers move, every old id leads to it."""
    binding = await inbox(db)
    threads = []
    for n in range(4):
        await store(
            db, binding, message(f"{n}", message_id=f"{n}@example.com"), first_uid=n + 1, now=NOW - timedelta(hours=n)
        )
        threads.append((await rows(db, "SELECT email_thread_id FROM stored_emails WHERE uid = %s", n + 1))[0][0])
    for n in range(3):
        await store(
            db,
            binding,
            message("join", references=[f"{n}@example.com", f"{n + 1}@example.com"]),
            first_uid=10 + n,
            now=NOW + timedelta(hours=n),
        )
    assert await rows(db, "SELECT DISTINCT email_thread_id FROM stored_emails") == [(threads[3],)]
    assert await rows(db, "SELECT DISTINCT email_thread_id FROM email_thread_identifiers") == [(threads[3],)]
    assert await rows(
        db,
        "SELECT id, merged_into_email_thread_id FROM email_threads WHERE id <> %s ORDER BY assembled_at DESC",
        threads[3],
    ) == list(itertools.pairwise(threads))
    async with db.connection() as connection:
        for published in threads:
            thread = await read_thread(connection, published, folder_ids=[binding.folder_id])
            assert (thread.thread_id, len(thread.entries)) == (threads[3], 7)


@pytest.mark.spec("SYNC-116")
@pytest.mark.case("139")
async def test_messages_that_answer_each_other_make_no_cycle(db: Database) -> None:
    """Whether they come together or apart, one of the two edges is refused."""
    binding = await inbox(db)
    one = message("a", message_id="a@example.com", in_reply_to="b@example.com")
    two = message("b", message_id="b@example.com", in_reply_to="a@example.com")
    await store(db, binding, one)
    await store(db, binding, two, first_uid=2)
    assert await rows(db, "SELECT count(parent_stored_email_id) FROM stored_emails") == [(1,)]
    other = await inbox(db, "bob")
    await store(db, other, one, two)
    assert await rows(
        db, "SELECT count(parent_stored_email_id) FROM stored_emails WHERE mailbox_account_id = 'bob'"
    ) == [(1,)]


@pytest.mark.spec("SYNC-118")
async def test_thread_is_read_within_the_scope(db: Database) -> None:
    """Other folders and tombstones are not part of what a reader sees; an unknown conversation is empty."""
    first, second, third = conversation(3)
    binding, archive = await inbox(db), await inbox(db, alias="ARCHIVE")
    await store(db, binding, first, third)
    await store(db, archive, second)
    thread_id = (await rows(db, "SELECT DISTINCT email_thread_id FROM stored_emails"))[0][0]

    async def seen(*folder_ids: int) -> list[tuple[int, bool]]:
        async with db.connection() as connection:
            thread = await read_thread(connection, thread_id, folder_ids=folder_ids)
            return [(entry.depth, entry.parent_stored_email_id is None) for entry in thread.entries]

    assert await seen(binding.folder_id, archive.folder_id) == [(0, True), (1, False), (2, False)]
    assert await seen(binding.folder_id) == [(0, True), (0, True)]
    await execute(
        db, "UPDATE stored_emails SET remote_expunge_observed_at = now() WHERE mail_folder_id = %s", [archive.folder_id]
    )
    assert await seen(binding.folder_id, archive.folder_id) == [(0, True), (0, True)]
    await execute(db, "UPDATE stored_emails SET is_retained_after_authored_delete = true")
    assert len(await seen(binding.folder_id, archive.folder_id)) == 3
    async with db.connection() as connection:
        unknown: UUID = uuid4()
        assert (await read_thread(connection, unknown, folder_ids=[binding.folder_id])).entries == ()


@pytest.mark.spec("SYNC-118")
async def test_long_thread_is_bounded_and_says_so(db: Database) -> None:
    """Five hundred entries, and a sign that there are more."""
    binding = await inbox(db)
    await store(db, binding, *(message(f"{n}", references=["r@example.com"]) for n in range(501)))
    thread_id = (await rows(db, "SELECT DISTINCT email_thread_id FROM stored_emails"))[0][0]
    async with db.connection() as connection:
        thread = await read_thread(connection, thread_id, folder_ids=[binding.folder_id])
    assert (len(thread.entries), thread.is_truncated) == (500, True)


@pytest.mark.spec("SYNC-116")
async def test_erased_parent_and_refetched_reply_keep_the_conversation(db: Database) -> None:
    """The reply becomes a root and stays; the answered message, fetched again, adopts it again."""
    binding = await inbox(db)
    first, second = conversation(2)
    await store(db, binding, first, second)
    before = await rows(db, "SELECT email_thread_id FROM stored_emails WHERE uid = 2")
    await execute(db, "DELETE FROM stored_emails WHERE uid = 1")
    assert await rows(db, "SELECT parent_stored_email_id, email_thread_id FROM stored_emails") == [(None, before[0][0])]
    await store(db, binding, first)
    assert (await rows(db, SHAPE))[1] == ("c1@example.com", "c0@example.com")
    assert await rows(db, "SELECT DISTINCT email_thread_id FROM stored_emails") == before


async def test_placing_a_batch_takes_a_fixed_number_of_statements(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred messages cost as many statements as two: the work is set-based."""
    binding = await inbox(db)
    genuine = psycopg.AsyncConnection.execute
    counts: list[int] = []

    async def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        counts[-1] += 1
        return await genuine(self, *args, **kwargs)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", counting)
    for size in (2, 200):
        counts.append(0)
        await store(db, binding, *conversation(size, domain=f"d{size}.example"), first_uid=size * 1000)
    assert counts[0] == counts[1] > 0
