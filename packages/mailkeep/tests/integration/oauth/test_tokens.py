"""Access tokens against a local authorization server that misbehaves, and a real store."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from support.authorization import CLIENT_ID, CLIENT_SECRET, SCOPE, AuthorizationServer
from support.engine import rows
from support.oauth import oauth_account, ring_in

from mailkeep.config import DataEncryptionSettings, ResilienceSettings
from mailkeep.db import Database
from mailkeep.errors import (
    AccessTokenUnavailable,
    DataEncryptionKeyMissing,
    MailboxAuthorizationNeeded,
    SealedTokenUnreadable,
)
from mailkeep.mailbox import AccountId, erase_account
from mailkeep.oauth import AccessTokens, keep_consent, request
from mailkeep.oauth.queries import read_refresh_token, store_rotated
from mailkeep.oauth.ring import open_refresh_token
from mailkeep.resilience import Pipelines

pytestmark = pytest.mark.anyio
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NO_RING = DataEncryptionSettings()


@dataclass
class Clock:
    """Time that passes when the test says so."""

    at: datetime = field(default=START)

    def __call__(self) -> datetime:
        return self.at

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


QUICK = ResilienceSettings.model_validate({"mail_authorization_server_invocation": {"base_delay": "1ms"}})


def tokens_of(db: Database, home: Path, clock: Clock) -> AccessTokens:
    """A process of its own, so to say; quick between attempts."""
    return AccessTokens(db, home, Pipelines(QUICK), now=clock)


async def stored(db: Database, ring: DataEncryptionSettings, home: Path, account_id: str = "anna") -> str | None:
    """The refresh token in the store, opened."""
    sealed = await read_refresh_token(db, account_id)
    if sealed is None:
        return None
    return open_refresh_token(ring, home, account_id=account_id, sealed=sealed).get_secret_value()


@contextmanager
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """All records of all libraries at every level, with their extra fields and tracebacks."""
    lines: list[str] = []
    with caplog.at_level(logging.DEBUG):
        yield lines
    formatter = logging.Formatter()
    lines += [formatter.format(record) + repr(vars(record)) for record in caplog.records]


@pytest.mark.spec("SYNC-42")
async def test_a_burst_makes_one_request(db: Database, tmp_path: Path, authorization: AuthorizationServer) -> None:
    """Ten callers at once and one later share a token; another account has its own."""
    tokens, account = tokens_of(db, tmp_path, Clock()), oauth_account(authorization)
    found = await asyncio.gather(*(tokens.get(account, NO_RING) for _ in range(10)))
    assert set(found) == {await tokens.get(account, NO_RING)}
    assert len(authorization.forms) == 1
    other = account.model_copy(update={"account_id": "ben"})
    assert await tokens.get(other, NO_RING) not in found
    assert len(authorization.forms) == 2


@pytest.mark.spec("SYNC-42")
@pytest.mark.parametrize(("expires_in", "seconds"), [(600, 540), (None, 3540)])
async def test_a_token_is_replaced_a_minute_before_its_end(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, expires_in: int | None, seconds: int
) -> None:
    """Without a lifetime an hour counts."""
    authorization.expires_in = expires_in
    clock = Clock()
    tokens, account = tokens_of(db, tmp_path, clock), oauth_account(authorization)
    first = await tokens.get(account, NO_RING)
    clock.pass_by(seconds - 1)
    assert await tokens.get(account, NO_RING) == first
    clock.pass_by(1)
    assert await tokens.get(account, NO_RING) != first


@pytest.mark.spec("SYNC-43")
async def test_callers_with_the_same_rejected_token_share_its_replacement(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """Renewal names the token that was rejected; whoever names an older one gets what is there."""
    tokens, account = tokens_of(db, tmp_path, Clock()), oauth_account(authorization)
    old = await tokens.get(account, NO_RING)
    renewed = await asyncio.gather(*(tokens.get(account, NO_RING, rejected=old) for _ in range(5)))
    assert len(set(renewed)) == 1
    assert renewed[0] != old
    assert len(authorization.forms) == 2


@pytest.mark.spec("SYNC-2", "SYNC-42")
async def test_other_settings_do_not_get_a_token_of_the_old_ones(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """A changed scope asks anew."""
    tokens = tokens_of(db, tmp_path, Clock())
    first = await tokens.get(oauth_account(authorization), NO_RING)
    assert await tokens.get(oauth_account(authorization, scope="narrower"), NO_RING) != first
    assert authorization.forms[-1]["scope"] == "narrower"


@pytest.mark.spec("SYNC-44", "SYNC-40")
@pytest.mark.parametrize(
    ("block", "form"),
    [
        ({}, {"grant_type": "refresh_token", "refresh_token": "seed token"}),
        (
            {"public_client": None, "client_secret": "env:SECRET"},
            {"grant_type": "refresh_token", "refresh_token": "seed token", "client_secret": CLIENT_SECRET},
        ),
        (
            {
                "grant": "client_credentials",
                "public_client": None,
                "client_secret": "env:SECRET",
                "refresh_token": None,
            },
            {"grant_type": "client_credentials", "client_secret": CLIENT_SECRET},
        ),
    ],
)
async def test_the_form_has_exactly_the_fields_of_its_grant(
    db: Database,
    tmp_path: Path,
    authorization: AuthorizationServer,
    monkeypatch: pytest.MonkeyPatch,
    block: dict[str, Any],
    form: dict[str, str],
) -> None:
    """A public client sends no `client_secret` field at all."""
    monkeypatch.setenv("SECRET", CLIENT_SECRET)
    await tokens_of(db, tmp_path, Clock()).get(oauth_account(authorization, **block), NO_RING)
    assert authorization.forms == [form | {"client_id": CLIENT_ID, "scope": SCOPE}]


@pytest.mark.spec("SYNC-44")
@pytest.mark.parametrize(
    "trouble", [{"status": 500}, {"status": 429}, {"status": 408}, {"status": 503, "body": b"<html>"}, {"cut": True}]
)
async def test_trouble_that_may_pass_is_met_with_another_attempt(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, trouble: dict[str, Any]
) -> None:
    """Two failures and a success are a success; three failures are 13001, worth retrying."""
    tokens, account = tokens_of(db, tmp_path, Clock()), oauth_account(authorization)
    for _ in range(2):
        authorization.next(**trouble)
    first = await tokens.get(account, NO_RING)
    for _ in range(3):
        authorization.next(**trouble)
    with pytest.raises(AccessTokenUnavailable) as caught:
        await tokens.get(account, NO_RING, rejected=first)
    assert (caught.value.code, caught.value.retryable) == (13001, True)
    assert len(authorization.forms) == 6


@pytest.mark.spec("SYNC-44")
@pytest.mark.parametrize(
    "trouble",
    [
        {"status": 400, "body": b'{"error": "invalid_client"}'},
        {"status": 500, "body": b'{"error": "server_error"}'},
        {"status": 429, "body": b'{"error": "temporarily_unavailable"}'},
        {"status": 200, "body": b"<html>Sign in to the hotel's network</html>"},
        {"status": 200, "body": b'{"access_token": "' + b"x" * 70_000 + b'"}'},
        {"status": 200, "body": b"\x1f\x8b\x08", "headers": {"Content-Encoding": "gzip"}},
        {"status": 404, "body": b"{}"},
    ],
)
async def test_a_decision_and_an_unreadable_answer_are_final(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, trouble: dict[str, Any]
) -> None:
    """One request, then 13001 that is not worth retrying."""
    authorization.next(**trouble)
    with pytest.raises(AccessTokenUnavailable) as caught:
        await tokens_of(db, tmp_path, Clock()).get(oauth_account(authorization), NO_RING)
    assert not caught.value.retryable
    assert len(authorization.forms) == 1


@pytest.mark.spec("SYNC-44")
async def test_a_redirect_is_not_followed(db: Database, tmp_path: Path, authorization: AuthorizationServer) -> None:
    """Or the refresh token would be posted wherever an answer says."""
    for status in (301, 302, 303, 307, 308):
        authorization.next(status=status, headers={"Location": authorization.token_endpoint})
        with pytest.raises(AccessTokenUnavailable):
            await tokens_of(db, tmp_path, Clock()).get(oauth_account(authorization), NO_RING)
    assert len(authorization.forms) == 5


@pytest.mark.spec("SYNC-44")
async def test_an_endless_answer_is_cut_off(db: Database, tmp_path: Path, authorization: AuthorizationServer) -> None:
    """Reading ends soon after 64 KiB; the server never gets to its end of 256 MiB."""
    authorization.next(endless=True)
    async with asyncio.timeout(10):
        with pytest.raises(AccessTokenUnavailable):
            await tokens_of(db, tmp_path, Clock()).get(oauth_account(authorization), NO_RING)
    assert "poured to the end" not in authorization.forms[0]


@pytest.mark.spec("SYNC-44")
async def test_a_server_that_says_nothing_is_left(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of one request is bounded, and running out of it counts as trouble that may pass."""
    monkeypatch.setattr(request, "REQUEST_SECONDS", 0.3)
    release = threading.Event()
    try:
        for _ in range(3):
            authorization.next(hold=release)
        with pytest.raises(AccessTokenUnavailable) as caught:
            await tokens_of(db, tmp_path, Clock()).get(oauth_account(authorization), NO_RING)
    finally:
        release.set()
    assert caught.value.retryable


