"""Writing the rows of placed messages: COPY for new ones, a set-based rewrite for those that lacked their octets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.db import Connection, load_queries
from mailkeep.mailbox.model import FolderBinding, UidValidity
from mailkeep.preparation import ROW_COLUMNS, PreparedMessage
from mailkeep.preparation import copyformat as cf
from mailkeep.preparation.document import SearchDocument
from mailkeep.threads import ThreadPlacement

_SQL: Final = load_queries("mailkeep.mailbox")

CHUNK_OCTETS: Final = 1 << 18
"""COPY data are sent in pieces of about this size, so that a large message is not held twice."""

_IDENTITY_COLUMNS: Final = (
    "id",
    "mailbox_account_id",
    "mail_folder_id",
    "uid_validity",
    "email_thread_id",
    "parent_stored_email_id",
    "stored_at",
    "remote_flags_observed_at",
)
_ROW_COLUMNS: Final = (*_IDENTITY_COLUMNS, *ROW_COLUMNS)
_DOCUMENT_COLUMNS: Final = ("stored_email_id", "mail_folder_id", "extracted_at", *SearchDocument.COLUMNS)
_CONTENT_COLUMNS: Final = ("stored_email_id", "raw_mime", "mime_byte_length", "sha256_hash", "stored_at")

_KEPT_ON_REWRITE: Final = frozenset(
    {
        "id",
        "mailbox_account_id",
        "mail_folder_id",
        "uid_validity",
        "uid",
        "stored_at",
        "remote_flags_observed_at",
        "is_remotely_seen",
        "is_remotely_answered",
        "is_remotely_flagged",
        "is_remotely_draft",
        "is_remotely_deleted",
        "remote_keywords",
        "remote_labels",
    }
)
"""What extraction never writes again: identity, the first moment, and the flags, which are reconciliation's."""
_KEPT_WHEN_ABSENT: Final = frozenset(
    {"internet_message_id", "parent_stored_email_id", "gmail_message_id", "gmail_thread_id"}
)
"""Replaced only by a value (SYNC-92)."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A prepared message with its key and the folder it belongs to."""

    message: PreparedMessage
    id: UUID
    binding: FolderBinding


@dataclass(frozen=True, slots=True)
class Placed(Keyed):
    """The same with its place in its conversation, which is all that its row waits for."""

    placement: ThreadPlacement
    uid_validity: UidValidity


async def copy_ahead(connection: Connection, keyed: Sequence[Keyed], *, now: datetime) -> None:
    """Write the octets and documents of messages that are not here yet; `copy_rows` follows in the same transaction.

    They are most of the work of an arrival and ask nothing of other mail, so that batches of one account can do this
    side by side, before they wait for each other.
    """
    await connection.execute(_SQL["rows_follow"])
    await _copy(connection, "email_message_contents", _CONTENT_COLUMNS, _contents(keyed, now))
    await _copy(connection, "email_search_documents", _DOCUMENT_COLUMNS, _documents(keyed, now))


async def copy_rows(connection: Connection, placed: Sequence[Placed], *, now: datetime) -> None:
    """Write the rows of messages whose octets and documents `copy_ahead` wrote."""
    await _copy(connection, "stored_emails", _ROW_COLUMNS, _rows(placed, now))


async def rewrite(connection: Connection, placed: Sequence[Placed], *, now: datetime) -> None:
    """Give rows that are here already the octets, document and columns of this reading (SYNC-68, SYNC-92, SYNC-119).

    Runs through temporary tables, so that the same encoding and a fixed number of statements serve any batch.
    """
    if not placed:
        return
    await rewrite_derived(connection, placed, now=now)
    await _put(connection, "email_message_contents", _CONTENT_COLUMNS, _contents(placed, now))
    await connection.execute(_SQL["forget_repairs"], {"ids": [one.id for one in placed]})


