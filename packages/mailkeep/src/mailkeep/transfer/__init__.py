"""Mail in files: mbox, Maildir and single `.eml` files, read into local accounts and written from the store.

`find_sources`, `read_items` and the writers touch files only and stream; `import_sources` is the shell that stores what
they read. Identity of an imported message is its digest within its folder, so importing twice changes nothing.
"""

from mailkeep.transfer.export import EmlWriter, ExportedItem, MaildirWriter, MboxWriter, export_items
from mailkeep.transfer.files import safe_file_name, write_new_file
from mailkeep.transfer.importing import import_sources
from mailkeep.transfer.model import (
    ExportFormat,
    ExportOutcome,
    ImportOutcome,
    ItemFlags,
    Source,
    SourceKind,
    Unreadable,
)
from mailkeep.transfer.sources import find_sources, read_items

__all__ = [
    "EmlWriter",
    "ExportFormat",
    "ExportOutcome",
    "ExportedItem",
    "ImportOutcome",
    "ItemFlags",
    "MaildirWriter",
    "MboxWriter",
    "Source",
    "SourceKind",
    "Unreadable",
    "export_items",
    "find_sources",
    "import_sources",
    "read_items",
    "safe_file_name",
    "write_new_file",
]
