"""Whose mail is cut and gets vectors: mapped folders with `generate_embeddings`, none that holds junk (FIND-60)."""

from __future__ import annotations

from typing import Final

from mailkeep.config import AccountSettings, Settings
from mailkeep.db import Database, load_queries
from mailkeep.mailbox import FolderId, SpecialUse

_SQL: Final = load_queries("mailkeep.passages")


async def embedding_folders(db: Database, settings: Settings) -> list[FolderId]:
    """The keys of the folders, every generation of an alias, of the configured accounts."""
    accounts = {account.account_id: account for account in settings.mail_synchronization.accounts}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["folders"], {"account_ids": list(accounts)})
        found = await cursor.fetchall()
    return [
        FolderId(folder_id)
        for folder_id, account_id, alias, role in found
        if _takes_part(accounts[account_id], alias, SpecialUse(role) if role is not None else None)
    ]


def _takes_part(account: AccountSettings, alias: str, role: SpecialUse | None) -> bool:
    if account.folders is not None:
        mapping = next((one for one in account.folders if one.alias == alias), None)
        if mapping is None or not mapping.generate_embeddings:
            return False
        role = mapping.special_use or role
    return role is not SpecialUse.JUNK
