"""Running synchronization in tests: settings around an account, resources on a database, questions to the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from support.dovecot import PASSWORD

from mailkeep.config import AccountSettings, Settings
from mailkeep.db import Database
from mailkeep.imap import Timeouts
from mailkeep.sync import AccountOutcome, FolderOutcome, Progress, Resources, open_access, open_resources, run_account
from mailkeep.sync.resources import utc_now

QUICK = {"base_delay": "10ms", "max_delay": "20ms"}
FAST = Timeouts(connect=10, idle=10, command=30, farewell=0.5)


def settings_with(*accounts: AccountSettings, **bounds: Any) -> Settings:
    """Settings that hold these accounts and these bounds of synchronization."""
    section = {"accounts": [account.model_dump() for account in accounts], **bounds}
    patience = {"mailbox_session_establishment": QUICK, "mailbox_data_retrieval": QUICK}
    return Settings.model_validate({"mail_synchronization": section, "resilience": patience})


@asynccontextmanager
async def engine(
    db: Database, home: Path, *accounts: AccountSettings, now: Callable[[], datetime] = utc_now, **bounds: Any
) -> AsyncIterator[Resources]:
    """Resources with quick retries. The password is where `account_at` says: in the environment."""
    settings = settings_with(*accounts, **bounds)
    access = open_access(db, settings, home, timeouts=FAST, now=now)
    async with open_resources(db, settings, home, access=access, now=now) as resources:
        try:
            yield resources
        finally:
            await access.close()


async def run_once(
    db: Database,
    home: Path,
    account: AccountSettings,
    *,
    until_complete: bool = False,
    progress: Callable[[Progress], None] | None = None,
    **bounds: Any,
) -> AccountOutcome:
    """One run of one account."""
    async with engine(db, home, account, **bounds) as resources:
        return await run_account(resources, account.account_id, progress=progress, until_complete=until_complete)


def folder(outcome: AccountOutcome, alias: str = "INBOX") -> FolderOutcome:
    """The outcome of one folder."""
    return next(item for item in outcome.folders if item.alias == alias)


async def rows(db: Database, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """What a query answers."""
    async with db.connection() as connection:
        return await (await connection.execute(sql, values)).fetchall()


async def stored(db: Database, alias: str = "INBOX") -> dict[int, tuple[Any, ...]]:
    """Visible rows of a folder's newest binding by UID: id, octets, seen, flagged, keywords."""
    found = await rows(
        db,
        """
        SELECT e.uid, e.id, c.raw_mime, e.is_remotely_seen, e.is_remotely_flagged, e.remote_keywords
        FROM stored_emails e
        JOIN mail_folders f ON f.id = e.mail_folder_id
        LEFT JOIN email_message_contents c ON c.stored_email_id = e.id
        WHERE f.alias = %s AND e.remote_expunge_observed_at IS NULL
        ORDER BY e.uid
        """,
        alias,
    )
    return {row[0]: tuple(row[1:]) for row in found}


async def tombstones(db: Database) -> list[int]:
    """UIDs of rows whose message is gone from the server."""
    return [
        row[0]
        for row in await rows(
            db, "SELECT uid FROM stored_emails WHERE remote_expunge_observed_at IS NOT NULL ORDER BY uid"
        )
    ]


async def checkpoint(db: Database, alias: str = "INBOX") -> tuple[Any, ...]:
    """uid_validity, last_seen_uid, reconciled_through_modseq, remote_uid_next, synchronized_at."""
    (row,) = await rows(
        db,
        """
        SELECT uid_validity, last_seen_uid, reconciled_through_modseq, remote_uid_next, synchronized_at
        FROM synchronization_checkpoints s JOIN mail_folders f ON f.id = s.mail_folder_id
        WHERE f.alias = %s ORDER BY f.resolution_generation DESC LIMIT 1
        """,
        alias,
    )
    return row


def mail(number: int | str, *, size: int = 0) -> bytes:
    """A small message of its own, padded to about `size` octets."""
    head = f"From: Ann <ann@example.com>\r\nTo: ben@example.com\r\nSubject: message {number}\r\n"
    head += f"Message-ID: <{number}@example.com>\r\nDate: Tue, 05 Mar 2024 09:30:00 +0000\r\n\r\n"
    body = f"text of {number}\r\n"
    filler = "all work and no play makes a dull mailbox\r\n"
    return (head + body + filler * max(0, (size - len(head) - len(body)) // len(filler))).encode()


__all__ = [
    "PASSWORD",
    "checkpoint",
    "engine",
    "folder",
    "mail",
    "rows",
    "run_once",
    "settings_with",
    "stored",
    "tombstones",
]