def test_a_request_has_fifteen_seconds() -> None:
    """The bound that the test above shortens."""
    assert request.REQUEST_SECONDS == 15


@pytest.mark.spec("SYNC-33")
async def test_a_certificate_nobody_vouches_for_ends_the_request(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """Nothing is posted to a server that cannot prove its name."""
    with pytest.raises(AccessTokenUnavailable):
        await tokens_of(db, tmp_path, Clock()).get(
            oauth_account(authorization, trusted_certificate_authority=None), NO_RING
        )
    assert authorization.forms == []


@pytest.mark.spec("SYNC-45")
async def test_a_rotated_token_survives_the_process_and_beats_the_seed(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """Each request presents the newest token; the store holds it sealed; a new process goes on with it."""
    authorization.rotates = True
    ring, account, clock = ring_in(tmp_path, "k1"), oauth_account(authorization), Clock()
    for _ in range(3):
        await tokens_of(db, tmp_path, clock).get(account, ring)
        clock.pass_by(1)
    presented = [form["refresh_token"] for form in authorization.forms]
    assert presented[0] == "seed token"
    assert len(set(presented)) == 3
    assert await stored(db, ring, tmp_path) in authorization.refresh_tokens
    (row,) = await rows(
        db, "SELECT mailbox_account_id, data_encryption_key_id, sealed_refresh_token FROM mailbox_refresh_tokens"
    )
    assert row[:2] == ("anna", "k1")
    assert b"refresh" not in row[2]


@pytest.mark.spec("SYNC-45")
async def test_client_credentials_keep_no_rotated_token(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application's own grant has no refresh token, whatever the answer holds."""
    monkeypatch.setenv("SECRET", CLIENT_SECRET)
    authorization.rotates = True
    account = oauth_account(
        authorization,
        grant="client_credentials",
        public_client=None,
        client_secret="env:SECRET",
        refresh_token=None,
    )
    ring = ring_in(tmp_path, "k1")
    await tokens_of(db, tmp_path, Clock()).get(account, ring)
    assert await read_refresh_token(db, "anna") is None


@pytest.mark.spec("SYNC-45")
async def test_an_older_token_never_overwrites_a_newer_one(db: Database) -> None:
    """Whichever of two processes stores last, the later rotation stays."""
    values = {"key_id": "k"}
    assert await store_rotated(db, "anna", sealed=b"newer", updated_at=START, **values)
    assert not await store_rotated(db, "anna", sealed=b"older", updated_at=START - timedelta(seconds=1), **values)
    kept = await read_refresh_token(db, "anna")
    assert kept is not None
    assert kept.octets == b"newer"


@pytest.mark.spec("SYNC-45", "SYNC-49")
async def test_a_rotation_that_began_before_a_fresh_consent_does_not_undo_it(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """The consent given while a request was under way stays; after that its rotations are kept as usual."""
    authorization.rotates = True
    ring, account, clock = ring_in(tmp_path, "k1"), oauth_account(authorization), Clock()
    tokens = tokens_of(db, tmp_path, clock)
    release = threading.Event()
    authorization.next(hold=release)
    running = asyncio.create_task(tokens.get(account, ring))
    await asyncio.to_thread(authorization.await_request)
    clock.pass_by(1)
    authorization.refresh_tokens.add("consented")
    await keep_consent(db, ring, tmp_path, account_id="anna", token=SecretStr("consented"), now=clock())
    release.set()
    first = await running
    assert await stored(db, ring, tmp_path) == "consented"
    # The clock has not moved on since the consent was stored; the rotation counts as newer than what it replaces.
    await tokens.get(account, ring, rejected=first)
    assert authorization.forms[-1]["refresh_token"] == "consented"
    assert await stored(db, ring, tmp_path) not in (None, "consented")


@pytest.mark.spec("SYNC-49")
async def test_a_fresh_consent_replaces_whatever_is_stored(db: Database, tmp_path: Path) -> None:
    """Also a token that another machine's fast clock dated into the future."""
    ring = ring_in(tmp_path, "k1")
    await store_rotated(db, "anna", sealed=b"x", key_id="k0", updated_at=START + timedelta(days=9))
    await keep_consent(db, ring, tmp_path, account_id="anna", token=SecretStr("consented"), now=START)
    assert await stored(db, ring, tmp_path) == "consented"


@pytest.mark.spec("SYNC-46", "SYNC-48")
async def test_a_rotation_that_cannot_be_stored_is_logged_and_costs_nothing(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a key ring the account works on in this process; once there is one, the held token is stored."""
    authorization.rotates = True
    tokens, account = tokens_of(db, tmp_path, Clock()), oauth_account(authorization)
    first = await tokens.get(account, NO_RING)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert vars(record)["account_id"] == "anna"
    assert vars(record)["failure_code"] == DataEncryptionKeyMissing.code
    assert await read_refresh_token(db, "anna") is None
    second = await tokens.get(account, NO_RING, rejected=first)
    assert authorization.forms[-1]["refresh_token"] != "seed token"
    authorization.rotates = False
    ring = ring_in(tmp_path, "k1")
    await tokens.get(account, ring, rejected=second)
    assert await stored(db, ring, tmp_path) in authorization.refresh_tokens


@pytest.mark.spec("SYNC-46")
async def test_a_database_that_fails_in_between_does_not_fail_the_request(
    db: Database, tmp_path: Path, authorization: AuthorizationServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The statement is refused, the token is handed out, the failure is logged without any value."""
    authorization.rotates = True
    ring, account = ring_in(tmp_path, "k1"), oauth_account(authorization)
    async with db.connection() as connection:
        await connection.execute("ALTER TABLE mailbox_refresh_tokens ADD CONSTRAINT ck_none CHECK (false) NOT VALID")
    with everything_logged(caplog) as lines:
        token = await tokens_of(db, tmp_path, Clock()).get(account, ring)
    assert token.get_secret_value() in authorization.access_tokens
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    assert "refresh-" not in "".join(lines)


@pytest.mark.spec("SYNC-46")
async def test_cancelling_a_caller_does_not_lose_a_rotation(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """The answer under way is still read and its token stored before the caller ends."""
    authorization.rotates = True
    ring, release = ring_in(tmp_path, "k1"), threading.Event()
    authorization.next(hold=release)
    tokens = tokens_of(db, tmp_path, Clock())
    caller = asyncio.create_task(tokens.get(oauth_account(authorization), ring))
    await asyncio.to_thread(authorization.await_request)
    caller.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await stored(db, ring, tmp_path) in authorization.refresh_tokens


@pytest.mark.spec("SYNC-45")
async def test_a_token_rotated_by_another_process_meanwhile_is_read_again(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """`invalid_grant` for a token that is no longer the stored one is answered with the stored one, once."""
    ring, account, release = ring_in(tmp_path, "k1"), oauth_account(authorization), threading.Event()
    authorization.next(hold=release, status=400, body=b'{"error": "invalid_grant"}')
    running = asyncio.create_task(tokens_of(db, tmp_path, Clock()).get(account, ring))
    await asyncio.to_thread(authorization.await_request)
    authorization.rotates = True
    await tokens_of(db, tmp_path, Clock()).get(account, ring)
    release.set()
    await running
    assert len(authorization.forms) == 3
    authorization.refresh_tokens.clear()
    with pytest.raises(AccessTokenUnavailable, match="invalid_grant"):
        await tokens_of(db, tmp_path, Clock()).get(account, ring)
    assert len(authorization.forms) == 4


@pytest.mark.spec("SYNC-48")
async def test_what_does_not_open_fails_at_use_and_never_falls_back_to_the_seed(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """A missing key is named; a row moved from another account and another key under the same id are one failure."""
    account = oauth_account(authorization)
    ring = ring_in(tmp_path, "k1")
    await keep_consent(db, ring, tmp_path, account_id="anna", token=SecretStr("consented"), now=START)
    with pytest.raises(DataEncryptionKeyMissing, match="k1"):
        await tokens_of(db, tmp_path, Clock()).get(account, ring_in(tmp_path, "k2"))
    with pytest.raises(DataEncryptionKeyMissing, match="k1"):
        await tokens_of(db, tmp_path, Clock()).get(account, NO_RING)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "k1.key").write_bytes((tmp_path / "k2.key").read_bytes())
    failures = []
    with pytest.raises(SealedTokenUnreadable) as caught:
        await tokens_of(db, tmp_path, Clock()).get(account, ring_in(tmp_path / "other", "k1"))
    failures.append(caught.value.message)
    async with db.connection() as connection:
        await connection.execute("UPDATE mailbox_refresh_tokens SET mailbox_account_id = 'ben'")
    with pytest.raises(SealedTokenUnreadable) as caught:
        await tokens_of(db, tmp_path, Clock()).get(account.model_copy(update={"account_id": "ben"}), ring)
    failures.append(caught.value.message)
    assert len(set(failures)) == 1
    assert authorization.forms == []


async def test_without_any_token_a_person_has_to_sign_in(
    db: Database, tmp_path: Path, authorization: AuthorizationServer
) -> None:
    """13002 says which command."""
    with pytest.raises(MailboxAuthorizationNeeded, match="account authorize"):
        await tokens_of(db, tmp_path, Clock()).get(
            oauth_account(authorization, refresh_token=None), ring_in(tmp_path, "k1")
        )


@pytest.mark.spec("DATA-20", "OPS-78")
async def test_erasing_an_account_erases_its_token(db: Database, tmp_path: Path) -> None:
    """It names the account without a key, and another account's stays."""
    ring = ring_in(tmp_path, "k1")
    for account_id in ("anna", "ben"):
        await keep_consent(db, ring, tmp_path, account_id=account_id, token=SecretStr("t"), now=START)
    await erase_account(db, AccountId("anna"))
    assert await rows(db, "SELECT mailbox_account_id FROM mailbox_refresh_tokens") == [("ben",)]


@pytest.mark.spec("SYNC-44", "DATA-22")
async def test_no_token_reaches_a_log_or_an_error(
    db: Database,
    tmp_path: Path,
    authorization: AuthorizationServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every library at its most talkative, a success with rotation and a refusal."""
    monkeypatch.setenv("SECRET", "a rare client secret")
    authorization.rotates = True
    ring = ring_in(tmp_path, "k1")
    account = oauth_account(authorization, public_client=None, client_secret="env:SECRET")
    secrets = ["seed token", "seed+token", "a rare client secret", "a+rare+client+secret"]
    with everything_logged(caplog) as lines:
        tokens = tokens_of(db, tmp_path, Clock())
        secrets.append((await tokens.get(account, ring)).get_secret_value())
        authorization.next(status=400, body=b'{"error": "' + secrets[-1].encode() + b'"}')
        with pytest.raises(AccessTokenUnavailable) as caught:
            await tokens.get(account, ring, rejected=SecretStr(secrets[-1]))
    secrets += authorization.refresh_tokens
    text = "".join(lines) + str(caught.value) + repr(caught.value)
    assert [secret for secret in secrets if secret in text] == []
