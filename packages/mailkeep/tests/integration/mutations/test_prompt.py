"""Changes that go out as soon as they are recorded, from this process and from another, and come back at once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.converging import STAR, Mirrored
from support.dovecot import Dovecot
from support.engine import engine, mail, rows
from support.tap import Tap

from mailkeep.db import Database
from mailkeep.mutations import Stage
from mailkeep.sync import Phase, Supervisor
from mailkeep.sync.changes import carry_out_changes

pytestmark = pytest.mark.anyio
SOON = 20.0  # seconds that a test waits for what takes milliseconds


@asynccontextmanager
async def serving(mailbox: Mirrored) -> AsyncIterator[Supervisor]:
    """A supervisor whose next run by itself is minutes away, waiting after its first run."""
    async with engine(mailbox.db, mailbox.home, mailbox.account) as resources, asyncio.TaskGroup() as group:
        supervisor = Supervisor(resources)
        running = group.create_task(supervisor.run())
        async with asyncio.timeout(SOON):
            while not any(one.phase is Phase.WAITING_FOR_NEXT_RUN for one in supervisor.report()):  # noqa: ASYNC110  -- the phase has no event
                await asyncio.sleep(0.01)
        try:
            yield supervisor
        finally:
            supervisor.stop()
            await running


async def until(db: Database, statement: str, *values: object) -> None:
    """Wait until a query answers with a row."""
    async with asyncio.timeout(SOON):
        while not await rows(db, statement, *values):  # noqa: ASYNC110  -- seen in the database only
            await asyncio.sleep(0.01)


@pytest.mark.spec("MUT-B6", "MUT-6")
async def test_a_star_is_on_the_server_and_read_back_long_before_the_next_run(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Recording announces the change, the pass completes it within a second, and the run that it wakes reads it back."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    async with serving(mailbox):
        begun = time.monotonic()
        change = await mailbox.asked(1, STAR)
        await until(db, "SELECT FROM mailbox_mutations WHERE id = %s AND stage = 'Completed'", change)
        assert time.monotonic() - begun < 1.0
        with dovecot.client(user) as other:
            assert other.flags("INBOX") == {1: frozenset({"\\Flagged"})}
        await until(db, "SELECT FROM stored_emails WHERE is_remotely_flagged")


@pytest.mark.spec("MUT-B6")
async def test_another_process_that_records_is_heard(
    db: Database, dsn: str, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A change recorded over a database connection that is not the service's own is carried out at once."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    async with serving(mailbox), Database(dsn) as elsewhere:
        mailbox.db = elsewhere
        change = await mailbox.asked(1, STAR)
        await until(db, "SELECT FROM mailbox_mutations WHERE id = %s AND stage = 'Completed'", change)


@pytest.mark.spec("MUT-7", "MUT-41")
async def test_twenty_changes_at_once_make_one_login(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """Twenty concurrent callers record and converge: the server sees one connection, and each change happens."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(20)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    async with Tap(dovecot.ports.plain) as tap:
        mailbox.at(tap.port)
        async with engine(db, tmp_path, mailbox.account) as resources:

            async def star(uid: int) -> None:
                await mailbox.asked(uid, STAR)
                assert (await carry_out_changes(resources, mailbox.account)).failed == 0

            async with asyncio.TaskGroup() as group:
                for uid in range(1, 21):
                    group.create_task(star(uid))
        assert tap.connections == 1
    with dovecot.client(user) as other:
        assert all("\\Flagged" in flags for flags in other.flags("INBOX").values())


@pytest.mark.spec("MUT-37")
async def test_what_was_recorded_while_nobody_listened_goes_out_at_the_start(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A change recorded before the service started is carried out by its first pass."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, STAR)
    async with serving(mailbox):
        assert (await mailbox.row(change)).stage is Stage.COMPLETED
