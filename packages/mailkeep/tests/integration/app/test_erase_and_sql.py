"""Operators' acts on a real database: erasing an account, looking at the tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from support.mail import conversation, message

from mailkeep.db import Database, psql_environment, read_only
from mailkeep.errors import StatementRefused
from mailkeep.mailbox import AccountId, erase_account
from mailkeep.mailbox import erase as erase_module
from mailkeep.transfer import Source, SourceKind, import_sources
from mailkeep_message import Limits

pytestmark = pytest.mark.anyio


def put(folder: Path, mails: list[bytes]) -> tuple[Path, ...]:
    """Write mail to files."""
    folder.mkdir()
    for number, octets in enumerate(mails):
        (folder / f"{number}.eml").write_bytes(octets)
    return tuple(sorted(folder.iterdir()))


async def fill(db: Database, account: str, folder: Path, mails: list[bytes]) -> None:
    """Store mail in an account."""
    files = put(folder, mails)
    await import_sources(
        db,
        AccountId(account),
        [Source(SourceKind.EML, folder, "INBOX", files)],
        alias=None,
        max_octets=1 << 20,
        limits=Limits(),
        now=lambda: datetime(2024, 1, 1, tzinfo=UTC),
    )


async def count(db: Database, table: str) -> int:
    """Rows of a table."""
    result = await read_only(db, f"SELECT count(*) FROM {table}", max_rows=1)
    return int(str(result.rows[0][0]))


async def test_erasing_an_account_leaves_no_row_of_it_and_every_row_of_others(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages, contents, documents, folders and conversations go in passes; erasing nothing succeeds."""
    monkeypatch.setattr(erase_module, "EMAILS_PER_PASS", 2)
    await fill(db, "gone", tmp_path / "gone", conversation(5))
    await fill(db, "kept", tmp_path / "kept", [message("Kept")])
    assert await erase_account(db, AccountId("gone")) == 5
    for table in (
        *("stored_emails", "email_message_contents", "email_search_documents", "mail_folders"),
        *("synchronization_checkpoints", "email_threads", "mailbox_accounts"),
    ):
        assert await count(db, table) == 1, table
    assert await erase_account(db, AccountId("gone")) == 0


async def test_a_persons_statement_reads_and_is_bounded(db: Database) -> None:
    """Columns and rows come back, percent signs are text, and more rows than asked for are announced."""
    result = await read_only(db, "SELECT n, '100%s' AS share FROM generate_series(1, 5) AS n", max_rows=3)
    assert result.columns == ("n", "share")
    assert result.rows == ((1, "100%s"), (2, "100%s"), (3, "100%s"))
    assert result.was_cut
    assert not (await read_only(db, "SELECT 1", max_rows=1)).was_cut


@pytest.mark.parametrize(
    "statement",
    [
        "SELEC 1",
        "DELETE FROM stored_emails",
        "CREATE TABLE t ()",
        "SELECT 1/0",
        "COMMIT; DELETE FROM stored_emails",
        "",
    ],
)
async def test_what_is_wrong_or_would_write_is_refused(db: Database, tmp_path: Path, statement: str) -> None:
    """The refusal has its own code, the data stay, and the connection serves the next statement."""
    await fill(db, "kept", tmp_path / "kept", [message("Kept")])
    if statement:
        with pytest.raises(StatementRefused):
            await read_only(db, statement, max_rows=1)
    else:
        assert (await read_only(db, statement, max_rows=1)).columns == ()
    assert await count(db, "stored_emails") == 1


def test_psql_gets_everything_by_environment() -> None:
    """Host, database and password are variables, so that no process list shows them."""
    dsn = psycopg.conninfo.make_conninfo(host="/tmp/x", dbname="mail", user="me", password="sentinel")
    environment = psql_environment(dsn)
    assert environment == {"PGHOST": "/tmp/x", "PGDATABASE": "mail", "PGUSER": "me", "PGPASSWORD": "sentinel"}
