"""Asking for changes: who may ask of which mail, into which folder, how many, and once per request."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest
from support.changes import EVERYTHING, asked, execute, fill, imap, rows, settings_of
from support.mail import message
from support.stored import NOW, folder, store

from mailkeep.db import Database
from mailkeep.errors import (
    DestinationRefused,
    EmailIdMalformed,
    EmailNotAccessible,
    MailChangeCeilingReached,
    MailChangeInvalid,
    MailChangeNotPermitted,
    ReaderError,
)
from mailkeep.mailbox import Flags, SpecialUse, bind_folder
from mailkeep.mutations import (
    Archive,
    Asked,
    Caller,
    Copy,
    Delete,
    LeftOutReason,
    Mark,
    Move,
    Mutation,
    Stage,
    Trash,
    Wish,
    preview,
)

pytestmark = pytest.mark.anyio
HOME = settings_of()
STAR = Mark(flagged=True)


def kinds(answer: Asked) -> list[str]:
    return [one.record.terms.mutation.value for one in answer.changes]


@pytest.mark.spec("MUT-13", "MUT-57", "MUT-B7")
async def test_an_act_is_recorded_and_nothing_else_happens(db: Database) -> None:
    """Seen, starred, keywords, in whatever order they are named; no server exists that could be contacted."""
    (one, *_) = await fill(db)
    await fill(db, 0, alias="LATER")
    marked = await asked(
        db, HOME, [one], Mark(seen=True, flagged=False, remove_keywords=("A",), add_keywords=("B", "C"))
    )
    moved = await asked(db, HOME, [one], Move("later"))
    assert kinds(marked) == ["set-seen", "set-flagged", "remove-keywords", "add-keywords"]
    assert [change.record.stage for change in (*moved.changes, *marked.changes)] == [Stage.RECORDED] * 5
    (relocate,) = moved.changes
    assert (relocate.folder_alias, relocate.record.terms.destination_folder_path) == ("INBOX", "LATER")
    assert relocate.record.terms.local_disposition is None
    assert not relocate.record.audit_trail_enabled
    assert await rows(db, "SELECT is_remotely_seen FROM stored_emails WHERE id = %s", one) == [(False,)]  # MUT-6


@pytest.mark.spec("MUT-59", "MUT-12", "MCP-64", "MCP-114")
async def test_every_miss_is_one_answer(db: Database) -> None:
    """Unknown, withheld, unmapped, imported, kept after our own delete, gone, and of an older binding: all the same."""
    settings = settings_of(
        imap(
            folders=[
                {"alias": "INBOX", "remote_path": "INBOX"},
                {"alias": "SECRET", "remote_path": "SECRET", "visible_to_tools": False},
            ]
        ),
        {"account_id": "attic", "display_name": "Attic", "kind": "local"},
    )
    kept, gone, moved = await fill(db)
    (withheld,) = await fill(db, 1, alias="SECRET")
    (unmapped,) = await fill(db, 1, alias="OTHER")
    (imported,) = await fill(db, 1, account_id="attic")
    (unserved,) = await fill(db, 1, account_id="elsewhere")
    buried = "UPDATE stored_emails SET remote_expunge_observed_at = now(), is_retained_after_authored_delete = %s WHERE id = %s"
    await execute(db, buried, True, kept)
    await execute(db, buried, False, gone)
    messages = set()
    for miss in (uuid4(), withheld, unmapped, imported, unserved, kept, gone):
        for caller in Caller:
            with pytest.raises(EmailNotAccessible) as refused:
                await asked(db, settings, [moved, miss], STAR, caller=caller)
            messages.add(str(refused.value))
    await bind_folder(db, "home", alias="INBOX", remote_path="INBOX.NEW", hierarchy_delimiter=".")  # type: ignore[arg-type]
    with pytest.raises(EmailNotAccessible) as refused:
        await asked(db, settings, [moved], STAR)
    assert len(messages | {str(refused.value)}) == 1
    assert await rows(db, "SELECT FROM mailbox_mutations") == []


@pytest.mark.spec("MUT-58", "MUT-B7", "MCP-56")
async def test_tools_need_the_permission_of_the_messages_own_account(db: Database) -> None:
    """Judged in the use case, by kind of change; people need none; one account's switch says nothing of another's."""
    acts = {"flags": STAR, "moves": Move("later"), "copies": Copy("later"), "deletions": Delete()}
    (one,) = await fill(db, 1)
    (other,) = await fill(db, 1, account_id="work")
    for account_id in ("home", "work"):
        await fill(db, 0, account_id=account_id, alias="LATER")
    for name, act in acts.items():
        permitted = settings_of(imap(tool_changes={name: True}), imap("work"), mcp_endpoint={"deleting_enabled": True})
        with pytest.raises(MailChangeNotPermitted, match=name):
            await asked(db, permitted, [one, other], act, request_id=f"no {name}", caller=Caller.TOOL)
        assert len((await asked(db, permitted, [one], act, request_id=name, caller=Caller.TOOL)).changes) == 1
        await execute(db, "DELETE FROM mailbox_mutations")
        assert len((await asked(db, permitted, [other], act)).changes) == 1
        await execute(db, "DELETE FROM mailbox_mutations")
    closed = settings_of(imap(tool_changes=EVERYTHING))
    with pytest.raises(MailChangeInvalid, match="two copies"):
        await asked(db, closed, [one], Copy("later"), caller=Caller.TOOL)
    with pytest.raises(MailChangeNotPermitted):  # the endpoint's own switch is off
        await asked(db, closed, [one], Delete(), caller=Caller.TOOL)


@pytest.mark.spec("MUT-16", "MCP-114")
async def test_one_request_asks_once_and_for_one_thing(db: Database) -> None:
    """Proof 7: the same values give the same records with their state, others 51012 and no row; no id asks afresh."""
    ids = await fill(db, 2)
    first = await asked(db, HOME, ids, Mark(flagged=True, add_keywords=("Work",)), request_id="r1")
    await execute(db, "UPDATE mailbox_mutations SET stage = 'Completed'")
    again = await asked(db, HOME, ids, Mark(flagged=True, add_keywords=("WORK",)), request_id=" r1 ")
    assert [one.record.id for one in again.changes] == [one.record.id for one in first.changes]
    assert {one.record.stage for one in again.changes} == {Stage.COMPLETED}
    for other in (Mark(flagged=False), Mark(add_keywords=("Home",))):
        with pytest.raises(MailChangeInvalid, match="another change"):
            await asked(db, HOME, ids, other, request_id="r1")
    assert kinds(await asked(db, HOME, ids[:1], Mark(seen=True, flagged=True), request_id="r1")) == [
        "set-seen",
        "set-flagged",
    ]  # what it asks for now, known or new, and nothing else of that request
    await execute(db, "DELETE FROM mailbox_mutations WHERE mutation = 'set-seen'")
    assert len(await rows(db, "SELECT FROM mailbox_mutations")) == 4
    for value in (True, False, True):
        await asked(db, HOME, ids[:1], Mark(flagged=value))
    assert len(await rows(db, "SELECT FROM mailbox_mutations")) == 7
    for bad in ("", " \n", "x" * 129, "a\x00b"):
        with pytest.raises(MailChangeInvalid):
            await asked(db, HOME, ids, STAR, request_id=bad)


@pytest.mark.spec("MUT-14", "MUT-15")
async def test_racing_twins_of_a_request_make_one_row_each_gets(db: Database) -> None:
    """Proof 6: ten sessions at once, on connections of their own."""
    ids = await fill(db, 3)
    answers = await asyncio.gather(*(asked(db, HOME, ids, STAR, request_id="twin") for _ in range(10)))
    assert len({tuple(one.record.id for one in answer.changes) for answer in answers}) == 1
    assert len(await rows(db, "SELECT FROM mailbox_mutations")) == 3


@pytest.mark.spec("MUT-17", "MCP-114")
async def test_a_repeated_move_finds_its_record_after_the_message_has_moved(db: Database) -> None:
    """Also after a deletion whose copy was kept; a new request of either is told what it meets now."""
    one, two = await fill(db, 2)
    later = await folder(db, "home", "LATER")
    moved = await asked(db, HOME, [one], Move("LATER"), request_id="m")
    deleted = await asked(db, HOME, [two], Delete(), request_id="d")
    await execute(db, "UPDATE mailbox_mutations SET stage = 'Completed', source_removal_observed_at = now()")
    await execute(db, "UPDATE stored_emails SET mail_folder_id = %s, uid = 77 WHERE id = %s", later.folder_id, one)
    await execute(
        db,
        "UPDATE stored_emails SET remote_expunge_observed_at = now(), is_retained_after_authored_delete = true "
        "WHERE id = %s",
        two,
    )
    for first, act, request_id in ((moved, Move("LATER"), "m"), (deleted, Delete(), "d")):
        again = await asked(db, HOME, [first.changes[0].record.stored_email_id], act, request_id=request_id)
        assert [change.record.id for change in again.changes] == [first.changes[0].record.id]
    fresh = await asked(db, HOME, [one], Move("LATER"), request_id="m2")
    assert (fresh.changes, fresh.left_out[0].reason) == ((), LeftOutReason.ALREADY_THERE)
    with pytest.raises(EmailNotAccessible):
        await asked(db, HOME, [two], Delete(), request_id="d2")


@pytest.mark.spec("MUT-57")
async def test_a_message_on_its_way_out_takes_no_change_that_would_miss_it(db: Database) -> None:
    """A second move or a flag is left out, in every stage of the move until it has been read back."""
    one, two = await fill(db, 2)
    for alias in ("A", "B"):
        await fill(db, 0, alias=alias)
    await asked(db, HOME, [one], Move("A"))
    second = await asked(db, HOME, [one, two], Move("B"))
    assert [change.record.stored_email_id for change in second.changes] == [two]
    assert [(left.stored_email_id, left.reason) for left in second.left_out] == [(one, LeftOutReason.ALREADY_LEAVING)]
    for stage in ("Recorded", "PlacementIssued", "Completed"):
        await execute(db, "UPDATE mailbox_mutations SET stage = %s", stage)
        assert (await asked(db, HOME, [one], STAR)).left_out[0].reason is LeftOutReason.ALREADY_LEAVING
    await execute(db, "UPDATE mailbox_mutations SET source_removal_observed_at = now()")
    assert len((await asked(db, HOME, [one], STAR)).changes) == 1


@pytest.mark.spec("MUT-60", "MUT-53", "MUT-11")
async def test_dispositions_audit_and_destinations_are_resolved_when_recorded(db: Database) -> None:
    """A deletion, and a move out of the mirror, carry the account's setting of that moment; other moves carry none."""
    account = {
        "authored_delete_email_disposition": "RetainTombstone",
        "audit_trail": {"enabled": True},
        "folders": [
            {"alias": "INBOX", "remote_path": "INBOX"},
            {"alias": "OLD", "remote_path": "Old", "synchronize": False, "create_if_missing": True},
            {"alias": "BIN", "remote_path": "Bin", "special_use": "Trash"},
        ],
    }
    ids = await fill(db, 3)
    settings = settings_of(imap(**account))
    for one, act in zip(ids, (Delete(), Move("old"), Trash()), strict=True):
        await asked(db, settings, [one], act)
    found = await rows(
        db,
        "SELECT mutation, destination_folder_path, creates_destination, local_disposition, audit_trail_enabled "
        "FROM mailbox_mutations ORDER BY id",
    )
    assert sorted(found) == [
        ("delete", None, False, "RetainTombstone", True),
        ("relocate", "Bin", False, None, True),
        ("relocate", "Old", True, "RetainTombstone", True),
    ]


