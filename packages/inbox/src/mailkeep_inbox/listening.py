"""One connection that listens, with either driver. SQLAlchemy has no LISTEN, so this speaks to the driver itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

CHANNEL: Final = "mailkeep_inbox_event"
CLOSE_SECONDS: Final = 2.0
ALIVE_SECONDS: Final = 5.0
"""How long a listening connection may take to answer before it counts as broken."""


class Listening(Protocol):
    """A connection that has said LISTEN."""

    async def wait(self, seconds: float) -> None:
        """Pass on what arrives for that long, then make sure that the server still answers. Raises when it is gone."""


class _Psycopg:
    def __init__(self, driver: Any, receive: Callable[[str], None]) -> None:
        self._driver = driver
        self._receive = receive

    async def wait(self, seconds: float) -> None:
        async for notification in self._driver.notifies(timeout=seconds):
            self._receive(notification.payload)
        async with asyncio.timeout(ALIVE_SECONDS):
            await self._driver.execute("SELECT 1")


class _Asyncpg:
    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._is_broken = asyncio.Event()
        driver.add_termination_listener(lambda _: self._is_broken.set())

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._is_broken.wait()
        except TimeoutError:
            async with asyncio.timeout(ALIVE_SECONDS):
                await self._driver.execute("SELECT 1")
            return
        raise ConnectionError("the listening connection ended")


@asynccontextmanager
async def listen(db: AsyncEngine, receive: Callable[[str], None]) -> AsyncIterator[Listening]:
    """Take a connection out of the pool for good, LISTEN on it, and close it at the end of the block."""
    async with db.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await connection.run_sync(lambda sync: sync.detach())
        try:
            if hasattr(driver, "notifies"):
                await connection.execute(text(f"LISTEN {CHANNEL}"))
                yield _Psycopg(driver, receive)
            else:
                await driver.add_listener(CHANNEL, lambda _connection, _pid, _channel, payload: receive(payload))
                yield _Asyncpg(driver)
        finally:
            await _close(connection, driver)


async def _close(connection: AsyncConnection, driver: Any) -> None:
    """Close the driver's connection; a broken one may not answer a farewell, and SQLAlchemy must not try its own."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSE_SECONDS):
            await driver.close()
    await connection.invalidate()
