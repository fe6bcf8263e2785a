"""Stored mail read again: bounded, resumable, without a server, and the same result however often."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.mail import conversation, message, raw
from support.rederive_process import process
from support.store import NOW, execute, header_only, inbox, rows, store

from mailkeep.db import Database
from mailkeep.errors import ConcurrencyConflict
from mailkeep.mailbox import (
    AccountId,
    ContentAvailability,
    Flags,
    RederivationRun,
    erase_account,
    rederivation_runs,
    rederive_pass,
    request_rederivation,
    store_batch,
)
from mailkeep.mailbox import rederive as module
from mailkeep_message import Limits

pytestmark = pytest.mark.anyio

ANN = AccountId("ann")
LATER = datetime(2026, 2, 2, tzinfo=UTC)
TESTS = Path(__file__).parents[2]
STATE = """
SELECT e.uid, e.id, e.subject, e.sent_at, e.received_at, e.sender_address, e.to_addresses, e.internet_message_id,
    e.email_thread_id, e.parent_stored_email_id, e.stored_at, e.remote_flags_observed_at, e.is_remotely_seen,
    e.size_octets, e.uid_validity, d.subject_text, d.body_text, d.received_at, d.mail_folder_id, c.raw_mime, c.stored_at
FROM stored_emails e
LEFT JOIN email_search_documents d ON d.stored_email_id = e.id
LEFT JOIN email_message_contents c ON c.stored_email_id = e.id
ORDER BY e.uid
"""
SPOIL = """
WITH spoilt AS (
    UPDATE stored_emails SET subject = 'spoilt', sender_address = NULL, to_addresses = '{}', sent_at = NULL
    RETURNING id)
UPDATE email_search_documents SET subject_text = 'spoilt', body_text = NULL
WHERE stored_email_id IN (SELECT id FROM spoilt)
"""


async def walk(db: Database, run: RederivationRun) -> RederivationRun:
    """Pass after pass to the end."""
    while run.ended_at is None:
        run = await rederive_pass(db, run, limits=Limits(), now=lambda: LATER)
    return run


async def whole(db: Database, alias: str | None = None) -> RederivationRun:
    """Ask for it and walk to the end."""
    return await walk(db, await request_rederivation(db, ANN, alias=alias, now=LATER))


@pytest.mark.spec("SYNC-126")
async def test_columns_documents_and_conversations_come_from_the_octets_again(db: Database) -> None:
    """What a worse reader had left is replaced; identity, flags, octets, moments and an INTERNALDATE stay."""
    binding = await inbox(db)
    await store(db, binding, *conversation(4), message("Alone"), flags=Flags(seen=True))
    before = await rows(db, STATE)
    await execute(db, SPOIL)
    await execute(db, "UPDATE stored_emails SET email_thread_id = NULL, parent_stored_email_id = NULL WHERE uid > 1")
    run = await whole(db)
    assert (run.rederived, run.unreadable, run.missing_content, run.ended_at) == (5, 0, 0, LATER)
    after = await rows(db, STATE)
    assert [row[:8] + row[9:] for row in after[:4]] == [row[:8] + row[9:] for row in before[:4]]
    assert len({row[8] for row in after[:4]}) == 1
    assert after[4][2:4] == before[4][2:4]


@pytest.mark.spec("SYNC-126", "SYNC-116")
async def test_reading_the_same_mail_again_changes_nothing(db: Database) -> None:
    """Also not for two messages that answer each other: the edge refused at arrival is refused again."""
    binding = await inbox(db)
    ring = [message("a", message_id="a@x", in_reply_to="b@x"), message("b", message_id="b@x", in_reply_to="a@x")]
    await store(db, binding, *conversation(3))
    await store(db, binding, ring[0], first_uid=10)
    await store(db, binding, ring[1], first_uid=11)
    before = await rows(db, STATE)
    for _ in range(2):
        assert (await whole(db)).rederived == 5
        assert await rows(db, STATE) == before


@pytest.mark.spec("SYNC-126")
async def test_asking_again_while_outstanding_returns_that_run(db: Database) -> None:
    """A finished one is replaced by a new one with counts from zero; other scopes have runs of their own."""
    await store(db, await inbox(db), message("One"))
    first = await request_rederivation(db, ANN, alias=None, now=NOW)
    assert await request_rederivation(db, ANN, alias=None, now=LATER) == first
    other = await request_rederivation(db, ANN, alias="INBOX", now=LATER)
    assert other.run_id != first.run_id
    done = await walk(db, first)
    assert (done.run_id, done.rederived, done.passes) == (first.run_id, 1, 1)
    again = await request_rederivation(db, ANN, alias=None, now=LATER)
    assert again.run_id != first.run_id
    assert (again.rederived, again.ended_at) == (0, None)
    assert [run.alias for run in await rederivation_runs(db, ANN)] == ["", "INBOX"]


@pytest.mark.spec("SYNC-126")
async def test_a_scope_is_one_alias_or_the_account_and_no_other(db: Database) -> None:
    """Mail of other folders and accounts is not touched."""
    await store(db, await inbox(db), message("In"))
    await store(db, await inbox(db, alias="SENT"), message("Out"))
    await store(db, await inbox(db, "ben"), message("Foreign"))
    await execute(db, SPOIL)
    assert (await whole(db, "SENT")).rederived == 1
    assert sorted(row[2] for row in await rows(db, STATE)) == ["Out", "spoilt", "spoilt"]
    assert (await whole(db)).rederived == 2
    assert sorted(row[2] for row in await rows(db, STATE)) == ["In", "Out", "spoilt"]


@pytest.mark.spec("SYNC-127")
async def test_a_pass_is_bounded_in_batches_and_octets(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many messages, so many batches, so many octets; a message above the bound has a pass of its own."""
    assert (module.BATCH_EMAILS, module.BATCHES_PER_PASS, module.OCTETS_PER_PASS) == (50, 10, 67_108_864)
    monkeypatch.setattr(module, "BATCH_EMAILS", 2)
    monkeypatch.setattr(module, "BATCHES_PER_PASS", 3)
    monkeypatch.setattr(module, "OCTETS_PER_PASS", 5_000)
    small = [message(f"{n}") for n in range(8)]
    await store(db, await inbox(db), *small, message("huge", body="word " * 2_000), message("last"))
    run = await request_rederivation(db, ANN, alias=None, now=LATER)
    counted = []
    while run.ended_at is None:
        run = await rederive_pass(db, run, limits=Limits(), now=lambda: LATER)
        counted.append(run.rederived)
    assert counted == [6, 8, 9, 10]
    assert run.passes == 4


