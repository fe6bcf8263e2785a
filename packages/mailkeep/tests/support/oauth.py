"""Accounts that sign in by OAuth, key rings, and what is stored of tokens."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from support.accounts import account_at
from support.authorization import AuthorizationServer

from mailkeep.config import AccountSettings, DataEncryptionSettings, OAuthSettings

TOKEN_MECHANISMS = ("OAUTHBEARER", "XOAUTH2")


def oauth_account(
    server: AuthorizationServer, port: int = 1, *, mechanisms: tuple[str, ...] = TOKEN_MECHANISMS, **block: Any
) -> AccountSettings:
    """An account on a loopback mail server, with the `oauth` block of a local authorization server."""
    account = account_at(port, mechanisms=("PLAIN",)).model_dump()
    transport = account["transport_security"] | {"permitted_authentication_mechanisms": mechanisms}
    changes = {"oauth": server.block(**block), "transport_security": transport}
    if "PLAIN" not in mechanisms:
        changes["secrets"] = {}
    return AccountSettings.model_validate(account | changes)


def oauth_of(account: AccountSettings) -> OAuthSettings:
    assert account.oauth is not None
    return account.oauth


def ring_in(home: Path, *key_ids: str, active: str | None = None) -> DataEncryptionSettings:
    """A key ring whose keys lie in `home`; the last one is active."""
    for key_id in key_ids:
        path = home / f"{key_id}.key"
        if not path.exists():
            path.write_bytes(base64.b64encode(key_id.encode().ljust(32, b".")))
    keys = [{"key_id": key_id, "material": f"file:{home}/{key_id}.key"} for key_id in key_ids]
    return DataEncryptionSettings.model_validate({"active_key_id": active or key_ids[-1], "keys": keys})
