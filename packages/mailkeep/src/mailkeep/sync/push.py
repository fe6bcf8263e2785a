"""Push: being told by the server that something changed, so that the next run need not be waited for (SYNC-85 to 90).

One connection with NOTIFY for the account's first folders, else one connection with IDLE for each, else nothing but the
interval. What is told only starts the ordinary run; nothing is fetched here. A connection that ends is opened again,
which is a normal event and no failure of the account (cases 52, 55); before every wait the folders' states are compared
with the checkpoints, so that nothing slips through between a run and a wait (case 53).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from mailkeep.config import AccountSettings, Settings
from mailkeep.errors import CommandRefused, MailkeepError
from mailkeep.imap import AskedToComeBack, FolderState, WatchingSession
from mailkeep.mailbox import AccountId, Checkpoint, FolderBinding, load_checkpoints
from mailkeep.sync.gate import AccountGate
from mailkeep.sync.resources import Resources

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 1.0
LONGEST_RECONNECT_SECONDS = 30.0


class PushMode(StrEnum):
    """How an account's changes are learnt of at the moment."""

    NOTIFY = "Notify"
    IDLE = "Idle"
    POLLING = "Polling"


@dataclass(slots=True)
class PushState:
    """What operators may know of an account's push: `waiting` counts the folders that are waited on right now."""

    mode: PushMode = PushMode.POLLING
    waiting: int = 0
    degraded_until: datetime | None = None


def pause_after(failures: int, *, limit: int, degradation: timedelta, chance: float) -> tuple[timedelta, bool]:
    """The wait after so many failures in a row, and whether it is a degradation to polling (SYNC-89).

    Up to the limit waits double from a second to half a minute, with jitter in their upper half; `chance` is in [0, 1).
    """
    if failures >= limit:
        return degradation, True
    grown = min(RECONNECT_SECONDS * 2 ** (failures - 1), LONGEST_RECONNECT_SECONDS)
    return timedelta(seconds=grown * (0.5 + chance / 2)), False


def has_news(checkpoint: Checkpoint | None, state: FolderState) -> bool:
    """Whether a folder's state shows what no run has seen; what either side does not know is no news."""
    if checkpoint is None:
        return True
    pairs = (
        (checkpoint.uid_validity, state.uid_validity),
        (checkpoint.remote_uid_next, state.uid_next),
        (checkpoint.remote_message_count, state.messages),
        (checkpoint.reconciled_through_modseq, state.highest_modseq),
    )
    return any(ours is not None and theirs is not None and ours != theirs for ours, theirs in pairs)


class _OtherCapabilities(Exception):  # noqa: N818  -- a turn of events, not a failure
    """A new connection can do something else than the last one: what is watched how is decided afresh."""


async def _pause(time: timedelta) -> None:
    await asyncio.sleep(time.total_seconds())


