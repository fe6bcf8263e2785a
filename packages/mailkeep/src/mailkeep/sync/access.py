"""The way to the mail servers, one for a process: credentials, connection budgets, pipelines.

Whoever needs a connection comes through here: runs, watchers and checks alike, so that budgets, pauses and circuit
breakers hold for all of them together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from mailkeep.config import AccountSettings, DataEncryptionSettings, PipelineClass, ResilienceSettings
from mailkeep.errors import MailServerUnavailable, PipelineRejected
from mailkeep.imap import AskedToComeBack, ReadOnlySession, Timeouts, WatchingSession
from mailkeep.imap.writing import WritingSession
from mailkeep.oauth import AccessTokens
from mailkeep.resilience import BreakerState, Conduct, Pipeline, Pipelines
from mailkeep.sync.credentials import open_session, open_watch, open_writing
from mailkeep.sync.gate import Gates
from mailkeep.sync.writing import Writer

T = TypeVar("T")


class OutOfReach(MailServerUnavailable):
    """No session could be opened, and that is so for the whole run: nothing else of it is tried (SYNC-37)."""


def _too_late() -> MailServerUnavailable:
    return MailServerUnavailable("the mail server did not let us in in time")


def _may_pass(error: Exception) -> bool:
    """Transient are dropped sockets, BYE, broken streams and silence. A plea for patience is not to be repeated."""
    return isinstance(error, MailServerUnavailable) and not isinstance(error, AskedToComeBack | OutOfReach)


ESTABLISHMENT: Final = Conduct(is_transient=_may_pass, too_late=_too_late)
RETRIEVAL: Final = Conduct(is_transient=_may_pass)  # the stream bounds its silence, not how long a message takes


@dataclass(frozen=True, slots=True)
class Access:
    """One per process; made by `App`, or by `open_resources` for a process that has none."""

    tokens: AccessTokens
    gates: Gates
    pipelines: Pipelines
    home: Path
    timeouts: Timeouts
    _writers: dict[str, Writer] = field(default_factory=dict)

    async def session(self, account: AccountSettings, ring: DataEncryptionSettings) -> ReadOnlySession:
        """A signed-in session, its credential resolved anew at every attempt. The caller is inside of the gate."""
        return await self._established(
            account, lambda: open_session(account, self.tokens, ring, self.home, timeouts=self.timeouts)
        )

    async def watch(self, account: AccountSettings, ring: DataEncryptionSettings) -> WatchingSession:
        """A session that can only wait; as `session` otherwise."""
        return await self._established(
            account, lambda: open_watch(account, self.tokens, ring, self.home, timeouts=self.timeouts)
        )

    def writer(self, account: AccountSettings, ring: DataEncryptionSettings, *, idle_period: timedelta) -> Writer:
        """The one connection that changes this account's mailbox, opened when it is needed (MUT-7).

        It follows the settings it is asked with; a connection that was opened with others is closed first.
        """
        gate = self.gates.of(account)
        found = self._writers.setdefault(account.account_id, Writer(gate, idle_period=idle_period))
        found.follow(account, gate, partial(self._writing, account, ring), idle_period=idle_period)
        return found

    async def close(self) -> None:
        """End the connections that are kept between uses."""
        for writer in self._writers.values():
            await writer.close()

    @asynccontextmanager
    async def visit(self, account: AccountSettings, ring: DataEncryptionSettings) -> AsyncIterator[ReadOnlySession]:
        """A session of the account's budget for the length of the block."""
        gate = self.gates.of(account)
        await gate.enter()
        try:
            session = await self.session(account, ring)
            try:
                yield session
            finally:
                await session.close()
        except AskedToComeBack as error:
            gate.heed(error)
            raise
        finally:
            gate.leave()

    def retrieval(self, account: AccountSettings) -> Pipeline:
        """The pipeline of questions to the account's server."""
        return self.pipelines.of(PipelineClass.MAILBOX_DATA_RETRIEVAL, counterpart(account), RETRIEVAL)

    def breakers(self, account: AccountSettings) -> dict[PipelineClass, BreakerState]:
        """The circuit breakers of an account's server and of its authorization server, as far as they were called."""
        return self.pipelines.breakers(counterpart(account)) | self.pipelines.breakers(account.account_id)

    async def _writing(self, account: AccountSettings, ring: DataEncryptionSettings) -> WritingSession:
        return await self._established(
            account, lambda: open_writing(account, self.tokens, ring, self.home, timeouts=self.timeouts)
        )

    async def _established(self, account: AccountSettings, work: Callable[[], Awaitable[T]]) -> T:
        line = self.pipelines.of(PipelineClass.MAILBOX_SESSION_ESTABLISHMENT, counterpart(account), ESTABLISHMENT)
        try:
            return await line.run(work)
        except PipelineRejected as error:
            raise MailServerUnavailable(error.message) from error


def counterpart(account: AccountSettings) -> str:
    """Whom a pipeline of an account's mail server is about: the account, at the server it has now."""
    return f"{account.account_id} {account.host}:{account.port}"


def timeouts_of(settings: ResilienceSettings) -> Timeouts:
    """The waits of a connection."""
    return Timeouts(
        connect=settings.mailbox_session_establishment.attempt_timeout.total_seconds(),
        idle=settings.mailbox_data_retrieval.attempt_timeout.total_seconds(),
    )
