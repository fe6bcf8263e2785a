"""Asking for a person's consent."""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import parse_qs, urlsplit

import pytest

from mailkeep.config import OAuthSettings
from mailkeep.errors import ConfigurationRefused, MailboxAuthorizationNeeded
from mailkeep.oauth.consent import ask_consent, read_redirect

OAUTH = OAuthSettings.model_validate(
    {
        "grant": "refresh_token",
        "token_endpoint": "https://id.example/token",
        "authorization_endpoint": "https://id.example/authorize?access_type=offline",
        "client_id": "client & co",
        "scope": "mail offline_access",
        "public_client": True,
    }
)


@pytest.mark.spec("SYNC-49")
def test_the_address_carries_a_fresh_state_and_an_s256_challenge() -> None:
    """Two consents share neither; the challenge is the digest of a verifier that stays here; the endpoint's query is kept."""
    first, second = (ask_consent(OAUTH, redirect_address="http://localhost:1", user_name="a@b.example") for _ in "12")
    query = {name: values[0] for name, values in parse_qs(urlsplit(first.address).query).items()}
    verifier = first.verifier.get_secret_value()
    assert query == {
        "access_type": "offline",
        "response_type": "code",
        "client_id": "client & co",
        "redirect_uri": "http://localhost:1",
        "scope": "mail offline_access",
        "state": first.state.get_secret_value(),
        "code_challenge": base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "login_hint": "a@b.example",
    }
    assert verifier not in first.address
    assert 43 <= len(verifier) <= 128
    assert first.state != second.state
    assert first.verifier != second.verifier


@pytest.mark.spec("SYNC-49")
def test_only_our_own_state_is_believed() -> None:
    """Without it neither a code nor an error counts."""
    consent = ask_consent(OAUTH, redirect_address="http://localhost:1", user_name=None)
    state = consent.state.get_secret_value()
    for target in (
        "/?code=c",
        "/?code=c&state=other",
        f"/?code=c&state={state}x",
        f"/?code=c&state={state}&state=other",
        "/?error=access_denied&state=other",
        f"/?state={state}",
        f"/?code=a&code=b&state={state}",
        "/favicon.ico",
        "/?code=c&state=%FF%FE",
        "//[",
    ):
        assert read_redirect(consent, target) is None, target
    code = read_redirect(consent, f"/?state={state}&code=c%2F1")
    assert code is not None
    assert code.get_secret_value() == "c/1"


@pytest.mark.spec("SYNC-49")
@pytest.mark.parametrize(("error", "shown"), [("access_denied", "access_denied"), ("<b>x", "no readable reason")])
def test_a_refusal_is_told_with_its_code_only(error: str, shown: str) -> None:
    """What the address holds besides is not repeated."""
    consent = ask_consent(OAUTH, redirect_address="http://localhost:1", user_name=None)
    with pytest.raises(MailboxAuthorizationNeeded) as caught:
        read_redirect(consent, f"/?error={error}&error_description=x&state={consent.state.get_secret_value()}")
    assert caught.value.message == f"the sign-in was refused ({shown})"


def test_without_an_address_to_open_there_is_no_browser_flow() -> None:
    """The settings need one."""
    with pytest.raises(ConfigurationRefused, match="authorization_endpoint"):
        ask_consent(
            OAUTH.model_copy(update={"authorization_endpoint": None}), redirect_address="http://x", user_name=None
        )
