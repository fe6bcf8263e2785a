"""Erasing all that is stored of an account, an operator's act; nothing on a server is touched."""

from __future__ import annotations

from typing import Final

from mailkeep.db import Database, load_queries
from mailkeep.mailbox.model import AccountId

_SQL: Final = load_queries("mailkeep.mailbox")
EMAILS_PER_PASS: Final = 500
UNKEYED_TABLES: Final = {
    "mailbox_refresh_tokens": "erase_refresh_token",
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
