"""Keeping every account in line for as long as the process runs (spec SYNC section 2).

Each account has its own task, failure count and backoff, so that nothing in one delays or fails another apart from
waiting for a run slot. Slots are given in the order of asking: an account with much to fetch gives its slot back after
every run and asks again at once, so a large first synchronization never keeps a small account waiting for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from mailkeep.config import AccountKind, AccountSettings, Settings
from mailkeep.config.accounts import SynchronizationMode
from mailkeep.errors import AccountHeldElsewhere, MailkeepError
from mailkeep.imap import PauseReason
from mailkeep.sync.model import AccountOutcome, FolderOutcome, Phase, Progress
from mailkeep.sync.prompt import PromptChanges
from mailkeep.sync.push import PushMode, Watch
from mailkeep.sync.resources import Resources
from mailkeep.sync.run import run_account
from mailkeep.sync.schedule import wait_before_next_run

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderReport:
    """How a folder's last run ended, and when."""

    outcome: FolderOutcome
    at: datetime


@dataclass(frozen=True, slots=True)
class AccountReport:
    """What operators read of one account (SYNC-11). In this process only; it starts afresh with the next.

    `pause_reason` says why the server asked to be left alone until `next_run_at`, None when it did not.
    """

    account_id: str
    phase: Phase
    next_run_at: datetime | None
    failure_count: int
    failure_code: int | None
    progress: Progress | None
    folders: tuple[FolderReport, ...]
    pause_reason: PauseReason | None = None
    push: PushReport | None = None


@dataclass(frozen=True, slots=True)
class PushReport:
    """How an account with `mode = "Push"` learns of changes now; `waiting` counts the folders waited on."""

    mode: PushMode
    waiting: int
    degraded_until: datetime | None


@dataclass(slots=True)
class _Account:
    """The state of one account's task."""

    account_id: str
    settings: AccountSettings | None = None
    """What its last run went by."""
    phase: Phase = Phase.NOT_STARTED
    next_run_at: datetime | None = None
    failures: int = 0
    failure_code: int | None = None
    progress: Progress | None = None
    folders: dict[str, FolderReport] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    pause_reason: PauseReason | None = None
    watch: Watch | None = None
    watching: asyncio.Task[None] | None = None


