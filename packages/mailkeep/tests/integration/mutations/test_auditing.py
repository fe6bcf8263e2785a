"""Entries of how changes ended: after the end, once, also when the first appending failed, and for their time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.converging import DELETE, STAR, Mirrored, keywords, move_to
from support.dovecot import Dovecot
from support.engine import mail, rows, run_once

from mailkeep.config import AuthoredDeleteDisposition
from mailkeep.db import Database
from mailkeep.errors import DatabaseUnavailable
from mailkeep.mailbox import AccountId
from mailkeep.mutations import Mutation, Stage, Terms, auditing, erase_trail
from mailkeep.mutations.auditing import tidy
from mailkeep.mutations.signals import render_metrics
from mailkeep.sync.resources import utc_now

pytestmark = pytest.mark.anyio
DAY = timedelta(days=1)


async def trail(db: Database) -> list[tuple[Any, ...]]:
    """What the entries say."""
    return await rows(
        db,
        """
        SELECT mutation, outcome, failure_code, source_folder_path, source_uid, destination_folder_path, placement_uid,
            desired_flagged_state, keywords
        FROM mailbox_mutation_audit_entries ORDER BY completed_at, source_uid
        """,
    )


async def tidied(db: Database, **more: timedelta) -> None:
    periods = {"retention": 90 * DAY, "record_retention": 90 * DAY, **more}
    await tidy(db, AccountId("anna"), now=utc_now(), **periods)


@pytest.mark.spec("MUT-62", "MUT-63")
async def test_an_audited_change_leaves_one_entry(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """Performed and abandoned ones alike, with their terms and placement; one that is not audited leaves none."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 6)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    await mailbox.asked(1, STAR, audited=True)
    await mailbox.converge()
    await mailbox.asked(2, move_to("Sent"), audited=True)
    await mailbox.converge()
    await mailbox.asked(3, move_to("Nowhere"), audited=True)
    await mailbox.converge()
    await mailbox.asked(4, keywords(Mutation.ADD_KEYWORDS, "todo"), audited=True)
    await mailbox.asked(5, STAR)
    await mailbox.converge()
    await tidied(db)
    assert await trail(db) == [
        ("set-flagged", "Performed", None, "INBOX", 1, None, None, True, None),
        ("relocate", "Performed", None, "INBOX", 2, "Sent", 1, None, None),
        ("relocate", "Abandoned", 25005, "INBOX", 3, "Nowhere", None, None, None),
        ("add-keywords", "Performed", None, "INBOX", 4, None, None, None, ["todo"]),
    ]


@pytest.mark.spec("MUT-63", "MUT-62")
async def test_an_entry_outlives_the_message(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """Deleted, its local copy erased and the record with it: the entry stays."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    erased = Terms(Mutation.DELETE, local_disposition=AuthoredDeleteDisposition.ERASE_LOCAL_COPY)
    await mailbox.asked(1, erased, audited=True)
    await run_once(db, tmp_path, mailbox.account)
    assert await rows(db, "SELECT FROM stored_emails") == await rows(db, "SELECT FROM mailbox_mutations") == []
    assert [row[:2] for row in await trail(db)] == [("delete", "Performed")]


@pytest.mark.spec("MUT-64", "MUT-B10")
async def test_a_lost_entry_is_made_up_for(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that cannot be appended is counted and undoes nothing; the next run enters it, once."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, DELETE, audited=True)
    lost = b"\nmailkeep_mailbox_mutation_audit_refused_appends_total "
    before = float(render_metrics().partition(lost)[2].partition(b"\n")[0])

    def unreachable(_: object) -> Any:
        raise DatabaseUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(auditing, "_columns", unreachable)
        converged = await mailbox.converge()
    assert (converged.completed, converged.failed) == (1, 0)
    assert (await mailbox.row(change)).stage is Stage.COMPLETED
    assert float(render_metrics().partition(lost)[2].partition(b"\n")[0]) == before + 1
    assert await trail(db) == []
    await tidied(db)
    await tidied(db)
    assert [row[:2] for row in await trail(db)] == [("delete", "Performed")]


@pytest.mark.spec("MUT-B10", "MUT-66")
async def test_what_was_erased_on_request_is_not_entered_again(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Erasing a person's entries ends the auditing of the records they came from."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    await mailbox.asked(1, STAR, audited=True)
    await mailbox.converge()
    assert await erase_trail(db, "anna") == 1
    await tidied(db)
    assert await trail(db) == []


@pytest.mark.spec("MUT-65")
async def test_expired_entries_leave_oldest_first_in_bounded_passes(db: Database) -> None:
    """Twelve thousand entries beyond their time leave in three runs; younger ones and other accounts' stay."""
    insert = """
        INSERT INTO mailbox_mutation_audit_entries (id, mutation_record_id, stored_email_id, mailbox_account_id, mutation,
            outcome, requester_origin, requester_identity, source_folder_path, source_uid_validity, source_uid,
            requested_at, completed_at)
        SELECT gen_random_uuid(), gen_random_uuid(), %s, %s, 'delete', 'Performed', 'Command', 'x', 'INBOX', 7, n, %s, %s
            - n * interval '1 second' FROM generate_series(1, %s) n
    """
    async with db.connection() as connection:
        for account, age, count in (("anna", 100 * DAY, 12_000), ("anna", DAY, 5), ("ben", 100 * DAY, 5)):
            moment = utc_now() - age
            await connection.execute(insert, [uuid4(), account, moment, moment, count])
    left, oldest = [], []
    for _ in range(3):
        await tidied(db)
        found = await rows(db, "SELECT count(*), max(source_uid) FROM mailbox_mutation_audit_entries")
        left.append(found[0][0])
        oldest.append(found[0][1])
    assert left == [7_010, 2_010, 10]
    assert oldest == [7_000, 2_000, 5]


@pytest.mark.spec("MUT-B11")
async def test_old_records_of_requests_are_pruned_and_others_stay(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Completed changes that were asked for by request go after their time; dead letters and rules' records stay."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 5)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    old, young, dead, rule = await mailbox.asked_of([1, 2, 3, 4], STAR)
    long_ago = utc_now() - 91 * DAY
    await mailbox.rewrite(old, stage="Completed", stage_changed_at=long_ago)
    await mailbox.rewrite(young, stage="Completed")
    await mailbox.rewrite(dead, stage="Abandoned", stage_changed_at=long_ago)
    await mailbox.rewrite(rule, stage="Completed", stage_changed_at=long_ago, requester_origin="Rule")
    await tidied(db)
    assert {row[0] for row in await rows(db, "SELECT id FROM mailbox_mutations")} == {young, dead, rule}


@pytest.mark.spec("MUT-65")
async def test_tidying_that_fails_fails_no_run(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement of the tidying that the database rejects is warned of, and the run is a good one."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    broken = {**auditing._SQL, "erase_expired_entries": "SELECT 1 / 0"}
    monkeypatch.setattr(auditing, "_SQL", broken)
    assert not (await run_once(db, tmp_path, mailbox.account)).is_failed
