"""Following the settings file: a change is taken up by the running service, or named with why not (SYNC-2)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mailkeep.config import Settings, load_candidate, settings_file, take_up
from mailkeep.errors import MailkeepError

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""How often the file is looked at. Looking is one system call; a notice of changes would miss network file systems."""

Signature = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class SettingsNotice:
    """What an operator should know of the settings file: why it is not in use, and what waits for a restart."""

    trouble: str | None = None
    needs_restart: tuple[str, ...] = ()


class SettingsFollower:
    """Looks at the file until stopped. `publish` gets each snapshot that is taken up, `tell` what there is to say."""

    def __init__(
        self,
        home: Path,
        current: Settings,
        *,
        publish: Callable[[Settings], None],
        tell: Callable[[SettingsNotice], None],
        seconds: float = LOOK_SECONDS,
    ) -> None:
        self._home = home
        self._file = settings_file(home)
        self._current = current
        self._publish = publish
        self._tell = tell
        self._seconds = seconds
        self._seen = self._signature()

    async def run(self, stop: asyncio.Event) -> None:
        """Take up changes until `stop`."""
        while not stop.is_set():
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await stop.wait()

    async def look(self) -> None:
        """Take up what changed since the last look. A file that changes while it is read is read again at the next."""
        found = self._signature()
        if found == self._seen:
            return
        try:
            # Off the event loop: secrets may lie on slow ground.
            candidate = await asyncio.to_thread(load_candidate, self._home)
            snapshot, needs_restart = take_up(self._current, candidate)
        except MailkeepError as error:
            if self._signature() != found:
                return
            self._seen = found
            log.error("settings not taken up", extra={"path": str(self._file), "failure_code": error.code})  # noqa: TRY400
            self._tell(SettingsNotice(trouble=error.message))
            return
        if self._signature() != found:
            return
        self._seen, self._current = found, snapshot
        log.info("settings taken up", extra={"path": str(self._file), "needs_restart": list(needs_restart)})
        self._publish(snapshot)
        self._tell(SettingsNotice(needs_restart=needs_restart))

    def _signature(self) -> Signature:
        try:
            state = self._file.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size, state.st_ino
