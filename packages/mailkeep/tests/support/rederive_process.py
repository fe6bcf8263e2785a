"""A process that re-derives an account in small batches: `python -m support.rederive_process DSN ACCOUNT`.

Says `batch` on its standard output after each batch that it committed. For tests that kill it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from mailkeep.db import Database
from mailkeep.mailbox import AccountId, rederive, rederive_pass, request_rederivation
from mailkeep_message import Limits

TESTS = Path(__file__).parents[1]
BATCH = 10


def clock() -> datetime:
    return datetime.now(UTC)


async def main(dsn: str, account_id: str) -> None:
    rederive.BATCH_EMAILS = BATCH  # type: ignore[misc]
    rederive.BATCHES_PER_PASS = 1  # type: ignore[misc]
    async with Database(dsn) as db:
        run = await request_rederivation(db, AccountId(account_id), alias=None, now=clock())
        while run.ended_at is None:
            run = await rederive_pass(db, run, limits=Limits(), now=clock)
            print("batch", flush=True)


@contextmanager
def process(dsn: str, account_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process, ended with the block."""
    running = subprocess.Popen(
        [sys.executable, "-m", "support.rederive_process", dsn, account_id], stdout=subprocess.PIPE, cwd=TESTS
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
