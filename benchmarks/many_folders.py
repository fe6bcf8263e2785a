"""A run in which nothing has changed, over 100 folders. Rivals: mbsync (and mu index) on the same server.

MAILKEEP_BENCH_MESSAGES sets the number of messages, 10,000 by default; the budget of the design speaks of 100,000.
"""

import os
import statistics
from collections.abc import Iterator

from . import rivals
from .corpus import messages, multiplied
from .figure import Figure
from .first_sync import NO_CHANGE_RUNS, installation, median_of_runs, require_stored, sync_once, work_folder
from .mailserver import USER, Dovecot, warm

FOLDERS = 100
MESSAGES = int(os.environ.get("MAILKEEP_BENCH_MESSAGES", "10000"))


def measure() -> Iterator[Figure]:
    """Yield the figures of no_change over FOLDERS folders, and of the synchronization before it."""
    each = MESSAGES // FOLDERS
    source = multiplied(messages(), each * FOLDERS)
    with work_folder() as folder, Dovecot.start(users=(USER,), folder=folder) as server:
        for number in range(FOLDERS):
            server.fill(USER, f"Folder {number:03d}", (next(source) for _ in range(each)), seen=True)
        warm(server)
        environment, data = installation(folder / "home", server)
        first = sync_once(environment, data)
        require_stored(environment, each * FOLDERS)
        them = rivals.prepare(folder / "rivals", server)
        fetched, indexed = rivals.mbsync(them), rivals.mu_init(them) + rivals.mu_index(them)
        yield Figure(f"first_sync_{FOLDERS}_folders", first.seconds, "s", "mbsync + mu index", fetched + indexed)
        yield Figure(f"sync_memory_{FOLDERS}_folders", first.peak_mib, "MiB")
        ours = median_of_runs(environment, data)
        theirs = statistics.median(rivals.mbsync(them) for _ in range(NO_CHANGE_RUNS))
        yield Figure(f"no_change_{FOLDERS}_folders", ours, "s", "mbsync alone", theirs)
