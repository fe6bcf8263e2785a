"""How a run is shown: a bar on a terminal, a terse line now and then elsewhere. Always on stderr, never results."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from mailkeep.cli.terminal import err, say
from mailkeep.display import duration, neutralise, size
from mailkeep.sync import Progress as Step

LINE_SECONDS: Final = 10.0
"""How often a run that is not on a terminal says how far it is."""


class ProgressDisplay:
    """Shows the steps of every account that runs; `show` is what a run reports to."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said_at: dict[str, float] = {}
        self._tasks: dict[str, TaskID] = {}
        self._bars = (
            Progress(
                TextColumn("{task.fields[place]}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[facts]}", markup=False),
                console=err,
                transient=True,
            )
            if err.is_terminal
            else None
        )

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, step: Step) -> None:
        """Draw one step, or say it when the last line is old enough."""
        if self._bars is not None:
            self._draw(self._bars, step)
            return
        now = self._clock()
        if now - self._said_at.setdefault(step.account_id, now) >= LINE_SECONDS:
            self._said_at[step.account_id] = now
            say(f"{place(step)}: {facts(step)}")

    def _draw(self, bars: Progress, step: Step) -> None:
        if step.account_id not in self._tasks:
            self._tasks[step.account_id] = bars.add_task("", total=None, place="", facts="")
        bars.update(
            self._tasks[step.account_id],
            total=step.messages_total or None,
            completed=step.messages_done,
            place=place(step),
            facts=facts(step),
        )


def place(step: Step) -> str:
    """Which account and folder, and how many folders are done."""
    folder = neutralise(step.folder)
    shown = folder if len(folder) <= 30 else folder[:29] + "…"
    return f"{neutralise(step.account_id)} {shown} ({step.folders_done}/{step.folders_total} folders)"


def facts(step: Step) -> str:
    """Messages, octets, rate and time left."""
    total = "" if step.messages_total is None else f"/{step.messages_total}"
    parts = [f"{step.messages_done}{total} messages", size(step.octets_done)]
    if step.messages_per_second > 0:
        parts.append(f"{step.messages_per_second:.0f}/s {size(step.octets_per_second)}/s")
    if step.seconds_left is not None and step.seconds_left >= 1:
        parts.append(f"{duration(step.seconds_left)} left")
    return ", ".join(parts)