@dataclass(slots=True)
class Watch:
    """The watching of one account until cancelled. `changed` is called when a run should begin."""

    resources: Resources
    settings: Settings
    account: AccountSettings
    folders: Sequence[FolderBinding]
    changed: Callable[[], None]
    pause: Callable[[timedelta], Awaitable[None]] = _pause
    chance: Callable[[], float] = random.random
    state: PushState = field(default_factory=PushState)
    _refuses_notify: bool = False
    _announced: dict[str, FolderState] = field(default_factory=dict)
    _entrance: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Watch until cancelled. Returns when the server rejects what a run has to find out first, as a credential.

        Raises nothing of ours: a failure of push is none of the account's.
        """
        try:
            await self._run()
        except* MailkeepError as group:
            codes = sorted({error.code for error in _leaves(group) if isinstance(error, MailkeepError)})
            log.warning("watching ended", extra={"account_id": self.account.account_id, "failure_codes": codes})
        finally:
            self.state.mode, self.state.waiting = PushMode.POLLING, 0

    async def _run(self) -> None:
        bounds = self.settings.mail_synchronization
        watched = list(self.folders[: bounds.max_subscribed_folders])
        failures = 0
        while watched:
            try:
                session = await self._open()
            except MailkeepError as error:
                failures = await self._after(error, failures)
                continue
            if session is None:
                return  # the budget has no connection for this
            mode = self.state.mode = self._mode_of(session)
            if mode is PushMode.POLLING:
                await self._close(session)
                await self._degrade(bounds.push_degradation_period)
                continue
            groups = [watched] if mode is PushMode.NOTIFY else [[folder] for folder in watched]
            try:
                async with asyncio.TaskGroup() as tasks:
                    for index, folders in enumerate(groups):
                        tasks.create_task(self._keep(folders, mode, session if index == 0 else None, failures))
            except* _OtherCapabilities:
                failures = 0

    async def _keep(
        self, folders: Sequence[FolderBinding], mode: PushMode, session: WatchingSession | None, failures: int
    ) -> None:
        """Watch these folders over one connection after the other."""

        def returned() -> None:
            nonlocal failures
            failures = 0

        while True:
            try:
                session = session or await self._open()
                if session is None:
                    return  # these are polled
                try:
                    if self._mode_of(session) is not mode:
                        raise _OtherCapabilities
                    await self._watch(session, folders, returned)
                    return  # the server counts fewer connections than we thought: these are polled
                finally:
                    await self._close(session)
                    session = None
            except MailkeepError as error:
                failures = await self._after(error, failures)

    async def _watch(
        self, session: WatchingSession, folders: Sequence[FolderBinding], returned: Callable[[], None]
    ) -> None:
        """Wait again and again on one connection; every wait that comes back is reported as `returned`.

        Returns when the connection is needed for something else.
        """
        paths = [folder.remote_path for folder in folders]
        await session.examine(paths[0])
        if self._mode_of(session) is PushMode.NOTIFY and not await session.subscribe(paths):
            self._refuses_notify = True
            raise _OtherCapabilities
        renewal = self.settings.mail_synchronization.push_renewal_interval.total_seconds()
        told = False
        while not self._gate.has_watchers_to_spare:
            states = await session.states(paths)
            if await self._is_missed(folders, states) or told:
                self.changed()
            self.state.waiting += len(folders)
            try:
                told = await session.wait(renewal)
            finally:
                self.state.waiting -= len(folders)
            returned()

    def _mode_of(self, session: WatchingSession) -> PushMode:
        """What this connection can do; read anew on every one (SYNC-86)."""
        if not session.offers("IDLE"):
            return PushMode.POLLING
        return PushMode.NOTIFY if session.offers("NOTIFY") and not self._refuses_notify else PushMode.IDLE

    async def _is_missed(self, folders: Sequence[FolderBinding], states: Mapping[str, FolderState]) -> bool:
        """Whether a state is news to the checkpoints; each state is told once, since a run may be unable to follow."""
        checkpoints = await load_checkpoints(self.resources.db, AccountId(self.account.account_id))
        missed = False
        for folder in folders:
            state = states.get(folder.remote_path)
            if state is None or state == self._announced.get(folder.remote_path):
                continue
            if has_news(checkpoints.get(folder.folder_id), state):
                self._announced[folder.remote_path] = state
                missed = True
        return missed

    async def _open(self) -> WatchingSession | None:
        """A signed-in connection, its credential resolved anew; None when the budget has none left for watching."""
        gate = self._gate
        leave_free = self.settings.mail_synchronization.max_concurrent_folders_per_account
        if not await gate.enter_to_watch(leave_free=leave_free):
            return None
        try:
            async with self._entrance:  # one by one, so that runs are not rejected for the sake of watchers
                return await self.resources.access.watch(self.account, self.settings.data_encryption)
        except BaseException:
            gate.leave_watch()
            raise

    async def _close(self, session: WatchingSession) -> None:
        try:
            await session.close()
        finally:
            session.abandon()
            self._gate.leave_watch()

    async def _after(self, error: MailkeepError, failures: int) -> int:
        """Wait as this failure demands; the count of failures in a row. Raises what waiting does not mend."""
        if not (error.retryable or isinstance(error, CommandRefused)):
            raise error
        if isinstance(error, AskedToComeBack):
            self._gate.heed(error)
        bounds = self.settings.mail_synchronization
        failures += 1
        wait, is_degraded = pause_after(
            failures,
            limit=bounds.max_consecutive_push_failures,
            degradation=bounds.push_degradation_period,
            chance=self.chance(),
        )
        log.info("watching interrupted", extra={"account_id": self.account.account_id, "failure_code": error.code})
        if (paused := self._gate.pause) is not None:
            wait = max(wait, paused[1] - self.resources.now())
        await (self._degrade(wait) if is_degraded else self.pause(wait))
        return failures

    async def _degrade(self, time: timedelta) -> None:
        self.state.degraded_until = self.resources.now() + time
        try:
            await self.pause(time)
        finally:
            self.state.degraded_until = None

    @property
    def _gate(self) -> AccountGate:
        return self.resources.access.gates.of(self.account)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
