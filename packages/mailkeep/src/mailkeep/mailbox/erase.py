"""Erasing what is stored of an account or of one folder, an operator's act; nothing on a server is touched."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mailkeep.db import Connection, Database, load_queries
from mailkeep.mailbox.model import AccountId

_SQL: Final = load_queries("mailkeep.mailbox")
EMAILS_PER_PASS: Final = 500
UNKEYED_TABLES: Final = {
    "mailbox_refresh_tokens": "erase_refresh_token",
    "mailbox_mutation_audit_entries": "erase_mutation_audit_entries",
    "mail_rederivation_positions": "erase_rederivation_positions",
    "mail_rederivation_runs": "erase_rederivation_runs",
}
"""Tables that name an account without a foreign key, and the statement that erases its rows there (DATA-20)."""


async def erase_account(db: Database, account_id: AccountId) -> int:
    """Erase every message, folder and conversation of an account; the number of messages erased.

    Works in passes of EMAILS_PER_PASS, each committed, so it is resumable and no statement runs long. The caller holds
    the account, so that nothing arrives meanwhile. An account without anything stored is erased as well.
    """
    erased = 0
    while True:
        async with db.connection() as connection:
            cursor = await connection.execute(
                _SQL["erase_some_of_account"], {"account_id": account_id, "limit": EMAILS_PER_PASS}
            )
        erased += cursor.rowcount
        if cursor.rowcount < EMAILS_PER_PASS:
            break
    async with db.connection() as connection:
        for statement in ("erase_account", *UNKEYED_TABLES.values()):
            await connection.execute(_SQL[statement], {"account_id": account_id})
    return erased


async def erase_folder(db: Database, account_id: AccountId, *, alias: str, emails_per_pass: int) -> int:
    """Erase every message stored under an alias, older bindings included; the number of messages erased (SYNC-28).

    Works in committed passes, so it is resumable. The bindings stay; checkpoints, quarantine and proofs go in the pass
    that empties the folder. An alias that holds nothing, or that nobody knows, is erased as well. The caller holds the
    account and knows that no run mirrors the folder.
    """
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["folders_of_alias"], {"account_id": account_id, "alias": alias})
        folder_ids = [row[0] for row in await cursor.fetchall()]
    values = {"folder_ids": folder_ids, "limit": emails_per_pass}
    erased = 0
    while True:
        count = await db.redo(partial(_erase_some, values=values))
        erased += count
        if count < emails_per_pass:
            return erased


async def _erase_some(connection: Connection, *, values: dict[str, Any]) -> int:
    cursor = await connection.execute(_SQL["erase_some_of_folders"], values)
    if cursor.rowcount < values["limit"]:
        for statement in (
            "forget_checkpoints_of_folders",
            "forget_quarantine_of_folders",
            "forget_proofs_of_folders",
        ):
            await connection.execute(_SQL[statement], values)
    return cursor.rowcount
