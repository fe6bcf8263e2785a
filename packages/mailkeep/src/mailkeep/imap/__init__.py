"""IMAP, read only: one session type that can list, examine, search and fetch, and nothing else.

`ReadOnlySession` is the whole of it; `session.py` has the commands, `model.py` the values, `names.py` the folder names.
Only this package imports imapclient, and nothing here can change a mailbox.
"""

from mailkeep.imap.dialogue import AskedToComeBack, LiteralAbandoned
from mailkeep.imap.model import (
    ContentAnswer,
    FolderState,
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

__all__ = [
    "AskedToComeBack",
    "ContentAnswer",
    "FolderState",
    "Listing",
    "LiteralAbandoned",
    "Metadata",
    "MetadataAnswer",
    "ReadOnlySession",
    "RemoteFolder",
    "Selected",
    "Timeouts",
    "UidSet",
    "display_name",
]
