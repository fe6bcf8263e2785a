"""Pipelines around a mail server: what is repeated, for how long, and when a server is left alone."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from support.accounts import account_at
from support.engine import FAST, QUICK, folder, settings_with, stored
from support.scripted_imap import ScriptedImap
from support.tap import Tap

from mailkeep.app import App
from mailkeep.config import PipelineClass, Settings
from mailkeep.db import Database
from mailkeep.errors import MailServerUnavailable, PipelineRejected
from mailkeep.imap import AskedToComeBack, Timeouts
from mailkeep.resilience import BreakerState
from mailkeep.sync import Access, Outcome, open_access, open_resources, run_account
from mailkeep.sync.access import OutOfReach

pytestmark = pytest.mark.anyio

ENTRY = PipelineClass.MAILBOX_SESSION_ESTABLISHMENT
QUESTIONS = PipelineClass.MAILBOX_DATA_RETRIEVAL

EMPTY_INBOX = """
>> LIST *
* LIST () "/" INBOX
OK done
>> STATUS *
* STATUS INBOX (MESSAGES 0 UIDNEXT 1 UIDVALIDITY 7)
OK done
>> EXAMINE *
* 0 EXISTS
* OK [UIDVALIDITY 7]
* OK [UIDNEXT 1]
OK done
"""


@pytest.fixture
async def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of pipelines, which is the event loop's, on by so many seconds."""
    loop = asyncio.get_running_loop()
    time, passed = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: time() + passed[0])

    def move(seconds: float) -> None:
        passed[0] += seconds

    return move


def with_patience(settings: Settings, **classes: dict[str, object]) -> Settings:
    """The settings with quick waits and these values of pipelines."""
    table = {name: {**QUICK, **values} for name, values in classes.items()}
    return Settings.model_validate({**settings.model_dump(), "resilience": table})


async def attempt(db: Database, settings: Settings, home: Path, access: Access) -> None:
    async with open_resources(db, settings, home, access=access) as resources:
        await run_account(resources, "anna")


@pytest.mark.spec("SYNC-34", "SYNC-38")
async def test_a_server_that_cannot_be_reached_is_left_alone_and_then_tried_once(
    db: Database, tmp_path: Path, later: Callable[[float], None]
) -> None:
    """Five attempts open the breaker: no connection for 30 seconds, as 22001; then one, which closes it."""
    async with ScriptedImap(EMPTY_INBOX) as server, Tap(server.port) as tap:
        tap.refuses = True
        account = account_at(tap.port)
        settings = settings_with(account)
        access = open_access(db, settings, tmp_path, timeouts=FAST)
        with pytest.raises(MailServerUnavailable):
            await attempt(db, settings, tmp_path, access)
        assert tap.connections == 3
        with pytest.raises(MailServerUnavailable) as caught:
            await attempt(db, settings, tmp_path, access)
        assert (tap.connections, caught.value.code) == (5, 22001)
        assert isinstance(caught.value.__cause__, MailServerUnavailable)
        assert isinstance(caught.value.__cause__.__cause__, PipelineRejected)
        assert access.breakers(account)[ENTRY] is BreakerState.OPEN

        tap.refuses = False
        with pytest.raises(MailServerUnavailable):
            await attempt(db, settings, tmp_path, access)
        assert tap.connections == 5
        later(30)
        assert access.breakers(account)[ENTRY] is BreakerState.HALF_OPEN
        await attempt(db, settings, tmp_path, access)
        assert tap.connections == 6
        assert set(access.breakers(account).values()) == {BreakerState.CLOSED}


@pytest.mark.spec("SYNC-34", "SYNC-5")
async def test_an_account_that_is_left_alone_takes_no_other_with_it(db: Database, tmp_path: Path) -> None:
    """Not one of the same host, either: each account has its own breaker."""
    async with ScriptedImap(EMPTY_INBOX) as server, Tap(server.port) as tap:
        tap.refuses = True
        bad, good = account_at(tap.port), account_at(server.port, account_id="good")
        settings = settings_with(bad, good)
        access = open_access(db, settings, tmp_path, timeouts=FAST)
        async with open_resources(db, settings, tmp_path, access=access) as resources:
            for _ in range(2):
                with pytest.raises(MailServerUnavailable):
                    await run_account(resources, "anna")
            outcome = await run_account(resources, "good")
        assert not outcome.is_failed
        assert access.breakers(bad)[ENTRY] is BreakerState.OPEN
        assert access.breakers(good)[ENTRY] is BreakerState.CLOSED