@pytest.mark.spec("SYNC-127")
async def test_unreadable_mail_keeps_its_values_and_missing_content_is_counted_apart(db: Database) -> None:
    """Neither stops the walk; lost and damaged octets are asked to be repaired, deliberately absent ones are not."""
    binding = await inbox(db)
    deep = b"Subject: deep\r\n" + b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(40)
    )
    await store(db, binding, message("Fine"), deep, message("Lost"), message("Damaged"))
    oversized = header_only(5, b"Subject: large\r\n\r\n", ContentAvailability.EXCEEDED_SIZE_LIMIT)
    await store_batch(db, binding, uid_validity=module.UidValidity(7), arrivals=[oversized], now=NOW)
    await execute(db, "UPDATE stored_emails SET subject = 'kept' WHERE uid = 2")
    await execute(
        db, "DELETE FROM email_message_contents c USING stored_emails e WHERE e.id = c.stored_email_id AND uid = 3"
    )
    await execute(
        db,
        "UPDATE email_message_contents c SET raw_mime = overlay(raw_mime placing 'X'::bytea from 1) "
        "FROM stored_emails e WHERE e.id = c.stored_email_id AND uid = 4",
    )
    run = await whole(db)
    assert (run.rederived, run.unreadable, run.missing_content) == (1, 1, 3)
    assert [row[2] for row in await rows(db, STATE)] == ["Fine", "kept", "Lost", "Damaged", "large"]
    asked = await rows(
        db,
        "SELECT uid, defect FROM email_content_repair_requests r JOIN stored_emails e ON e.id = r.stored_email_id "
        "ORDER BY uid",
    )
    assert asked == [(3, "Missing"), (4, "HashMismatch")]


