"""What servers were seen or may be expected to answer to changes, word for word, and what becomes of the row then."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from support.accounts import account_at
from support.converging import DELETE, STAR, Mirrored, copy_to, keywords, move_to
from support.engine import mail
from support.scripted_imap import ScriptedImap
from support.store import inbox, store

from mailkeep.db import Database
from mailkeep.mutations import Mutation, Stage, Terms
from mailkeep.sync import read_pauses

pytestmark = pytest.mark.anyio

MOVING = "IMAP4rev1 MOVE UIDPLUS"
COPYING = "IMAP4rev1 UIDPLUS"
SIZE = len(mail(1))
SELECT = r"""
>> SELECT "Inbox"
* 2 EXISTS
* OK [UIDVALIDITY 7] fine
* OK [PERMANENTFLAGS (\\Seen \\Flagged \\Answered \\Deleted \\Draft \\*)] fine
OK [READ-WRITE] done
"""
IDENTITY = f"* 1 FETCH (UID 1 FLAGS () RFC822.SIZE {SIZE} BODY[HEADER.FIELDS (MESSAGE-ID)] "
IDENTITY += r"{{Message-ID: <1@example.com>\r\n\r\n}})"
FETCH = f"""
>> UID FETCH 1 (UID FLAGS RFC822.SIZE *
{IDENTITY}
OK done
"""
STATUS = """
>> STATUS "Archive" *
* STATUS "Archive" (UIDNEXT 50 UIDVALIDITY 9)
OK done
"""
STANDING = SELECT + FETCH + STATUS
GONE = """
>> UID SEARCH *
* SEARCH
OK done
"""
THERE = """
>> UID SEARCH *
* SEARCH 1
OK done
"""


async def converged(
    db: Database, home: Path, script: str, terms: Terms, *, capabilities: str = MOVING, passes: int = 1, uids: int = 1
) -> tuple[Mirrored, list[UUID], ScriptedImap]:
    """Passes over a change of stored messages against a scripted server."""
    binding = await inbox(db, "anna")
    await store(db, binding, *[mail(number) for number in range(1, uids + 1)])
    async with ScriptedImap(script, capabilities=capabilities) as server:
        mailbox = Mirrored(db, home, account_at(server.port), {})
        changes = await mailbox.asked_of(range(1, uids + 1), terms)
        for _ in range(passes):
            await mailbox.converge()
    assert server.unexpected == []
    assert not [command for command in server.commands if command.upper().startswith(("EXPUNGE", "CLOSE"))]
    return mailbox, changes, server


async def ending(mailbox: Mirrored, change: UUID) -> tuple[Stage, int | None, tuple[int, int] | None]:
    """Stage, code and placement of a row."""
    row = await mailbox.row(change)
    placement = None if row.placement is None else (row.placement.uid_validity, row.placement.uid)
    return row.stage, row.last_failure_code, placement


@pytest.mark.spec("MUT-31")
@pytest.mark.case("67")
@pytest.mark.parametrize(
    "answer",
    ["* OK [COPYUID 9 1 50] moved\n* 1 EXPUNGE\nOK done", "* 1 EXPUNGE\nOK [copyuid 9 1 50] done"],
    ids=["untagged, as RFC 6851 wants", "tagged, in lower case"],
)
async def test_the_placement_is_read_wherever_the_server_names_it(db: Database, tmp_path: Path, answer: str) -> None:
    """COPYUID in an untagged OK or in the tagged one gives the placement of a move."""
    mailbox, (change,), _ = await converged(
        db, tmp_path, f'{STANDING}> UID MOVE 1 "Archive"\n{answer}', move_to("Archive")
    )
    assert await ending(mailbox, change) == (Stage.COMPLETED, None, (9, 50))


@pytest.mark.spec("MUT-31", "MUT-49")
@pytest.mark.case("68")
@pytest.mark.parametrize("answer", ["OK done", "OK [COPYUID 7 1 50] done", "OK [COPYUID 9 1 50:51] done"])
async def test_a_placement_that_cannot_be_meant_is_not_named(db: Database, tmp_path: Path, answer: str) -> None:
    """Missing, of another folder's UIDVALIDITY, or contradicting itself: moved, and nobody says where."""
    script = f'{STANDING}{GONE}> UID MOVE 1 "Archive"\n* 1 EXPUNGE\n{answer}'
    mailbox, (change,), server = await converged(db, tmp_path, script, move_to("Archive"))
    assert await ending(mailbox, change) == (Stage.COMPLETED, None, None)
    assert not [command for command in server.commands if "HEADER Message-ID" in command]


@pytest.mark.spec("MUT-B3", "MUT-33")
async def test_ok_with_nothing_moved_is_a_failed_attempt(db: Database, tmp_path: Path) -> None:
    """A message that is still in its folder after OK was not moved: the row is as before, and tried again later."""
    mailbox, (change,), server = await converged(
        db, tmp_path, f'{STANDING}{THERE}>> UID MOVE 1 "Archive"\nOK done', move_to("Archive"), passes=2
    )
    row = await mailbox.row(change)
    assert (row.stage, row.last_failure_code, row.attempt_count) == (Stage.RECORDED, 25004, 2)
    assert len(server.sent("UID MOVE")) == 2


@pytest.mark.spec("MUT-B3", "MUT-35")
async def test_ok_with_nothing_copied_removes_no_source(db: Database, tmp_path: Path) -> None:
    """In the fallback, a copy that nobody named and that left the destination's next UID alone was not made."""
    script = f'{STANDING}{THERE}>> UID COPY 1 "Archive"\nOK done'
    mailbox, (change,), server = await converged(db, tmp_path, script, move_to("Archive"), capabilities=COPYING)
    assert await ending(mailbox, change) == (Stage.RECORDED, 25004, None)
    assert not server.sent("STORE")


@pytest.mark.spec("MUT-B3", "MUT-B8")
async def test_each_message_of_a_batch_ends_by_itself(db: Database, tmp_path: Path) -> None:
    """COPYUID names two of four; of the others one is still there and was not moved, one was gone before."""
    identities = "\n".join(
        IDENTITY.replace("1 FETCH (UID 1", f"{n} FETCH (UID {n}").replace("<1@", f"<{n}@") for n in range(1, 5)
    )
    script = f"""
    {SELECT}{STATUS}
    > UID FETCH 1:4 *
    {identities}
    OK done
    > UID MOVE 1:4 "Archive"
    * OK [COPYUID 9 1,3 60:61] moved
    OK done
    > UID SEARCH UID 2,4
    * SEARCH 2
    OK done
    """
    mailbox, changes, _ = await converged(db, tmp_path, script, move_to("Archive"), uids=4)
    assert [await ending(mailbox, change) for change in changes] == [
        (Stage.COMPLETED, None, (9, 60)),
        (Stage.RECORDED, 25004, None),
        (Stage.COMPLETED, None, (9, 61)),
        (Stage.ABANDONED, 25006, None),
    ]


@pytest.mark.spec("MUT-30", "MUT-34")
async def test_a_destination_that_vanishes_before_the_command_abandons_the_change(db: Database, tmp_path: Path) -> None:
    """`NO [TRYCREATE]` to a copy means that the folder is not there: 25005 at once, and no second attempt."""
    script = f'{STANDING}> UID COPY 1 "Archive"\nNO [TRYCREATE] no such folder'
    mailbox, (change,), _ = await converged(db, tmp_path, script, copy_to("Archive"), passes=2)
    row = await mailbox.row(change)
    assert (row.stage, row.last_failure_code, row.attempt_count) == (Stage.ABANDONED, 25005, 1)
    assert row.abandoned_from_stage is Stage.RECORDED


@pytest.mark.spec("MUT-30", "MUT-34")
async def test_a_destination_the_server_does_not_have_is_never_asked_for(db: Database, tmp_path: Path) -> None:
    """STATUS is refused and LIST finds nothing: abandoned with 25005 before anything was issued."""
    script = f'{SELECT}{FETCH}> STATUS "Archive" *\nNO none\n> LIST "" "Archive"\nOK done'
    mailbox, (change,), server = await converged(db, tmp_path, script, move_to("Archive"))
    row = await mailbox.row(change)
    assert (row.stage, row.last_failure_code, row.issued_at) == (Stage.ABANDONED, 25005, None)
    assert not server.sent("UID MOVE")


@pytest.mark.spec("MUT-33", "MUT-40")
async def test_a_server_that_is_busy_is_asked_again_in_the_next_run(db: Database, tmp_path: Path) -> None:
    """`NO [UNAVAILABLE]` to a move takes the row back to where it was, fails the pass, and the next one succeeds."""
    script = f"""{STANDING}
    > UID MOVE 1 "Archive"
    NO [UNAVAILABLE] later
    > UID SEARCH UID 1
    * SEARCH 1
    OK done
    > UID MOVE 1 "Archive"
    OK [COPYUID 9 1 50] done
    """
    mailbox, (change,), _ = await converged(db, tmp_path, script, move_to("Archive"), passes=2)
    assert await ending(mailbox, change) == (Stage.COMPLETED, None, (9, 50))
    assert (await mailbox.row(change)).attempt_count == 2


@pytest.mark.spec("MUT-33", "MUT-39")
@pytest.mark.case("56")
async def test_a_plea_for_patience_ends_the_pass_and_holds_for_the_account(db: Database, tmp_path: Path) -> None:
    """A server that throttles a STORE is left alone: the changes behind it wait, and so does everybody else."""
    script = f"""{STANDING}
    > UID STORE 1 +FLAGS.SILENT (\\Flagged)
    NO Request is throttled. Suggested Backoff Time: 300000 milliseconds
    """
    binding = await inbox(db, "anna")
    await store(db, binding, mail(1), mail(2))
    async with ScriptedImap(script, capabilities=MOVING) as server:
        mailbox = Mirrored(db, tmp_path, account_at(server.port), {})
        first, behind = await mailbox.asked(1, STAR), await mailbox.asked(2, DELETE)
        converged = await mailbox.converge()
    assert (converged.failed, converged.left) == (1, 1)
    assert ((await mailbox.row(first)).attempt_count, (await mailbox.row(behind)).attempt_count) == (1, 0)
    assert "anna" in read_pauses(tmp_path, now=mailbox.now())


@pytest.mark.spec("MUT-8", "MUT-35", "MUT-17")
@pytest.mark.parametrize("answer", ["!cut", "* BYE shutting down\n!cut", "* OK [COPYUID 9 1 50] moved\n!cut"])
async def test_a_move_whose_answer_is_lost_is_never_sent_again(db: Database, tmp_path: Path, answer: str) -> None:
    """Cut, or said good-bye to in the middle: the outcome is unknown, and later passes send nothing."""
    script = f'{STANDING}>> UID MOVE 1 "Archive"\n{answer}'
    mailbox, (change,), server = await converged(db, tmp_path, script, move_to("Archive"), passes=3)
    assert (await ending(mailbox, change))[:2] == (Stage.PLACEMENT_ISSUED, 25002)
    assert len(server.sent("UID MOVE")) == 1
    assert server.connections == 1


@pytest.mark.spec("MUT-4", "MUT-34")
@pytest.mark.case("64")
async def test_capabilities_count_in_lower_case(db: Database, tmp_path: Path) -> None:
    """A server that writes `move uidplus` is not taken for one that lacks them."""
    script = f'{STANDING}> UID MOVE 1 "Archive"\nOK [COPYUID 9 1 50] done'
    mailbox, (change,), server = await converged(
        db, tmp_path, script, move_to("Archive"), capabilities="imap4rev1 move uidplus"
    )
    assert await ending(mailbox, change) == (Stage.COMPLETED, None, (9, 50))
    assert not server.sent("COPY")


@pytest.mark.spec("MUT-4", "MUT-34")
@pytest.mark.case("62", "65")
@pytest.mark.parametrize("terms", [DELETE, move_to("Archive")], ids=["delete", "relocate"])
async def test_without_uidplus_nothing_is_removed(db: Database, tmp_path: Path, terms: Terms) -> None:
    """Neither MOVE nor UIDPLUS: refused with 25001 before any command, so that no duplicate and no mark remains."""
    mailbox, (change,), server = await converged(db, tmp_path, "", terms, capabilities="IMAP4rev1", passes=2)
    assert (await ending(mailbox, change))[:2] == (Stage.ABANDONED, 25001)
    assert (await mailbox.row(change)).attempt_count == 1
    assert not server.sent("SELECT")


@pytest.mark.case("5")
@pytest.mark.parametrize(
    "identity",
    [
        IDENTITY.replace(f"RFC822.SIZE {SIZE}", "RFC822.SIZE 99"),
        IDENTITY.replace("<1@", "<another@"),
    ],
    ids=["another size", "another Message-ID"],
)
async def test_another_message_under_the_uid_is_left_alone(db: Database, tmp_path: Path, identity: str) -> None:
    """A server that renumbered without telling: the change is abandoned with 25007 and nothing is sent."""
    script = f"{SELECT}> UID FETCH 1 *\n{identity}\nOK done"
    mailbox, (change,), server = await converged(db, tmp_path, script, DELETE)
    assert (await ending(mailbox, change))[:2] == (Stage.ABANDONED, 25007)
    assert not server.sent("STORE")


@pytest.mark.case("5", "28")
async def test_a_message_that_is_gone_is_said_to_be_gone(db: Database, tmp_path: Path) -> None:
    """No FETCH answer and no hit of SEARCH: abandoned with 25006, not reported as done."""
    script = f"{SELECT}{GONE}> UID FETCH 1 *\nOK done"
    mailbox, (change,), server = await converged(db, tmp_path, script, STAR)
    assert (await ending(mailbox, change))[:2] == (Stage.ABANDONED, 25006)
    assert not server.sent("STORE")


@pytest.mark.case("5", "10")
async def test_what_the_server_leaves_out_speaks_against_nothing(db: Database, tmp_path: Path) -> None:
    """A FETCH answer without size and Message-ID is unknown, not different; one that is missing is a failed attempt."""
    script = f"""{SELECT}
    > UID FETCH 1 *
    OK done
    > UID SEARCH UID 1
    * SEARCH 1
    OK done
    > UID FETCH 1 *
    * 1 FETCH (UID 1 BODY[HEADER.FIELDS (MESSAGE-ID)] {{{{\\r\\n}}}})
    OK done
    > UID STORE 1 +FLAGS.SILENT (\\Flagged)
    OK done
    """
    mailbox, (change,), _ = await converged(db, tmp_path, script, STAR, passes=2)
    row = await mailbox.row(change)
    assert (row.stage, row.attempt_count) == (Stage.COMPLETED, 2)


@pytest.mark.case("70")
@pytest.mark.spec("MUT-4")
async def test_what_stays_after_its_expunge_is_not_said_to_be_gone(db: Database, tmp_path: Path) -> None:
    """A server that answers OK to UID EXPUNGE and keeps the message: a failed attempt, never a plain EXPUNGE."""
    script = f"""{SELECT}{FETCH}{THERE}
    >> UID STORE 1 +FLAGS.SILENT (\\Deleted)
    OK done
    >> UID EXPUNGE 1
    OK done
    """
    mailbox, (change,), server = await converged(db, tmp_path, script, DELETE, passes=2)
    assert (await ending(mailbox, change))[:2] == (Stage.SOURCE_FLAGGED_DELETED, 25004)
    assert (len(server.sent("STORE")), len(server.sent("UID EXPUNGE"))) == (1, 2)


@pytest.mark.case("70")
async def test_gmail_deletes_only_from_trash_and_junk(db: Database, tmp_path: Path) -> None:
    """Gmail keeps in All Mail what is expunged elsewhere, so a deletion there is refused with 25001."""
    mailbox, (change,), server = await converged(db, tmp_path, "", DELETE, capabilities=f"{MOVING} X-GM-EXT-1")
    assert (await ending(mailbox, change))[:2] == (Stage.ABANDONED, 25001)
    assert not server.sent("SELECT")


@pytest.mark.spec("MUT-29", "MUT-B3")
async def test_a_recreated_folder_gets_no_command(db: Database, tmp_path: Path) -> None:
    """Another UIDVALIDITY than recorded ends the row at once with 23001; nothing but SELECT was sent."""
    script = SELECT.replace("UIDVALIDITY 7", "UIDVALIDITY 8")
    mailbox, (change,), server = await converged(db, tmp_path, script, DELETE, passes=2)
    assert (await ending(mailbox, change))[:2] == (Stage.ABANDONED, 23001)
    assert [command.split()[0] for command in server.commands if command.split()[0] in {"UID", "STATUS"}] == []


@pytest.mark.spec("MUT-27")
async def test_a_folder_that_keeps_no_keywords_refuses_to_get_some(db: Database, tmp_path: Path) -> None:
    r"""Without `\*` an addition is refused with 25001, also as part of set-keywords; a removal and a clearing are not."""
    script = (
        SELECT.replace(r" \\*", " old")
        + FETCH.replace("FLAGS ()", "FLAGS (old)")
        + """
    >> UID STORE 1 -FLAGS.SILENT (old)
    OK done
    """
    )
    binding = await inbox(db, "anna")
    await store(db, binding, mail(1))
    async with ScriptedImap(script, capabilities=MOVING) as server:
        mailbox = Mirrored(db, tmp_path, account_at(server.port), {})
        endings = []
        for kind, names in (
            (Mutation.ADD_KEYWORDS, ["new"]),
            (Mutation.SET_KEYWORDS, ["old", "new"]),
            (Mutation.REMOVE_KEYWORDS, ["old"]),
            (Mutation.SET_KEYWORDS, []),
        ):
            change = await mailbox.asked(1, keywords(kind, *names))
            await mailbox.converge()
            endings.append((await ending(mailbox, change))[:2])
    assert server.unexpected == []
    assert endings == [(Stage.ABANDONED, 25001)] * 2 + [(Stage.COMPLETED, None)] * 2
    assert len(server.sent("STORE")) == 2
