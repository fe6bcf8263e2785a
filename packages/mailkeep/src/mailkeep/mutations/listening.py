"""Being told by the database that a change was recorded, by whichever process (MUT-B6); the schedule is the floor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import psycopg

from mailkeep.db import Database

log = logging.getLogger(__name__)
CHANNEL: Final = "mailkeep_mutations"
CONNECT_SECONDS: Final = 10
RECONNECT_PAUSE: Final = timedelta(seconds=5)


async def listen(db: Database, told: Callable[[str | None], None], *, pause: timedelta = RECONNECT_PAUSE) -> None:
    """Call `told` with the account of every recorded change, until cancelled.

    A lost connection costs announcements and nothing else: after each connect `told` is called with None, since any
    account's may have been missed.
    """
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(
                db.dsn, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="mailkeep listener"
            )
            async with connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                told(None)
                async for notice in connection.notifies():
                    told(notice.payload)
        except psycopg.Error as error:
            log.info("announcements of changes are not heard", extra={"error": type(error).__name__})
        await asyncio.sleep(pause.total_seconds())
