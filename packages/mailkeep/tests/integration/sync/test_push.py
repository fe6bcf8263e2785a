"""Push against real and scripted servers: what a server tells shortens the wait for the next run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import engine, mail, settings_with, stored
from support.scripted_imap import ScriptedImap
from support.tap import Tap

from mailkeep.config import AccountSettings
from mailkeep.db import Database
from mailkeep.imap import AskedToComeBack
from mailkeep.sync import AccountReport, Phase, Supervisor, read_pauses, run_account
from mailkeep.sync.push import PushMode, Watch

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)
POLL_SECONDS = 0.01
FOLDER = """
>> LIST *
* LIST () "/" INBOX
OK done
>> STATUS *
* STATUS "INBOX" (MESSAGES 0 UIDNEXT 1 UIDVALIDITY 7)
OK done
>> EXAMINE *
* 0 EXISTS
* OK [UIDVALIDITY 7]
* OK [UIDNEXT 1]
OK done
"""


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what the store or a report says; fails by timeout, not by luck."""
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110  -- a report is read, there is no event to wait for
            await asyncio.sleep(POLL_SECONDS)


def report(supervisor: Supervisor) -> AccountReport:
    (only,) = supervisor.report()
    return only


@asynccontextmanager
async def serving(db: Database, home: Path, account: AccountSettings, **bounds: object) -> AsyncIterator[Supervisor]:
    """A supervisor whose interval is a day, so that only push can bring about a second run."""
    async with engine(db, home, account, interval=DAY, max_failure_backoff=DAY, **bounds) as resources:
        supervisor = Supervisor(resources)
        task = asyncio.create_task(supervisor.run())
        try:
            yield supervisor
        finally:
            supervisor.stop()
            await task


async def waits(supervisor: Supervisor, mode: PushMode, folders: int) -> None:
    """Wait until so many folders are waited on and no run is under way."""

    async def is_so() -> bool:
        found = supervisor.report()
        push = found[0].push if found else None
        return (
            push is not None
            and (push.mode, push.waiting) == (mode, folders)
            and found[0].phase is Phase.WAITING_FOR_NEXT_RUN
        )

    await until(is_so)


