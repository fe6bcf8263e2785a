"""The database as the host owns it: an engine, a connection or a session, with any async PostgreSQL driver (INBOX-6).

On an engine a write is a transaction of ours. On a connection or a session that is in a transaction it is a savepoint
of the caller's, and what it would announce is handed back instead (INBOX-7).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine

from mailkeep_inbox.errors import MailboxRangeError

Handle: TypeAlias = AsyncEngine | AsyncConnection | AsyncSession


def create_mailbox_db(url: str) -> tuple[AsyncEngine, Callable[[], Awaitable[None]]]:
    """An engine for scripts, and what closes its pool so that the process can end.

    A plain `postgresql://` means psycopg; `postgresql+asyncpg://` names the other driver.
    """
    parsed = make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = create_async_engine(parsed)
    return engine, engine.dispose


def is_callers_transaction(db: Handle) -> bool:
    """Whether the outermost commit is the caller's."""
    return not isinstance(db, AsyncEngine) and db.in_transaction()


def refuse_announcing(db: Handle, **announcers: object) -> None:
    """Raise MailboxRangeError when something would be announced before the caller's own commit (INBOX-7)."""
    given = [name for name, announcer in announcers.items() if announcer is not None]
    if given and is_callers_transaction(db):
        raise MailboxRangeError(
            f"{' and '.join(given)} cannot be used inside the caller's transaction: "
            "publish the events of the result after its commit"
        )


@asynccontextmanager
async def writing(db: Handle) -> AsyncIterator[AsyncConnection]:
    """A connection inside a transaction of ours, or inside a savepoint of the caller's."""
    if isinstance(db, AsyncEngine):
        async with db.begin() as connection:
            yield connection
    elif isinstance(db, AsyncConnection):
        async with db.begin_nested() if db.in_transaction() else db.begin():
            yield db
    elif isinstance(db, AsyncSession):
        # A session flushes before its savepoint, so that a principal added to it exists for our foreign keys.
        async with db.begin_nested() if db.in_transaction() else db.begin():
            yield await db.connection()
    else:
        raise MailboxRangeError("db must be an AsyncEngine, AsyncConnection or AsyncSession")


@asynccontextmanager
async def reading(db: Handle) -> AsyncIterator[AsyncConnection]:
    """A connection to read on: inside whatever transaction the handle is in."""
    if isinstance(db, AsyncEngine):
        async with db.connect() as connection:
            yield connection
    elif isinstance(db, AsyncConnection):
        if db.in_transaction():
            yield db
        else:
            async with db.begin():
                yield db
    elif isinstance(db, AsyncSession):
        yield await db.connection()
    else:
        raise MailboxRangeError("db must be an AsyncEngine, AsyncConnection or AsyncSession")