class Supervisor:
    """Runs all accounts until `stop`. `settings` gives the snapshot that the next run uses (SYNC-2).

    `arrived` is called whenever messages were stored, after their transaction.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        settings: Callable[[], Settings] | None = None,
        chance: Callable[[], float] = random.random,
        arrived: Callable[[], None] | None = None,
    ) -> None:
        self._resources = resources
        self._arrived = arrived
        self._settings = settings or (lambda: resources.settings)
        self._chance = chance
        self._accounts: dict[str, _Account] = {}
        self._slots = asyncio.Semaphore(resources.bounds.max_concurrent_accounts)
        self._news = asyncio.Event()

    def report(self) -> tuple[AccountReport, ...]:
        """Every account this process has met, in the order met."""
        return tuple(
            AccountReport(
                account_id=account.account_id,
                phase=account.phase,
                next_run_at=account.next_run_at,
                failure_count=account.failures,
                failure_code=account.failure_code,
                progress=account.progress,
                folders=tuple(account.folders.values()),
                pause_reason=account.pause_reason,
                push=_push_report(account.watch),
            )
            for account in self._accounts.values()
        )

    def wake(self, account_id: str) -> bool:
        """Let an account's next run begin now; False for an account that is not supervised."""
        account = self._accounts.get(account_id)
        if account is None or account.task is None or account.task.done():
            return False
        account.wake.set()
        return True

    def settings_changed(self) -> None:
        """There is a newer snapshot: new accounts begin, changed ones run again, others end (SYNC-2, SYNC-6)."""
        settings = self._settings()
        for account in self._accounts.values():
            if account.settings != _served(settings, account.account_id):
                account.wake.set()
        self._news.set()

    def stop(self) -> None:
        """Begin nothing new; `run` returns when what is under way has ended or its time is over."""
        self._resources.stopping.set()
        self._news.set()
        for account in self._accounts.values():
            account.wake.set()

    async def run(self) -> None:
        """Supervise until `stop`, then drain for at most `shutdown_drain_timeout` and cancel the rest (SYNC-10)."""
        prompt = PromptChanges(self._resources, self._settings, self.wake)
        changes = asyncio.create_task(prompt.run(), name="prompt changes")
        try:
            while not self._resources.stopping.is_set():
                self._start_missing()
                await self._pause(self._settings().mail_synchronization.interval)
        finally:
            self.stop()
            try:
                await self._drain()
            finally:
                changes.cancel()
                await asyncio.gather(changes, return_exceptions=True)

    def _start_missing(self) -> None:
        for settings in self._settings().mail_synchronization.accounts:
            if settings.kind is not AccountKind.IMAP:
                continue
            account = self._accounts.setdefault(settings.account_id, _Account(settings.account_id))
            if account.task is None or account.task.done():
                account.task = asyncio.create_task(self._supervise(account), name=f"sync {account.account_id}")

    async def _pause(self, time: timedelta) -> None:
        """Until then, or until there are other settings or an end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(time.total_seconds()):
                await self._news.wait()
        self._news.clear()

    async def _drain(self) -> None:
        tasks = {account.task for account in self._accounts.values() if account.task is not None}
        if not tasks:
            return
        drain = self._settings().mail_synchronization.shutdown_drain_timeout.total_seconds()
        _, late = await asyncio.wait(tasks, timeout=drain)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _supervise(self, account: _Account) -> None:
        try:
            await self._keep_running(account)
        finally:
            await _stop_watching(account)

    async def _keep_running(self, account: _Account) -> None:
        while not self._resources.stopping.is_set():
            account.phase, account.next_run_at = Phase.WAITING_FOR_RUN_SLOT, None
            async with self._slots:
                if self._resources.stopping.is_set():
                    return
                account.wake.clear()  # before the snapshot is taken: a later one wakes for another run
                settings = self._settings()
                account.settings = _served(settings, account.account_id)
                if account.watch is not None and account.watch.settings != settings:
                    await _stop_watching(account)  # else a revoked credential lives on (SYNC-90)
                if account.settings is None:
                    account.phase = Phase.NOT_STARTED
                    return  # left the configuration; what is stored stays (SYNC-6)
                account.phase = Phase.RUNNING
                outcome = await self._attempt(account, settings)
            if outcome is not None:
                await self._watch(account, settings, outcome)
            await self._wait(account, settings, more_remains=outcome is not None and outcome.more_remains)

    async def _attempt(self, account: _Account, settings: Settings) -> AccountOutcome | None:
        """One run; its failure is counted, never raised."""

        def note(progress: Progress) -> None:
            before = account.progress.messages_done if account.progress is not None else 0
            account.progress = progress
            if self._arrived is not None and progress.messages_done > before:
                self._arrived()

        resources = replace(self._resources, settings=settings)
        try:
            outcome = await run_account(resources, account.account_id, progress=note)
        except AccountHeldElsewhere as error:
            account.failure_code = error.code  # its owner does the work; that is no failure of ours
            return None
        except MailkeepError as error:
            account.failures += 1
            account.failure_code = error.code
            log.warning("account run failed", extra={"account_id": account.account_id, "failure_code": error.code})
            return None
        except Exception as error:
            account.failures += 1
            account.failure_code = 0
            log.error(  # noqa: TRY400  -- a traceback can hold mail
                "account run failed", extra={"account_id": account.account_id, "error": type(error).__name__}
            )
            return None
        finally:
            account.progress = None
        for folder in outcome.folders:
            account.folders[folder.alias] = FolderReport(folder, outcome.finished_at)
        account.failures = account.failures + 1 if outcome.is_failed else 0
        codes = [outcome.failure_code, *(folder.failure_code for folder in outcome.folders)]
        account.failure_code = next((code for code in codes if code), None)
        return outcome

    async def _watch(self, account: _Account, settings: Settings, outcome: AccountOutcome) -> None:
        """After a run: watch the folders it resolved, on connections that are kept while nothing about them changed."""
        served = _served(settings, account.account_id)
        if served is None or served.mode is not SynchronizationMode.PUSH or self._resources.stopping.is_set():
            await _stop_watching(account)
            return
        watch = account.watch
        is_running = account.watching is not None and not account.watching.done()
        if watch is not None and is_running and tuple(watch.folders) == outcome.resolved:
            return
        await _stop_watching(account)
        gate = self._resources.access.gates.of(served)

        def changed() -> None:
            if gate.pause is None:
                account.wake.set()

        account.watch = Watch(self._resources, settings, served, outcome.resolved, changed)
        account.watching = asyncio.create_task(account.watch.run(), name=f"watch {account.account_id}")

    async def _wait(self, account: _Account, settings: Settings, *, more_remains: bool) -> None:
        bounds = settings.mail_synchronization
        wait = wait_before_next_run(
            interval=bounds.interval,
            max_failure_backoff=bounds.max_failure_backoff,
            failures=account.failures,
            more_remains=more_remains,
            chance=self._chance(),
        )
        now = self._resources.now()
        served = _served(settings, account.account_id)
        pause = self._resources.access.gates.of(served).pause if served is not None else None
        if pause is not None:
            account.pause_reason = pause[0]
            wait = max(wait, pause[1] - now)
        account.phase = Phase.WAITING_FOR_NEXT_RUN
        account.next_run_at = now + wait
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait.total_seconds()):
                await account.wake.wait()
        account.pause_reason = None


async def _stop_watching(account: _Account) -> None:
    """End the watch and its connections; a failure of it was none of the account's."""
    task, account.watching, account.watch = account.watching, None, None
    if task is not None:
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(result, Exception):
            log.error("watching failed", extra={"account_id": account.account_id, "error": type(result).__name__})


def _push_report(watch: Watch | None) -> PushReport | None:
    if watch is None:
        return None
    return PushReport(watch.state.mode, watch.state.waiting, watch.state.degraded_until)


def _served(settings: Settings, account_id: str) -> AccountSettings | None:
    account = settings.account(account_id)
    return account if account is not None and account.kind is AccountKind.IMAP else None
