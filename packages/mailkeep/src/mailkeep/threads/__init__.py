"""Conversations: which messages belong together, who answers whom, in which order they are read.

`place` puts a whole batch into its conversations inside the storing transaction, `adopt` hangs replies that came first
below the messages that came later, `read_thread` gives one conversation in reading order (SYNC-113 to SYNC-118).
"""

from mailkeep.threads.model import Placements, Thread, ThreadEntry, ThreadInput, ThreadPlacement
from mailkeep.threads.run import adopt, lock_account, place, read_thread, threads_of

__all__ = [
    "Placements",
    "Thread",
    "ThreadEntry",
    "ThreadInput",
    "ThreadPlacement",
    "adopt",
    "lock_account",
    "place",
    "read_thread",
    "threads_of",
]
