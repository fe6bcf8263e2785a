"""Storing batches: what the rows say, idempotence, isolation of what PostgreSQL refuses."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from support.mail import File, message, raw
from support.store import EPOCH, INTERNALDATE, NOW, arrival, execute, header_only, inbox, rows, store

import mailkeep.preparation.document
import mailkeep.preparation.encoding
from mailkeep.db import Database
from mailkeep.errors import ConcurrencyConflict, DatabaseUnavailable
from mailkeep.mailbox import (
    Arrival,
    BatchOutcome,
    ContentAvailability,
    Flags,
    QuarantineReason,
    Uid,
    UidValidity,
    awaiting_content,
    filter_unknown,
    prepare,
    quarantine,
    quarantined,
    store_batch,
    store_prepared,
)

pytestmark = pytest.mark.anyio

FULL = message(
    "Lunch",
    from_="Ann Lee <Ann@Example.com>",
    to="Robin Winter <robin@example.org>, b@example.org",
    cc="c@example.org",
    message_id="m1@example.com",
    in_reply_to="m0@example.com",
    references=["root@example.com", "m0@example.com"],
    received_at=datetime(2024, 3, 5, 9, 31, tzinfo=UTC),
    headers=[("Reply-To", "ann@home.example")],
    files=[File("a.pdf", "application/pdf", b"x" * 10), File("b.bin", octets=b"y" * 5)],
)


@pytest.mark.spec("SYNC-92", "SYNC-93", "SYNC-94", "SYNC-102", "SYNC-111", "SYNC-119")
async def test_message_becomes_row_document_and_octets(db: Database) -> None:
    """Every table of a message is written in one go, each column from its place in the message."""
    binding = await inbox(db)
    outcome = await store(db, binding, FULL, flags=Flags(seen=True, keywords=("A", "B")))
    assert outcome == BatchOutcome(stored=1, octets_stored=len(FULL))
    row = (
        await rows(
            db,
            "SELECT mailbox_account_id, mail_folder_id, uid_validity, uid, internet_message_id, subject, sent_at, "
            "received_at, size_octets, content_availability, sender_display_name, sender_address, "
            "sender_normalized_address, to_addresses, cc_addresses, reply_to_addresses, in_reply_to, "
            "thread_references, attachment_count, inline_resource_count, attachment_total_size_octets, "
            "is_structurally_read, stored_at, remote_flags_observed_at, is_remotely_seen, is_remotely_flagged, "
            "remote_keywords FROM stored_emails",
        )
    )[0]
    assert row == (
        "ann",
        binding.folder_id,
        7,
        1,
        "m1@example.com",
        "Lunch",
        datetime(2024, 3, 5, 9, 30, tzinfo=UTC),
        datetime(2024, 3, 5, 9, 31, tzinfo=UTC),
        len(FULL),
        "Available",
        "Ann Lee",
        "Ann@Example.com",
        "ANN@EXAMPLE.COM",
        ["ROBIN@EXAMPLE.ORG", "B@EXAMPLE.ORG"],
        ["C@EXAMPLE.ORG"],
        ["ANN@HOME.EXAMPLE"],
        "m0@example.com",
        ["root@example.com", "m0@example.com"],
        2,
        0,
        15,
        True,
        NOW,
        NOW,
        True,
        False,
        ["A", "B"],
    )
    assert await rows(db, "SELECT raw_mime, mime_byte_length, sha256_hash, stored_at FROM email_message_contents") == [
        (FULL, len(FULL), hashlib.sha256(FULL).digest(), NOW)
    ]
    assert await rows(db, "SELECT subject_text, mail_folder_id, text_source FROM email_search_documents") == [
        ("Lunch", binding.folder_id, "PlainTextBodyPart")
    ]
    found = "SELECT 1 FROM email_search_documents WHERE search_vector @@ plainto_tsquery('simple', 'lunch there')"
    assert await rows(db, found) == [(1,)]


@pytest.mark.spec("SYNC-93")
async def test_received_at_falls_back_to_internaldate(db: Database) -> None:
    """Sent and draft mail has no Received field; it sorts where the server got it, the document alike."""
    await store(db, await inbox(db), message(sent_at=None))
    both = "SELECT e.received_at, d.received_at FROM stored_emails e JOIN email_search_documents d ON d.stored_email_id = e.id"
    assert await rows(db, both) == [(INTERNALDATE, INTERNALDATE)]


@pytest.mark.spec("DATA-24", "SYNC-75")
async def test_flags_that_nobody_fetched_stay_unobserved(db: Database) -> None:
    """False flags on a row tell nothing until somebody looked."""
    await store(db, await inbox(db), message())
    assert await rows(db, "SELECT remote_flags_observed_at, is_remotely_seen FROM stored_emails") == [(None, False)]


@pytest.mark.spec("DATA-3")
async def test_ids_follow_the_order_of_the_batch_and_its_instant(db: Database) -> None:
    """Keys are UUIDv7 of the instant that the rows record, ascending with the UIDs."""
    await store(db, await inbox(db), *(message(f"n {n}") for n in range(20)))
    stored = await rows(db, "SELECT id, uid FROM stored_emails ORDER BY id")
    assert [uid for _, uid in stored] == list(range(1, 21))
    assert {key.version for key, _ in stored} == {7}
    assert {int.from_bytes(key.bytes[:6], "big") for key, _ in stored} == {int(NOW.timestamp() * 1000)}


@pytest.mark.spec("SYNC-56")
async def test_batch_repeated_after_a_crash_leaves_the_same_rows(db: Database) -> None:
    """A run that died between storing and its checkpoint stores again, and nothing changes, not even a row version."""
    binding = await inbox(db)
    mails = [message(f"n {n}", message_id=f"{n}@example.com") for n in range(3)]
    await store(db, binding, *mails)
    state = "SELECT e.*, e.xmin, c.xmin, d.xmin FROM stored_emails e JOIN email_message_contents c ON c.stored_email_id = e.id JOIN email_search_documents d ON d.stored_email_id = e.id ORDER BY e.uid"
    before = await rows(db, state)
    outcome = await store(db, binding, *mails, now=NOW + timedelta(hours=1), flags=Flags(seen=True))
    assert outcome == BatchOutcome(stored=3, octets_stored=0)
    assert await rows(db, state) == before
    assert await rows(db, "SELECT count(*) FROM email_threads") == [(3,)]


@pytest.mark.spec("SYNC-58", "DATA-7")
async def test_largest_uid_and_uid_validity_round_trip(db: Database) -> None:
    """Both are unsigned 32-bit numbers."""
    largest = 4_294_967_295
    await store(db, await inbox(db), message(), first_uid=largest, uid_validity=largest)
    assert await rows(db, "SELECT uid_validity, uid FROM stored_emails") == [(largest, largest)]


async def test_uid_named_twice_in_a_batch_is_stored_once(db: Database) -> None:
    """A server that answers one UID twice does not stop its folder."""
    binding = await inbox(db)
    twice = [arrival(1, message("first")), arrival(1, message("second"))]
    outcome = await store_batch(db, binding, uid_validity=EPOCH, arrivals=twice, now=NOW)
    assert outcome.stored == 1
    assert await rows(db, "SELECT subject FROM stored_emails") == [("second",)]


@pytest.mark.spec("SYNC-60", "SYNC-64")
async def test_message_without_octets_gets_its_row_from_the_header(db: Database) -> None:
    """Too large or waiting for room: listed, found by its subject, and not available."""
    binding = await inbox(db)
    header = raw("From: a@example.com\nSubject: Holiday film\nMessage-ID: <big@example.com>\n\n")
    outcome = await store_batch(
        db,
        binding,
        uid_validity=EPOCH,
        arrivals=[header_only(1, header), header_only(2, header, ContentAvailability.AWAITING_STORAGE_HEADROOM)],
        now=NOW,
    )
    assert (outcome.stored, outcome.oversized, outcome.octets_stored) == (2, 1, 0)
    assert await rows(db, "SELECT content_availability, subject, size_octets FROM stored_emails ORDER BY uid") == [
        ("ExceededSizeLimit", "Holiday film", 99_000_000),
        ("AwaitingStorageHeadroom", "Holiday film", 99_000_000),
    ]
    assert (
        await rows(db, "SELECT text_source, subject_text FROM email_search_documents")
        == [("BodyNotExtracted", "Holiday film")] * 2
    )
    assert await rows(db, "SELECT 1 FROM email_message_contents") == []
    assert await awaiting_content(db, binding.folder_id, uid_validity=EPOCH, limit=10) == [(2, 99_000_000)]


@pytest.mark.spec("SYNC-68", "SYNC-92", "SYNC-119")
async def test_refill_lands_on_the_existing_row_and_leaves_the_queue(db: Database) -> None:
    """Octets that come later complete the row: same id, same first moment, flags as reconciliation left them."""
    binding = await inbox(db)
    octets = message("Holiday film", body="Waves and dunes.\n", message_id="big@example.com")
    waiting = header_only(
        1, octets.partition(b"\r\n\r\n")[0], ContentAvailability.AWAITING_STORAGE_HEADROOM, flags=Flags(seen=True)
    )
    await store_batch(db, binding, uid_validity=EPOCH, arrivals=[waiting], now=NOW)
    kept = "SELECT id, stored_at, is_remotely_seen, email_thread_id FROM stored_emails"
    before = await rows(db, kept)
    outcome = await store(db, binding, octets, now=NOW + timedelta(days=1), flags=Flags(flagged=True))
    assert outcome.octets_stored == len(octets)
    assert await rows(db, kept) == before
    assert await rows(db, "SELECT content_availability FROM stored_emails") == [("Available",)]
    assert await rows(db, "SELECT body_text, text_source FROM email_search_documents") == [
        ("Waves and dunes.", "PlainTextBodyPart")
    ]
    assert await rows(db, "SELECT raw_mime FROM email_message_contents") == [(octets,)]
    assert await awaiting_content(db, binding.folder_id, uid_validity=EPOCH, limit=10) == []


@pytest.mark.spec("SYNC-111")
async def test_header_only_arrival_never_overwrites_what_is_here(db: Database) -> None:
    """A later answer without octets takes nothing away."""
    binding = await inbox(db)
    await store(db, binding, FULL)
    await store_batch(db, binding, uid_validity=EPOCH, arrivals=[header_only(1, b"Subject: other\r\n\r\n")], now=NOW)
    assert await rows(db, "SELECT subject, content_availability FROM stored_emails") == [("Lunch", "Available")]
    assert await rows(db, "SELECT subject_text FROM email_search_documents") == [("Lunch",)]


@pytest.mark.spec("SYNC-60", "SYNC-64")
async def test_waiting_message_that_proves_oversized_leaves_the_queue(db: Database) -> None:
    """A refill that meets the size limit marks the row for good."""
    binding = await inbox(db)
    waiting = header_only(1, b"Subject: x\r\n\r\n", ContentAvailability.AWAITING_STORAGE_HEADROOM)
    await store_batch(db, binding, uid_validity=EPOCH, arrivals=[waiting], now=NOW)
    oversized = replace(waiting, availability=ContentAvailability.EXCEEDED_SIZE_LIMIT)
    await store_batch(db, binding, uid_validity=EPOCH, arrivals=[oversized], now=NOW)
    assert await rows(db, "SELECT content_availability FROM stored_emails") == [("ExceededSizeLimit",)]


@pytest.mark.spec("SYNC-91")
async def test_unreadable_structure_is_stored_and_counted(db: Database) -> None:
    """A message with more parts than are allowed keeps its octets and its envelope."""
    parts = b"".join(b"--b\r\n\r\nx\r\n" for _ in range(1100))
    octets = b'Subject: bomb\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n' + parts + b"--b--\r\n"
    outcome = await store(db, await inbox(db), octets, message("fine"))
    assert (outcome.stored, outcome.unreadable) == (2, 1)
    assert await rows(db, "SELECT subject, is_structurally_read FROM stored_emails ORDER BY uid") == [
        ("bomb", False),
        ("fine", True),
    ]
    assert (octets,) in await rows(db, "SELECT raw_mime FROM email_message_contents")


@pytest.mark.spec("SYNC-107", "DATA-8")
@pytest.mark.case("182")
async def test_nul_and_lone_surrogates_do_not_stop_a_batch(db: Database) -> None:
    """Hostile characters anywhere in a message: its octets are kept as they are, its text loses what cannot be kept."""
    hostile = (
        b'Subject: a\0b =?utf-8?q?c=00d=ED=A0=80e?=\r\nFrom: "n\0ame" <a@example.com>\r\n'
        b"Message-ID: <i\0d@example.com>\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nbo\0dy \xed\xa0\x80 end\r\n"
    )
    outcome = await store(db, await inbox(db), message("before"), hostile, message("after"))
    assert outcome == BatchOutcome(stored=3, octets_stored=outcome.octets_stored)
    assert await rows(db, "SELECT raw_mime FROM email_message_contents WHERE mime_byte_length = %s", len(hostile)) == [
        (hostile,)
    ]


@pytest.mark.spec("SYNC-96", "DATA-36", "DATA-37")
@pytest.mark.case("184")
@pytest.mark.parametrize("letter", ["a", "é", "\U0001f600"])
async def test_over_long_header_values_are_dropped_and_their_neighbours_kept(db: Database, letter: str) -> None:
    """Kilobytes of identifier or address never meet an index entry's limit; the message is stored without them."""
    long = letter * 1000
    octets = raw(
        f"Message-ID: <{letter * 8000}@example.com>\nIn-Reply-To: <{letter * 8000}@example.com>\n"
        f"References: <{letter * 8000}@x> <kept@example.com>\n"
        f"From: <{long}@example.com>\nTo: <{long}@example.com>, kept@example.com\nSubject: s\n\nbody\n"
    )
    outcome = await store(db, await inbox(db), octets)
    assert outcome == BatchOutcome(stored=1, octets_stored=len(octets))
    columns = "internet_message_id, in_reply_to, thread_references, sender_address, to_addresses"
    assert await rows(db, f"SELECT {columns} FROM stored_emails") == [
        (None, None, ["kept@example.com"], None, ["KEPT@EXAMPLE.COM"])
    ]


