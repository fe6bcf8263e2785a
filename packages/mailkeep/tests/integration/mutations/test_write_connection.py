"""The one connection that changes a mailbox: kept for a while, given up when its place is needed, opened with patience."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from support.accounts import account_at
from support.converging import STAR, Mirrored
from support.dovecot import Dovecot
from support.engine import engine, mail
from support.scripted_imap import ScriptedImap
from support.tap import Tap

from mailkeep.config import AccountSettings
from mailkeep.db import Database
from mailkeep.errors import LoginRejected, MailServerUnavailable
from mailkeep.imap import Advice, AskedToComeBack, PauseReason
from mailkeep.sync import Resources, run_account
from mailkeep.sync.changes import carry_out_changes
from mailkeep.sync.writing import Writer

pytestmark = pytest.mark.anyio
SOON = 20.0


def writer_of(resources: Resources, account: AccountSettings, *, idle: timedelta = timedelta(minutes=2)) -> Writer:
    return resources.access.writer(account, resources.settings.data_encryption, idle_period=idle)


async def closed(writer: Writer) -> None:
    """Wait until nothing is kept open."""
    async with asyncio.timeout(SOON):
        while writer.is_open:  # noqa: ASYNC110  -- closing has no event
            await asyncio.sleep(0.005)


@pytest.mark.spec("MUT-7")
async def test_it_is_kept_for_its_idle_period_and_then_closed(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Two turns share a login; after the idle period it ends with LOGOUT, and the next turn logs in anew."""
    async with Tap(dovecot.ports.plain) as tap:
        account = account_at(tap.port, user_name=user)
        async with engine(db, tmp_path, account) as resources:
            writer = writer_of(resources, account)
            for _ in range(2):
                async with writer.turn() as connect:
                    await (await connect()).select("INBOX")
            assert (tap.connections, writer.is_open) == (1, True)
            writer = writer_of(resources, account, idle=timedelta(milliseconds=1))
            async with writer.turn() as connect:
                await (await connect()).select("INBOX")
            await closed(writer)
            assert (tap.connections, len(tap.commands("LOGOUT"))) == (1, 1)
            async with writer.turn() as connect:
                await connect()
            assert tap.connections == 2


@pytest.mark.spec("MUT-7")
async def test_its_place_is_given_up_to_whoever_finds_none(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """An account of one connection converges and reads in the same run: the idle connection makes room at once."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    mailbox.account = mailbox.account.model_copy(update={"max_connections": 1})
    await mailbox.asked(1, STAR)
    async with engine(db, tmp_path, mailbox.account) as resources:
        async with asyncio.timeout(SOON):
            outcome = await run_account(resources, mailbox.account.account_id)
        assert not outcome.is_failed
        assert not writer_of(resources, mailbox.account).is_open
    with dovecot.client(user) as other:
        assert other.flags("INBOX") == {1: frozenset({"\\Flagged"})}


@pytest.mark.spec("MUT-7")
@pytest.mark.parametrize(
    ("script", "error"),
    [
        (">> LOGIN *\nNO [AUTHENTICATIONFAILED] no\n>> AUTHENTICATE *\nNO [AUTHENTICATIONFAILED] no", LoginRejected),
        (">> LOGIN *\n!cut\n>> AUTHENTICATE *\n!cut", MailServerUnavailable),
    ],
    ids=["rejected", "cut"],
)
async def test_a_failed_opening_gives_its_place_back(
    db: Database, tmp_path: Path, script: str, error: type[Exception]
) -> None:
    """More openings fail than the account has places, and none of them waits for a place."""
    async with ScriptedImap(script) as server:
        account = account_at(server.port, max_connections=1)
        async with engine(db, tmp_path, account) as resources:
            writer = writer_of(resources, account)
            for _ in range(3):
                async with asyncio.timeout(SOON), writer.turn() as connect:
                    with pytest.raises(error):
                        await connect()
                assert not writer.is_open


@pytest.mark.spec("MUT-8")
async def test_opening_is_retried_and_obeys_the_circuit_breaker(db: Database, tmp_path: Path) -> None:
    """Opening is tried as often as configured; once the breaker is open, the server is left alone."""
    async with ScriptedImap(">> LOGIN *\n!cut\n>> AUTHENTICATE *\n!cut") as server:
        account = account_at(server.port)
        async with engine(db, tmp_path, account) as resources:
            writer = writer_of(resources, account)
            seen = []
            for _ in range(12):
                async with writer.turn() as connect:
                    with pytest.raises(MailServerUnavailable):
                        await connect()
                seen.append(server.connections)
    assert seen[0] > 1
    assert seen[-1] == seen[-2]


@pytest.mark.spec("MUT-7")
async def test_a_pause_is_respected(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """While the server asked to be left alone no command is sent and no attempt is counted."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, STAR)
    async with Tap(dovecot.ports.plain) as tap:
        mailbox.at(tap.port)
        async with engine(db, tmp_path, mailbox.account) as resources:
            gate = resources.access.gates.of(mailbox.account)
            gate.heed(AskedToComeBack("later", Advice(PauseReason.THROTTLED, timedelta(minutes=5))))
            with pytest.raises(AskedToComeBack):
                await carry_out_changes(resources, mailbox.account)
        assert tap.connections == 0
    assert (await mailbox.row(change)).attempt_count == 0


@pytest.mark.spec("MUT-7")
async def test_other_settings_of_the_account_are_used_at_once(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A connection that was opened with former settings is closed, not used again."""
    async with Tap(dovecot.ports.plain) as first, Tap(dovecot.ports.plain) as second:
        account = account_at(first.port, user_name=user)
        async with engine(db, tmp_path, account) as resources:
            async with writer_of(resources, account).turn() as connect:
                await connect()
            changed = account.model_copy(update={"port": second.port})
            async with writer_of(resources, changed).turn() as connect:
                await (await connect()).select("INBOX")
    assert (first.connections, second.connections) == (1, 1)
    assert not first.commands("SELECT")
