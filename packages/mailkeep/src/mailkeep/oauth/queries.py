"""The sealed tokens in the store; the only statements of this package."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from mailkeep.db import Database, load_queries
from mailkeep.oauth.model import SealedToken

_SQL: Final = load_queries("mailkeep.oauth")


async def read_refresh_token(db: Database, account_id: str) -> SealedToken | None:
    """The sealed token of an account; None when nothing is stored."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["read_refresh_token"], {"account_id": account_id})
        row = await cursor.fetchone()
    return None if row is None else SealedToken(bytes(row[0]), row[1], row[2])


async def store_rotated(db: Database, account_id: str, *, sealed: bytes, key_id: str, updated_at: datetime) -> bool:
    """Keep a rotated token; False when a newer one is there already, which stays (SYNC-45)."""
    values = {"account_id": account_id, "sealed": sealed, "key_id": key_id, "updated_at": updated_at}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["store_rotated_refresh_token"], values)
    return cursor.rowcount == 1


async def replace(db: Database, account_id: str, *, sealed: bytes, key_id: str, updated_at: datetime) -> None:
    """Keep the token of a fresh consent in the place of whatever was there."""
    values = {"account_id": account_id, "sealed": sealed, "key_id": key_id, "updated_at": updated_at}
    async with db.connection() as connection:
        await connection.execute(_SQL["replace_refresh_token"], values)


async def forget(db: Database, account_id: str) -> bool:
    """Delete an account's token; whether there was one."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["forget_refresh_token"], {"account_id": account_id})
    return cursor.rowcount == 1


async def count_by_key(db: Database) -> dict[str, int]:
    """How many tokens are sealed under each key id."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["count_by_key"])
        return {str(row[0]): int(row[1]) for row in await cursor.fetchall()}
