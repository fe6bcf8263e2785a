"""The access tokens of one process: cached per account, renewed in time, replaced when a mail server rejects one.

A rotated refresh token is stored the moment it is received, sealed, since the server has just made the older one
invalid. When storing fails the request still succeeds, the token is held here, and the next request tries to store it
again (SYNC-46).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from mailkeep.config import (
    AccountSettings,
    DataEncryptionSettings,
    OAuthGrant,
    OAuthSettings,
    PipelineClass,
    resolve_secret,
)
from mailkeep.db import Database
from mailkeep.errors import (
    AccessTokenUnavailable,
    ConfigurationRefused,
    MailboxAuthorizationNeeded,
    MailkeepError,
    PipelineRejected,
)
from mailkeep.oauth.model import RefreshToken, TokenAnswer
from mailkeep.oauth.queries import read_refresh_token, store_rotated
from mailkeep.oauth.request import request_token
from mailkeep.oauth.ring import open_refresh_token, seal_refresh_token
from mailkeep.resilience import Conduct, Pipelines

log = logging.getLogger(__name__)

RENEWAL_MARGIN: Final = timedelta(seconds=60)
FAREWELL_SECONDS: Final = 5.0
"""How long a cancelled caller waits for a request that is under way, so that a rotated token is not lost."""
_JUST_AFTER: Final = timedelta(microseconds=1)


CONDUCT: Final = Conduct(
    is_transient=lambda error: isinstance(error, AccessTokenUnavailable) and error.retryable,
    too_late=lambda: AccessTokenUnavailable("the authorization server did not answer in time", retryable=True),
)


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Cached:
    """A token, until when it is handed out, and the settings it was got with."""

    token: SecretStr
    renew_at: datetime
    oauth: OAuthSettings


@dataclass(slots=True)
class _Account:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    cached: _Cached | None = None
    unstored: RefreshToken | None = None


class AccessTokens:
    """One per process; `pipelines` are the process's own."""

    def __init__(
        self, db: Database, home: Path, pipelines: Pipelines, *, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._db = db
        self._home = home
        self._pipelines = pipelines
        self._now = now
        self._accounts: dict[str, _Account] = {}

    async def get(
        self, account: AccountSettings, ring: DataEncryptionSettings, *, rejected: SecretStr | None = None
    ) -> SecretStr:
        """An access token of the account, at least 60 s from its end and never the one named as `rejected`.

        Callers of one account wait for each other, so that a burst, or several connections whose token was rejected,
        make one request (SYNC-42, SYNC-43). Raises AccessTokenUnavailable (13001), MailboxAuthorizationNeeded (13002),
        SealedTokenUnreadable (13003), DataEncryptionKeyMissing (13004) or SecretUnavailable.
        """
        if account.oauth is None:
            raise ConfigurationRefused("the account does not sign in by OAuth")
        state = self._accounts.setdefault(account.account_id, _Account())
        async with state.lock:
            cached = state.cached
            if (
                cached is not None
                and cached.oauth == account.oauth
                and cached.renew_at > self._now()
                and (rejected is None or cached.token != rejected)
            ):
                return cached.token
            state.cached = None
            # A task of its own: cancelling the caller must not lose the refresh token that an answer may bring.
            request = asyncio.create_task(self._renew(state, account.account_id, account.oauth, ring))
            try:
                return await asyncio.shield(request)
            except asyncio.CancelledError:
                _, late = await asyncio.wait([request], timeout=FAREWELL_SECONDS)
                for task in late:
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await request
                raise

    async def _renew(
        self, state: _Account, account_id: str, oauth: OAuthSettings, ring: DataEncryptionSettings
    ) -> SecretStr:
        started_at = self._now()
        secret = None if oauth.client_secret is None else resolve_secret(oauth.client_secret, self._home)
        presented: RefreshToken | None = None
        if oauth.grant is OAuthGrant.REFRESH_TOKEN:
            presented = await self._refresh_token(state, account_id, oauth, ring)
        try:
            answer = await self._request(account_id, oauth, secret, presented)
        except AccessTokenUnavailable as error:
            if presented is None or error.reason != "invalid_grant":
                raise
            # Another process may have rotated the token between our reading it and presenting it.
            newer = await self._refresh_token(state, account_id, oauth, ring)
            if newer.value == presented.value:
                raise
            presented = newer
            answer = await self._request(account_id, oauth, secret, presented)
        state.cached = _Cached(answer.access_token, started_at + answer.lifetime - RENEWAL_MARGIN, oauth)
        if presented is not None:
            await self._keep_rotated(state, account_id, ring, presented, answer, started_at)
        return answer.access_token

    async def _request(
        self, account_id: str, oauth: OAuthSettings, secret: SecretStr | None, presented: RefreshToken | None
    ) -> TokenAnswer:
        """Ask through the account's pipeline, again after trouble that may pass (SYNC-44)."""
        kind = PipelineClass.MAIL_AUTHORIZATION_SERVER_INVOCATION
        refresh_token = None if presented is None else presented.value
        try:
            return await self._pipelines.of(kind, account_id, CONDUCT).run(
                lambda: request_token(oauth, secret, refresh_token)
            )
        except PipelineRejected as error:
            raise AccessTokenUnavailable(error.message, retryable=True) from error

    async def _refresh_token(
        self, state: _Account, account_id: str, oauth: OAuthSettings, ring: DataEncryptionSettings
    ) -> RefreshToken:
        """The newest token known: one that could not be stored yet, the stored one, or the seed of the settings."""
        sealed = await read_refresh_token(self._db, account_id)
        held = state.unstored
        if held is not None and held.updated_at is not None:
            if sealed is None or sealed.updated_at < held.updated_at:
                return held
            state.unstored = None
        if sealed is not None:
            value = open_refresh_token(ring, self._home, account_id=account_id, sealed=sealed)
            return RefreshToken(value, sealed.updated_at)
        if oauth.refresh_token is not None:
            return RefreshToken(resolve_secret(oauth.refresh_token, self._home), None)
        raise MailboxAuthorizationNeeded("nobody has signed in to this account yet: mailkeep account authorize")

    async def _keep_rotated(
        self,
        state: _Account,
        account_id: str,
        ring: DataEncryptionSettings,
        presented: RefreshToken,
        answer: TokenAnswer,
        started_at: datetime,
    ) -> None:
        """Store a rotated token, or one that could not be stored before.

        It counts as of the start of the request, so that a consent stored meanwhile stays, but as newer than the token
        it replaces, whatever the clocks of two machines say.
        """
        held = state.unstored
        if answer.refresh_token is not None and answer.refresh_token != presented.value:
            since = started_at
            if presented.updated_at is not None:
                since = max(since, presented.updated_at + _JUST_AFTER)
            held = RefreshToken(answer.refresh_token, since)
        if held is None or held.updated_at is None:
            return
        state.unstored = held
        try:
            sealed, key_id = seal_refresh_token(ring, self._home, account_id=account_id, token=held.value)
            await store_rotated(self._db, account_id, sealed=sealed, key_id=key_id, updated_at=held.updated_at)
        except Exception as error:
            log.error(  # noqa: TRY400  -- a traceback could show values of the statement
                "rotated refresh token not stored",
                extra={
                    "account_id": account_id,
                    "failure_code": error.code if isinstance(error, MailkeepError) else 0,
                    "error": type(error).__name__,
                },
            )
        else:
            state.unstored = None
