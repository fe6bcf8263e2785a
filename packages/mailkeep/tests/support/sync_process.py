"""A process that synchronizes one account until nothing remains: `python -m support.sync_process DSN PORT USER`.

Says `running` on its standard output when the run begins and `done` when it has ended well. For tests that kill it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from support.accounts import account_at
from support.engine import engine

from mailkeep.db import Database
from mailkeep.errors import AccountHeldElsewhere
from mailkeep.sync import run_account

BATCH = 8
LEASE_ATTEMPTS = 200  # of 50 ms, until the server has noticed that the last process is dead


async def main(dsn: str, port: int, user: str) -> None:
    account = account_at(port, user_name=user)
    with tempfile.TemporaryDirectory() as home:
        async with (
            Database(dsn) as db,
            engine(db, Path(home), account, max_metadata_batch_size=BATCH) as resources,
        ):
            print("running", flush=True)
            for _ in range(LEASE_ATTEMPTS):
                try:
                    outcome = await run_account(resources, account.account_id, until_complete=True)
                    break
                except AccountHeldElsewhere:
                    await asyncio.sleep(0.05)
            else:
                raise SystemExit("the account stayed held")
    if outcome.is_failed or outcome.more_remains:
        raise SystemExit("the run failed")
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