@pytest.mark.spec("SYNC-85", "SYNC-86", "SYNC-87")
async def test_one_connection_tells_of_arrivals_removals_and_flags_in_every_folder(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """With NOTIFY the open folder and the others are followed at once, though the interval is a day."""
    async with (
        Tap(dovecot.ports.plain) as tap,
        serving(db, tmp_path, account_at(tap.port, user_name=user, mode="Push")) as supervisor,
    ):
        await waits(supervisor, PushMode.NOTIFY, 5)
        with dovecot.client(user) as other:
            uid = other.append("INBOX", mail(1))
            sent = other.append("Sent", mail(2))

            async def have_arrived() -> bool:
                return uid in await stored(db) and sent in await stored(db, "SENT")

            await until(have_arrived)
            other.flag("INBOX", uid, "\\Flagged")

            async def is_flagged() -> bool:
                return bool((await stored(db))[uid][3])

            await until(is_flagged)
            other.expunge("Sent", sent)

            async def is_gone() -> bool:
                return await stored(db, "SENT") == {}

            await until(is_gone)
        assert len(tap.commands("NOTIFY SET")) == 1
        assert 'selected (MessageNew MessageExpunge FlagChange)) (mailboxes ("INBOX"' in tap.commands("NOTIFY")[0]
        assert not tap.commands(" SELECT ")
        assert report(supervisor).failure_count == 0


@pytest.mark.spec("SYNC-86")
async def test_without_notify_each_folder_within_the_bound_and_the_budget_has_a_connection(
    db: Database, tmp_path: Path, dovecot_without_condstore: Dovecot, user: str
) -> None:
    """IDLE alone: of five folders three may be watched, of four connections one stays for runs; the rest are polled."""
    server = dovecot_without_condstore
    account = account_at(server.ports.plain, user_name=user, mode="Push", max_connections=4)
    async with serving(db, tmp_path, account, max_subscribed_folders=4) as supervisor:
        await waits(supervisor, PushMode.IDLE, 3)
        with server.client(user) as other:
            uid = other.append("INBOX", mail(1))

            async def has_arrived() -> bool:
                return uid in await stored(db)

            await until(has_arrived)


@pytest.mark.spec("SYNC-86")
async def test_without_idle_the_account_is_polled_and_asked_again_after_the_degradation_period(
    db: Database, tmp_path: Path
) -> None:
    """The capability is read on every connection; here the second has it."""
    async with ScriptedImap(FOLDER) as server:
        account = account_at(server.port, mode="Push")
        async with engine(db, tmp_path, account) as resources:
            outcome = await run_account(resources, "anna")
            pauses: list[timedelta] = []
            asked = asyncio.Event()

            async def pause(time: timedelta) -> None:
                pauses.append(time)
                if len(pauses) == 2:
                    asked.set()
                    await asyncio.Event().wait()

            watch = Watch(resources, resources.settings, account, outcome.resolved, lambda: None, pause)
            connections = server.connections
            task = asyncio.create_task(watch.run())
            async with asyncio.timeout(10):
                await asked.wait()
            assert pauses == [timedelta(minutes=15)] * 2
            assert watch.state.mode is PushMode.POLLING
            assert server.connections == connections + 2
            assert not server.sent("IDLE")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


IDLE_CAPABLE = "IMAP4rev1 IDLE"


@asynccontextmanager
async def watching(
    db: Database, home: Path, script: str, *, pauses_until: int = 10**6, **bounds: object
) -> AsyncIterator[tuple[ScriptedImap, Watch, list[timedelta], asyncio.Event]]:
    """A watch of a scripted INBOX after one run; its pauses are recorded and take no time."""
    async with ScriptedImap(script + FOLDER, capabilities=IDLE_CAPABLE) as server:
        account = account_at(server.port, mode="Push")
        async with engine(db, home, account, **bounds) as resources:
            outcome = await run_account(resources, "anna")
            pauses: list[timedelta] = []
            woken = asyncio.Event()
            over = asyncio.Event()

            async def pause(time: timedelta) -> None:
                pauses.append(time)
                if len(pauses) >= pauses_until:
                    over.set()
                    await asyncio.Event().wait()

            watch = Watch(
                resources, resources.settings, account, outcome.resolved, woken.set, pause, chance=lambda: 1.0
            )
            task = asyncio.create_task(watch.run())
            try:
                async with asyncio.timeout(15):
                    yield server, watch, pauses, over if pauses_until < 10**6 else woken
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


@pytest.mark.case("52", "55")
@pytest.mark.spec("SYNC-85")
@pytest.mark.parametrize("end", ["* BYE server shutting down\n!hang", "!cut"])
async def test_bye_or_a_closed_connection_ends_the_wait_at_once_and_the_next_connection_is_told(
    db: Database, tmp_path: Path, end: str
) -> None:
    """A server that says BYE but leaves the connection open is not listened to any longer."""
    script = f"> IDLE\n+ idling\n{end}\n> IDLE\n* 1 EXISTS\n!continue idling\nOK done\n>> IDLE\n+ idling\n!hang\n"
    async with watching(db, tmp_path, script) as (server, watch, pauses, woken):
        await woken.wait()
        assert len(server.sent("IDLE")) >= 2
        assert server.connections == 3  # the run's, the one that ended, and the next
        assert pauses == [timedelta(seconds=1)]
        assert watch.resources.access.gates.of(watch.account).pause is None


@pytest.mark.spec("SYNC-89")
async def test_repeated_failures_degrade_to_polling_and_only_a_returned_wait_clears_the_count(
    db: Database, tmp_path: Path
) -> None:
    """Three failures: polling for the period. The next failure degrades at once; after a returned wait it does not."""
    script = "> IDLE\n!cut\n" * 4 + "> IDLE\n!continue idling\nOK done\n" + "> IDLE\n!cut\n" * 2
    script = script.replace("!continue idling\nOK done", "+ idling\n* 1 EXISTS\nOK ended by the server")
    async with watching(db, tmp_path, script, pauses_until=5, push_degradation_period=timedelta(minutes=7)) as (
        _,
        watch,
        pauses,
        over,
    ):
        await over.wait()
        minutes, second = timedelta(minutes=7), timedelta(seconds=1)
        assert pauses == [second, second * 2, minutes, minutes, second]
        assert watch.state.degraded_until is None


@pytest.mark.spec("SYNC-36", "SYNC-89")
async def test_a_credential_that_is_rejected_ends_the_watch_and_is_not_tried_again(
    db: Database, tmp_path: Path
) -> None:
    """Only a run that succeeded starts another; the connection goes back to the budget."""
    script = "> LOGIN *\nOK signed in\n>> LOGIN *\nNO [AUTHENTICATIONFAILED] no\n"
    async with ScriptedImap(script + FOLDER, capabilities=IDLE_CAPABLE) as server:
        account = account_at(server.port, mode="Push", max_connections=2)
        async with engine(db, tmp_path, account) as resources:
            outcome = await run_account(resources, "anna")
            watch = Watch(resources, resources.settings, account, outcome.resolved, lambda: None)
            for attempts in (2, 3):
                async with asyncio.timeout(10):
                    await watch.run()
                assert len(server.sent("LOGIN")) == attempts


@pytest.mark.case("53")
async def test_what_arrived_between_a_run_and_the_wait_is_noticed_before_waiting(
    db: Database, tmp_path: Path, dovecot_without_condstore: Dovecot, user: str
) -> None:
    """A message that came after the run and before the watch connects starts a run though the server says nothing."""
    server = dovecot_without_condstore
    account = account_at(
        server.ports.plain, user_name=user, mode="Push", folders=[{"alias": "in", "remote_path": "INBOX"}]
    )
    async with engine(db, tmp_path, account) as resources:
        outcome = await run_account(resources, "anna")
        with server.client(user) as other:
            other.append("INBOX", mail(1))
        woken = asyncio.Event()
        async with Tap(server.ports.plain) as tap:
            moved = account.model_copy(update={"port": tap.port})
            watch = Watch(resources, resources.settings, moved, outcome.resolved, woken.set)
            task = asyncio.create_task(watch.run())
            async with asyncio.timeout(10):
                await woken.wait()
            assert not tap.commands("IDLE")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.case("56", "58", "59")
@pytest.mark.spec("SYNC-142")
@pytest.mark.parametrize(
    ("refusal", "reason", "seconds"),
    [
        ("Request is throttled. Suggested Backoff Time: 299609 milliseconds", "Throttled", 299.609),
        ("[ALERT] Too many simultaneous connections. (Failure)", "TooManyConnections", 120),
        ("[OVERQUOTA] Account exceeded command or bandwidth limits. (Failure)", "QuotaExhausted", 3600),
    ],
)
async def test_a_plea_for_patience_is_obeyed_by_everyone_and_told_with_the_next_run(
    db: Database, tmp_path: Path, refusal: str, reason: str, seconds: float
) -> None:
    """The next run is not before the time; until then no connection is opened, and the report says why."""
    async with ScriptedImap(f"> LOGIN *\nNO {refusal}\n" + FOLDER, capabilities=IDLE_CAPABLE) as server:
        account = account_at(server.port, mode="Push")
        async with engine(db, tmp_path, account, interval=timedelta(seconds=10)) as resources:
            supervisor = Supervisor(resources, chance=lambda: 0.0)
            begun = resources.now()
            task = asyncio.create_task(supervisor.run())

            async def is_paused() -> bool:
                return any(item.pause_reason is not None for item in supervisor.report())

            await until(is_paused)
            found = report(supervisor)
            assert found.pause_reason == reason
            assert found.next_run_at is not None
            assert found.next_run_at >= begun + timedelta(seconds=seconds)
            assert server.connections == 1
            assert read_pauses(tmp_path, now=resources.now())["anna"] == (reason, found.next_run_at)
            supervisor.wake("anna")

            async def has_failed_again() -> bool:
                return report(supervisor).failure_count == 2

            await until(has_failed_again)
            assert server.connections == 1
            supervisor.stop()
            await task
        async with engine(db, tmp_path, account) as after_a_restart:
            with pytest.raises(AskedToComeBack):
                await run_account(after_a_restart, "anna")
        assert server.connections == 1


@pytest.mark.case("58")
@pytest.mark.spec("SYNC-141")
async def test_runs_and_watchers_share_one_budget_of_connections(
    db: Database, tmp_path: Path, dovecot_without_condstore: Dovecot, user: str
) -> None:
    """With a budget of two and four folder runs wanted at once, never more than two connections are open."""
    server = dovecot_without_condstore
    with server.client(user) as other:
        for name in ("INBOX", "Sent", "Drafts"):
            other.append(name, mail(name))
    async with Tap(server.ports.plain) as tap:
        account = account_at(tap.port, user_name=user, mode="Push", max_connections=2)
        async with engine(db, tmp_path, account, interval=DAY, max_failure_backoff=DAY) as resources:
            gate = resources.access.gates.of(account)
            most = 0
            enter, leave = gate.enter, gate.leave
            held = 0

            async def counted_enter() -> None:
                nonlocal held, most
                await enter()
                held += 1
                most = max(most, held)

            def counted_leave() -> None:
                nonlocal held
                held -= 1
                leave()

            gate.enter, gate.leave = counted_enter, counted_leave  # type: ignore[method-assign]
            supervisor = Supervisor(resources)
            task = asyncio.create_task(supervisor.run())
            await waits(supervisor, PushMode.IDLE, 1)
            with server.client(user) as other:
                uid = other.append("INBOX", mail(1))

                async def has_arrived() -> bool:
                    return uid in await stored(db)

                await until(has_arrived)
            supervisor.stop()
            await task
        assert (most, held) == (2, 0)


@pytest.mark.spec("SYNC-90")
async def test_a_newer_snapshot_of_the_settings_opens_the_watching_connection_anew(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Between two runs the old connection, and the credential it was opened with, goes."""
    async with Tap(dovecot.ports.plain) as tap:
        account = account_at(tap.port, user_name=user, mode="Push")
        async with engine(db, tmp_path, account, interval=DAY, max_failure_backoff=DAY) as resources:
            current = [resources.settings]
            supervisor = Supervisor(resources, settings=lambda: current[0])
            task = asyncio.create_task(supervisor.run())
            await waits(supervisor, PushMode.NOTIFY, 5)
            assert supervisor.wake("anna")

            async def ran_again() -> bool:
                return len(tap.commands("LIST ")) == 2

            await until(ran_again)
            await waits(supervisor, PushMode.NOTIFY, 5)
            assert len(tap.commands("NOTIFY SET")) == 1
            current[0] = settings_with(account, interval=DAY, max_failure_backoff=DAY, max_metadata_batch_size=99)
            supervisor.wake("anna")

            async def is_watched_anew() -> bool:
                return len(tap.commands("NOTIFY SET")) == 2

            await until(is_watched_anew)
            supervisor.stop()
            await task
