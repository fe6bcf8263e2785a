"""Broken connections, cancellation, shutdown, and two processes at once."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import checkpoint, engine, folder, mail, rows, run_once, stored
from support.tap import Tap

from mailkeep.db import Database
from mailkeep.errors import AccountHeldElsewhere, DatabaseUnavailable, LoginRejected, MailServerUnavailable
from mailkeep.sync import Outcome, Progress, forward, run_account

pytestmark = pytest.mark.anyio


@pytest.mark.case("220", "218")
@pytest.mark.spec("SYNC-29", "SYNC-30")
async def test_a_line_that_keeps_dropping_still_brings_all_mail_in(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Every new connection examines the folder again; nothing is missing, nothing doubled, nothing read."""
    messages = [mail(number, size=2000) for number in range(1, 41)]
    dovecot.fill(user, "INBOX", messages)
    async with Tap(dovecot.ports.plain) as tap:
        tap.cut_after = 30_000
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user), max_metadata_batch_size=10)
        assert tap.connections > 2
        assert not tap.commands(" SELECT ")
    assert not outcome.is_failed
    assert [row[1] for row in (await stored(db)).values()] == messages
    assert await rows(db, "SELECT count(*) FROM quarantined_messages") == [(0,)]
    with dovecot.client(user) as other:
        assert set(other.flags("INBOX").values()) == {frozenset()}


