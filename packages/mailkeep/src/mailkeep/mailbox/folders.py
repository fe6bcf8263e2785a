"""Folders: an alias of an account bound to a remote path, one generation per path (SYNC-18 to SYNC-20)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mailkeep.db import Connection, Database, load_queries
from mailkeep.mailbox.model import AccountId, FolderBinding, SpecialUse

_SQL: Final = load_queries("mailkeep.mailbox")


async def bind_folder(
    db: Database,
    account_id: AccountId,
    *,
    alias: str,
    remote_path: str,
    hierarchy_delimiter: str | None,
    special_use: SpecialUse | None = None,
) -> FolderBinding:
    """The binding of `alias` to `remote_path`, committed before anything is stored under it.

    The same path again gives the same binding; another path gives the next generation, which has no checkpoint, and
    the mail of the older one stays. `special_use` is the role advertised now; a changed one is noted on the binding.
    Raises ConcurrencyConflict when another process keeps binding the same alias.
    """
    values = {
        "account_id": account_id,
        "alias": alias,
        "remote_path": remote_path,
        "hierarchy_delimiter": hierarchy_delimiter,
        "special_use": special_use.value if special_use is not None else None,
    }
    return await db.redo(partial(_bind, values=values))


async def folder_bindings(db: Database, account_id: AccountId) -> list[FolderBinding]:
    """The newest binding of every alias of an account, by alias."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["bindings"], {"account_id": account_id})
        return [_binding(row) for row in await cursor.fetchall()]


async def _bind(connection: Connection, *, values: dict[str, Any]) -> FolderBinding:
    await connection.execute(_SQL["add_account"], values)
    row = await (await connection.execute(_SQL["newest_binding"], values)).fetchone()
    if row is not None and row[4] == values["remote_path"]:
        if row[6] != values["special_use"]:
            await connection.execute(_SQL["set_special_use"], {**values, "folder_id": row[0]})
        return _binding((*row[:6], values["special_use"]))
    generation = 1 if row is None else row[3] + 1
    added = await (await connection.execute(_SQL["add_binding"], {**values, "generation": generation})).fetchone()
    assert added is not None
    return _binding(added)


def _binding(row: tuple[Any, ...]) -> FolderBinding:
    return FolderBinding(
        folder_id=row[0],
        account_id=row[1],
        alias=row[2],
        generation=row[3],
        remote_path=row[4],
        hierarchy_delimiter=row[5],
        special_use=SpecialUse(row[6]) if row[6] is not None else None,
    )
