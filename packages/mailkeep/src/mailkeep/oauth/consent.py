"""A person's consent in a browser: the address to open, and reading the answer that comes back (pure).

Authorization code with PKCE (RFC 7636, S256 only) and a state that is checked before anything else is believed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit, urlunsplit

from pydantic import SecretStr

from mailkeep.config import OAuthSettings
from mailkeep.errors import ConfigurationRefused, MailboxAuthorizationNeeded

_ERROR_CODE: Final = re.compile(r"[a-z]{2,20}(?:_[a-z]{2,20}){0,4}")


@dataclass(frozen=True, slots=True)
class Consent:
    """One consent that is being asked for; made anew for every attempt."""

    address: str
    redirect_address: str
    state: SecretStr
    verifier: SecretStr


def ask_consent(oauth: OAuthSettings, *, redirect_address: str, user_name: str | None) -> Consent:
    """The address to open. The endpoint's own query is kept: providers put their switches there (RFC 6749 §3.1)."""
    if oauth.authorization_endpoint is None:
        raise ConfigurationRefused("the account names no authorization_endpoint to open in a browser")
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=")
    parameters = {
        "response_type": "code",
        "client_id": oauth.client_id,
        "redirect_uri": redirect_address,
        "scope": oauth.scope,
        "state": state,
        "code_challenge": digest.decode("ascii"),
        "code_challenge_method": "S256",
    }
    if user_name and "@" in user_name:
        parameters["login_hint"] = user_name
    parts = urlsplit(oauth.authorization_endpoint)
    query = "&".join(filter(None, (parts.query, urlencode(parameters, quote_via=quote))))
    return Consent(urlunsplit(parts._replace(query=query)), redirect_address, SecretStr(state), SecretStr(verifier))


def read_redirect(consent: Consent, target: str) -> SecretStr | None:
    """The code in the address that the browser was sent to; None when it is no answer to this consent.

    Raises MailboxAuthorizationNeeded when the state is ours and the consent was refused.
    """
    try:
        query = parse_qs(urlsplit(target).query, max_num_fields=32)
    except ValueError:
        return None
    states = query.get("state", [])
    if len(states) != 1 or not hmac.compare_digest(
        states[0].encode("utf-8", "surrogateescape"), consent.state.get_secret_value().encode()
    ):
        return None
    if "error" in query:
        code = query["error"][0]
        reason = code if _ERROR_CODE.fullmatch(code) else "no readable reason"
        raise MailboxAuthorizationNeeded(f"the sign-in was refused ({reason})")
    codes = query.get("code", [])
    return SecretStr(codes[0]) if len(codes) == 1 else None