@pytest.mark.spec("SYNC-36", "SYNC-38")
async def test_a_server_that_cannot_be_reached_is_tried_a_bounded_number_of_times(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """22001 after the configured attempts."""
    async with Tap(dovecot.ports.plain) as tap:
        tap.refuses = True
        with pytest.raises(MailServerUnavailable):
            await run_once(db, tmp_path, account_at(tap.port, user_name=user))
        assert tap.connections == 3


@pytest.mark.spec("SYNC-36")
async def test_a_rejected_password_is_presented_once(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeating it would lock the account."""
    monkeypatch.setenv("MAILKEEP_TEST_PASSWORD", "wrong")
    async with Tap(dovecot.ports.plain) as tap:
        with pytest.raises(LoginRejected):
            await run_once(db, tmp_path, account_at(tap.port, user_name=user))
        assert tap.connections == 1


async def test_when_the_server_goes_away_midway_the_other_folders_do_not_each_find_out(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """All are deferred after the attempts of one."""
    with dovecot.client(user) as other:
        for number in range(6):
            other.create(f"f{number}")
            other.append(f"f{number}", mail(number))
    async with Tap(dovecot.ports.plain) as tap:

        def refuse(progress: Progress) -> None:
            tap.refuses = True
            tap.cut_after = 0

        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user), progress=refuse)
        assert tap.connections <= 5
    outcomes = [item.outcome for item in outcome.folders]
    assert outcomes.count(Outcome.DEFERRED_AFTER_MAIL_SERVER_UNAVAILABLE) >= 6
    assert outcome.is_failed
    again = await run_once(db, tmp_path, account_at(dovecot.ports.plain, user_name=user))
    assert not again.is_failed
    assert [len(await stored(db, f"F{number}")) for number in range(6)] == [1] * 6


@pytest.mark.case("218")
@pytest.mark.spec("SYNC-31", "SYNC-55")
async def test_a_cancelled_run_continues_at_the_next_message(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """What is stored stays, the lease ends, and no message is fetched twice but those that were under way."""
    messages = [mail(number) for number in range(1, 61)]
    dovecot.fill(user, "INBOX", messages)
    account = account_at(dovecot.ports.plain, user_name=user)
    async with engine(db, tmp_path, account, max_metadata_batch_size=5) as resources:
        run: asyncio.Task[object]

        def cancel(progress: Progress) -> None:
            if progress.messages_done >= 20:
                run.cancel()

        run = asyncio.create_task(run_account(resources, "anna", progress=cancel))
        with pytest.raises(asyncio.CancelledError):
            await run
        assert resources.in_flight.held == 0
        seen = (await checkpoint(db))[1]
        assert 20 <= seen < 60
        async with Tap(dovecot.ports.plain) as tap:
            moved = account_at(tap.port, user_name=user)
            await run_once(db, tmp_path, moved, max_metadata_batch_size=5)
            assert tap.commands("UID SEARCH")[0].endswith(f"UID {seen + 1}:60")
    assert [row[1] for row in (await stored(db)).values()] == messages


@pytest.mark.spec("SYNC-10")
async def test_a_request_to_stop_ends_the_run_between_chunks(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """The folder under way is interrupted with its checkpoint at the last stored message; no failure is counted."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 101)])
    account = account_at(dovecot.ports.plain, user_name=user)
    async with engine(db, tmp_path, account, max_metadata_batch_size=2, max_metadata_batches_per_run=100) as resources:
        outcome = await run_account(resources, "anna", progress=lambda _: resources.stopping.set())
    assert not outcome.is_failed
    assert outcome.more_remains
    assert folder(outcome).outcome is Outcome.INTERRUPTED_BY_SHUTDOWN
    held = len(await stored(db))
    assert 2 <= held < 100
    assert (await checkpoint(db))[1] == held


@pytest.mark.case("28")
async def test_two_processes_never_own_one_account(
    db: Database, dsn: str, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """The second is told that the account is held; other accounts are not affected; the lease ends with the run."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(10)])
    first = account_at(dovecot.ports.plain, user_name=user)
    other = account_at(dovecot.ports.plain, account_id="ben", user_name=user)
    async with Database(dsn) as second_db, engine(second_db, tmp_path, first, other) as second:
        refused: list[BaseException] = []

        async def intrude() -> None:
            try:
                await run_account(second, "anna")
            except AccountHeldElsewhere as error:
                refused.append(error)
            await run_account(second, "ben")

        async with engine(db, tmp_path, first) as resources:
            entered = asyncio.Event()
            release = asyncio.Event()
            original = resources.preparer.prepare

            async def held_back(arrivals, **bounds):  # type: ignore[no-untyped-def]
                entered.set()
                await release.wait()
                return await original(arrivals, **bounds)

            resources.preparer.prepare = held_back  # type: ignore[method-assign]
            run = asyncio.create_task(run_account(resources, "anna"))
            await entered.wait()
            await intrude()
            release.set()
            await run
        assert len(refused) == 1
        await run_account(second, "anna")


@pytest.mark.spec("SYNC-57", "SYNC-39")
async def test_a_checkpoint_that_somebody_else_moved_defers_the_folder(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """31001: the decision was stale. The next run starts from what is there and ends complete."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 31)])
    account = account_at(dovecot.ports.plain, user_name=user)
    async with engine(db, tmp_path, account, max_metadata_batch_size=5) as resources:
        original = resources.preparer.prepare

        async def rewound(arrivals, **bounds):  # type: ignore[no-untyped-def]
            await rows(db, "DELETE FROM synchronization_checkpoints RETURNING mail_folder_id")
            return await original(arrivals, **bounds)

        resources.preparer.prepare = rewound  # type: ignore[method-assign]
        outcome = await run_account(resources, "anna")
    assert folder(outcome).outcome is Outcome.DEFERRED_AFTER_CONCURRENCY_CONFLICT
    assert folder(outcome).failure_code == 31001
    again = await run_once(db, tmp_path, account)
    assert not again.is_failed
    assert len(await stored(db)) == 30
    assert (await rows(db, "SELECT count(*) FROM stored_emails"))[0][0] == 30


@pytest.mark.spec("SYNC-56", "SYNC-57")
async def test_a_batch_stored_first_waits_for_the_one_in_front_of_it(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two are stored side by side; the checkpoint passes them in the order of their UIDs."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 21)])
    second_is_stored = asyncio.Event()
    seen: list[int | None] = []
    original = forward.store_prepared

    async def held_back(*arguments, batch, **others):  # type: ignore[no-untyped-def]
        first_uid = batch.messages[0].arrival.uid
        if first_uid == 1:
            await second_is_stored.wait()
        outcome = await original(*arguments, batch=batch, **others)
        if first_uid == 6:
            seen.append((await checkpoint(db))[1])
            second_is_stored.set()
        return outcome

    monkeypatch.setattr(forward, "store_prepared", held_back)
    async with asyncio.timeout(60):
        account = account_at(dovecot.ports.plain, user_name=user)
        await run_once(db, tmp_path, account, max_metadata_batch_size=5)
    assert seen == [None]
    assert (await checkpoint(db))[1] == 20
    assert len(await stored(db)) == 20


@pytest.mark.spec("SYNC-56")
async def test_a_batch_that_fails_holds_the_checkpoint_in_front_of_those_stored_behind_it(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run begins with the one that failed; what was stored behind it keeps its rows."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 21)])
    account = account_at(dovecot.ports.plain, user_name=user)
    second_is_stored = asyncio.Event()
    original = forward.store_prepared

    async def failing(*arguments, batch, **others):  # type: ignore[no-untyped-def]
        first_uid = batch.messages[0].arrival.uid
        if first_uid == 1:
            await second_is_stored.wait()
            raise DatabaseUnavailable("the database went away")
        outcome = await original(*arguments, batch=batch, **others)
        second_is_stored.set()
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(forward, "store_prepared", failing)
        async with asyncio.timeout(60):
            with contextlib.suppress(DatabaseUnavailable):
                await run_once(db, tmp_path, account, max_metadata_batch_size=5)
    assert (await checkpoint(db))[1] is None
    before = await stored(db)
    assert 6 in before
    await run_once(db, tmp_path, account)
    after = await stored(db)
    assert sorted(after) == list(range(1, 21))
    assert {uid: after[uid] for uid in before} == before
    assert await rows(db, "SELECT count(*) FROM stored_emails") == [(20,)]
