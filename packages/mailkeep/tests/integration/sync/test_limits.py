"""Bounds of a run, of a message and of the store."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import checkpoint, engine, folder, mail, rows, run_once, stored
from support.tap import Tap

from mailkeep.config import AccountSettings
from mailkeep.db import Database
from mailkeep.sync import LimitReached, run_account

pytestmark = pytest.mark.anyio


def account(server: Dovecot, user: str, **options: object) -> AccountSettings:
    return account_at(server.ports.plain, user_name=user, **options)  # type: ignore[arg-type]


@pytest.mark.spec("SYNC-60")
@pytest.mark.case("209")
async def test_a_message_above_the_limit_is_a_row_from_its_header(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Its size is asked first, its body never, its header gives the row, and the checkpoint passes it."""
    dovecot.fill(user, "INBOX", [mail(1), mail("large", size=9000), mail(3)])
    async with Tap(dovecot.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user), max_raw_mime_bytes=4096)
    assert (folder(outcome).arrivals.stored, folder(outcome).arrivals.oversized) == (3, 1)
    found = await rows(
        db, "SELECT uid, subject, content_availability, size_octets > 8000 FROM stored_emails ORDER BY uid"
    )
    assert found == [
        (1, "message 1", "Available", False),
        (2, "message large", "ExceededSizeLimit", True),
        (3, "message 3", "Available", False),
    ]
    assert (await stored(db))[2][1] is None
    assert [line for line in tap.commands("BODY.PEEK[]") if " 2 " in line or "1:3" in line] == []
    assert len(tap.commands("BODY.PEEK[HEADER]")) == 1
    assert (await checkpoint(db))[1] == 3


@pytest.mark.spec("SYNC-63")
@pytest.mark.case("218")
async def test_a_run_stops_between_messages_and_the_next_continues_at_the_next_message(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """What does not fit the run's budget is not touched; each run takes up exactly where the last one ended."""
    messages = [mail(number, size=1500) for number in range(1, 8)]
    dovecot.fill(user, "INBOX", messages)
    bounds: dict[str, Any] = {"max_raw_mime_bytes": 2048, "max_content_bytes_per_run": 4096}
    seen = []
    for _ in range(4):
        async with Tap(dovecot.ports.plain) as tap:
            outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user), **bounds)
        seen.append((await checkpoint(db))[1])
        assert (LimitReached.CONTENT_BYTES_PER_RUN in folder(outcome).limits_reached) == outcome.more_remains
    assert seen == [2, 4, 6, 7]
    assert [row[1] for row in (await stored(db)).values()] == messages


