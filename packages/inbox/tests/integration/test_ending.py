"""Purges, retention, export, deletion in the control plane."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from inbox_support.mail import ANN, BOB, ODA, count, rows, write
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    MailboxRangeError,
    MailboxRef,
    MailboxScope,
    archive_mailbox_message,
    export_tenant_mailbox,
    label_mailbox_message,
    purge_mailbox_in_batches,
    purge_mailbox_older_than,
    purge_principal_mailbox,
    purge_tenant_mailbox,
    trash_mailbox_message,
)

pytestmark = pytest.mark.anyio


async def fill(engine: AsyncEngine) -> None:
    """Three messages of Ann's, in every view and direction, one of Bob's, one of another tenant's."""
    await archive_mailbox_message(engine, ANN, await write(engine))
    await trash_mailbox_message(engine, ANN, await write(engine))
    await write(engine, direction="outbound")
    await write(engine, BOB)
    await write(engine, ODA)


async def left(engine: AsyncEngine) -> list[str]:
    """Whose messages, list rows and events are left."""
    found = await rows(engine, "SELECT DISTINCT principal_id FROM (SELECT principal_id FROM mailbox.principal_mail "
        "UNION ALL SELECT principal_id FROM mailbox.mailbox UNION ALL SELECT principal_id FROM mailbox.mailbox_event) "
        "AS all_rows ORDER BY 1")  # fmt: skip
    return [row.principal_id for row in found]


@pytest.mark.spec("INBOX-97")
async def test_purges_count_messages_and_spare_neighbours(engine: AsyncEngine) -> None:
    """Every direction and view goes, with rows and events; nobody else's; unknown owners give 0."""
    await fill(engine)
    assert await purge_tenant_mailbox(engine, "unknown") == 0
    assert await purge_principal_mailbox(engine, MailboxScope("other", "ann")) == 0
    assert await purge_principal_mailbox(engine, ANN) == 3
    assert await left(engine) == ["bob", "oda"]
    assert await purge_tenant_mailbox(engine, "acme") == 1
    assert await left(engine) == ["oda"]


@pytest.mark.spec("INBOX-97", "INBOX-7")
async def test_purge_in_a_rolled_back_transaction_deletes_nothing(engine: AsyncEngine) -> None:
    """It runs in the caller's transaction."""
    await fill(engine)
    async with engine.connect() as connection:
        await connection.begin()
        assert await purge_tenant_mailbox(connection, "acme") == 4
        await connection.rollback()
    assert await count(engine) == await count(engine, "mailbox") == 5


@pytest.mark.spec("INBOX-109")
async def test_batched_purge_and_retention(engine: AsyncEngine) -> None:
    """A batch is a transaction; age is by arrival; a caller's transaction is refused."""
    await fill(engine)
    old = await write(engine)
    for table in ("principal_mail", "mailbox"):
        await rows(engine, f"UPDATE mailbox.{table} SET created_at = '2020-01-01' WHERE id = :id", id=old)
    week_ago = datetime.now(UTC) - timedelta(days=7)
    assert await purge_mailbox_older_than(engine, "other", cutoff=week_ago) == 0
    assert await purge_mailbox_older_than(engine, "acme", cutoff=week_ago, batch_size=1) == 1
    assert await purge_mailbox_in_batches(engine, ANN, batch_size=2) == 3
    assert await left(engine) == ["bob", "oda"]
    assert await purge_mailbox_in_batches(engine, "acme", batch_size=1) == 1
    assert await left(engine) == ["oda"]
    async with engine.connect() as connection:
        await connection.begin()
        with pytest.raises(MailboxRangeError):
            await purge_mailbox_in_batches(connection, "other")
    with pytest.raises(MailboxRangeError):
        await purge_mailbox_older_than(engine, "acme", cutoff=datetime(2020, 1, 1))  # noqa: DTZ001


@pytest.mark.spec("INBOX-109")
async def test_export_holds_everything_of_one_tenant(engine: AsyncEngine) -> None:
    """Frame, state, triage and labels of each message, mailbox by mailbox, whatever the batch."""
    await fill(engine)
    marked = await write(engine, BOB, priority="high", refs=[MailboxRef("case", "1")], body="whole")
    await label_mailbox_message(engine, BOB, marked, add=["x"])
    for size in (1, 2, 100):
        exported = [message async for message in export_tenant_mailbox(engine, "acme", batch_size=size)]
        assert [message.scope for message in exported] == [ANN, ANN, ANN, BOB, BOB]
    last = exported[-1]
    assert (last.id, last.priority, last.labels, last.refs) == (marked, "high", ("x",), (MailboxRef("case", "1"),))
    assert last.raw.endswith(b"whole\r\n")
    assert exported[0].archived_at is not None
    assert exported[1].trashed_at is not None


@pytest.mark.spec("INBOX-97", "INBOX-105", "INBOX-11")
async def test_control_plane_deletes_carry_the_mail_out(engine: AsyncEngine) -> None:
    """Deleting a principal or a tenant leaves no row of theirs and every row of others."""
    await fill(engine)
    await rows(engine, "DELETE FROM public.principal WHERE id = 'ann'")
    assert await left(engine) == ["bob", "oda"]
    await rows(engine, "DELETE FROM public.tenant WHERE id = 'acme'")
    assert await left(engine) == ["oda"]
