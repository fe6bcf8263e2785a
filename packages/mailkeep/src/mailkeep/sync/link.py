"""The way to one account's server: a session that is reopened when it breaks, with the folder examined again.

Reopening resolves the secret anew, examines the folder again and compares its UIDVALIDITY, so recovery can neither use
a revoked credential nor continue in another folder of the same name (SYNC-29, SYNC-30; case 220).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mailkeep.errors import FolderRecreated, MailkeepError, MailServerUnavailable, PipelineRejected
from mailkeep.imap import AskedToComeBack, ReadOnlySession, Selected
from mailkeep.resilience import Pipeline
from mailkeep.sync.access import OutOfReach
from mailkeep.sync.gate import AccountGate

T = TypeVar("T")


class Link:
    """One connection at a time. Used by one folder run at a time."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[ReadOnlySession]],
        *,
        gate: AccountGate,
        pipeline: Pipeline,
    ) -> None:
        """`connect` opens a signed-in session, with all attempts that are allowed; `gate` has the budget.

        Questions go through `pipeline`.
        """
        self._open = connect
        self._gate = gate
        self._pipeline = pipeline
        self._session: ReadOnlySession | None = None
        self._path: str | None = None
        self._ahead: tuple[int, int] | None = None
        self._selected: Selected | None = None
        self._retired_commands = 0
        self._retired_octets = 0
        self._withdrawn: frozenset[str] = frozenset()
        self.failure: MailkeepError | None = None

    @property
    def commands_sent(self) -> int:
        return self._retired_commands + (self._session.commands_sent if self._session else 0)

    @property
    def octets_received(self) -> int:
        return self._retired_octets + (self._session.octets_received if self._session else 0)

    async def open_folder(self, path: str, *, ahead: tuple[int, int] | None = None) -> Selected:
        """Examine a folder afresh; from now on every session is in it. `ahead` is asked with it, once."""
        self._path, self._selected, self._ahead = path, None, ahead
        if self._session is not None:
            self._session.selected = None
        return await self.call(self._where)

    async def call(self, work: Callable[[ReadOnlySession], Awaitable[T]]) -> T:
        """Do the work, again on a new connection after a transient failure, as the pipeline allows (SYNC-34)."""
        try:
            return await self._pipeline.run(lambda: self.once(work))
        except PipelineRejected as error:
            raise MailServerUnavailable(error.message) from error

    async def once(self, work: Callable[[ReadOnlySession], Awaitable[T]]) -> T:
        """Do the work once, on a session that is ready for it, unless the server asked to be left alone.

        Outside of the pipeline, for what one message may break again and again: its breaker is about the server.
        """
        self._gate.check()
        session = await self._ready()
        try:
            return await work(session)
        except AskedToComeBack as error:
            self._gate.heed(error)
            raise
        finally:
            if not session.is_usable:
                self._drop()

    async def ready(self) -> None:
        """Make sure that a session is open and in its folder, with the configured attempts."""
        await self.call(self._where)

    async def close(self) -> None:
        if self._session is not None:
            try:
                await self._session.close()
            finally:
                self._drop()

    def abandon(self) -> None:
        """Close at once, without LOGOUT."""
        if self._session is not None:
            self._session.abandon()
            self._drop()

    async def _where(self, _: ReadOnlySession) -> Selected:
        if self._selected is None:
            raise RuntimeError("no folder is open")
        return self._selected

    async def _ready(self) -> ReadOnlySession:
        if self._session is None or not self._session.is_usable:
            self._drop()
            self._session = await self._connect()
        session = self._session
        if self._path is not None and (session.selected is None or session.selected.path != self._path):
            ahead, self._ahead = self._ahead, None
            try:
                selected = await session.examine(self._path, ahead=ahead)
            finally:
                if not session.is_usable:
                    self._drop()
            if self._selected is not None and self._selected.uid_validity != selected.uid_validity:
                raise FolderRecreated("the folder was recreated on the server while it was being read")
            self._selected = selected
        return session

    async def _connect(self) -> ReadOnlySession:
        """A new session. Once the server cannot be reached or will not let us in, that is so for the whole run:
        the remaining folders are not each made to find it out again, and no credential is tried twice (SYNC-36)."""
        if self.failure is not None:
            raise self.failure
        try:
            session = await self._enter()
        except AskedToComeBack as error:
            self._gate.heed(error)
            self.failure = error
            raise
        except MailServerUnavailable as error:
            self.failure = OutOfReach(error.message)
            raise self.failure from error
        except MailkeepError as error:
            self.failure = error
            raise
        session.withdraw(*self._withdrawn)  # what this server got wrong is not tried again on the next connection
        return session

    async def _enter(self) -> ReadOnlySession:
        await self._gate.enter()
        try:
            return await self._open()
        except BaseException:
            self._gate.leave()
            raise

    def _drop(self) -> None:
        if self._session is not None:
            self._withdrawn |= self._session.withdrawn
            self._retired_commands += self._session.commands_sent
            self._retired_octets += self._session.octets_received
            self._session.abandon()
            self._session = None
            self._gate.leave()
