"""Keeping what a consent brought: an operator's act, so it replaces whatever was stored (SYNC-49)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pydantic import SecretStr

from mailkeep.config import DataEncryptionSettings
from mailkeep.db import Database
from mailkeep.oauth import queries
from mailkeep.oauth.ring import seal_refresh_token


async def keep_consent(
    db: Database, ring: DataEncryptionSettings, home: Path, *, account_id: str, token: SecretStr, now: datetime
) -> None:
    """Seal the refresh token of a fresh consent and store it. Raises DataEncryptionKeyMissing without an active key."""
    sealed, key_id = seal_refresh_token(ring, home, account_id=account_id, token=token)
    await queries.replace(db, account_id, sealed=sealed, key_id=key_id, updated_at=now)


async def forget_consent(db: Database, account_id: str) -> bool:
    """Delete the stored refresh token of an account; whether there was one."""
    return await queries.forget(db, account_id)


async def tokens_by_key(db: Database) -> dict[str, int]:
    """How many stored tokens each key id still seals."""
    return await queries.count_by_key(db)
