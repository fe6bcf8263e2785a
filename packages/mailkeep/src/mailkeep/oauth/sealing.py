"""Sealing small secrets for the store: AES-256-GCM, nonce(12) ‖ tag(16) ‖ ciphertext (SYNC-47, OPS-83).

Purpose, subject and key id are bound in as associated data, so that a value does not open in another row, for another
purpose or under another id. The library returns ciphertext ‖ tag and is given it back in that order.
"""

from __future__ import annotations

import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from mailkeep.errors import SealedTokenUnreadable

NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
SEPARATOR: Final = "\x1f"
REFRESH_TOKEN_PURPOSE: Final = "mailbox-refresh-token"  # noqa: S105


def seal(secret: SecretStr, *, subject: str, key_id: str, key: bytes, purpose: str = REFRESH_TOKEN_PURPOSE) -> bytes:
    """Seal under a key of 32 octets and a fresh nonce."""
    nonce = os.urandom(NONCE_BYTES)
    sealed = AESGCM(key).encrypt(nonce, secret.get_secret_value().encode(), _bound(purpose, subject, key_id))
    return nonce + sealed[-TAG_BYTES:] + sealed[:-TAG_BYTES]


def unseal(octets: bytes, *, subject: str, key_id: str, key: bytes, purpose: str = REFRESH_TOKEN_PURPOSE) -> SecretStr:
    """Open what `seal` sealed for the same purpose, subject and key id.

    Raises SealedTokenUnreadable for a wrong key, a moved row and an altered or cut value alike.
    """
    nonce, tag = octets[:NONCE_BYTES], octets[NONCE_BYTES : NONCE_BYTES + TAG_BYTES]
    associated = _bound(purpose, subject, key_id)
    try:
        opened = AESGCM(key).decrypt(nonce, octets[NONCE_BYTES + TAG_BYTES :] + tag, associated)
        return SecretStr(opened.decode())
    except (InvalidTag, ValueError):
        raise SealedTokenUnreadable(
            "a sealed refresh token does not open; sign in again: mailkeep account authorize"
        ) from None


def _bound(*parts: str) -> bytes:
    if any(SEPARATOR in part for part in parts):
        raise ValueError("the separator of sealed values may not stand inside a part")
    return SEPARATOR.join(parts).encode()
