"""Mailboxes, messages and a bus for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    MailboxEvent,
    MailboxScope,
    MessageArgs,
    WriteMessageArgs,
    write_mailbox_message,
)
from mailkeep_inbox.handle import Handle

ANN = MailboxScope("acme", "ann")
BOB = MailboxScope("acme", "bob")
ODA = MailboxScope("other", "oda")
STRANGER = MailboxScope("other", "ann")
"""The other tenant, asking with the ids of Ann's mailbox."""
PRIORITIES = ("high", "normal", "low")


def message(**fields: Any) -> MessageArgs:
    """A message of no importance."""
    return MessageArgs(**({"address": "usr_ann@acme.example", "from_address": "Bo <bo@x.example>", "subject": "Hi",
                           "body": "text"} | fields))  # fmt: skip


def message_to(scope: MailboxScope, **fields: Any) -> WriteMessageArgs:
    """The same with its mailbox."""
    args = message(**fields)
    values = {name: getattr(args, name) for name in MessageArgs.__slots__}
    return WriteMessageArgs(tenant_id=scope.tenant_id, principal_id=scope.principal_id, **values)


async def write(db: Handle, scope: MailboxScope = ANN, **fields: Any) -> str:
    """Write a message that must be new; its id."""
    written = await write_mailbox_message(db, message_to(scope, **fields))
    assert written is not None
    return written.id


async def rows(engine: AsyncEngine, sql: str, **parameters: Any) -> list[Any]:
    """What a statement of the test's own finds, in a transaction of its own."""
    async with engine.begin() as connection:
        result = await connection.execute(text(sql), parameters)
        return list(result.all()) if result.returns_rows else []


async def count(engine: AsyncEngine, table: str = "principal_mail") -> int:
    """How many rows a table of the mailbox schema has."""
    return int((await rows(engine, f"SELECT count(*) AS n FROM mailbox.{table}"))[0].n)


class RecordingBus:
    """Keeps what was published; raises `failure` after that, when one is given."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.published: list[tuple[MailboxScope, MailboxEvent]] = []
        self._failure = failure

    def publish(self, scope: MailboxScope, event: MailboxEvent) -> None:
        """Keep the event."""
        self.published.append((scope, event))
        if self._failure is not None:
            raise self._failure

    def subscribe(self, scope: MailboxScope, listener: Callable[[MailboxEvent], None]) -> Callable[[], None]:
        """Nobody listens here."""
        raise NotImplementedError

    @property
    def wire(self) -> list[tuple[str, str, str]]:
        """Principal, id and op of each event."""
        return [(scope.principal_id, event.id, str(event.op)) for scope, event in self.published]