@pytest.mark.spec("SYNC-34", "SYNC-36", "SYNC-37")
async def test_a_question_is_repeated_on_a_new_connection_and_a_refusal_is_not(db: Database, tmp_path: Path) -> None:
    """Two broken answers and a third one that comes; NO is terminal for the folder at once."""
    broken = EMPTY_INBOX.replace(
        ">> EXAMINE", "> EXAMINE INBOX*\n!cut\n> EXAMINE *\n!cut\n> EXAMINE *\n!cut\n>> EXAMINE"
    )
    async with ScriptedImap(broken.replace("> EXAMINE INBOX*\n!cut\n", "", 1)) as server:
        settings = settings_with(account_at(server.port))
        access = open_access(db, settings, tmp_path, timeouts=FAST)
        await attempt(db, settings, tmp_path, access)
        assert len(server.sent("EXAMINE")) == 3
        assert server.connections == 3
    refusing = EMPTY_INBOX.replace("* 0 EXISTS\n* OK [UIDVALIDITY 7]\n* OK [UIDNEXT 1]\nOK done", "NO not today")
    refusing = refusing.replace("UIDNEXT 1 ", "UIDNEXT 2 ")
    async with ScriptedImap(refusing) as server:
        settings = settings_with(account_at(server.port))
        access = open_access(db, settings, tmp_path, timeouts=FAST)
        async with open_resources(db, settings, tmp_path, access=access) as resources:
            outcome = folder(await run_account(resources, "anna"))
        assert (outcome.outcome, outcome.failure_code) == (Outcome.UNEXPECTED_FAILURE, 24002)
        assert len(server.sent("EXAMINE")) == 1


@pytest.mark.spec("SYNC-34", "SYNC-38")
async def test_questions_that_keep_breaking_open_the_breaker_of_questions(db: Database, tmp_path: Path) -> None:
    """Connecting works and every LIST breaks: after four of them nothing is asked, and it ends as 22001."""
    async with ScriptedImap(">> LIST *\n!cut") as server:
        account = account_at(server.port)
        settings = with_patience(settings_with(account), mailbox_data_retrieval={"breaker_minimum_throughput": 4})
        access = open_access(db, settings, tmp_path, timeouts=FAST)
        for asked in (3, 4, 4):
            with pytest.raises(MailServerUnavailable) as caught:
                await attempt(db, settings, tmp_path, access)
            assert caught.value.code == 22001
            assert len(server.sent("LIST")) == asked
        assert access.breakers(account) == {ENTRY: BreakerState.CLOSED, QUESTIONS: BreakerState.OPEN}


@pytest.mark.spec("SYNC-34", "SYNC-36")
async def test_silence_is_bounded_and_a_slow_message_is_not(db: Database, tmp_path: Path) -> None:
    """A server that says nothing for the attempt's time is left; one that trickles longer than that is listened to."""
    lines = "\n".join(f"!wait 0.15\n!bare\n{'x' * 10}" for _ in range(6))
    trickle = (
        EMPTY_INBOX.replace("MESSAGES 0 UIDNEXT 1", "MESSAGES 1 UIDNEXT 2")
        .replace("* 0 EXISTS", "* 1 EXISTS")
        .replace("[UIDNEXT 1]", "[UIDNEXT 2]")
        + rf"""
    > UID SEARCH *
    !hang
    >> UID SEARCH *
    * SEARCH 1
    OK done
    >> UID FETCH * (UID FLAGS INTERNALDATE RFC822.SIZE)
    * 1 FETCH (UID 1 FLAGS () RFC822.SIZE 66)
    OK done
    >> UID FETCH * (UID BODY.PEEK[])
    !bare
    * 1 FETCH (UID 1 BODY[] {{66}}\r\na: b\r\n
    {lines}
    )
    OK done
    """
    )
    async with ScriptedImap(trickle) as server:
        settings = settings_with(account_at(server.port))
        timeouts = Timeouts(connect=10, idle=0.5, command=30, farewell=0.5)
        access = open_access(db, settings, tmp_path, timeouts=timeouts)
        await attempt(db, settings, tmp_path, access)
        assert server.unexpected == []
        assert server.connections == 2
    assert sorted(await stored(db)) == [1]