@pytest.mark.spec("DATA-29", "SYNC-111")
@pytest.mark.parametrize("unit", ["\U00010400", "\U0001f600"], ids=["letters", "symbols"])
async def test_largest_texts_of_four_byte_words_still_insert(db: Database, unit: str) -> None:
    """Hyphenated words of the widest characters in subject, names and body: indexed within the vector's limit."""
    words = "-".join(unit * 2 + str(n) for n in range(60_000))
    octets = raw(
        f"Subject: {words[:3000]}\nFrom: {words[:120]} <a@example.com>\n"
        f"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{words}\n"
    )
    outcome = await store(db, await inbox(db), octets)
    assert (outcome.stored, outcome.quarantined) == (1, ())
    assert await rows(db, "SELECT indexed_body_characters > 0 FROM email_search_documents") == [(True,)]


@pytest.mark.case("185", "187")
async def test_vector_over_its_limit_is_stored_partly_indexed(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """When our own bounds fail and PostgreSQL answers 54000, only the index gets less; the text is kept and marked."""
    monkeypatch.setattr(mailkeep.preparation.document, "_VECTOR_OCTETS", 1 << 40)
    text = "".join(chr(0x20000 + n * n * (n % 97 + 1) % 20_011) for n in range(100_000))
    octets = message("Long", body=text + "\n", message_id="long@example.com")
    binding = await inbox(db)
    outcome = await store(db, binding, message("before"), octets, message("after"))
    assert outcome == BatchOutcome(stored=3, octets_stored=outcome.octets_stored)
    assert await rows(
        db,
        "SELECT length(d.body_text) > 50000, d.indexed_body_characters < length(d.body_text), e.is_structurally_read "
        "FROM email_search_documents d JOIN stored_emails e ON e.id = d.stored_email_id WHERE e.uid = 2",
    ) == [(True, True, True)]
    assert await quarantined(db, binding.folder_id) == []


@pytest.mark.case("26", "212")
async def test_one_refused_message_is_isolated_and_kept_bare(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """When text slips through that PostgreSQL refuses, its neighbours are stored whole and it keeps its octets."""
    refuse(monkeypatch, marker="POISON", until=mailkeep.preparation.encoding.Form.BARE)
    binding = await inbox(db)
    mails = [message(f"n {n}" if n != 5 else "POISON") for n in range(9)]
    outcome = await store(db, binding, *mails)
    assert (outcome.stored, outcome.unreadable, outcome.quarantined) == (9, 1, ())
    subjects = [subject for (subject,) in await rows(db, "SELECT subject FROM stored_emails ORDER BY uid")]
    assert subjects == [f"n {n}" if n != 5 else None for n in range(9)]
    assert (mails[5],) in await rows(db, "SELECT raw_mime FROM email_message_contents")


@pytest.mark.case("26", "212")
async def test_message_refused_in_every_form_is_quarantined_with_its_reason(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost silently: every arrival is stored or quarantined, and a later success leaves quarantine."""
    binding = await inbox(db)
    mails = [message(f"n {n}" if n != 2 else "POISON") for n in range(4)]
    with monkeypatch.context() as patch:
        refuse(patch, marker="POISON", until=None)
        outcome = await store(db, binding, *mails)
    assert (outcome.stored, outcome.quarantined) == (3, ((Uid(3), QuarantineReason.STORAGE_REFUSED),))
    entry = (await quarantined(db, binding.folder_id))[0]
    assert (entry.uid, entry.reason, entry.detail, entry.attempt_count) == (3, "StorageRefused", "22021", 1)
    assert entry.size_octets == len(mails[2])
    assert await filter_unknown(db, binding.folder_id, uid_validity=EPOCH, uids=[Uid(n) for n in range(1, 7)]) == [5, 6]
    assert (await store(db, binding, *mails)).stored == 4
    assert await quarantined(db, binding.folder_id) == []


def refuse(monkeypatch: pytest.MonkeyPatch, *, marker: str, until: Any) -> None:
    """Put a NUL, which PostgreSQL refuses, into the row of the marked message in every form before `until`."""
    genuine = mailkeep.preparation.encoding._in_form

    def poisoned(arrival: Arrival, limits: Any, form: Any) -> Any:
        prepared = genuine(arrival, limits, form)
        if arrival.octets is not None and marker.encode() in arrival.octets and (until is None or form < until):
            address = b"\0\0\0\1\0"
            return replace(prepared, row=prepared.row[:12] + address + prepared.row[12 + field_length(prepared.row) :])
        return prepared

    def field_length(row: bytes) -> int:
        length = int.from_bytes(row[12:16], "big", signed=True)
        return 4 + max(length, 0)

    monkeypatch.setattr(mailkeep.preparation.encoding, "_in_form", poisoned)


async def test_reader_failure_costs_the_message_its_details_only(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the reader ever breaks its promise not to raise, the message is stored by its header."""

    def failing(octets: bytes, **_: object) -> None:
        raise RuntimeError("a defect of the reader")

    monkeypatch.setattr(mailkeep.preparation.encoding, "read", failing)
    outcome = await store(db, await inbox(db), message("Hello"))
    assert (outcome.stored, outcome.unreadable) == (1, 1)
    assert await rows(db, "SELECT subject, is_structurally_read FROM stored_emails") == [("Hello", False)]


@pytest.mark.spec("SYNC-18")
async def test_erased_folder_is_a_conflict_and_quarantines_nothing(db: Database) -> None:
    """Storing into a folder that somebody erased meanwhile is no message's fault."""
    binding = await inbox(db)
    await execute(db, "DELETE FROM mail_folders")
    with pytest.raises(ConcurrencyConflict):
        await store(db, binding, message())
    assert await rows(db, "SELECT 1 FROM quarantined_messages") == []


async def test_trouble_of_the_server_quarantines_nothing(db: Database) -> None:
    """A statement that the server could not finish is raised as its trouble, to be tried again later."""
    binding = await inbox(db)
    async with db.connection() as blocker:
        await blocker.execute("LOCK TABLE stored_emails")
        hurried = psycopg.conninfo.make_conninfo(db.dsn, options="-c lock_timeout=50ms")
        async with Database(hurried) as impatient:
            with pytest.raises(DatabaseUnavailable):
                await store(impatient, binding, message())
    assert await rows(db, "SELECT 1 FROM stored_emails UNION ALL SELECT 1 FROM quarantined_messages") == []


async def test_schema_that_does_not_fit_raises_and_quarantines_nothing(db: Database) -> None:
    """A missing column is the schema's fault; no message is blamed for it."""
    binding = await inbox(db)
    await execute(db, "ALTER TABLE stored_emails DROP COLUMN is_structurally_read")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        await store(db, binding, message())
    assert await rows(db, "SELECT 1 FROM quarantined_messages") == []


@pytest.mark.spec("SYNC-56")
@pytest.mark.case("28")
async def test_two_overlapping_runs_leave_one_row_per_message(db: Database) -> None:
    """Two processes that store the same batch at the same time converge on the same rows."""
    binding = await inbox(db)
    mails = [message(f"n {n}", message_id=f"{n}@example.com", references=["r@example.com"]) for n in range(30)]
    batch = prepare([arrival(uid, one) for uid, one in enumerate(mails, start=1)])
    async with Database(db.dsn) as other:
        outcomes = await asyncio.gather(
            *(store_prepared(d, binding, uid_validity=EPOCH, batch=batch, now=NOW) for d in (db, other, db, other))
        )
    assert sorted(outcome.octets_stored for outcome in outcomes)[:3] == [0, 0, 0]
    assert await rows(
        db, "SELECT count(*), count(DISTINCT uid), count(DISTINCT email_thread_id) FROM stored_emails"
    ) == [(30, 30, 1)]


@pytest.mark.spec("SYNC-119", "SYNC-120")
async def test_repair_writes_the_octets_again_and_clears_its_request(db: Database) -> None:
    """Octets that were found damaged are replaced by the same message fetched again."""
    binding = await inbox(db)
    await store(db, binding, FULL)
    await execute(db, "UPDATE email_message_contents SET raw_mime = 'damaged'")
    await execute(
        db,
        "INSERT INTO email_content_repair_requests SELECT id, 'HashMismatch', now(), now(), 1 FROM stored_emails",
    )
    outcome = await store(db, binding, FULL)
    assert outcome.octets_stored == len(FULL)
    assert await rows(db, "SELECT raw_mime FROM email_message_contents") == [(FULL,)]
    assert await rows(db, "SELECT 1 FROM email_content_repair_requests") == []


@pytest.mark.spec("SYNC-119")
async def test_large_message_is_stored_out_of_line_with_its_digest(db: Database) -> None:
    """Twenty-five mebibytes: length and digest equal."""
    octets = b"Subject: large\r\n\r\n" + b"0123456789abcdef" * (25 << 16)
    await store(db, await inbox(db), octets)
    assert await rows(db, "SELECT length(raw_mime), sha256(raw_mime) = sha256_hash FROM email_message_contents") == [
        (len(octets), True)
    ]


@pytest.mark.spec("DATA-16")
async def test_storing_again_reads_no_payload(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether anything is missing is told by the digest; the octets stay where they are."""
    binding = await inbox(db)
    await store(db, binding, FULL)
    statements: list[str] = []
    genuine = psycopg.AsyncConnection.execute

    async def recording(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        statements.append(str(query))
        return await genuine(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", recording)
    await store(db, binding, FULL)
    assert statements
    assert not [one for one in statements if "raw_mime" in one or "body_text" in one or one.startswith("COPY")]


async def test_quarantine_counts_attempts_and_keeps_the_first_moment(db: Database) -> None:
    """A message that keeps failing is one entry with a history."""
    binding = await inbox(db)
    for attempt in range(3):
        await quarantine(
            db,
            binding.folder_id,
            uid_validity=UidValidity(7),
            uid=Uid(9),
            reason=QuarantineReason.FETCH_REFUSED,
            detail="NO",
            size_octets=100 if attempt == 0 else None,
            now=NOW + timedelta(hours=attempt),
        )
    (entry,) = await quarantined(db, binding.folder_id)
    assert (entry.attempt_count, entry.first_seen_at, entry.last_attempt_at) == (3, NOW, NOW + timedelta(hours=2))
    assert entry.size_octets == 100