async def rewrite_derived(connection: Connection, placed: Sequence[Placed], *, now: datetime) -> None:
    """Give rows the columns and the document of this reading of the octets that are stored with them (SYNC-126).

    Identity, flags, octets and `stored_at` stay. A conversation's parent and a Message-ID yield only to a value.
    """
    if not placed:
        return
    await _stage(connection, "stored_emails", _ROW_COLUMNS, _rows(placed, now))
    assignments = ", ".join(
        f"{column} = coalesce(a.{column}, e.{column})" if column in _KEPT_WHEN_ABSENT else f"{column} = a.{column}"
        for column in _ROW_COLUMNS
        if column not in _KEPT_ON_REWRITE
    )
    # Attachments of this reading are not those of the last one (attachments_read_by).
    await connection.execute(
        f"UPDATE stored_emails e SET {assignments}, attachments_read_by = NULL"  # noqa: S608
        " FROM arriving_stored_emails a WHERE e.id = a.id"
    )
    await connection.execute("DROP TABLE arriving_stored_emails")
    # What the stage of languages found was about the former words.
    outdated = "language = NULL, folded_vector = NULL, language_rules = 0"
    await _put(connection, "email_search_documents", _DOCUMENT_COLUMNS, _documents(placed, now), also=outdated)


async def _put(
    connection: Connection, table: str, columns: Sequence[str], rows: Iterable[bytes], *, also: str | None = None
) -> None:
    """Insert rows keyed by their first column, or overwrite those that are there without reading them.

    `also` are further assignments to rows that are there.
    """
    await _stage(connection, table, columns, rows)
    names = ", ".join(columns)
    updates = ", ".join(f"{column} = excluded.{column}" for column in columns[1:]) + (f", {also}" if also else "")
    await connection.execute(
        f"INSERT INTO {table} ({names}) SELECT {names} FROM arriving_{table} "  # noqa: S608 -- constants
        f"ON CONFLICT ({columns[0]}) DO UPDATE SET {updates}"
    )
    await connection.execute(f"DROP TABLE arriving_{table}")


async def _stage(connection: Connection, table: str, columns: Sequence[str], rows: Iterable[bytes]) -> None:
    await connection.execute(
        f"CREATE TEMPORARY TABLE arriving_{table} ON COMMIT DROP AS "  # noqa: S608 -- constants
        f"SELECT {', '.join(columns)} FROM {table} WITH NO DATA"
    )
    await _copy(connection, f"arriving_{table}", columns, rows)


async def _copy(connection: Connection, table: str, columns: Sequence[str], rows: Iterable[bytes]) -> None:
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    async with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for chunk in _chunks(rows):
            await copy.write(chunk)


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces between COPY's header and trailer, small ones joined, large ones as they are."""
    waiting = [cf.HEADER]
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK_OCTETS:
            yield b"".join(waiting) if len(waiting) > 1 else waiting[0]
            waiting, size = [], 0
    yield b"".join((*waiting, cf.TRAILER))


def _rows(placed: Sequence[Placed], now: datetime) -> Iterator[bytes]:
    count = len(_ROW_COLUMNS)
    stored_at = cf.timestamptz(now)
    for one in placed:
        yield cf.row(
            count,
            (
                cf.uuid(one.id),
                cf.text(one.binding.account_id),
                cf.bigint(one.binding.folder_id),
                cf.bigint(one.uid_validity),
                cf.uuid(one.placement.thread_id),
                cf.uuid(one.placement.parent_stored_email_id),
                stored_at,
                stored_at if one.message.arrival.flags is not None else cf.NULL,
                one.message.row,
            ),
        )


def _documents(keyed: Sequence[Keyed], now: datetime) -> Iterator[bytes]:
    count = len(_DOCUMENT_COLUMNS)
    extracted_at = cf.timestamptz(now)
    for one in keyed:
        identity = (cf.uuid(one.id), cf.bigint(one.binding.folder_id), extracted_at)
        yield cf.row(count, (*identity, one.message.document))


def _contents(keyed: Sequence[Keyed], now: datetime) -> Iterator[bytes]:
    count = len(_CONTENT_COLUMNS)
    stored_at = cf.timestamptz(now)
    for one in keyed:
        octets, digest = one.message.arrival.octets, one.message.sha256
        if octets is None or digest is None:
            continue
        yield cf.row(count, (cf.uuid(one.id), cf.octets_length(len(octets))))
        yield octets
        yield cf.bigint(len(octets)) + cf.octets(digest) + stored_at
