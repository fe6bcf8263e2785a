"""Keeping accounts in line for as long as the process runs."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import engine, mail, rows, settings_with, stored
from support.tap import Tap

from mailkeep.db import Database
from mailkeep.sync import AccountReport, Outcome, Phase, Resources, Supervisor

pytestmark = pytest.mark.anyio

POLL_SECONDS = 0.01


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the supervisor reports; fails by timeout, not by luck."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  -- a report is read, there is no event to wait for
            await asyncio.sleep(POLL_SECONDS)


def report(supervisor: Supervisor, account_id: str) -> AccountReport:
    return next(item for item in supervisor.report() if item.account_id == account_id)


def is_waiting(supervisor: Supervisor, account_id: str) -> bool:
    return any(
        item.account_id == account_id and item.phase is Phase.WAITING_FOR_NEXT_RUN for item in supervisor.report()
    )


@pytest.mark.spec("SYNC-5", "SYNC-9", "SYNC-11")
async def test_one_account_fails_and_backs_off_while_the_other_is_synchronized(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Each has its own phase, failure count and next run; the reports tell them apart."""
    dovecot.fill(user, "INBOX", [mail(1)])
    async with Tap(dovecot.ports.plain) as tap:
        tap.refuses = True
        good = account_at(dovecot.ports.plain, account_id="good", user_name=user)
        bad = account_at(tap.port, account_id="bad", user_name=user)
        async with engine(db, tmp_path, good, bad) as resources:
            supervisor = Supervisor(resources, chance=lambda: 0.5)
            task = asyncio.create_task(supervisor.run())
            await until(lambda: is_waiting(supervisor, "good") and is_waiting(supervisor, "bad"))
            fine, failed = report(supervisor, "good"), report(supervisor, "bad")
            assert (fine.failure_count, fine.failure_code) == (0, None)
            assert {item.outcome.outcome for item in fine.folders} == {Outcome.SYNCHRONIZED}
            assert (failed.failure_count, failed.failure_code) == (1, 22001)
            assert fine.next_run_at is not None
            assert failed.next_run_at is not None
            assert failed.next_run_at > fine.next_run_at

            tap.refuses = False
            assert supervisor.wake("bad")
            await until(lambda: report(supervisor, "bad").failure_count == 0 and is_waiting(supervisor, "bad"))
            supervisor.stop()
            await task
    assert not supervisor.wake("bad")


@pytest.mark.spec("FIND-110")
async def test_stored_mail_is_announced_after_its_transaction_and_only_then(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Work after arrival is woken when messages were stored, and left alone by a run that found nothing."""
    dovecot.fill(user, "INBOX", [mail(1), mail(2)])
    account = account_at(dovecot.ports.plain, account_id="work", user_name=user)
    announced: list[int] = []
    async with engine(db, tmp_path, account) as resources:
        supervisor = Supervisor(resources, chance=lambda: 0.5, arrived=lambda: announced.append(1))
        task = asyncio.create_task(supervisor.run())
        await until(lambda: is_waiting(supervisor, "work"))
        assert announced
        assert len(await stored(db)) == 2
        announced.clear()
        first = report(supervisor, "work").folders[0].at
        assert supervisor.wake("work")
        await until(lambda: is_waiting(supervisor, "work") and report(supervisor, "work").folders[0].at > first)
        assert not announced
        supervisor.stop()
        await task


@pytest.mark.spec("SYNC-7", "SYNC-8")
async def test_while_more_remains_runs_follow_at_once_and_share_the_slots(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """With an interval of a day and one slot, a large mailbox is complete and a small one was not kept waiting."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(40)])
    large = account_at(dovecot.ports.plain, account_id="large", user_name=user)
    other = account_at(dovecot.ports.plain, account_id="small", user_name="user399")
    bounds = {
        "interval": timedelta(days=1),
        "max_failure_backoff": timedelta(days=1),
        "max_concurrent_accounts": 1,
        "max_metadata_batch_size": 2,
        "max_metadata_batches_per_run": 2,
    }
    async with engine(db, tmp_path, large, other, **bounds) as resources:
        supervisor = Supervisor(resources)
        task = asyncio.create_task(supervisor.run())
        await until(lambda: is_waiting(supervisor, "small"))
        held_when_small_was_done = len(await stored(db))
        await until(lambda: is_waiting(supervisor, "large") and not _more(supervisor, "large"))
        supervisor.stop()
        await task
    assert held_when_small_was_done < 40
    assert len(await stored(db)) == 40


def _more(supervisor: Supervisor, account_id: str) -> bool:
    return any(item.outcome.more_remains for item in report(supervisor, account_id).folders)


@pytest.mark.spec("SYNC-6")
async def test_accounts_come_and_go_with_the_settings(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A new account is taken up within an interval; one that left ends before its next run, its mail stays."""
    dovecot.fill(user, "INBOX", [mail(1)])
    first = account_at(dovecot.ports.plain, account_id="first", user_name=user)
    second = account_at(dovecot.ports.plain, account_id="second", user_name=user)
    current = [settings_with(first)]

    def snapshot_of_a_quick_clock() -> object:
        section = current[0].mail_synchronization.model_copy(update={"interval": timedelta(milliseconds=50)})
        return current[0].model_copy(update={"mail_synchronization": section})

    async with engine(db, tmp_path, first) as resources:
        supervisor = Supervisor(resources, settings=snapshot_of_a_quick_clock)  # type: ignore[arg-type]
        task = asyncio.create_task(supervisor.run())
        await until(lambda: is_waiting(supervisor, "first"))
        current[0] = settings_with(second)
        await until(lambda: is_waiting(supervisor, "second"))
        await until(lambda: report(supervisor, "first").phase is Phase.NOT_STARTED)
        supervisor.stop()
        await task
    assert await rows(db, "SELECT count(DISTINCT mailbox_account_id) FROM stored_emails") == [(2,)]


@pytest.mark.spec("SYNC-10")
async def test_a_run_that_does_not_end_in_time_is_cancelled_on_shutdown(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Draining is bounded, and nothing is left running or reserved."""
    dovecot.fill(user, "INBOX", [mail(1)])
    account = account_at(dovecot.ports.plain, user_name=user)
    async with engine(db, tmp_path, account, shutdown_drain_timeout=timedelta(milliseconds=50)) as resources:
        entered = asyncio.Event()

        async def never(*_: object, **__: object) -> None:
            entered.set()
            await asyncio.Event().wait()

        stuck: Resources = replace(resources)
        stuck.preparer.prepare = never  # type: ignore[method-assign, assignment]
        supervisor = Supervisor(stuck)
        task = asyncio.create_task(supervisor.run())
        await entered.wait()
        supervisor.stop()
        async with asyncio.timeout(10):
            await task
        assert resources.in_flight.held == 0
