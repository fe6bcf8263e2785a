"""What an operator sees of changes and decides about those that are stuck, and the reading of the audit trail."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from support.changes import asked, execute, fill, imap, rows, settings_of
from support.stored import NOW

from mailkeep.db import Database
from mailkeep.errors import CursorForeign, CursorForOtherFilters, FilterRefused, PageSizeRefused
from mailkeep.mailbox import AccountId
from mailkeep.mutations import (
    AuditFilter,
    ChangeCounts,
    ChangeFilter,
    Copy,
    Decision,
    Lifecycle,
    Mark,
    Move,
    Mutation,
    Stage,
    change_counts,
    count_trail,
    erase_trail,
    list_changes,
    read_trail,
    resolve_change,
    retry_change,
    show_change,
)
from mailkeep.mutations.auditing import tidy

pytestmark = pytest.mark.anyio
HOME = settings_of(imap(), imap("work"))


async def abandoned(db: Database, change_id: UUID, stage: Stage, code: int, *, removes: bool = False) -> None:
    await execute(
        db,
        "UPDATE mailbox_mutations SET stage = 'Abandoned', abandoned_from_stage = %s, last_failure_code = %s, "
        "requires_source_removal = %s, attempt_count = 5 WHERE id = %s",
        stage.value,
        code,
        removes,
        change_id,
    )


@pytest.mark.spec("MUT-36", "MUT-B1", "MUT-21")
async def test_abandoned_changes_stay_in_lists_and_counts(db: Database) -> None:
    """Pages over equal instants show each once; lifecycle, kind and account filter; cursors hold for their filters."""
    ids = await fill(db, 7)
    work = await fill(db, 1, account_id="work")
    answer = await asked(db, HOME, [*ids, *work], Mark(flagged=True))
    await asked(db, HOME, ids[:1], Mark(seen=True))
    changes = [one.record.id for one in answer.changes]
    await abandoned(db, changes[0], Stage.RECORDED, 25001)
    await execute(db, "UPDATE mailbox_mutations SET stage = 'Completed' WHERE id = %s", changes[1])
    await execute(db, "UPDATE mailbox_mutations SET stage = 'PlacementIssued' WHERE id = %s", changes[2])
    seen: list[UUID] = []
    cursor = None
    while True:
        page = await list_changes(db, page_size=3, cursor=cursor)
        seen += [one.record.id for one in page.changes]
        cursor = page.next_cursor or cursor
        if page.next_cursor is None:
            break
    assert len(seen) == len(set(seen)) == 8
    assert changes[1] not in seen
    (stuck,) = (await list_changes(db, ChangeFilter(lifecycle=Lifecycle.DEAD_LETTERED))).changes
    assert (stuck.record.id, stuck.record.last_failure_code) == (changes[0], 25001)
    for which, count in (
        (ChangeFilter(lifecycle=Lifecycle.COMPLETED), 1),
        (ChangeFilter(lifecycle=Lifecycle.CONVERGING), 1),
        (ChangeFilter(account_id="work"), 1),
        (ChangeFilter(mutation=Mutation.SET_SEEN), 1),
        (ChangeFilter(account_id="home", mutation=Mutation.SET_FLAGGED, lifecycle=Lifecycle.PENDING), 4),
    ):
        assert len((await list_changes(db, which)).changes) == count
    assert await change_counts(db, ["home", "work", "other"]) == {
        "home": ChangeCounts(pending=5, converging=1, dead_lettered=1, oldest_at=NOW),
        "work": ChangeCounts(pending=1, oldest_at=NOW),
    }
    with pytest.raises(CursorForOtherFilters):
        await list_changes(db, ChangeFilter(account_id="work"), cursor=cursor)
    for foreign in ("x", "e30=", ""):
        with pytest.raises(CursorForeign):
            await list_changes(db, cursor=foreign)
    for size in (0, 201):
        with pytest.raises(PageSizeRefused):
            await list_changes(db, page_size=size)


@pytest.mark.spec("MUT-B1", "MUT-10")
async def test_a_row_that_means_nothing_is_left_out_and_spoils_no_list(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a newer build, say; it is counted in the log."""
    ids = await fill(db, 2)
    one, two = (await asked(db, HOME, ids, Mark(flagged=True))).changes
    await execute(db, "UPDATE mailbox_mutations SET mutation = 'set-answered' WHERE id = %s", one.record.id)
    assert [change.record.id for change in (await list_changes(db)).changes] == [two.record.id]
    assert await show_change(db, one.record.id) is None
    assert any(getattr(record, "uninterpretable", 0) == 1 for record in caplog.records)


