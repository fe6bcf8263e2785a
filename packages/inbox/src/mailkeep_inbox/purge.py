"""Ending: purges of a tenant or a mailbox, retention by age, and the export that goes before them (section 13).

Deleting a tenant or a principal in the control plane removes its mail by itself; purges serve hosts that only mark
theirs as deleted. All of this is irreversible.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row

from mailkeep_inbox.bounds import MAX_FILTER_ACTION
from mailkeep_inbox.checks import assert_mailbox_scope, assert_mailbox_tenant_id, require_limit
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.handle import Handle, is_callers_transaction, reading, writing
from mailkeep_inbox.lists import aware, scope_parameters
from mailkeep_inbox.model import EARLIEST, LATEST, Direction, MailboxRef, MailboxScope
from mailkeep_inbox.refs import StoredLists
from mailkeep_inbox.statements import statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedMessage:
    """A message with everything that is stored about it. Moments are aware and in UTC."""

    id: str
    scope: MailboxScope
    address: str
    direction: Direction
    raw: bytes
    message_key: str | None
    refs: tuple[MailboxRef, ...]
    created_at: datetime
    read_at: datetime | None
    archived_at: datetime | None
    trashed_at: datetime | None
    snoozed_until: datetime | None
    priority: str | None
    classification: str | None
    status: str | None
    assignee: str | None
    labels: tuple[str, ...]


async def purge_tenant_mailbox(db: Handle, tenant_id: str) -> int:
    """Delete all mail of a tenant, both directions and every view, in one statement; how many messages (INBOX-97)."""
    assert_mailbox_tenant_id(tenant_id)
    async with writing(db) as connection:
        return int((await connection.execute(statement("purge_tenant"), {"tenant_id": tenant_id})).scalar_one())


async def purge_principal_mailbox(db: Handle, scope: MailboxScope) -> int:
    """Delete all mail of one mailbox; how many messages."""
    assert_mailbox_scope(scope)
    async with writing(db) as connection:
        return int((await connection.execute(statement("purge_principal"), scope_parameters(scope))).scalar_one())


async def purge_mailbox_in_batches(db: Handle, owner: MailboxScope | str, *, batch_size: int = 1_000) -> int:
    """The same for a tenant id or a scope, each batch its own transaction: no long locks, resumed by calling again."""
    return await _purge_before(db, owner, LATEST, batch_size)


async def purge_mailbox_older_than(
    db: Handle, owner: MailboxScope | str, *, cutoff: datetime, batch_size: int = 1_000
) -> int:
    """Delete what a tenant or a mailbox received before an aware moment, in batches; how many messages."""
    if cutoff.tzinfo is None:
        raise MailboxRangeError("cutoff must be a moment with a time zone")
    return await _purge_before(db, owner, cutoff.astimezone(UTC).replace(tzinfo=None), batch_size)


async def export_tenant_mailbox(db: Handle, tenant_id: str, *, batch_size: int = 100) -> AsyncIterator[ExportedMessage]:
    """Every message of a tenant, mailbox by mailbox, oldest first, a batch in memory at a time.

    What arrives meanwhile may be missing; on a connection in a REPEATABLE READ transaction all is of one moment.
    """
    assert_mailbox_tenant_id(tenant_id)
    require_limit(batch_size, maximum=MAX_FILTER_ACTION)
    place: dict[str, Any] = {"principal_id": "", "created_at": EARLIEST, "id": ""}
    while True:
        async with reading(db) as connection:
            query = statement("export_page")
            rows = (await connection.execute(query, place | {"tenant_id": tenant_id, "limit": batch_size})).all()
        stored = StoredLists()
        for row in rows:
            yield _exported(row, stored)
        stored.report()
        if len(rows) < batch_size:
            return
        place = {name: getattr(rows[-1], name) for name in place}


async def _purge_before(db: Handle, owner: MailboxScope | str, cutoff: datetime, batch_size: int) -> int:
    require_limit(batch_size, maximum=MAX_FILTER_ACTION)
    if is_callers_transaction(db):
        raise MailboxRangeError("a batched purge commits each batch: it needs a handle without a transaction")
    if isinstance(owner, MailboxScope):
        assert_mailbox_scope(owner)
        parameters: dict[str, Any] = scope_parameters(owner)
    else:
        assert_mailbox_tenant_id(owner)
        parameters = {"tenant_id": owner, "principal_id": None}
    parameters |= {"cutoff": cutoff}
    total = 0
    while True:
        async with writing(db) as connection:
            query = statement("purge_some")
            count = int((await connection.execute(query, parameters | {"limit": batch_size})).scalar_one())
            if count < batch_size:
                await connection.execute(statement("purge_events"), parameters)
        total += count
        if count < batch_size:
            return total


def _exported(row: Row[Any], stored: StoredLists) -> ExportedMessage:
    moments = {
        name: None if (moment := getattr(row, name)) is None else aware(moment)
        for name in ("read_at", "archived_at", "trashed_at", "snoozed_until")
    }
    return ExportedMessage(
        id=row.id,
        scope=MailboxScope(row.tenant_id, row.principal_id),
        address=row.address,
        direction=Direction(row.direction),
        raw=bytes(row.raw),
        message_key=row.message_key,
        refs=stored.refs(row.id, row.refs),
        created_at=aware(row.created_at),
        priority=row.priority,
        classification=row.classification,
        status=row.status,
        assignee=row.assignee,
        labels=tuple(row.labels or ()),
        **moments,
    )
