"""A process that synchronizes an account and is killed at a chosen moment, as often as is asked of it.

`python -m support.killed_sync` reads lines `DSN PORT USER [POINT]` and answers each with `done POINTS` or `killed`. A
point is the number of a moment before or after a command or a commit. Each line runs in a fork of the process as it is
after its imports, and dies by SIGKILL from itself, in the middle of whatever its threads do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import psycopg
from support.accounts import account_at
from support.engine import engine

from mailkeep.db import Database
from mailkeep.errors import AccountHeldElsewhere
from mailkeep.imap.dialogue import Command, Completion, Dialogue
from mailkeep.sync import run_account

BATCH = 4
LEASE_ATTEMPTS = 200  # of 50 ms, until the server has noticed that the last process is dead


class Points:
    """Counts, and dies at the one that was asked for."""

    def __init__(self, at: int | None) -> None:
        self._at = at
        self.reached = 0

    def reach(self) -> None:
        self.reached += 1
        if self.reached == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


def die_at(points: Points) -> None:
    """Every command, as it goes out and when it has ended, and every commit that may write, before and after it."""
    send, read = Dialogue._send, Dialogue._read
    commit = psycopg.AsyncConnection.commit

    def sending(self: Dialogue, tag: bytes, command: Command) -> None:
        points.reach()
        send(self, tag, command)

    def reading(self: Dialogue, command: Command, tags: list[bytes], ended: dict[bytes, Completion]) -> None:
        before = len(ended)
        read(self, command, tags, ended)
        if len(ended) > before:
            points.reach()

    async def committing(self: psycopg.AsyncConnection) -> None:
        points.reach()
        await commit(self)
        points.reach()

    Dialogue._send = sending  # type: ignore[method-assign]
    Dialogue._read = reading  # type: ignore[method-assign, assignment]
    psycopg.AsyncConnection.commit = committing  # type: ignore[method-assign]


async def synchronize(dsn: str, port: int, user: str) -> None:
    account = account_at(port, user_name=user)
    with tempfile.TemporaryDirectory() as home:
        async with (
            Database(dsn) as db,
            engine(db, Path(home), account, max_metadata_batch_size=BATCH) as resources,
        ):
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


def in_a_fork(dsn: str, port: str, user: str, point: str | None = None) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            points = Points(None if point is None else int(point))
            die_at(points)
            asyncio.run(synchronize(dsn, int(port), user))
            os.write(writer, b"done %d" % points.reached)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        said = answers.read()
    _, status = os.waitpid(child, 0)
    return "killed" if os.WIFSIGNALED(status) else said or "failed"


if __name__ == "__main__":
    for line in sys.stdin:
        *place, user_and_point = line.rstrip("\n").split("\t")
        print(in_a_fork(*place, *user_and_point.split(" ")), flush=True)
