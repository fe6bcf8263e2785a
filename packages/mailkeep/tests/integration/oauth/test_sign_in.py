"""Signing in by token: a real Dovecot that asks the authorization server about every token, and scripted servers."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.authorization import AuthorizationServer
from support.dovecot import Dovecot, offers_tokens
from support.engine import engine, mail, run_once, settings_with, stored
from support.oauth import oauth_account, ring_in
from support.scripted_imap import ScriptedImap

from mailkeep.config import AccountSettings, DataEncryptionSettings
from mailkeep.db import Database
from mailkeep.errors import AccessTokenUnavailable, LoginRejected, MailServerUnavailable, MechanismRefused
from mailkeep.imap import ReadOnlySession
from mailkeep.sync import open_resources, run_account

pytestmark = pytest.mark.anyio
NO_RING = DataEncryptionSettings()


@pytest.fixture
def token_dovecot(authorization: AuthorizationServer) -> Iterator[Dovecot]:
    """A mail server that trusts the authorization server."""
    if not offers_tokens():
        pytest.skip("needs Dovecot 2.3 (Debian packages dovecot-core, dovecot-imapd)")
    with Dovecot.start(users=("anna",), introspection=authorization.introspection_address) as server:
        server.fill("anna", "INBOX", [mail(number) for number in range(3)])
        yield server


async def opened(
    account: AccountSettings, db: Database, home: Path, ring: DataEncryptionSettings = NO_RING
) -> ReadOnlySession:
    """A session of a fresh process."""
    async with open_resources(db, settings_with(account), home) as resources:
        return await resources.access.session(account, ring)


@pytest.mark.spec("SYNC-41", "SYNC-40")
@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "XOAUTH2"])
async def test_a_mailbox_is_mirrored_by_token(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, token_dovecot: Dovecot, mechanism: str
) -> None:
    """From the refresh token to stored mail, over each mechanism, without any password."""
    account = oauth_account(authorization, token_dovecot.ports.plain, mechanisms=(mechanism,))
    outcome = await run_once(db, tmp_path, account, until_complete=True)
    assert not outcome.is_failed
    assert len(await stored(db)) == 3
    assert set(authorization.introspected) == {"access-1"}


@pytest.mark.spec("SYNC-43", "SYNC-45")
async def test_a_rejected_token_is_renewed_once_and_the_rotation_survives(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, token_dovecot: Dovecot
) -> None:
    """The server revokes what it gave: the next connection renews, presents the new token, and the mirror goes on."""
    authorization.rotates = True
    account = oauth_account(authorization, token_dovecot.ports.plain)
    ring = ring_in(tmp_path, "k1")
    settings = settings_with(account).model_copy(update={"data_encryption": ring})
    async with open_resources(db, settings, tmp_path) as resources:
        await run_account(resources, "anna")
        authorization.revoke_access_tokens()
        token_dovecot.fill("anna", "INBOX", [mail("late")])
        outcome = await run_account(resources, "anna")
    assert not outcome.is_failed
    assert len(await stored(db)) == 4
    assert len(authorization.forms) == 2
    async with open_resources(db, settings, tmp_path) as resources:  # as after a restart: the seed is void by now
        assert not (await run_account(resources, "anna")).is_failed
    assert len(authorization.forms) == 3


@pytest.mark.spec("SYNC-43")
async def test_a_second_rejection_fails(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, token_dovecot: Dovecot
) -> None:
    """A token that is good at the one server and belongs to nobody at the other: two presentations, then 21002."""
    authorization.user = "nobody else"
    account = oauth_account(authorization, token_dovecot.ports.plain)
    with pytest.raises(LoginRejected) as caught:
        await run_once(db, tmp_path, account)
    assert caught.value.by_token
    assert authorization.introspected == ["access-1", "access-2"]
    assert len(authorization.forms) == 2


@pytest.mark.spec("SYNC-36", "SYNC-43")
async def test_a_rejected_password_is_not_tried_again_where_tokens_are_permitted_too(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a token is renewed."""
    monkeypatch.setenv("MAILKEEP_TEST_PASSWORD", "wrong")
    script = """
    >> AUTHENTICATE PLAIN
    !continue
    NO [AUTHENTICATIONFAILED] no
    """
    async with ScriptedImap(script, capabilities="IMAP4rev1 AUTH=PLAIN") as server:
        account = oauth_account(authorization, server.port, mechanisms=("OAUTHBEARER", "PLAIN"))
        with pytest.raises(LoginRejected) as caught:
            await opened(account, db, tmp_path)
    assert not caught.value.by_token
    assert len(server.sent("AUTHENTICATE")) == 1
    assert len(authorization.forms) == 1


