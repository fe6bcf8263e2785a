"""Asking an authorization server: one form POST, no redirects, bounded in time and size (SYNC-44)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from mailkeep.config import OAuthGrant, OAuthSettings
from mailkeep.errors import AccessTokenUnavailable, ConfigurationRefused
from mailkeep.oauth.answer import MAX_ANSWER_BYTES, device_answer, read_answer, token_answer
from mailkeep.oauth.model import DeviceCode, TokenAnswer

if TYPE_CHECKING:
    import httpx

REQUEST_SECONDS: Final = 15.0
DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # a compressed answer could be far larger than what is counted
    "User-Agent": "mailkeep",
}

# The library notes every address it asks. Those are the operator's, and may hold the name of an organization.
logging.getLogger("httpx").setLevel(logging.WARNING)


async def request_token(
    oauth: OAuthSettings, secret: SecretStr | None, refresh_token: SecretStr | None = None
) -> TokenAnswer:
    """An access token by the configured grant. Raises AccessTokenUnavailable (13001)."""
    form = {"grant_type": oauth.grant.value, "scope": oauth.scope}
    if oauth.grant is OAuthGrant.REFRESH_TOKEN:
        assert refresh_token is not None
        form["refresh_token"] = refresh_token.get_secret_value()
    return token_answer(await _post(oauth, oauth.token_endpoint, form | _client(oauth, secret)))


async def exchange_code(
    oauth: OAuthSettings, secret: SecretStr | None, *, code: SecretStr, redirect_address: str, verifier: SecretStr
) -> TokenAnswer:
    """The tokens behind an authorization code (RFC 6749 §4.1.3, RFC 7636 §4.5). Raises AccessTokenUnavailable."""
    form = {
        "grant_type": "authorization_code",
        "code": code.get_secret_value(),
        "redirect_uri": redirect_address,
        "code_verifier": verifier.get_secret_value(),
    }
    return token_answer(await _post(oauth, oauth.token_endpoint, form | _client(oauth, secret)))


async def begin_device_flow(oauth: OAuthSettings) -> DeviceCode:
    """The codes for a sign-in on another device (RFC 8628 §3.1). Raises AccessTokenUnavailable."""
    if oauth.device_authorization_endpoint is None:
        raise ConfigurationRefused("the account names no device_authorization_endpoint: there is no device flow")
    form = {"client_id": oauth.client_id, "scope": oauth.scope}
    return device_answer(await _post(oauth, oauth.device_authorization_endpoint, form))


async def poll_device_flow(oauth: OAuthSettings, secret: SecretStr | None, device: DeviceCode) -> TokenAnswer:
    """Ask once whether the person has signed in; AccessTokenUnavailable says why not yet, or why never."""
    form = {"grant_type": DEVICE_GRANT, "device_code": device.device_code.get_secret_value()}
    return token_answer(await _post(oauth, oauth.token_endpoint, form | _client(oauth, secret)))


def _client(oauth: OAuthSettings, secret: SecretStr | None) -> dict[str, str]:
    """A public client sends no `client_secret` field at all: servers take an empty one for a wrong one."""
    form = {"client_id": oauth.client_id}
    if not oauth.public_client:
        if secret is None:
            raise ConfigurationRefused("the account's application needs a client_secret")
        form["client_secret"] = secret.get_secret_value()
    return form


async def _post(oauth: OAuthSettings, endpoint: str, form: Mapping[str, str]) -> Mapping[str, object]:
    import httpx  # slow to load, and most commands never need it

    context = await asyncio.to_thread(_tls_context, oauth)
    try:
        async with (
            asyncio.timeout(REQUEST_SECONDS),
            httpx.AsyncClient(verify=context, follow_redirects=False, timeout=REQUEST_SECONDS) as client,
            client.stream("POST", endpoint, data=form, headers=_HEADERS) as response,
        ):
            octets = await _bounded(response)
            return read_answer(response.status_code, octets)
    except (httpx.HTTPError, OSError) as error:
        # The library's text can hold the address; the name of its kind tells enough.
        kind = type(error).__name__
        raise AccessTokenUnavailable(f"the authorization server cannot be reached ({kind})", retryable=True) from None


async def _bounded(response: httpx.Response) -> bytes | None:
    """The answer's octets; None as soon as they are more than MAX_ANSWER_BYTES, or compressed against our request."""
    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        return None
    octets = bytearray()
    async for chunk in response.aiter_raw():
        octets += chunk
        if len(octets) > MAX_ANSWER_BYTES:
            return None
    return bytes(octets)


def _tls_context(oauth: OAuthSettings) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if oauth.trusted_certificate_authority is not None:
        try:
            context.load_verify_locations(cafile=str(oauth.trusted_certificate_authority))
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationRefused("oauth.trusted_certificate_authority names no usable file") from error
    return context
