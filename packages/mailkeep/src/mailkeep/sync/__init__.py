"""Synchronization: how mail gets from an IMAP server into the store, and is kept in line with that server.

Open `open_resources` once per process, then `run_account` per account. Pure decisions are in
`plan.py`, `folders.py`, `schedule.py` and `volume.py`; the order of the work is in `run.py` and `folder_run.py`.
"""

from mailkeep.sync.access import Access
from mailkeep.sync.model import AccountOutcome, FolderOutcome, LimitReached, Outcome, Phase, Progress
from mailkeep.sync.pauses import read_pauses
from mailkeep.sync.queries import account_lease
from mailkeep.sync.resources import Resources, open_access, open_resources, reading_limits
from mailkeep.sync.retry import retry_quarantined
from mailkeep.sync.run import run_account
from mailkeep.sync.supervisor import AccountReport, FolderReport, Supervisor

__all__ = [
    "Access",
    "AccountOutcome",
    "AccountReport",
    "FolderOutcome",
    "FolderReport",
    "LimitReached",
    "Outcome",
    "Phase",
    "Progress",
    "Resources",
    "Supervisor",
    "account_lease",
    "open_access",
    "open_resources",
    "read_pauses",
    "reading_limits",
    "retry_quarantined",
    "run_account",
]
