"""The one connection that changes an account's mailbox: opened on first need, kept for a while, then closed (MUT-7).

Servers count logins, so twenty changes make one. It takes its place in the account's budget like every other connection
and gives it up at once when somebody else finds none. Opening obeys the account's circuit breaker and its retries; what
is said on the connection is said once, outside of every retry layer (MUT-8).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from mailkeep.config import AccountSettings
from mailkeep.imap import AskedToComeBack
from mailkeep.imap.writing import WritingSession
from mailkeep.sync.gate import AccountGate


class Writer:
    """One per account and process. One caller at a time holds it; the others queue."""

    def __init__(self, gate: AccountGate, *, idle_period: timedelta) -> None:
        self._gate = gate
        self._idle_period = idle_period
        self._open: Callable[[], Awaitable[WritingSession]] | None = None
        self._account: AccountSettings | None = None
        self._session: WritingSession | None = None
        self._is_stale = False
        self._turn = asyncio.Lock()
        self._idling: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._retired_commands = 0

    def follow(
        self,
        account: AccountSettings,
        gate: AccountGate,
        connect: Callable[[], Awaitable[WritingSession]],
        *,
        idle_period: timedelta,
    ) -> None:
        """The settings that the next connection goes by; one that was opened by others is not used again."""
        self._is_stale |= self._account is not None and self._account != account
        self._account, self._gate, self._open, self._idle_period = account, gate, connect, idle_period
        gate.crowded = self._hurry.set

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], Awaitable[WritingSession]]]:
        """The connection for the length of the block: what is yielded gives it, usable, opened where there is none."""
        async with self._turn:
            await self._stop_idling()
            self._hurry.clear()
            if self._is_stale:
                await self._close()
            self._is_stale = False
            try:
                yield self._ready
            finally:
                if self._session is not None and not self._session.is_usable:
                    self._drop()
                if self._session is not None:
                    self._idling = asyncio.create_task(self._idle(), name="idle write connection")

    async def close(self) -> None:
        """Say good-bye, as far as nobody holds it."""
        await self._stop_idling()
        async with self._turn:
            await self._stop_idling()
            await self._close()

    @property
    def commands_sent(self) -> int:
        """Commands sent on all its connections so far, after their sign-in."""
        return self._retired_commands + (self._session.commands_sent if self._session else 0)

    @property
    def is_open(self) -> bool:
        return self._session is not None

    async def _ready(self) -> WritingSession:
        self._gate.check()
        if self._session is not None and not self._session.is_usable:
            self._drop()
        if self._session is None:
            try:
                self._session = await self._connect()
            except AskedToComeBack as error:
                self._gate.heed(error)
                raise
        return self._session

    async def _connect(self) -> WritingSession:
        """A new connection. A failed opening gives its place back."""
        assert self._open is not None, "a writer follows settings before it is used"
        await self._gate.enter()
        try:
            session = await self._open()
        except BaseException:
            self._gate.leave()
            raise
        return session

    async def _idle(self) -> None:
        """Keep the connection for the idle period, or until somebody needs its place."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._idle_period.total_seconds()):
                await self._hurry.wait()
        await self._close()

    async def _stop_idling(self) -> None:
        """Take the connection back from idling; one that is being closed is closed to its end."""
        task, self._idling = self._idling, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _close(self) -> None:
        session = self._session
        if session is not None:
            try:
                await session.close()
            finally:
                self._drop()

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._retired_commands += session.commands_sent
            session.abandon()
            self._gate.leave()
