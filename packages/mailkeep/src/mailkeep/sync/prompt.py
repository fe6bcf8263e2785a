"""Changes on the server within a second of being recorded (MUT-B6): passes between an account's runs.

A pass waits for no run slot and for no run of its account; what it changed is read back by the run that it wakes. One
that fails is not repeated here: the account's next run does it, at the spacing of its schedule and backoff (MUT-39).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from mailkeep.config import AccountKind, Settings
from mailkeep.errors import MailkeepError
from mailkeep.mutations.listening import listen
from mailkeep.sync.changes import carry_out_changes
from mailkeep.sync.resources import Resources

log = logging.getLogger(__name__)


class PromptChanges:
    """Listens, and converges whoever is announced. `settings` gives the snapshot to go by, `converged` is told of each
    account whose mailbox was changed."""

    def __init__(
        self, resources: Resources, settings: Callable[[], Settings], converged: Callable[[str], object]
    ) -> None:
        self._resources = resources
        self._settings = settings
        self._converged = converged
        self._announced: set[str] = set()
        self._news = asyncio.Event()
        self._at_work: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until cancelled. A pass that is under way then is cancelled as well, which leaves its stages as committed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(listen(self._resources.db, self._told), name="announcements of changes")
            while True:
                await self._news.wait()
                self._news.clear()
                for account_id in self._announced - self._at_work.keys():
                    self._announced.discard(account_id)
                    self._at_work[account_id] = group.create_task(self._converge(account_id))

    def _told(self, account_id: str | None) -> None:
        mirrored = {
            account.account_id
            for account in self._settings().mail_synchronization.accounts
            if account.kind is AccountKind.IMAP
        }
        self._announced |= mirrored if account_id is None else mirrored & {account_id}
        self._news.set()

    async def _converge(self, account_id: str) -> None:
        try:
            await self._pass(account_id)
        finally:
            del self._at_work[account_id]
            self._news.set()  # what was announced meanwhile

    async def _pass(self, account_id: str) -> None:
        settings = self._settings()
        account = settings.account(account_id)
        if account is None or self._resources.stopping.is_set():
            return
        gate = self._resources.access.gates.of(account)
        if gate.pause is not None:
            return
        if gate.capacity == 1:
            self._converged(account_id)  # the only connection is its run's, which begins with a pass
            return
        try:
            outcome = await carry_out_changes(replace(self._resources, settings=settings), account)
        except MailkeepError as error:
            log.warning("changes wait", extra={"account_id": account_id, "failure_code": error.code})
            return
        except Exception as error:
            log.error(  # noqa: TRY400  -- a traceback can hold mail
                "changes wait", extra={"account_id": account_id, "error": type(error).__name__}
            )
            return
        if outcome.changed_something:
            self._converged(account_id)
