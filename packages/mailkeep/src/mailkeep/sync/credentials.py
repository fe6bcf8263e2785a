"""Signing in with what the account has: a password resolved anew, an access token, or either (SYNC-29, SYNC-43)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from mailkeep.config import AccountSettings, DataEncryptionSettings, resolve_secret
from mailkeep.errors import ConfigurationRefused, LoginRejected
from mailkeep.imap import ReadOnlySession, Timeouts, WatchingSession
from mailkeep.imap.writing import WritingSession
from mailkeep.oauth import AccessTokens

WRITING_PATIENCE = 5  # times as long as a question may stay without an octet of its answer

S = TypeVar("S", ReadOnlySession, WatchingSession, WritingSession)


async def open_session(
    account: AccountSettings, tokens: AccessTokens, ring: DataEncryptionSettings, home: Path, *, timeouts: Timeouts
) -> ReadOnlySession:
    """A signed-in session. A token that the server rejects is renewed once and presented once more (SYNC-43).

    Raises what connecting and what getting a token raise; LoginRejected for a password and for a second token.
    """
    return await _open(ReadOnlySession, account, tokens, ring, home, timeouts)


async def open_watch(
    account: AccountSettings, tokens: AccessTokens, ring: DataEncryptionSettings, home: Path, *, timeouts: Timeouts
) -> WatchingSession:
    """A signed-in session that can only wait; as `open_session` otherwise."""
    return await _open(WatchingSession, account, tokens, ring, home, timeouts)


async def open_writing(
    account: AccountSettings, tokens: AccessTokens, ring: DataEncryptionSettings, home: Path, *, timeouts: Timeouts
) -> WritingSession:
    """A signed-in session that can change the mailbox; as `open_session` otherwise (MUT-3).

    It waits longer for a word: moving 500 messages is one command, and what becomes of it must not be lost for haste.
    """
    patient = replace(timeouts, idle=timeouts.idle * WRITING_PATIENCE)
    return await _open(WritingSession, account, tokens, ring, home, patient)


async def _open(
    kind: type[S],
    account: AccountSettings,
    tokens: AccessTokens,
    ring: DataEncryptionSettings,
    home: Path,
    timeouts: Timeouts,
) -> S:
    reference = account.secrets.password
    password = None if reference is None else resolve_secret(reference, home)
    if account.oauth is None:
        if password is None:
            raise ConfigurationRefused("the account has no password reference")
        return await kind.connect(account, password, timeouts=timeouts)
    token = await tokens.get(account, ring)
    try:
        return await kind.connect(account, password, token=token, timeouts=timeouts)
    except LoginRejected as error:
        if not error.by_token:
            raise
    token = await tokens.get(account, ring, rejected=token)
    return await kind.connect(account, password, token=token, timeouts=timeouts)
