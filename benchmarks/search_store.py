"""Fills a migrated database with synthetic mail for the search benchmark, through the service's own document code.

Only the octets are left out: lexical search never reads them. A quarter of a million messages take a few minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from random import Random
from uuid import UUID

import psycopg

from benchmarks.search_mail import FOLDERS, SyntheticMail
from mailkeep.preparation.document import SearchDocument, build_document
from mailkeep_message import Address, AutomationClaim, Body, Message, TextSource, comparison_form

ACCOUNT_ID = "bench"
BATCH = 2_000
_EMAIL_COLUMNS = (
    "id", "mailbox_account_id", "mail_folder_id", "uid_validity", "uid", "internet_message_id", "subject", "sent_at",
    "received_at", "size_octets", "content_availability", "sender_display_name", "sender_address",
    "sender_normalized_address", "to_addresses", "cc_addresses", "reply_to_addresses", "thread_references",
    "attachment_count", "inline_resource_count", "attachment_total_size_octets", "is_encrypted",
    "carries_unverified_signature", "contains_unexpanded_tnef_part", "is_structurally_read", "stored_at",
)  # fmt: skip


def message_of(item: SyntheticMail) -> Message:
    """What the reader would make of the message's octets, without reading them."""
    author = Address(item.from_name, item.from_address, comparison_form(item.from_address), None)
    recipient = Address(None, item.to_address, comparison_form(item.to_address), None)
    body = Body(item.body, item.body, None, TextSource.PlainTextBodyPart, False, len(item.body))
    return Message(
        headers=(), message_id=f"{item.number}@bench.example", original_message_ids=(), in_reply_to=(), references=(),
        subject=item.subject, sent_at=item.received_at, received_at=item.received_at, from_=(author,), sender=(),
        reply_to=(), to=(recipient,), cc=(), bcc=(), author=author, body=body, attachments=(), inline_resources=(),
        is_encrypted=False, carries_unverified_signature=False, contains_unexpanded_tnef_part=False, invitations=(),
        automation=AutomationClaim(False, None, None), parts=(), defects=frozenset(), is_fully_read=True,
    )  # fmt: skip


def bind_folders(conn: psycopg.Connection[tuple[object, ...]], account_id: str = ACCOUNT_ID) -> list[int]:
    """One account with the folders of FOLDERS; returns their ids in that order."""
    conn.execute("INSERT INTO mailbox_accounts (id) VALUES (%s) ON CONFLICT DO NOTHING", (account_id,))
    ids = []
    for alias, _ in FOLDERS:
        row = conn.execute(
            "INSERT INTO mail_folders (mailbox_account_id, alias, resolution_generation, remote_path, special_use)"
            " VALUES (%s, %s, 1, %s, %s) RETURNING id",
            (account_id, alias, alias, {"JUNK": "Junk", "SENT": "Sent", "INBOX": "Inbox"}.get(alias)),
        ).fetchone()
        assert row is not None
        ids.append(int(str(row[0])))
    return ids


def fill(conn: psycopg.Connection[tuple[object, ...]], messages: Iterable[SyntheticMail]) -> int:
    """Store the messages in batches of one COPY each per table; commits; returns how many."""
    folder_ids = bind_folders(conn)
    total, source = 0, iter(messages)
    while batch := list(islice(source, BATCH)):
        copy_batch(conn, batch, folder_ids)
        conn.commit()
        total += len(batch)
    return total


def copy_batch(conn: psycopg.Connection[tuple[object, ...]], batch: list[SyntheticMail], folder_ids: list[int]) -> None:
    """One batch: message rows, then documents."""
    now = datetime.now(UTC)
    read = [(_id_of(item), item, message_of(item)) for item in batch]
    with conn.cursor().copy(f"COPY stored_emails ({', '.join(_EMAIL_COLUMNS)}) FROM STDIN") as copy:
        for key, item, message in read:
            copy.write_row(_email_row(key, item, message, folder_ids[item.folder], now))
    columns = ("stored_email_id", "mail_folder_id", "extracted_at", *SearchDocument.COLUMNS)
    with conn.cursor().copy(f"COPY email_search_documents ({', '.join(columns)}) FROM STDIN") as copy:
        for key, item, message in read:
            document = build_document(message, received_at=item.received_at)
            copy.write_row((key, folder_ids[item.folder], now, *document.values()))


def documents(batch: Iterable[SyntheticMail]) -> Iterator[SearchDocument]:
    """The documents alone, for timing what they cost."""
    return (build_document(message_of(item), received_at=item.received_at) for item in batch)


def _id_of(item: SyntheticMail) -> UUID:
    """A version 7 UUID of the message's time, the same in every run."""
    milliseconds = int(item.received_at.timestamp() * 1000)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | 0x2 << 62 | Random(item.number).getrandbits(62))


def _email_row(key: UUID, item: SyntheticMail, message: Message, folder_id: int, now: datetime) -> tuple[object, ...]:
    author = message.author
    assert author is not None
    return (
        key, ACCOUNT_ID, folder_id, 1, item.number + 1, message.message_id, item.subject, item.received_at,
        item.received_at, len(item.body), "Available", author.display_name, author.address, author.normalized_address,
        [item.to_address], [], [], [], 0, 0, 0, False, False, False, True, now,
    )  # fmt: skip
