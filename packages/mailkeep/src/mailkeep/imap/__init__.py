"""IMAP, read only: a session type that can list, examine, search and fetch, one that can only wait, and nothing else.

`session.py` and `watching.py` have the commands on top of `connection.py`, `model.py` the values, `names.py` the names.
Only this package imports imapclient, and nothing here can change a mailbox.
"""

from mailkeep.imap.advice import Advice, PauseReason
from mailkeep.imap.dialogue import AskedToComeBack, LiteralAbandoned
from mailkeep.imap.model import (
    Ahead,
    Changes,
    ContentAnswer,
    FolderState,
    Identity,
    Listing,
    Metadata,
    MetadataAnswer,
    RemoteFolder,
    Selected,
    Timeouts,
)
from mailkeep.imap.names import display_name
from mailkeep.imap.session import ReadOnlySession
from mailkeep.imap.uidset import UidSet
from mailkeep.imap.watching import WatchingSession

__all__ = [
    "Advice",
    "Ahead",
    "AskedToComeBack",
    "Changes",
    "ContentAnswer",
    "FolderState",
    "Identity",
    "Listing",
    "LiteralAbandoned",
    "Metadata",
    "MetadataAnswer",
    "PauseReason",
    "ReadOnlySession",
    "RemoteFolder",
    "Selected",
    "Timeouts",
    "UidSet",
    "WatchingSession",
    "display_name",
]
