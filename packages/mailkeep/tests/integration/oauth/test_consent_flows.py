"""The three ways to sign in, against a local authorization server and a browser that does what it is told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from support.authorization import CLIENT_ID, AuthorizationServer

from mailkeep.config import OAuthSettings
from mailkeep.errors import AccessTokenUnavailable, ConfigurationRefused, MailboxAuthorizationNeeded
from mailkeep.oauth import (
    DeviceCode,
    TokenAnswer,
    authorize_in_browser,
    authorize_on_another_device,
    begin_pasting,
    finish_pasting,
)
from mailkeep.oauth.consent import Consent
from mailkeep.oauth.loopback import LoopbackListener

pytestmark = pytest.mark.anyio


def block(server: AuthorizationServer, **changes: object) -> OAuthSettings:
    return OAuthSettings.model_validate(server.block(**changes))


class Browser:
    """Follows the address it is opened with; `before` may visit the listener first."""

    def __init__(
        self, server: AuthorizationServer, before: Callable[[httpx.AsyncClient, str], Awaitable[None]] | None = None
    ) -> None:
        self._context = ssl.create_default_context(cafile=str(server.authority))
        self._before = before
        self._visit: asyncio.Task[None] | None = None
        self.address = ""
        self.page = ""

    def open(self, address: str) -> None:
        self.address = address
        self._visit = asyncio.create_task(self._follow())

    async def finished(self) -> None:
        assert self._visit is not None
        await self._visit

    async def _follow(self) -> None:
        async with httpx.AsyncClient(verify=self._context, follow_redirects=True) as client:
            if self._before is not None:
                await self._before(client, parse_qs(urlsplit(self.address).query)["redirect_uri"][0])
            self.page = (await client.get(self.address)).text


async def signed_in(server: AuthorizationServer, browser: Browser, **changes: object) -> TokenAnswer:
    """The tokens of a browser flow."""
    async with asyncio.timeout(20):
        answer = await authorize_in_browser(
            block(server, **changes), None, user_name="anna@example.com", open_browser=browser.open
        )
        await browser.finished()
    return answer


@pytest.mark.spec("SYNC-49")
async def test_the_browser_comes_back_to_this_machine_with_a_code(authorization: AuthorizationServer) -> None:
    """State and challenge go out, the code comes back, the verifier redeems it; the page says that it is done."""
    browser = Browser(authorization)
    answer = await signed_in(authorization, browser)
    assert answer.refresh_token is not None
    assert answer.refresh_token.get_secret_value() in authorization.refresh_tokens
    (asked,) = authorization.consent_requests
    assert asked["code_challenge_method"] == "S256"
    assert asked["login_hint"] == "anna@example.com"
    assert asked["access_type"] == "offline"
    assert urlsplit(asked["redirect_uri"]).hostname == "localhost"
    (form,) = authorization.forms
    assert form.keys() == {"grant_type", "code", "redirect_uri", "code_verifier", "client_id"}
    assert form["client_id"] == CLIENT_ID
    assert "You can close this page" in browser.page


@pytest.mark.spec("SYNC-49")
async def test_visitors_without_our_state_change_nothing(authorization: AuthorizationServer) -> None:
    """Another page of the browser may call the listener: it is turned away, and the sign-in goes on."""
    turned_away: list[int] = []

    async def visit(client: httpx.AsyncClient, address: str) -> None:
        targets = ("/favicon.ico", "/?code=stolen&state=guessed", "/?error=access_denied&state=guessed")
        answers = [await client.get(address + target) for target in targets]
        answers.append(await client.post(address + "/?code=c&state=guessed"))
        turned_away.extend(answer.status_code for answer in answers)
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(address).port)
        writer.write(b"\x16\x03\x01 no http at all")
        writer.close()
        del reader

    answer = await signed_in(authorization, Browser(authorization, before=visit))
    assert turned_away == [404, 404, 404, 404]
    assert answer.refresh_token is not None
    assert [form["code"] for form in authorization.forms] == ["code-1"]


@pytest.mark.spec("SYNC-49")
async def test_a_refused_consent_says_so(authorization: AuthorizationServer) -> None:
    """13002 with the server's code; nothing is asked for."""
    authorization.consents = False
    with pytest.raises(MailboxAuthorizationNeeded, match="access_denied"):
        await signed_in(authorization, Browser(authorization))
    assert authorization.forms == []


@pytest.mark.spec("SYNC-49")
async def test_waiting_for_a_person_ends(authorization: AuthorizationServer) -> None:
    """Nobody comes: the listener is gone afterwards."""
    opened: list[str] = []
    with pytest.raises(MailboxAuthorizationNeeded):
        await authorize_in_browser(block(authorization), None, user_name=None, open_browser=opened.append, seconds=0.05)
    port = urlsplit(parse_qs(urlsplit(opened[0]).query)["redirect_uri"][0]).port
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.spec("SYNC-45", "SYNC-49")
async def test_a_consent_without_refresh_token_is_no_sign_in(authorization: AuthorizationServer) -> None:
    """It would end within the hour."""
    authorization.gives_refresh_token = False
    with pytest.raises(MailboxAuthorizationNeeded, match="refresh token"):
        await signed_in(authorization, Browser(authorization))


