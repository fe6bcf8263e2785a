"""What a stage is, and what its passes and counts say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mailkeep.config import Settings


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """One pass: messages done, messages that cannot be done (recorded with their reason), and what follows.

    `has_more` says that another pass finds work now. `next_due` names an instant before which a further pass is in vain
    (a ceiling, an endpoint that asked for patience) or at which one is wanted although nothing arrives; else None.
    """

    done: int = 0
    failed: int = 0
    has_more: bool = False
    next_due: datetime | None = None


@dataclass(frozen=True, slots=True)
class StageCounts:
    """Messages by their state in a stage: done under its current rules, outstanding, and recorded as impossible."""

    done: int
    outstanding: int
    failed: int


@dataclass(frozen=True, slots=True)
class StageStatus:
    """The counts of one stage by its name."""

    name: str
    done: int
    outstanding: int
    failed: int


class Stage(Protocol):
    """Something derived from stored mail after its arrival.

    What is outstanding is asked of the database by each pass: messages without this stage's result under its current
    rules. A kill therefore loses nothing, and new rules derive everything again. A message that cannot be handled is
    recorded in the stage's own table and stops nothing; its rows fall with the message.
    """

    @property
    def name(self) -> str:
        """One lower-case word, shown to operators and never changed."""
        ...

    def follow(self, settings: Settings) -> None:
        """Go by this snapshot from the next pass on, in what may change while it runs."""
        ...

    async def run_pass(self, now: datetime) -> PassOutcome:
        """Do one bounded portion in own transactions; running it again after any interruption is harmless.

        Raises MailkeepError when the pass as a whole failed (the database, an endpoint): it is tried again later.
        """
        ...

    async def count(self) -> StageCounts:
        """Count the messages; cheap enough for a status page."""
        ...