@pytest.mark.spec("SYNC-32", "SYNC-41")
async def test_a_token_never_goes_where_only_passwords_are_taken(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """21001, and nothing that looks like a sign-in was sent."""
    async with ScriptedImap(capabilities="IMAP4rev1 AUTH=PLAIN AUTH=LOGIN") as server:
        with pytest.raises(MechanismRefused):
            await opened(oauth_account(authorization, server.port), db, tmp_path)
    assert server.sent("AUTHENTICATE") + server.sent("LOGIN") == []


@pytest.mark.spec("SYNC-41")
@pytest.mark.parametrize(
    ("offered", "spoken"),
    [
        ("AUTH=XOAUTH2 AUTH=OAUTHBEARER", "n,a=anna,\x01auth=Bearer access-1\x01\x01"),
        ("AUTH=XOAUTH2", "user=anna\x01auth=Bearer access-1\x01\x01"),
    ],
)
async def test_the_token_is_spelled_as_each_mechanism_wants_it(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, offered: str, spoken: str
) -> None:
    """OAUTHBEARER where it is offered (RFC 7628 §3.1), else the older spelling; exactly these octets."""
    script = """
    >> AUTHENTICATE *
    !continue
    OK signed in
    """
    async with ScriptedImap(script, capabilities=f"IMAP4rev1 {offered}") as server:
        session = await opened(oauth_account(authorization, server.port), db, tmp_path)
        await session.close()
    assert [base64.b64decode(answer).decode() for answer in server.answers] == [spoken]


@pytest.mark.spec("SYNC-43")
@pytest.mark.parametrize(("offered", "farewell"), [("AUTH=OAUTHBEARER", b"\x01"), ("AUTH=XOAUTH2", b"")])
async def test_a_rejection_with_an_explanation_is_answered_without_the_token(
    db: Database,
    tmp_path: Path,
    authorization: AuthorizationServer,
    caplog: pytest.LogCaptureFixture,
    offered: str,
    farewell: bytes,
) -> None:
    """The server explains and waits; the token is not sent again there, and none is in any log or error."""
    script = """
    >> AUTHENTICATE *
    !continue
    !continue eyJzdGF0dXMiOiI0MDEifQ==
    NO [AUTHENTICATIONFAILED] access-1 and access-2 are no good
    """
    with caplog.at_level(logging.DEBUG):
        async with ScriptedImap(script, capabilities=f"IMAP4rev1 {offered}") as server:
            with pytest.raises(LoginRejected) as caught:
                await opened(oauth_account(authorization, server.port), db, tmp_path)
    answers = [base64.b64decode(answer) for answer in server.answers]
    assert answers[1::2] == [farewell, farewell]
    assert [b"access-1" in answers[0], b"access-2" in answers[2]] == [True, True]
    assert "access-" not in caplog.text + str(caught.value) + repr(caught.value)
    assert base64.b64encode(answers[0])[8:24].decode() not in caplog.text


@pytest.mark.spec("SYNC-36", "SYNC-43")
async def test_passing_trouble_does_not_use_up_the_token(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """UNAVAILABLE is no verdict on the token: nothing is renewed."""
    script = """
    >> AUTHENTICATE *
    !continue
    NO [UNAVAILABLE] later
    """
    async with ScriptedImap(script, capabilities="IMAP4rev1 AUTH=XOAUTH2") as server:
        with pytest.raises(MailServerUnavailable):
            await opened(oauth_account(authorization, server.port), db, tmp_path)
    assert len(authorization.forms) == 1


@pytest.mark.spec("SYNC-42", "SYNC-5")
async def test_an_authorization_server_that_is_away_fails_the_run_and_not_the_next(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, token_dovecot: Dovecot
) -> None:
    """Three failing requests end a run; the next run of the same process signs in."""
    account = oauth_account(authorization, token_dovecot.ports.plain)
    for _ in range(3):
        authorization.next(status=503)
    async with engine(db, tmp_path, account) as resources:
        with pytest.raises(AccessTokenUnavailable):
            await run_account(resources, "anna")
        assert not (await run_account(resources, "anna")).is_failed
