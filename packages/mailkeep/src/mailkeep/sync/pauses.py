"""Which accounts are to be left alone, and until when, kept in a file of the home folder.

A file, so that a restart does not forget what a server asked for, and that `mailkeep status` and `mailkeep sync` know
what `mailkeep serve` was told. A file that cannot be read or written is as good as none: pauses are a courtesy.
"""

from __future__ import annotations

import contextlib
import json
import os
from datetime import datetime
from pathlib import Path

from mailkeep.imap import PauseReason

FILE_NAME = "pauses.json"

Pause = tuple[PauseReason, datetime]


def read_pauses(home: Path, *, now: datetime) -> dict[str, Pause]:
    """The pauses that are not over yet, by account id."""
    try:
        entries = json.loads((home / FILE_NAME).read_text("utf-8"))
        found = {
            account: (PauseReason(entry["reason"]), datetime.fromisoformat(entry["until"]))
            for account, entry in entries.items()
        }
        return {account: pause for account, pause in found.items() if pause[1] > now}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_pause(home: Path, account_id: str, pause: Pause, *, now: datetime) -> None:
    """Add or replace one account's pause; those that are over are dropped."""
    pauses = {**read_pauses(home, now=now), account_id: pause}
    entries = {name: {"reason": reason, "until": until.isoformat()} for name, (reason, until) in pauses.items()}
    temporary = home / f".{FILE_NAME}.{os.getpid()}"
    with contextlib.suppress(OSError):
        temporary.write_text(json.dumps(entries), "utf-8")
        temporary.replace(home / FILE_NAME)
