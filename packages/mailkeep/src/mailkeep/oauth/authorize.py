"""The three ways to sign in: browser on this machine, browser anywhere with the address pasted, code on another device.

Each ends with tokens that have a refresh token among them, or with the reason why not. What a person sees and types
is the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Final

from pydantic import SecretStr

from mailkeep.config import OAuthSettings
from mailkeep.errors import AccessTokenUnavailable, MailboxAuthorizationNeeded
from mailkeep.oauth.consent import Consent, ask_consent, read_redirect
from mailkeep.oauth.loopback import LoopbackListener
from mailkeep.oauth.model import DeviceCode, TokenAnswer
from mailkeep.oauth.request import begin_device_flow, exchange_code, poll_device_flow

CONSENT_SECONDS: Final = 600.0
SLOW_DOWN: Final = timedelta(seconds=5)
PASTE_ADDRESS: Final = "http://localhost"


class Flow(StrEnum):
    """How a person signs in."""

    BROWSER = "browser"
    PASTE = "paste"
    DEVICE = "device"


async def authorize_in_browser(
    oauth: OAuthSettings,
    secret: SecretStr | None,
    *,
    user_name: str | None,
    open_browser: Callable[[str], None],
    seconds: float = CONSENT_SECONDS,
) -> TokenAnswer:
    """Open the provider's page and wait for the browser to come back to this machine.

    Raises MailboxAuthorizationNeeded (refused, or nobody came within `seconds`) and AccessTokenUnavailable.
    """
    async with LoopbackListener() as listener:
        consent = ask_consent(oauth, redirect_address=listener.address, user_name=user_name)
        open_browser(consent.address)
        try:
            async with asyncio.timeout(seconds):
                code = await listener.code(partial(read_redirect, consent))
        except TimeoutError:
            raise MailboxAuthorizationNeeded("nobody signed in while mailkeep was waiting") from None
        return await _exchange(oauth, secret, consent, code)


def begin_pasting(oauth: OAuthSettings, *, user_name: str | None) -> Consent:
    """A consent whose redirect nobody answers: the person brings the address that the browser ends at."""
    return ask_consent(oauth, redirect_address=PASTE_ADDRESS, user_name=user_name)


async def finish_pasting(oauth: OAuthSettings, secret: SecretStr | None, consent: Consent, pasted: str) -> TokenAnswer:
    """The tokens behind a pasted address. The whole of it is wanted, since its state is checked as in the other flow.

    Raises MailboxAuthorizationNeeded (refused, or another address) and AccessTokenUnavailable.
    """
    code = read_redirect(consent, pasted.strip())
    if code is None:
        raise MailboxAuthorizationNeeded(
            "that is not the address of this sign-in: paste the whole address that begins with http://localhost"
        )
    return await _exchange(oauth, secret, consent, code)


async def authorize_on_another_device(
    oauth: OAuthSettings,
    secret: SecretStr | None,
    *,
    show: Callable[[DeviceCode], None],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> TokenAnswer:
    """Show an address and a code for any device, and ask until the person has signed in there (RFC 8628 §3.5).

    Raises MailboxAuthorizationNeeded (refused or expired) and AccessTokenUnavailable.
    """
    device = await begin_device_flow(oauth)
    show(device)
    interval, left = device.interval, device.lifetime
    while left > timedelta(0):
        await pause(interval.total_seconds())
        left -= interval
        try:
            return _with_refresh_token(await poll_device_flow(oauth, secret, device))
        except AccessTokenUnavailable as error:
            if error.reason == "slow_down" or (error.reason is None and error.retryable):
                interval += SLOW_DOWN
            elif error.reason in ("access_denied", "expired_token"):
                raise MailboxAuthorizationNeeded(f"the sign-in was refused ({error.reason})") from None
            elif error.reason != "authorization_pending":
                raise
    raise MailboxAuthorizationNeeded("nobody signed in before the code expired")


async def _exchange(oauth: OAuthSettings, secret: SecretStr | None, consent: Consent, code: SecretStr) -> TokenAnswer:
    answer = await exchange_code(
        oauth, secret, code=code, redirect_address=consent.redirect_address, verifier=consent.verifier
    )
    return _with_refresh_token(answer)


def _with_refresh_token(answer: TokenAnswer) -> TokenAnswer:
    if answer.refresh_token is None:
        raise MailboxAuthorizationNeeded(
            "the server gave no refresh token, so the sign-in would not last; the scope must allow offline use"
        )
    return answer
