"""What a reading may cost, what it came to, and how it ends early."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mailkeep_message import clean_body


class Outcome(StrEnum):
    """What became of one attachment. Spelled as stored; closed."""

    EXTRACTED = "Extracted"
    NO_TEXT = "NoText"
    """Read whole, and there is no word in it."""
    SCANNED_PAGES = "ScannedPages"
    """Pages that are pictures without a text layer; pictures are not read."""
    ENCRYPTED = "Encrypted"
    """Needs a password."""
    UNSUPPORTED = "Unsupported"
    """No text format, or one that is not read."""
    BROKEN = "Broken"
    """Damaged beyond reading, or not what it is called."""
    TOO_LARGE = "TooLarge"
    """More octets than are given to the worker."""
    EXPANDED_TOO_FAR = "ExpandedTooFar"
    """A compressed file that unpacks to more than is allowed."""
    TIMED_OUT = "TimedOut"
    OUT_OF_MEMORY = "OutOfMemory"
    WORKER_DIED = "WorkerDied"
    """The worker ended without an answer, or gave one that is none."""
    GAVE_UP = "GaveUp"
    """Begun several times, and every time the whole service ended meanwhile."""


FAILURES: Final = frozenset(
    {
        Outcome.BROKEN,
        Outcome.TOO_LARGE,
        Outcome.EXPANDED_TOO_FAR,
        Outcome.TIMED_OUT,
        Outcome.OUT_OF_MEMORY,
        Outcome.WORKER_DIED,
        Outcome.GAVE_UP,
    }
)
"""Outcomes that a bound or damage caused. The others say all that there is to say of the file."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one file may cost. Octets, characters, pages (or slides, or sheets), levels, seconds of the processor."""

    max_characters: int = 200_000
    max_expanded_octets: int = 128 << 20
    max_pages: int = 200
    max_nesting_depth: int = 3
    cpu_seconds: int = 20


@dataclass(frozen=True, slots=True)
class Extraction:
    """The text of one file. `is_partial`: a bound or damage cut it; the beginning is here."""

    outcome: Outcome
    text: str = ""
    is_partial: bool = False


class Stopped(Exception):  # noqa: N818 -- an early end is no error
    """Reading ends here. What was gathered so far counts; without any, `outcome` says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class Budget:
    """Gathers the text of one file and of the files in it, and counts what they unpack to.

    `empty_outcome` is what a file read whole comes to when no text was found in it.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.expanded = 0
        self.is_cut = False
        self.empty_outcome = Outcome.NO_TEXT
        self._pieces: list[str] = []
        self._room = bounds.max_characters

    def add(self, text: str) -> None:
        """Take text, cleaned. Raises Stopped when the room for characters is used up."""
        text = clean_body(text)
        if len(text) > self._room:
            self._pieces.append(text[: self._room])
            self._room = 0
            self.is_cut = True
            raise Stopped(Outcome.NO_TEXT)
        self._pieces.append(text)
        self._room -= len(text)

    @property
    def room(self) -> int:
        """Characters that still fit."""
        return self._room

    def expand(self, octets: int) -> None:
        """Count unpacked octets. Raises Stopped when they are more than the bound."""
        self.expanded += octets
        if self.expanded > self.bounds.max_expanded_octets:
            raise Stopped(Outcome.EXPANDED_TOO_FAR)

    @property
    def text(self) -> str:
        """What was gathered: blanks at line ends and runs of empty lines are gone."""
        lines = [line.rstrip() for line in "".join(self._pieces).split("\n")]
        kept = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
        return "\n".join(kept).strip()
