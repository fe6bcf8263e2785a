"""Undoing: flags back to what was seen before, moves back from where the message is, copies where they are known."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from support.changes import EVERYTHING, asked, execute, fill, imap, rows, settings_of
from support.stored import NOW, folder, store

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.errors import MailChangeImpossible, MailChangeInvalid, MailChangeNotPermitted, MailChangeUnknown
from mailkeep.mailbox import Flags
from mailkeep.mutations import (
    Act,
    Caller,
    Change,
    Copy,
    Delete,
    Mark,
    Move,
    Mutation,
    Stage,
    Undone,
    UndoOutcome,
    UndoWish,
    preview_undo,
    undo,
)

pytestmark = pytest.mark.anyio
HOME = settings_of()
STAR = Mark(flagged=True)


async def undone(db: Database, *changes: Change, settings: Settings = HOME, **more: Any) -> list[Undone]:
    wish = UndoWish([str(one.record.id) for one in changes], **more)
    return await undo(db, settings, wish, now=NOW)


async def done(db: Database, email_id: UUID, act: Act, settings: Settings = HOME) -> Change:
    """A change that was carried out."""
    (change,) = (await asked(db, settings, [email_id], act)).changes
    await execute(
        db,
        "UPDATE mailbox_mutations SET stage = 'Completed', attempt_count = 1, issued_at = now() WHERE id = %s",
        change.record.id,
    )
    return change


@pytest.mark.spec("MUT-B7")
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (Mark(seen=True), {"mutation": Mutation.SET_SEEN, "desired_seen_state": False}),
        (Mark(flagged=False), {"mutation": Mutation.SET_FLAGGED, "desired_flagged_state": True}),
        (Mark(add_keywords=("Work", "NEW")), {"mutation": Mutation.REMOVE_KEYWORDS, "keywords": ("NEW",)}),
        (Mark(remove_keywords=("work", "NONE")), {"mutation": Mutation.ADD_KEYWORDS, "keywords": ("work",)}),
        (Mark(set_keywords=()), {"mutation": Mutation.SET_KEYWORDS, "keywords": ("WORK",)}),
        (Mark(seen=False), None),
        (Mark(add_keywords=("work",)), None),
        (Mark(remove_keywords=("NONE",)), None),
        (Mark(set_keywords=("Work",)), None),
    ],
)
async def test_a_flag_goes_back_to_what_was_seen_before(
    db: Database, act: Mark, expected: dict[str, Any] | None
) -> None:
    """The inverse names what it undoes; where nothing had changed there is nothing to do. Undoing twice asks once."""
    (one,) = await fill(db, 1, flags=Flags(flagged=True, keywords=("WORK",)))
    change = await done(db, one, act)
    (answer,) = await undone(db, change)
    if expected is None:
        assert (answer.outcome, answer.inverse) == (UndoOutcome.NOTHING_TO_DO, None)
        return
    assert answer.inverse is not None
    assert {name: getattr(answer.inverse.record.terms, name) for name in expected} == expected
    assert answer.inverse.record.undoes_mutation_id == change.record.id
    (again,) = await undone(db, change)
    assert again.inverse is not None
    assert again.inverse.record.id == answer.inverse.record.id


@pytest.mark.spec("MUT-B7")
async def test_what_was_never_seen_cannot_be_gone_back_to(db: Database) -> None:
    (one,) = await fill(db, 1, flags=None)
    for act in (STAR, Mark(add_keywords=("A",))):
        with pytest.raises(MailChangeImpossible, match="nobody had looked"):
            await undone(db, await done(db, one, act))


@pytest.mark.spec("MUT-B7", "MUT-18")
async def test_what_has_not_begun_is_withdrawn_and_what_has_is_waited_for(db: Database) -> None:
    """Withdrawn means abandoned with a code of its own; a withdrawn change is no more under way."""
    one, two = await fill(db, 2)
    (first,) = (await asked(db, HOME, [one], STAR)).changes
    (answer,) = await undone(db, first)
    record = answer.change.record
    assert (answer.outcome, record.stage, record.last_failure_code) == (UndoOutcome.WITHDRAWN, Stage.ABANDONED, 25008)
    assert record.abandoned_from_stage is Stage.RECORDED
    assert (await undone(db, first))[0].outcome is UndoOutcome.NOTHING_TO_DO
    (second,) = (await asked(db, HOME, [two], STAR)).changes
    for spent in ("attempt_count = 1", "attempt_count = 0, issued_at = now()", "stage = 'SourceFlaggedDeleted'"):
        await execute(db, f"UPDATE mailbox_mutations SET {spent} WHERE id = %s", second.record.id)
        with pytest.raises(MailChangeImpossible, match="under way"):
            await undone(db, first, second)


@pytest.mark.spec("MUT-B7")
async def test_a_move_goes_back_from_where_the_message_is(db: Database) -> None:
    """To the path it came from; not before its arrival was read back, not while another change takes it away."""
    one, *_ = await fill(db)
    later = await folder(db, "home", "LATER", path="Later.Box")
    await fill(db, 0, alias="THIRD")
    moved = await done(db, one, Move("later"))
    with pytest.raises(MailChangeImpossible, match="not been read back"):
        await undone(db, moved)
    await execute(db, "UPDATE mailbox_mutations SET source_removal_observed_at = now(), placement_observed_at = now()")
    await execute(db, "UPDATE stored_emails SET mail_folder_id = %s, uid = 77 WHERE id = %s", later.folder_id, one)
    (third,) = (await asked(db, HOME, [one], Move("third"))).changes
    with pytest.raises(MailChangeImpossible, match="another change"):
        await undone(db, moved)
    await undone(db, third)
    (answer,) = await undone(db, moved)
    assert answer.inverse is not None
    back = answer.inverse.record
    assert (back.source.folder_id, back.source.uid) == (later.folder_id, 77)
    assert (back.terms.destination_folder_path, back.terms.local_disposition) == ("INBOX", None)
    assert (await undone(db, moved))[0].inverse is not None  # its own inverse does not stand in the way
    ((source,),) = await rows(db, "SELECT id FROM mail_folders WHERE alias = 'INBOX'")
    await execute(db, "UPDATE stored_emails SET mail_folder_id = %s, uid = 78 WHERE id = %s", source, one)
    assert (await undone(db, moved))[0].outcome is UndoOutcome.NOTHING_TO_DO


@pytest.mark.spec("MUT-B7")
async def test_a_copy_is_deleted_only_where_it_is_known_and_deleting_is_permitted(db: Database) -> None:
    """The message that the copy made, as the server named it and as it was read back; never a look-alike."""
    settings = settings_of(imap(tool_changes={"copies": True}))
    (one,) = await fill(db, 1)
    later = await folder(db, "home", "LATER")
    copied = await done(db, one, Copy("later"), settings)
    with pytest.raises(MailChangeImpossible, match="which message the copy is"):
        await undone(db, copied, settings=settings)
    await store(db, later, [b"From: ann@example.com\r\nSubject: home INBOX 0\r\n\r\nthe copy\r\n"], first_uid=9)
    await execute(
        db,
        "UPDATE mailbox_mutations SET placement_uid_validity = 1, placement_uid = 9, placement_observed_at = now()",
    )
    with pytest.raises(MailChangeNotPermitted, match="deletions"):
        await undone(db, copied, settings=settings, caller=Caller.TOOL)
    (answer,) = await undone(db, copied, settings=settings)
    assert answer.inverse is not None
    deleted = answer.inverse.record
    assert (deleted.terms.mutation, deleted.source.folder_id, deleted.source.uid) == (
        Mutation.DELETE,
        later.folder_id,
        9,
    )
    assert deleted.stored_email_id != one


@pytest.mark.spec("MUT-B7")
async def test_what_cannot_be_undone_is_refused_with_its_reason_and_then_nothing_is(db: Database) -> None:
    """A deletion, an unknown outcome, a message that is out of sight; all of one call are undone or none."""
    one, two, three, four = await fill(db, 4)
    star = await done(db, one, STAR)
    deleted = await done(db, two, Delete())
    await fill(db, 0, alias="LATER")
    (lost,) = (await asked(db, HOME, [three], Move("later"))).changes
    await execute(
        db,
        "UPDATE mailbox_mutations SET stage = 'Abandoned', abandoned_from_stage = 'PlacementIssued', "
        "last_failure_code = 25002 WHERE id = %s",
        lost.record.id,
    )
    left = await done(db, four, Move("later"))
    await execute(
        db,
        "UPDATE stored_emails SET remote_expunge_observed_at = now(), is_retained_after_authored_delete = true "
        "WHERE id = %s",
        four,
    )
    for change, reason in ((deleted, "for good"), (lost, "resolve"), (left, "does not see")):
        with pytest.raises(MailChangeImpossible, match=reason):
            await undone(db, star, change)
    assert len(await rows(db, "SELECT FROM mailbox_mutations WHERE undoes_mutation_id IS NOT NULL")) == 0


@pytest.mark.spec("MUT-B7", "MUT-59")
async def test_an_act_is_undone_by_its_request_and_only_in_readable_mail(db: Database) -> None:
    """A preview says what would happen; unknown ids and changes of withheld mail are one answer."""
    settings = settings_of(imap(tool_changes=EVERYTHING), imap("work"))
    ids = await fill(db, 3)
    hidden = await fill(db, 1, account_id="work")
    answer = await asked(db, settings, [*ids, *hidden], Mark(flagged=True, seen=True), request_id="act")
    wish = UndoWish(of_request="act")
    assert [one.outcome for one in await preview_undo(db, settings, wish)] == [UndoOutcome.WITHDRAWN] * 8
    assert await rows(db, "SELECT DISTINCT stage FROM mailbox_mutations") == [("Recorded",)]
    with pytest.raises(MailChangeNotPermitted):
        await undo(db, settings, UndoWish(of_request="act", caller=Caller.TOOL), now=NOW)
    only_home = settings_of(imap(tool_changes=EVERYTHING))
    foreign = next(one for one in answer.changes if one.record.account_id == "work")
    for unknown in (str(uuid4()), str(foreign.record.id), "no id"):
        with pytest.raises(MailChangeUnknown):
            await undo(db, only_home, UndoWish([unknown]), now=NOW)
    with pytest.raises(MailChangeUnknown):
        await undo(db, only_home, UndoWish(of_request="other"), now=NOW)
    for ambiguous in (UndoWish(), UndoWish([str(uuid4())], of_request="act")):
        with pytest.raises(MailChangeInvalid):
            await undo(db, only_home, ambiguous, now=NOW)
    undone_now = await undo(db, only_home, UndoWish(of_request="act", caller=Caller.TOOL), now=NOW)
    assert len(undone_now) == 6