@pytest.mark.spec("SYNC-127")
async def test_a_value_that_the_database_refuses_costs_its_message_nothing(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is halved until the one at fault stands alone; it keeps its values and the others are derived."""
    await store(db, await inbox(db), *(message(f"{n}") for n in range(7)))
    await execute(db, SPOIL)
    await execute(db, "ALTER TABLE stored_emails ADD CONSTRAINT ck_no_three CHECK (subject <> '3')")
    run = await whole(db)
    assert (run.rederived, run.unreadable) == (6, 1)
    assert [row[2] for row in await rows(db, STATE)] == ["0", "1", "2", "spoilt", "4", "5", "6"]


@pytest.mark.spec("SYNC-127")
async def test_batch_and_position_commit_together(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that another process overtook writes nothing of its batch; the counts never double."""
    monkeypatch.setattr(module, "BATCH_EMAILS", 2)
    monkeypatch.setattr(module, "BATCHES_PER_PASS", 1)
    await store(db, await inbox(db), *(message(f"{n}") for n in range(4)))
    run = await request_rederivation(db, ANN, alias=None, now=LATER)
    read_batch = module._read_batch

    async def overtaken(db: Database, batch, *, limits: Limits):  # type: ignore[no-untyped-def]
        readings = await read_batch(db, batch, limits=limits)
        monkeypatch.setattr(module, "_read_batch", read_batch)
        await rederive_pass(db, run, limits=limits, now=lambda: LATER)
        await execute(db, "UPDATE stored_emails SET subject = 'newer' WHERE subject IN ('0', '1')")
        return readings

    monkeypatch.setattr(module, "_read_batch", overtaken)
    with pytest.raises(ConcurrencyConflict):
        await rederive_pass(db, run, limits=Limits(), now=lambda: LATER)
    assert [row[2] for row in await rows(db, STATE)] == ["newer", "newer", "2", "3"]
    assert (await walk(db, run)).rederived == 4


@pytest.mark.spec("SYNC-127", "SYNC-126")
async def test_killed_between_or_within_batches_it_continues_behind_the_last_one(db: Database, dsn: str) -> None:
    """SIGKILL wherever the process is: the run stays outstanding, and the rest is read exactly once."""
    await store(db, await inbox(db), *(message(f"{n}", body="word " * 3_000) for n in range(120)))
    before = await rows(db, STATE)
    await execute(db, SPOIL)
    counts = []
    for _ in range(3):
        with process(dsn, "ann") as running:
            assert running.stdout is not None
            assert running.stdout.readline() == b"batch\n"
            running.kill()
            running.wait()
        (run,) = await rederivation_runs(db, ANN)
        assert run.ended_at is None
        done = await rows(db, "SELECT count(*) FROM stored_emails WHERE subject <> 'spoilt'")
        assert done == [(run.rederived,)]
        counts.append(run.rederived)
    assert 0 < counts[0] < counts[1] < counts[2] < 120
    outstanding = run
    assert await request_rederivation(db, ANN, alias=None, now=LATER) == outstanding
    finished = await walk(db, outstanding)
    assert (finished.run_id, finished.rederived) == (outstanding.run_id, 120)
    assert await rows(db, STATE) == before
    assert await rows(db, "SELECT count(*) FROM mail_rederivation_positions") == [(0,)]


async def test_cancelled_between_batches_it_stays_outstanding(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C keeps what was committed."""
    monkeypatch.setattr(module, "BATCH_EMAILS", 2)
    await store(db, await inbox(db), *(message(f"{n}") for n in range(6)))
    run = await request_rederivation(db, ANN, alias=None, now=LATER)
    page, asked = module._page, asyncio.Event()

    async def second_page_waits(db: Database, scope: dict[str, str], *, after: module.UUID) -> list[module._Listed]:
        if after.int:
            asked.set()
            await asyncio.Event().wait()
        return await page(db, scope, after=after)

    monkeypatch.setattr(module, "_page", second_page_waits)
    task = asyncio.create_task(rederive_pass(db, run, limits=Limits(), now=lambda: LATER))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.setattr(module, "_page", page)
    (left,) = await rederivation_runs(db, ANN)
    assert (left.rederived, left.ended_at) == (2, None)
    assert (await walk(db, left)).rederived == 6


@pytest.mark.spec("SYNC-126")
async def test_erasing_the_account_erases_what_was_asked_of_it(db: Database) -> None:
    """Neither runs nor positions outlive it."""
    await store(db, await inbox(db), message("One"))
    await request_rederivation(db, ANN, alias=None, now=LATER)
    await erase_account(db, ANN)
    assert await rederivation_runs(db, ANN) == []


async def test_replies_find_each_other_when_a_better_reader_names_them(db: Database) -> None:
    """A conversation that was split because identifiers were not read is joined."""
    binding = await inbox(db)
    await store(
        db, binding, raw("Subject: a\nMessage-ID: <a@x>\n\nhi\n"), raw("Subject: b\nIn-Reply-To: <a@x>\n\nho\n")
    )
    await execute(db, "DELETE FROM email_thread_identifiers")
    await execute(db, "UPDATE stored_emails SET email_thread_id = NULL, parent_stored_email_id = NULL")
    await whole(db)
    (first, second) = await rows(db, STATE)
    assert (first[8], second[9]) == (second[8], first[1])
