"""Whose mail is cut and gets vectors: mapped folders with `generate_embeddings`, none that holds junk (FIND-60)."""

from __future__ import annotations

from mailkeep.config import AccountSettings, Settings
from mailkeep.db import Database
from mailkeep.mailbox import AccountId, FolderBinding, FolderId, SpecialUse, folder_bindings


async def embedding_folders(db: Database, settings: Settings) -> list[FolderId]:
    """The keys of the folders, every generation of an alias by its newest binding's key."""
    found: list[FolderId] = []
    for account in settings.mail_synchronization.accounts:
        bindings = await folder_bindings(db, AccountId(account.account_id))
        found += [binding.folder_id for binding in bindings if _takes_part(account, binding)]
    return found


def _takes_part(account: AccountSettings, binding: FolderBinding) -> bool:
    role: SpecialUse | None = binding.special_use
    if account.folders is not None:
        mapping = next((one for one in account.folders if one.alias == binding.alias), None)
        if mapping is None or not mapping.generate_embeddings:
            return False
        role = mapping.special_use or role
    return role is not SpecialUse.JUNK
