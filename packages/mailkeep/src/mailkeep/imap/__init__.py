"""IMAP: a session type that can list, examine, search and fetch, one that can only wait, and nothing else.

`session.py` and `watching.py` have the commands on top of `connection.py`, `model.py` the values, `names.py` the names.
Only this package imports imapclient, and nothing that is named here can change a mailbox: `writing.py` has the type
that can, for `mutations` and for the connection that `sync.writing` keeps for it.
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
