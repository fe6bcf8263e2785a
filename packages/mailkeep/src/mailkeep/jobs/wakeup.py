"""Being told of new work by the database, so that it starts in milliseconds; polling stays the floor (JOB-B7)."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Final

import psycopg

from mailkeep.db import Database

log = logging.getLogger(__name__)
CHANNEL: Final = "mailkeep_jobs"
CONNECT_SECONDS: Final = 10
RECONNECT_PAUSE: Final = timedelta(seconds=5)


async def listen(db: Database, woken: asyncio.Event, *, pause: timedelta = RECONNECT_PAUSE) -> None:
    """Set `woken` for every announcement, until cancelled. A lost connection costs announcements and nothing else.

    After each connect `woken` is set once: whatever was announced before may have been missed.
    """
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(
                db.dsn, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="mailkeep listener"
            )
            async with connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                woken.set()
                async for _ in connection.notifies():
                    woken.set()
        except (psycopg.Error, OSError) as error:
            log.info("announcements of jobs are not heard", extra={"error": type(error).__name__})
        await asyncio.sleep(pause.total_seconds())
