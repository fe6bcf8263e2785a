"""A process that carries an account's changes out once: `python -m support.converge_process DSN PORT USER [POINT]`.

A point is the number of a moment before or after a command or a commit, or the verb of a command before it is sent. The
process says `waiting` when it gets there, and then waits to be killed. Else it says `done` when the pass has ended.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from support.accounts import account_at
from support.engine import engine

from mailkeep.db import Database
from mailkeep.imap.dialogue import Command, Completion
from mailkeep.imap.writing import WritingDialogue
from mailkeep.mutations.ledger import Ledger
from mailkeep.sync.changes import carry_out_changes

LEASE_ATTEMPTS = 200  # of 50 ms, until the database has noticed that the last process is dead


class Points:
    """Counts; at the one that was asked for, waits for the end."""

    def __init__(self, at: str) -> None:
        self._at = at
        self._reached = 0

    def reach(self, verb: str = "") -> None:
        self._reached += 1
        if self._at in (str(self._reached), verb):
            print("waiting", flush=True)
            threading.Event().wait()


def wait_at(points: Points) -> None:
    run, write = WritingDialogue.run, Ledger._write

    def sending(self: WritingDialogue, command: Command) -> Completion:
        points.reach(command.parts[0].decode())
        completion = run(self, command)
        points.reach()
        return completion

    async def committing(self: Ledger, name: str, **values: Any) -> Any:
        if not values.get("ids", True):
            return await write(self, name, **values)
        points.reach()
        answer = await write(self, name, **values)
        points.reach()
        return answer

    WritingDialogue.run = sending  # type: ignore[method-assign]
    Ledger._write = committing  # type: ignore[method-assign]


async def main(dsn: str, port: int, user: str) -> None:
    account = account_at(port, user_name=user)
    with tempfile.TemporaryDirectory() as home:
        async with Database(dsn) as db, engine(db, Path(home), account) as resources:
            for _ in range(LEASE_ATTEMPTS):
                if not (await carry_out_changes(resources, account)).is_held_elsewhere:
                    break
                await asyncio.sleep(0.05)
            else:
                raise SystemExit("the account stayed held")
    print("done", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 4:
        wait_at(Points(sys.argv[4]))
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