@pytest.mark.spec("SYNC-34")
async def test_the_times_of_a_connection_are_those_of_the_settings(db: Database, tmp_path: Path) -> None:
    """Longest silence and longest entry come from their classes."""
    settings = Settings.model_validate(
        {
            "resilience": {
                "mailbox_session_establishment": {"attempt_timeout": "7s"},
                "mailbox_data_retrieval": {"attempt_timeout": "8s"},
            }
        }
    )
    timeouts = open_access(db, settings, tmp_path).timeouts
    assert (timeouts.connect, timeouts.idle) == (7, 8)


@pytest.mark.spec("SYNC-34")
async def test_an_entry_that_takes_too_long_is_cut_off_and_counts_as_unavailable(db: Database, tmp_path: Path) -> None:
    """A server that is silent at LOGIN holds nobody longer than the attempts allow."""
    async with ScriptedImap("> LOGIN *\n!hang\n>> LOGIN *\n!hang") as server:
        quick = {"attempts": 2, "attempt_timeout": "200ms", "total_timeout": "2s"}
        settings = with_patience(settings_with(account_at(server.port)), mailbox_session_establishment=quick)
        access = open_access(db, settings, tmp_path, timeouts=Timeouts(connect=10, idle=60, farewell=0.2))
        with pytest.raises(OutOfReach):
            await attempt(db, settings, tmp_path, access)
        assert server.connections == 2


@pytest.mark.spec("SYNC-7", "SYNC-34")
async def test_no_more_folders_at_once_than_calls_are_allowed(db: Database, tmp_path: Path) -> None:
    """With a limit of two calls, twenty folders at once become two, and none is rejected."""
    names = [f"F{number}" for number in range(8)]
    listed = "\n".join(f'* LIST () "/" {name}' for name in names)
    script = (
        f'>> LIST *\n* LIST () "/" INBOX\n{listed}\nOK done\n'
        + ">> EXAMINE *\n* 0 EXISTS\n* OK [UIDVALIDITY 7]\n* OK [UIDNEXT 1]\nOK done\n>> STATUS *\nNO\n"
    )
    async with ScriptedImap(script) as server:
        settings = with_patience(
            settings_with(account_at(server.port), max_concurrent_folders_per_account=20),
            mailbox_data_retrieval={"concurrency_limit": 2},
        )
        access = open_access(db, settings, tmp_path, timeouts=FAST)
        async with open_resources(db, settings, tmp_path, access=access) as resources:
            outcome = await run_account(resources, "anna")
        assert not outcome.is_failed
        assert len(outcome.folders) == 9
        assert server.connections == 2


@pytest.mark.spec("SYNC-11", "SYNC-34")
async def test_status_shows_the_breakers_of_an_account(db: Database, tmp_path: Path) -> None:
    """By class of calls, as far as the process made any."""
    async with ScriptedImap(EMPTY_INBOX) as server:
        account = account_at(server.port)
        app = App(tmp_path, settings_with(account), db)
        (before,) = await app.status()
        assert before.breakers == {}
        await app.synchronize([account])
        (after,) = await app.status()
    assert after.breakers == {ENTRY.value: "Closed", QUESTIONS.value: "Closed"}


@pytest.mark.spec("SYNC-141", "SYNC-142")
async def test_a_check_of_an_account_uses_its_budget_and_obeys_its_pause(db: Database, tmp_path: Path) -> None:
    """`account test` waits for a connection, gives it back, and connects to nobody who asked for patience."""
    script = EMPTY_INBOX + "\n> LIST *\nNO [THROTTLED] Suggested Backoff Time: 60000 milliseconds"
    async with ScriptedImap(script) as server:
        account = account_at(server.port, max_connections=1)
        app = App(tmp_path, settings_with(account), db)
        gate = app.access.gates.of(account)
        await gate.enter()
        check = asyncio.create_task(app.probe(account))
        done, _ = await asyncio.wait([check], timeout=0.1)
        assert not done
        assert server.connections == 0
        gate.leave()
        with pytest.raises(AskedToComeBack):
            await check
        assert gate.pause is not None
        with pytest.raises(AskedToComeBack):
            await app.probe(account)
        assert server.connections == 1
