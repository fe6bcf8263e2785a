"""Signing in with what the account has: a password resolved anew, an access token, or either (SYNC-29, SYNC-43)."""

from __future__ import annotations

from pathlib import Path

from mailkeep.config import AccountSettings, DataEncryptionSettings, resolve_secret
from mailkeep.errors import ConfigurationRefused, LoginRejected
from mailkeep.imap import ReadOnlySession, Timeouts
from mailkeep.oauth import AccessTokens


async def open_session(
    account: AccountSettings, tokens: AccessTokens, ring: DataEncryptionSettings, home: Path, *, timeouts: Timeouts
) -> ReadOnlySession:
    """A signed-in session. A token that the server rejects is renewed once and presented once more (SYNC-43).

    Raises what connecting and what getting a token raise; LoginRejected for a password and for a second token.
    """
    reference = account.secrets.password
    password = None if reference is None else resolve_secret(reference, home)
    if account.oauth is None:
        if password is None:
            raise ConfigurationRefused("the account has no password reference")
        return await ReadOnlySession.connect(account, password, timeouts=timeouts)
    token = await tokens.get(account, ring)
    try:
        return await ReadOnlySession.connect(account, password, token=token, timeouts=timeouts)
    except LoginRejected as error:
        if not error.by_token:
            raise
    token = await tokens.get(account, ring, rejected=token)
    return await ReadOnlySession.connect(account, password, token=token, timeouts=timeouts)
