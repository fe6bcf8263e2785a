"""Stages kept running beside the mirror: one task each, woken by arrivals, patient after failures."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from mailkeep.db import Database
from mailkeep.errors import MailkeepError
from mailkeep.stages.lease import stage_lease
from mailkeep.stages.model import Stage

log = logging.getLogger(__name__)

INTERVAL: Final = timedelta(minutes=1)
"""How long a stage waits at most when nothing is announced: other processes store mail too."""
FIRST_BACKOFF: Final = timedelta(seconds=2)
LONGEST_BACKOFF: Final = timedelta(minutes=10)
SHORTEST_WAIT: Final = timedelta(milliseconds=100)


class StageRunner:
    """One task for each stage until `stop`; `wake` after mail was stored.

    A stage that fails waits longer each time and keeps no other waiting. `run` returns when the passes under way ended,
    or cancels them after `drain_time`; their work is found again in the database.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        db: Database,
        *,
        now: Callable[[], datetime],
        drain_time: timedelta,
        interval: timedelta = INTERVAL,
        first_backoff: timedelta = FIRST_BACKOFF,
    ) -> None:
        self._workers = tuple(
            _Worker(stage, db, now=now, interval=interval, first_backoff=first_backoff) for stage in stages
        )
        self._drain_time = drain_time
        self._stopped = asyncio.Event()

    def wake(self) -> None:
        """Let every stage look for work now."""
        for worker in self._workers:
            worker.wake.set()

    def stop(self) -> None:
        """Begin no further pass."""
        self._stopped.set()
        for worker in self._workers:
            worker.stop()

    async def run(self) -> None:
        """Work until `stop`."""
        tasks = [asyncio.create_task(worker.run(), name=f"stage {worker.name}") for worker in self._workers]
        try:
            await self._stopped.wait()
        finally:
            self.stop()
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=self._drain_time.total_seconds())
                for task in late:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


class _Worker:
    """The loop of one stage."""

    def __init__(
        self,
        stage: Stage,
        db: Database,
        *,
        now: Callable[[], datetime],
        interval: timedelta,
        first_backoff: timedelta,
    ) -> None:
        self.name = stage.name
        self.wake = asyncio.Event()
        self._stage = stage
        self._db = db
        self._now = now
        self._interval = interval
        self._first_backoff = first_backoff
        self._failures = 0
        self._is_stopping = False

    def stop(self) -> None:
        self._is_stopping = True
        self.wake.set()

    async def run(self) -> None:
        while not self._is_stopping:
            self.wake.clear()
            due = await self._attempt()
            if not self._is_stopping:
                await self._pause(due)

    async def _attempt(self) -> datetime | None:
        """Pass after pass while there is work; when the next one is due, None for the usual interval."""
        try:
            async with stage_lease(self._db, self.name) as is_owner:
                due = await self._work() if is_owner else None
        except MailkeepError as error:
            self._failures += 1
            log.warning("stage failed", extra={"stage": self.name, "failure_code": error.code})
        except Exception as error:
            self._failures += 1
            log.error(  # noqa: TRY400  -- a traceback can hold mail
                "stage failed", extra={"stage": self.name, "error": type(error).__name__}
            )
        else:
            self._failures = 0
            return due
        return None

    async def _work(self) -> datetime | None:
        while not self._is_stopping:
            outcome = await self._stage.run_pass(self._now())
            if outcome.done or outcome.failed:
                log.info("stage pass", extra={"stage": self.name, "done": outcome.done, "failed": outcome.failed})
            if not outcome.has_more or outcome.next_due is not None:
                return outcome.next_due
            if not (outcome.done or outcome.failed):
                return None
        return None

    async def _pause(self, due: datetime | None) -> None:
        wait = self._interval
        if self._failures:
            wait = min(self._first_backoff * 2 ** min(self._failures - 1, 16), LONGEST_BACKOFF)
            await self._sleep(wait, only_stop=True)
            return
        if due is not None:
            wait = max(min(wait, due - self._now()), SHORTEST_WAIT)
        await self._sleep(wait, only_stop=False)

    async def _sleep(self, wait: timedelta, *, only_stop: bool) -> None:
        """Until woken or until the time is over; after a failure only the time or the end counts."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait.total_seconds()):
                while True:
                    await self.wake.wait()
                    if not only_stop or self._is_stopping:
                        return
                    self.wake.clear()