@pytest.mark.spec("SYNC-62", "SYNC-63")
async def test_oversized_messages_are_exempt_from_the_runs_budget(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Many large messages do not hold up the small one behind them."""
    dovecot.fill(user, "INBOX", [*(mail(number, size=5000) for number in range(6)), mail("small")])
    outcome = await run_once(
        db, tmp_path, account(dovecot, user), max_raw_mime_bytes=2048, max_content_bytes_per_run=2048
    )
    assert not outcome.more_remains
    assert folder(outcome).arrivals.oversized == 6
    assert (await stored(db))[7][1] == mail("small")


async def test_bounds_of_a_run_share_time_and_never_make_a_first_synchronization_wait(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Every folder gets its turn in the first round, more rounds follow at once until nothing remains."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 12)])
    with dovecot.client(user) as other:
        other.append("Sent", mail("sent"))
    bounds: dict[str, Any] = {"max_metadata_batch_size": 2, "max_metadata_batches_per_run": 2}
    first = await run_once(db, tmp_path, account(dovecot, user), **bounds)
    assert folder(first).limits_reached == {LimitReached.METADATA_BATCHES_PER_RUN}
    assert (len(await stored(db)), len(await stored(db, "SENT"))) == (4, 1)
    rest = await run_once(db, tmp_path, account(dovecot, user), until_complete=True, **bounds)
    assert (folder(rest).arrivals.stored, rest.more_remains) == (7, False)
    assert folder(rest).limits_reached == frozenset()


@pytest.mark.spec("SYNC-64", "SYNC-65", "SYNC-68")
async def test_at_the_storage_ceiling_rows_wait_and_are_filled_when_there_is_room(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Discovery, rows, search documents and the checkpoint go on; the same rows get their octets later."""
    messages = [mail(number, size=3000) for number in range(1, 9)]
    dovecot.fill(user, "INBOX", messages)
    empty = (await rows(db, "SELECT pg_total_relation_size('email_message_contents')"))[0][0]
    tight: dict[str, Any] = {"max_raw_mime_bytes": 4096, "max_stored_content_bytes": empty + 10_000}
    outcome = await run_once(db, tmp_path, account(dovecot, user), **tight)
    waiting = await rows(
        db, "SELECT uid, id FROM stored_emails WHERE content_availability = 'AwaitingStorageHeadroom' ORDER BY uid"
    )
    assert folder(outcome).limits_reached == {LimitReached.STORED_CONTENT_BYTES}
    assert [uid for uid, _ in waiting] == [4, 5, 6, 7, 8]
    assert (await checkpoint(db))[1] == 8
    assert (await rows(db, "SELECT count(*) FROM email_search_documents"))[0][0] == 8
    still_full = await run_once(db, tmp_path, account(dovecot, user), **tight)
    assert folder(still_full).was_proven_unchanged
    outcome = await run_once(db, tmp_path, account(dovecot, user), max_raw_mime_bytes=4096)
    assert folder(outcome).refilled == 5
    inbox = await stored(db)
    assert [row[1] for row in inbox.values()] == messages
    assert {uid: inbox[uid][0] for uid, _ in waiting} == dict(waiting)


@pytest.mark.spec("SYNC-66")
async def test_octets_in_flight_stay_within_their_bound_across_folders(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Several folders at once share one reservation, and all of it is given back."""
    with dovecot.client(user) as other:
        for name in ("a", "b", "c"):
            other.create(name)
            for number in range(6):
                other.append(name, mail(f"{name}{number}", size=1800))
    settings = account(dovecot, user)
    bounds: dict[str, Any] = {
        "max_raw_mime_bytes": 2048,
        "max_in_flight_raw_mime_bytes": 4096,
        "max_concurrent_folders_per_account": 3,
        "max_metadata_batch_size": 2,
    }
    highest = 0
    async with engine(db, tmp_path, settings, **bounds) as resources:
        acquire = resources.in_flight.acquire

        async def watched(octets: int) -> None:
            nonlocal highest
            await acquire(octets)
            highest = max(highest, resources.in_flight.held)

        resources.in_flight.acquire = watched  # type: ignore[method-assign]
        outcome = await run_account(resources, "anna")
        assert resources.in_flight.held == 0
    assert outcome.arrivals.stored == 18
    assert 2048 < highest <= 4096


@pytest.mark.spec("SYNC-54")
async def test_mail_before_the_earliest_date_costs_no_fetch_and_is_passed(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """SINCE leaves it out, the checkpoint goes by, and narrowing later deletes nothing."""
    with dovecot.client(user) as other:
        for day in (1, 2, 3):
            other.append("INBOX", mail(day), internaldate=datetime(2024, 3, day, 12, tzinfo=UTC))
    await run_once(db, tmp_path, account(dovecot, user, earliest=date(2024, 3, 2)))
    assert sorted(await stored(db)) == [2, 3]
    assert (await checkpoint(db))[1] == 3
    with dovecot.client(user) as other:
        other.append("INBOX", mail("old"), internaldate=datetime(2024, 3, 1, tzinfo=UTC))
    await run_once(db, tmp_path, account(dovecot, user, earliest=date(2024, 3, 3)))
    assert sorted(await stored(db)) == [2, 3]
    assert (await checkpoint(db))[1] == 4