@pytest.mark.spec("MUT-B1", "MUT-18")
async def test_an_abandoned_change_is_retried_from_where_it_stood(db: Database) -> None:
    """With its attempts counted anew; one that may have happened has to be resolved before."""
    ids = await fill(db, 2)
    await fill(db, 0, alias="LATER")
    first, second = (await asked(db, HOME, ids, Move("later"))).changes
    assert await retry_change(db, first.record.id, now=NOW) is Decision.NOT_DEAD_LETTERED
    await abandoned(db, first.record.id, Stage.SOURCE_FLAGGED_DELETED, 25004)
    assert await retry_change(db, first.record.id, now=NOW) is Decision.ACCEPTED
    found = await show_change(db, first.record.id)
    assert found is not None
    assert (found.record.stage, found.record.attempt_count, found.record.last_failure_code) == (
        Stage.SOURCE_FLAGGED_DELETED,
        0,
        25004,
    )
    await abandoned(db, second.record.id, Stage.PLACEMENT_ISSUED, 25002)
    assert await retry_change(db, second.record.id, now=NOW) is Decision.OUTCOME_UNKNOWN
    assert await retry_change(db, uuid4(), now=NOW) is Decision.CHANGE_UNKNOWN


@pytest.mark.spec("MUT-B1", "MUT-35")
@pytest.mark.parametrize("is_abandoned", [True, False], ids=["abandoned", "waiting"])
async def test_an_unknown_placement_is_resolved_either_way(db: Database, is_abandoned: bool) -> None:
    """Landed: done, or on with the removal of the source; not landed: abandoned as never sent, and then retried."""
    ids = await fill(db, 4)
    await fill(db, 0, alias="LATER")
    moved, fallen_back, never = (await asked(db, HOME, ids[:3], Move("later"))).changes
    (copied,) = (await asked(db, HOME, ids[3:], Copy("later"))).changes
    for change in (moved, fallen_back, never, copied):
        assert await resolve_change(db, change.record.id, landed=True, now=NOW) is Decision.NOT_IN_DOUBT
        removes = change is fallen_back
        await abandoned(db, change.record.id, Stage.PLACEMENT_ISSUED, 25002, removes=removes)
        if not is_abandoned:
            await execute(
                db,
                "UPDATE mailbox_mutations SET stage = 'PlacementIssued', abandoned_from_stage = NULL WHERE id = %s",
                change.record.id,
            )
    for change, landed, stage in (
        (moved, True, Stage.COMPLETED),
        (copied, True, Stage.COMPLETED),
        (fallen_back, True, Stage.PLACEMENT_CONFIRMED),
        (never, False, Stage.ABANDONED),
    ):
        assert await resolve_change(db, change.record.id, landed=landed, now=NOW) is Decision.ACCEPTED
        found = await show_change(db, change.record.id)
        assert found is not None
        assert found.record.stage is stage
        assert await resolve_change(db, change.record.id, landed=landed, now=NOW) is Decision.NOT_IN_DOUBT
    assert await retry_change(db, never.record.id, now=NOW) is Decision.ACCEPTED
    found = await show_change(db, never.record.id)
    assert found is not None
    assert found.record.stage is Stage.RECORDED
    assert await resolve_change(db, uuid4(), landed=True, now=NOW) is Decision.CHANGE_UNKNOWN


async def entries(db: Database, count: int, *, account_id: str = "home", email_id: UUID | None = None) -> None:
    """So many entries, five at each instant."""
    await execute(
        db,
        "INSERT INTO mailbox_mutation_audit_entries (id, mutation_record_id, stored_email_id, mailbox_account_id, "
        "mutation, outcome, requester_origin, requester_identity, source_folder_path, source_uid_validity, source_uid, "
        "requested_at, completed_at) SELECT gen_random_uuid(), gen_random_uuid(), coalesce(%s, gen_random_uuid()), %s, "
        "CASE WHEN n %% 2 = 0 THEN 'delete' ELSE 'set-seen' END, 'Performed', 'Command', 'r', 'INBOX', 1, n, "
        "%s::timestamptz, %s::timestamptz + (n / 5) * interval '1 minute' FROM generate_series(0, %s - 1) n",
        email_id,
        account_id,
        NOW,
        NOW,
        count,
    )


