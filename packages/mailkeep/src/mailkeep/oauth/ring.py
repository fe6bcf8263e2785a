"""The key ring in use: key material is resolved at each use and kept nowhere (OPS-35)."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from mailkeep.config import DataEncryptionSettings, resolve_key
from mailkeep.errors import DataEncryptionKeyMissing
from mailkeep.oauth.model import SealedToken
from mailkeep.oauth.sealing import seal, unseal


def seal_refresh_token(
    ring: DataEncryptionSettings, home: Path, *, account_id: str, token: SecretStr
) -> tuple[bytes, str]:
    """The token sealed under the active key, and that key's id. Raises DataEncryptionKeyMissing without one."""
    key_id = ring.active_key_id
    if key_id is None:
        raise DataEncryptionKeyMissing("there is no active key to seal a refresh token with; see: mailkeep keys create")
    return seal(token, subject=account_id, key_id=key_id, key=_key(ring, home, key_id)), key_id


def open_refresh_token(ring: DataEncryptionSettings, home: Path, *, account_id: str, sealed: SealedToken) -> SecretStr:
    """The token of a row. Raises DataEncryptionKeyMissing naming the key, or SealedTokenUnreadable."""
    key = _key(ring, home, sealed.key_id)
    return unseal(sealed.octets, subject=account_id, key_id=sealed.key_id, key=key)


def _key(ring: DataEncryptionSettings, home: Path, key_id: str) -> bytes:
    for key in ring.keys:
        if key.key_id == key_id:
            return resolve_key(key.material, home)
    raise DataEncryptionKeyMissing(f"the key ring lacks the key {key_id}, which sealed a refresh token")
