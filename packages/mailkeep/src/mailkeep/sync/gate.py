"""What all workers of one account share at its server: a budget of connections, and the server's pleas for patience.

Runs, watchers and checks of one account come in through one gate. Runs wait for a connection, for a bounded time;
watchers take one only where enough are left for a run. Once the server asked to be left alone, nobody opens a
connection or sends a command until the time is over (cases 56, 58, 59).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

from mailkeep.config import AccountSettings, connections_allowed
from mailkeep.errors import MailServerUnavailable
from mailkeep.imap import Advice, AskedToComeBack, PauseReason
from mailkeep.sync.pauses import Pause, read_pauses, write_pause

CONNECTION_WAIT_SECONDS = 60.0


class AccountGate:
    """One per account and process, so that the budget holds for all its workers together."""

    def __init__(
        self,
        capacity: int,
        now: Callable[[], datetime],
        *,
        pause: Pause | None = None,
        keep: Callable[[Pause], None] = lambda _: None,
    ) -> None:
        """`pause` is one that an earlier process was asked for; `keep` remembers a new one."""
        self.capacity = capacity
        self._now = now
        self._keep = keep
        self._slots = asyncio.Semaphore(capacity)
        self._owed = 0
        self._watching = 0
        self._most_watching = capacity
        self._pause = pause
        self.crowded: Callable[[], None] = lambda: None
        """Called when somebody finds no connection free: whoever keeps one idle gives it up (MUT-7)."""

    def resize(self, capacity: int) -> None:
        """Another budget from now on; connections beyond a smaller one are not replaced when they end."""
        growth, self.capacity = capacity - self.capacity, capacity
        self._most_watching = capacity
        paid = min(self._owed, max(growth, 0))
        self._owed += max(-growth, 0) - paid
        for _ in range(growth - paid):
            self._slots.release()

    @property
    def pause(self) -> Pause | None:
        """Why and until when the account is left alone; None when it is not."""
        return self._pause if self._pause is not None and self._pause[1] > self._now() else None

    def heed(self, error: AskedToComeBack) -> None:
        """Leave the account alone as the server advised; a longer pause that is under way stays.

        A server that counts fewer connections than the budget gets fewer watchers: runs come first.
        """
        if error.advice.reason is PauseReason.TOO_MANY_CONNECTIONS:
            self._most_watching = max(0, min(self._most_watching, self._watching - 1))
        if error.advice.wait is None:
            return
        resume_at = self._now() + error.advice.wait
        if self._pause is None or resume_at > self._pause[1]:
            self._pause = (error.advice.reason, resume_at)
            self._keep(self._pause)

    def check(self) -> None:
        """Raise AskedToComeBack while the account is left alone."""
        if (pause := self.pause) is not None:
            raise AskedToComeBack("the mail server asked to be left alone for a while", Advice(pause[0], None))

    async def enter(self) -> None:
        """Take a connection of the budget. Raises AskedToComeBack during a pause, and MailServerUnavailable when
        none becomes free in CONNECTION_WAIT_SECONDS."""
        self.check()
        if self._slots.locked():
            self.crowded()
        try:
            async with asyncio.timeout(CONNECTION_WAIT_SECONDS):
                await self._slots.acquire()
        except TimeoutError:
            raise MailServerUnavailable("all connections of this account are in use") from None

    def leave(self) -> None:
        """Give a connection back."""
        if self._owed:
            self._owed -= 1
        else:
            self._slots.release()

    async def enter_to_watch(self, *, leave_free: int) -> bool:
        """Take a connection for as long as the process runs, if `leave_free` others stay; False when they would not."""
        if self._watching >= min(self.capacity - leave_free, self._most_watching):
            return False
        self._watching += 1
        try:
            await self.enter()
        except BaseException:
            self._watching -= 1
            raise
        return True

    @property
    def has_watchers_to_spare(self) -> bool:
        """Whether a watcher is to give its connection up at the next opportunity."""
        return self._watching > self._most_watching

    def leave_watch(self) -> None:
        self._watching -= 1
        self.leave()


class Gates:
    """The gates of all accounts of one process."""

    def __init__(self, home: Path, now: Callable[[], datetime]) -> None:
        self._home = home
        self._now = now
        self._gates: dict[str, AccountGate] = {}

    def of(self, account: AccountSettings) -> AccountGate:
        """The account's gate, with the budget of the settings it was last asked with."""
        gate = self._gates.get(account.account_id)
        capacity = account.max_connections or connections_allowed(account.host)
        if gate is None:
            gate = self._gates[account.account_id] = AccountGate(
                capacity,
                self._now,
                pause=read_pauses(self._home, now=self._now()).get(account.account_id),
                keep=partial(self._keep, account.account_id),
            )
        elif gate.capacity != capacity:
            gate.resize(capacity)
        return gate

    def _keep(self, account_id: str, pause: Pause) -> None:
        write_pause(self._home, account_id, pause, now=self._now())