@pytest.mark.spec("MUT-66")
async def test_pages_of_the_trail_over_equal_instants_serve_each_entry_once(db: Database) -> None:
    """Proof 19: newest first, of one account; filters by kind and span; a cursor used with others is refused."""
    await entries(db, 43)
    await entries(db, 3, account_id="work")
    seen: list[UUID] = []
    instants = []
    cursor = None
    which = AuditFilter("home")
    while True:
        page = await read_trail(db, which, page_size=4, cursor=cursor)
        seen += [one.id for one in page.entries]
        instants += [one.completed_at for one in page.entries]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert len(seen) == len(set(seen)) == 43
    assert instants == sorted(instants, reverse=True)
    assert len((await read_trail(db, AuditFilter("home", Mutation.DELETE))).entries) == 22
    minute = timedelta(minutes=1)
    span = AuditFilter("home", since=NOW + minute, before=NOW + 3 * minute)
    assert {one.completed_at for one in (await read_trail(db, span)).entries} == {NOW + minute, NOW + 2 * minute}
    for other in (AuditFilter("work"), AuditFilter("home", Mutation.DELETE), AuditFilter("home", since=NOW)):
        with pytest.raises(CursorForOtherFilters):
            await read_trail(db, other, cursor=cursor)
    with pytest.raises(CursorForeign):
        await read_trail(db, which, cursor="x")
    with pytest.raises(FilterRefused):
        await read_trail(db, AuditFilter("home", since=NOW.replace(tzinfo=None)))
    for size in (0, 201):
        with pytest.raises(PageSizeRefused):
            await read_trail(db, which, page_size=size)


@pytest.mark.spec("MUT-66")
async def test_an_entry_that_means_nothing_is_left_out_and_counted(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """And does not end the walk."""
    await entries(db, 6)
    await execute(db, "UPDATE mailbox_mutation_audit_entries SET outcome = 'Pondered' WHERE source_uid < 5")
    page = await read_trail(db, AuditFilter("home"), page_size=2)
    assert (len(page.entries), page.left_out, page.next_cursor is not None) == (1, 1, True)
    assert any(getattr(record, "uninterpretable", 0) == 1 for record in caplog.records)


@pytest.mark.spec("MUT-B10", "MUT-66")
async def test_a_person_s_or_an_account_s_entries_are_erased_and_no_others(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the ids of the person's messages, in passes; entries of other accounts stay."""
    monkeypatch.setattr("mailkeep.mutations.trail.ERASED_PER_PASS", 4)
    person = uuid4()
    await entries(db, 9, email_id=person)
    await entries(db, 5)
    await entries(db, 2, account_id="work", email_id=person)
    assert await count_trail(db, "home", stored_email_ids=[person]) == 9
    assert await erase_trail(db, "home", stored_email_ids=[]) == 0
    assert await erase_trail(db, "home", stored_email_ids=[person, uuid4()]) == 9
    assert await count_trail(db, "home") == 5
    assert await erase_trail(db, "home") == 5
    assert await rows(db, "SELECT mailbox_account_id, count(*) FROM mailbox_mutation_audit_entries GROUP BY 1") == [
        ("work", 2)
    ]


@pytest.mark.spec("MUT-B10")
async def test_what_was_erased_is_not_taken_for_lost(db: Database) -> None:
    """The pass that enters lost entries finds nothing to enter for it; what ends later is entered as ever."""
    ids = await fill(db, 3)
    audited = settings_of(imap(audit_trail={"enabled": True}))
    await asked(db, audited, ids, Mark(flagged=True))
    await execute(db, "UPDATE mailbox_mutations SET stage = 'Completed' WHERE stored_email_id <> %s", ids[2])
    await tidied(db)
    assert await count_trail(db, "home") == 2
    assert await erase_trail(db, "home", stored_email_ids=[ids[0], ids[2]]) == 1
    await tidied(db)
    assert await count_trail(db, "home") == 1
    await execute(db, "UPDATE mailbox_mutations SET stage = 'Completed'")
    await tidied(db)
    assert await count_trail(db, "home", stored_email_ids=[ids[2]]) == 1


async def tidied(db: Database) -> None:
    """What each run does for the trail."""
    keep = timedelta(days=3650)
    await tidy(db, AccountId("home"), now=NOW, retention=keep, record_retention=keep)