@pytest.mark.spec("MUT-60", "MUT-B7")
async def test_archiving_and_the_trash_go_by_role_and_never_by_a_likely_name(db: Database) -> None:
    """Archive, else All as in Gmail; without any, the reason is told, and nothing is recorded."""
    one, two, three = await fill(db)
    await fill(db, 0, alias="ARCHIVE")
    await fill(db, 0, alias="TRASH")
    for act in (Archive(), Trash()):
        with pytest.raises(DestinationRefused, match="DestinationFolderUnresolved"):
            await asked(db, HOME, [one], act)
    await fill(db, 0, alias="ALL MAIL", role=SpecialUse.ALL)
    await fill(db, 0, alias="BIN", role=SpecialUse.TRASH)
    assert (await asked(db, HOME, [one], Archive())).changes[0].record.terms.destination_folder_path == "ALL MAIL"
    await fill(db, 0, alias="STORE", role=SpecialUse.ARCHIVE)
    assert (await asked(db, HOME, [two], Archive())).changes[0].record.terms.destination_folder_path == "STORE"
    assert (await asked(db, HOME, [three], Trash())).changes[0].record.terms.destination_folder_path == "BIN"


@pytest.mark.spec("MUT-B7", "MCP-7", "MCP-8")
async def test_bounds_refuse_and_say_what_to_do(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are refused before an id is read; outstanding changes of tools have a ceiling of their own."""
    ids = await fill(db, 3)
    permitted = settings_of(imap(tool_changes=EVERYTHING))
    for count, caller in ((0, Caller.PERSON), (10_001, Caller.PERSON), (501, Caller.TOOL)):
        with pytest.raises(MailChangeInvalid, match="between 1 and"):
            await asked(db, permitted, ["no id"] * count, STAR, caller=caller)
    for bad in ("", "no id", "x" * 1_000_000, "Ⅷ" * 32):
        with pytest.raises(EmailIdMalformed):
            await asked(db, permitted, [bad], STAR)
    monkeypatch.setattr("mailkeep.mutations.asking.MAX_OUTSTANDING_OF_TOOLS", 4)
    await asked(db, permitted, ids, STAR, caller=Caller.TOOL)
    with pytest.raises(MailChangeCeilingReached, match="more than 4"):
        await asked(db, permitted, ids[:2], Mark(seen=True), caller=Caller.TOOL)
    await asked(db, permitted, ids, Mark(seen=True))  # people have more room
    await execute(db, "UPDATE mailbox_mutations SET stage = 'Completed'")
    racing = [asked(db, permitted, [one], Mark(seen=False), caller=Caller.TOOL) for one in ids * 4]
    answers = await asyncio.gather(*racing, return_exceptions=True)
    assert sum(isinstance(one, Asked) for one in answers) == 4
    assert sum(isinstance(one, MailChangeCeilingReached) for one in answers) == 8


@pytest.mark.spec("MUT-B7", "MUT-60")
async def test_a_preview_counts_names_refuses_and_records_nothing(db: Database) -> None:
    """Per folder and kind, with the first ids; an account that refuses is named with its reason beside the others."""
    settings = settings_of(imap(tool_changes=EVERYTHING), imap("work", tool_changes=EVERYTHING), imap("shut"))
    home, work, shut = [await fill(db, 7, account_id=account_id) for account_id in ("home", "work", "shut")]
    (there,) = await fill(db, 1, alias="LATER")
    await fill(db, 0, account_id="shut", alias="LATER")
    wish = Wish([str(one) for one in (*home, *work, *shut, there)], Move("later"), caller=Caller.TOOL)
    found = await preview(db, settings, wish)
    (group,) = found.groups
    assert (group.account_id, group.folder_alias, group.mutation) == ("home", "INBOX", Mutation.RELOCATE)
    assert (group.destination, group.count, group.first_ids) == ("LATER", 7, tuple(home[:5]))
    assert [(one.account_id, one.count, one.error.code) for one in found.refusals] == [
        ("work", 7, 53012),
        ("shut", 7, 56004),
    ]
    assert [(one.stored_email_id, one.reason) for one in found.left_out] == [(there, LeftOutReason.ALREADY_THERE)]
    assert await rows(db, "SELECT FROM mailbox_mutations") == []
    for refused in (EmailNotAccessible, ReaderError):
        with pytest.raises(refused):
            await preview(db, settings, Wish([str(uuid4())], STAR))


@pytest.mark.spec("MUT-9")
async def test_no_part_of_a_message_enters_its_record(db: Database) -> None:
    """A sentinel in every field of the mail stands in no column of the row."""
    binding = await folder(db, "home", "INBOX")
    sentinel = "wombat"
    mail = message(
        sentinel, body=sentinel, from_=f"{sentinel} <{sentinel}@example.com>", message_id=f"{sentinel}@example.com"
    )
    await store(db, binding, [mail], flags=Flags(keywords=("WORK",)))
    ((email_id,),) = await rows(db, "SELECT id FROM stored_emails")
    await asked(db, HOME, [email_id], Mark(flagged=True, set_keywords=("Work",)))
    found = await rows(db, "SELECT m::text FROM mailbox_mutations m")
    assert len(found) == 2
    assert not [row for row in found if sentinel in row[0]]


async def test_ten_thousand_messages_are_one_act(db: Database) -> None:
    """All committed together, in the order given, in a few statements."""
    binding = await folder(db, "home", "INBOX")
    await store(db, binding, [message("only", message_id="only@x")], flags=Flags())
    columns = [
        row[0]
        for row in await rows(
            db,
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'stored_emails' "
            "AND column_name NOT IN ('id', 'uid') AND is_generated = 'NEVER'",
        )
    ]
    names = ", ".join(columns)
    await execute(
        db,
        f"INSERT INTO stored_emails (id, uid, {names}) SELECT gen_random_uuid(), n, {names} "
        "FROM stored_emails, generate_series(2, 10000) n",
    )
    ids: list[UUID] = [row[0] for row in await rows(db, "SELECT id FROM stored_emails ORDER BY uid DESC")]
    answer = await asked(db, HOME, ids, STAR)
    assert [one.record.stored_email_id for one in answer.changes] == ids
    assert len({one.record.requester.identity for one in answer.changes}) == 1
    assert answer.changes[0].record.recorded_at == NOW
