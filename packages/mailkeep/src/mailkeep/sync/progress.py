"""Counting what a run does, and telling it to whoever draws the bar."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from mailkeep.sync.model import Progress

RATE_WINDOW_SECONDS = 10.0


class Meter:
    """The counts of one account's run. `report` is called from the event loop after every stored chunk."""

    def __init__(
        self,
        account_id: str,
        report: Callable[[Progress], None] | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._account_id = account_id
        self._report = report
        self._clock = clock
        self._folders_done = 0
        self._folders_total = 0
        self._messages_done = 0
        self._messages_total: int | None = None
        self._octets_done = 0
        self._window: deque[tuple[float, int, int]] = deque([(clock(), 0, 0)])

    def expect(self, *, folders: int, messages: int | None) -> None:
        self._folders_total = folders
        self._messages_total = messages

    def folder_done(self, alias: str) -> None:
        self._folders_done += 1
        self._tell(alias)

    def stored(self, alias: str, *, messages: int, octets: int) -> None:
        self._messages_done += messages
        self._octets_done += octets
        now = self._clock()
        self._window.append((now, self._messages_done, self._octets_done))
        while len(self._window) > 2 and now - self._window[0][0] > RATE_WINDOW_SECONDS:
            self._window.popleft()
        self._tell(alias)

    def _tell(self, alias: str) -> None:
        if self._report is None:
            return
        since, messages_then, octets_then = self._window[0]
        elapsed = max(self._clock() - since, 1e-6)
        rate = (self._messages_done - messages_then) / elapsed
        total = None if self._messages_total is None else max(self._messages_total, self._messages_done)
        self._report(
            Progress(
                account_id=self._account_id,
                folder=alias,
                folders_done=self._folders_done,
                folders_total=self._folders_total,
                messages_done=self._messages_done,
                messages_total=total,
                octets_done=self._octets_done,
                messages_per_second=rate,
                octets_per_second=(self._octets_done - octets_then) / elapsed,
                seconds_left=(total - self._messages_done) / rate if total is not None and rate > 0 else None,
            )
        )