@pytest.mark.spec("SYNC-49")
async def test_the_listener_answers_on_this_machine_only() -> None:
    """Loopback addresses and nothing else."""
    async with LoopbackListener() as listener:
        names = {name[0] for server in listener._servers for name in (each.getsockname() for each in server.sockets)}
    assert names <= {"127.0.0.1", "::1"}
    assert "127.0.0.1" in names


async def pasted(server: AuthorizationServer, consent: Consent) -> str:
    """The address a browser ends at."""
    context = ssl.create_default_context(cafile=str(server.authority))
    async with httpx.AsyncClient(verify=context) as client:
        return (await client.get(consent.address)).headers["Location"]


@pytest.mark.spec("SYNC-49")
async def test_a_pasted_address_is_checked_and_redeemed(authorization: AuthorizationServer) -> None:
    """The address of this sign-in is taken, with the blanks that pasting brings; another one's is not."""
    oauth = block(authorization)
    consent, other = begin_pasting(oauth, user_name=None), begin_pasting(oauth, user_name=None)
    address = await pasted(authorization, consent)
    with pytest.raises(MailboxAuthorizationNeeded, match="not the address"):
        await finish_pasting(oauth, None, other, address)
    with pytest.raises(MailboxAuthorizationNeeded, match="not the address"):
        await finish_pasting(oauth, None, consent, "code-1")
    assert authorization.forms == []
    answer = await finish_pasting(oauth, None, consent, f"  {address}\r\n")
    assert answer.refresh_token is not None


@pytest.mark.spec("SYNC-49")
async def test_a_code_without_its_verifier_is_worth_nothing(authorization: AuthorizationServer) -> None:
    """Whoever sees the address of a sign-in cannot redeem it: the verifier never left this process."""
    oauth = block(authorization)
    consent, thief = begin_pasting(oauth, user_name=None), begin_pasting(oauth, user_name=None)
    address = await pasted(authorization, consent)
    stolen = Consent(consent.address, consent.redirect_address, consent.state, thief.verifier)
    with pytest.raises(AccessTokenUnavailable, match="invalid_grant"):
        await finish_pasting(oauth, None, stolen, address)


class Pauses:
    """Time between two questions, without waiting for it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.mark.spec("SYNC-49")
async def test_a_code_for_another_device_is_asked_about_at_the_servers_pace(
    authorization: AuthorizationServer,
) -> None:
    """Pending waits on, slow_down by five seconds longer, an outage likewise, and then the tokens are there."""
    authorization.device_pending.extend(["authorization_pending", "slow_down", "authorization_pending"])
    shown: list[DeviceCode] = []
    pauses = Pauses()
    answer = await authorize_on_another_device(block(authorization), None, show=shown.append, pause=pauses)
    assert answer.refresh_token is not None
    assert pauses.seconds == [1, 1, 6, 6]
    (device,) = shown
    assert (device.user_code, device.lifetime) == ("ABCD-EFGH", timedelta(seconds=60))
    assert "device-1" not in repr(device)
    assert {form["grant_type"] for form in authorization.forms} == {"urn:ietf:params:oauth:grant-type:device_code"}


@pytest.mark.spec("SYNC-49")
@pytest.mark.parametrize(
    ("answers", "failure"),
    [
        (["access_denied"], MailboxAuthorizationNeeded),
        (["authorization_pending", "expired_token"], MailboxAuthorizationNeeded),
        (["authorization_pending"] * 100, MailboxAuthorizationNeeded),
        (["invalid_client"], AccessTokenUnavailable),
    ],
)
async def test_a_device_flow_ends_when_it_cannot_succeed(
    authorization: AuthorizationServer, answers: list[str], failure: type[Exception]
) -> None:
    """Refused, expired, out of time, or set up wrongly."""
    authorization.device_pending.extend(answers)
    with pytest.raises(failure):
        await authorize_on_another_device(block(authorization), None, show=lambda _: None, pause=Pauses())
    assert len(authorization.forms) == min(len(answers), 60)


@pytest.mark.spec("SYNC-49")
async def test_without_a_device_endpoint_there_is_no_device_flow(authorization: AuthorizationServer) -> None:
    """As with Google, which offers none for mail."""
    oauth = block(authorization, device_authorization_endpoint=None)
    with pytest.raises(ConfigurationRefused, match="no device flow"):
        await authorize_on_another_device(oauth, None, show=lambda _: None, pause=Pauses())
