"""Synchronization against servers that behave as reported from the field."""

import asyncio
from pathlib import Path

import pytest
from support.accounts import account_at
from support.engine import checkpoint, engine, folder, rows, run_once, stored, tombstones
from support.scripted_imap import ScriptedImap

from mailkeep.db import Database
from mailkeep.sync import Outcome, retry_quarantined

pytestmark = pytest.mark.anyio


def inbox(messages: int, *, uid_next: int | None = None, modseq: str = "", status: str | None = None) -> str:
    """A server with INBOX alone; `status` replaces what STATUS says, `uid_next` None leaves it out of EXAMINE."""
    known = f"UIDNEXT {uid_next} " if uid_next is not None else ""
    said = f"* OK [UIDNEXT {uid_next}]" if uid_next is not None else "* OK hello"
    return rf"""
    >> LIST *
    * LIST () "/" INBOX
    OK done
    >> STATUS *
    * STATUS INBOX ({status or f"MESSAGES {messages} {known}UIDVALIDITY 7"})
    OK done
    >> EXAMINE *
    * {messages} EXISTS
    * OK [UIDVALIDITY 7]
    {said}
    {modseq or "* OK ready"}
    OK done
    """


def described(*uids: int, size: int = 4) -> str:
    """Metadata rules for these UIDs in one answer."""
    lines = "\n".join(f"* {uid} FETCH (UID {uid} FLAGS () RFC822.SIZE {size})" for uid in uids)
    return f">> UID FETCH * (UID FLAGS INTERNALDATE RFC822.SIZE)\n{lines}\nOK done\n"


async def quarantine_rows(db: Database) -> list[tuple[object, ...]]:
    return await rows(db, "SELECT uid, reason, attempt_count FROM quarantined_messages ORDER BY uid")


@pytest.mark.case("8")
@pytest.mark.spec("SYNC-53")
async def test_uidnext_is_taken_from_status_when_examine_lacks_it(db: Database, tmp_path: Path) -> None:
    """The search is bounded by what STATUS said, not by a guess from the highest sequence number."""
    script = (
        inbox(1, status="MESSAGES 1 UIDNEXT 9 UIDVALIDITY 7")
        + described(3)
        + r"""
    > UID SEARCH UID 1:8
    * SEARCH 3
    OK done
    > UID FETCH 3 (UID BODY.PEEK[])
    * 1 FETCH (UID 3 BODY[] {{a: b}})
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert server.unexpected == []
    assert not outcome.is_failed
    assert (await checkpoint(db))[1] == 8
    assert sorted(await stored(db)) == [3]


@pytest.mark.case("7", "13")
@pytest.mark.spec("SYNC-53")
async def test_without_any_uidnext_new_mail_is_found_and_old_mail_is_not_fetched_again(
    db: Database, tmp_path: Path
) -> None:
    """`n:*` is answered with the last message; it is dropped, and no UID is checkpointed that was not handled."""
    script = (
        inbox(1, status="MESSAGES 1 UIDVALIDITY 7")
        + described(5)
        + r"""
    > UID SEARCH UID 1:*
    * SEARCH 5
    OK done
    > UID FETCH 5 (UID BODY.PEEK[])
    * 1 FETCH (UID 5 BODY[] {{a: b}})
    OK done
    >> UID SEARCH UID 6:*
    * SEARCH 5
    OK done
    >> UID SEARCH UID 1:5
    * SEARCH 5
    OK done
    >> UID FETCH 1:5 (FLAGS UID)
    * 1 FETCH (UID 5 FLAGS ())
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        for _ in range(3):
            outcome = await run_once(db, tmp_path, account_at(server.port))
            assert not outcome.is_failed
    assert server.unexpected == []
    assert len(server.sent("BODY.PEEK[]")) == 1
    assert (await checkpoint(db))[1] == 5


@pytest.mark.case("11")
@pytest.mark.spec("SYNC-53", "SYNC-67")
async def test_a_last_message_that_vanished_unseen_is_not_looked_for_again(db: Database, tmp_path: Path) -> None:
    """The search finds nothing below UIDNEXT; the pass completes there, and the next run has nothing to search."""
    script = inbox(0, uid_next=9) + "> UID SEARCH UID 1:8\n* SEARCH\nOK done"
    async with ScriptedImap(script) as server:
        for _ in range(3):
            assert not (await run_once(db, tmp_path, account_at(server.port))).is_failed
    assert server.unexpected == []
    assert (await checkpoint(db))[1] == 8


@pytest.mark.case("26", "212")
async def test_a_refused_range_is_halved_until_the_one_message_at_fault_is_set_aside(
    db: Database, tmp_path: Path
) -> None:
    """All others arrive, the one is named with its reason, the checkpoint passes both, and a retry brings it in."""
    script = (
        inbox(4, uid_next=5)
        + described(1, 2, 3, 4)
        + r"""
    > UID SEARCH UID 1:4
    * SEARCH 1 2 3 4
    OK done
    > UID FETCH 1:4 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{a: 1}})
    NO Some messages could not be FETCHed (Failure)
    > UID FETCH 2:3 (UID BODY.PEEK[])
    NO Some messages could not be FETCHed (Failure)
    > UID FETCH 2 (UID BODY.PEEK[])
    * 2 FETCH (UID 2 BODY[] {{a: 2}})
    OK done
    > UID FETCH 3 (UID BODY.PEEK[])
    NO Some messages could not be FETCHed (Failure)
    > UID FETCH 4 (UID BODY.PEEK[])
    * 4 FETCH (UID 4 BODY[] {{a: 4}})
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
        assert server.unexpected == []
    assert not outcome.is_failed
    assert sorted(await stored(db)) == [1, 2, 4]
    assert await quarantine_rows(db) == [(3, "FetchRefused", 1)]
    assert (await checkpoint(db))[1] == 4

    still = inbox(4, uid_next=5) + described(3) + "> UID FETCH 3 (UID BODY.PEEK[])\nNO no\n"
    async with ScriptedImap(still) as server, engine(db, tmp_path, account_at(server.port)) as resources:
        (retried,) = await retry_quarantined(resources, "anna")
    assert len(retried.arrivals.quarantined) == 1
    assert await quarantine_rows(db) == [(3, "FetchRefused", 2)]

    mended = (
        inbox(4, uid_next=5)
        + described(3)
        + r"""
    > UID FETCH 3 (UID BODY.PEEK[])
    * 3 FETCH (UID 3 BODY[] {{a: 3}})
    OK done
    """
    )
    async with ScriptedImap(mended) as server, engine(db, tmp_path, account_at(server.port)) as resources:
        (retried,) = await retry_quarantined(resources, "anna", alias="INBOX")
    assert retried.arrivals.stored == 1
    assert await quarantine_rows(db) == []
    assert sorted(await stored(db)) == [1, 2, 3, 4]


async def test_a_quarantined_message_that_is_gone_leaves_the_quarantine(db: Database, tmp_path: Path) -> None:
    """On retry, and when reconciliation no longer finds it."""
    script = (
        inbox(3, uid_next=4)
        + described(1, 2, 3)
        + r"""
    > UID SEARCH UID 1:3
    * SEARCH 1 2 3
    OK done
    > UID FETCH 3 (UID BODY.PEEK[])
    * 3 FETCH (UID 3 BODY[] {{a: b}})
    OK done
    >> UID FETCH * (UID BODY.PEEK[])
    NO broken
    """
    )
    async with ScriptedImap(script) as server:
        await run_once(db, tmp_path, account_at(server.port))
    assert [row[0] for row in await quarantine_rows(db)] == [1, 2]
    gone = inbox(2, uid_next=4) + ">> UID FETCH *\nOK done\n>> UID SEARCH UID 1:3\n* SEARCH 2 3\nOK done\n"
    gone += ">> UID SEARCH UID 1\n* SEARCH\nOK done\n>> UID SEARCH UID 2\n* SEARCH\nOK done"
    async with ScriptedImap(gone) as server:
        await run_once(db, tmp_path, account_at(server.port))
        assert [row[0] for row in await quarantine_rows(db)] == [2]
        async with engine(db, tmp_path, account_at(server.port)) as resources:
            (outcome,) = await retry_quarantined(resources, "anna")
    assert outcome.gone == 1
    assert await quarantine_rows(db) == []


@pytest.mark.case("28")
@pytest.mark.spec("SYNC-67")
async def test_a_message_gone_between_listing_and_fetch_leaves_nothing_behind(db: Database, tmp_path: Path) -> None:
    """OK with nothing in it records nothing; the checkpoint moves past."""
    script = (
        inbox(2, uid_next=3)
        + described(1, 2)
        + r"""
    > UID SEARCH UID 1:2
    * SEARCH 1 2
    OK done
    > UID FETCH 1:2 (UID BODY.PEEK[])
    * 2 FETCH (UID 2 BODY[] {{a: b}})
    OK done
    > UID SEARCH UID 1
    * SEARCH
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert server.unexpected == []
    assert not outcome.is_failed
    assert sorted(await stored(db)) == [2]
    assert await quarantine_rows(db) == []
    assert (await checkpoint(db))[1] == 2


@pytest.mark.spec("SYNC-55")
@pytest.mark.case("212")
@pytest.mark.parametrize(
    "answer", [r"* 2 FETCH (UID 2 BODY[] NIL)", r"* 2 FETCH (UID 999 BODY[] {{a: b}})", r"* 2 FETCH (UID 2)"]
)
async def test_a_message_passed_over_in_silence_is_set_aside_and_not_taken_for_gone(
    db: Database, tmp_path: Path, answer: str
) -> None:
    """NIL, nothing or another message's UID under an OK: the folder still lists the message, so it is named."""
    script = (
        inbox(2, uid_next=3)
        + described(1, 2)
        + rf"""
    >> UID SEARCH UID 1:2
    * SEARCH 1 2
    OK done
    >> UID SEARCH UID 2
    * SEARCH 2
    OK done
    >> UID FETCH 1:2 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{{{a: b}}}})
    {answer}
    OK done
    >> UID FETCH 2 (UID BODY.PEEK[])
    {answer}
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert not outcome.is_failed
    assert sorted(await stored(db)) == [1]
    assert await quarantine_rows(db) == [(2, "FetchIncomplete", 1)]


@pytest.mark.spec("SYNC-55")
async def test_a_message_that_metadata_passes_over_is_fetched_all_the_same(db: Database, tmp_path: Path) -> None:
    """A gap in the metadata is no proof that a message has gone; while the folder lists it, it is asked for."""
    script = (
        inbox(2, uid_next=3)
        + described(1)
        + r"""
    >> UID SEARCH UID 1:2
    * SEARCH 1 2
    OK done
    >> UID SEARCH UID 2
    * SEARCH 2
    OK done
    >> UID FETCH 1 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{a: 1}})
    OK done
    >> UID FETCH 2 (UID BODY.PEEK[])
    * 2 FETCH (UID 2 BODY[] {{a: 2}})
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        await run_once(db, tmp_path, account_at(server.port))
    assert sorted(await stored(db)) == [1, 2]


@pytest.mark.spec("SYNC-61")
@pytest.mark.case("26", "209")
async def test_a_giant_that_nobody_asked_for_does_not_hold_the_folder(db: Database, tmp_path: Path) -> None:
    """A server that answers every question with one endless message is asked a bounded number of times."""
    script = (
        inbox(2, uid_next=3)
        + described(1, 2)
        + r"""
    >> UID SEARCH *
    * SEARCH 1 2
    OK done
    >> UID FETCH * (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {4294967296}
    !hang
    >> UID FETCH * (UID BODY.PEEK[HEADER])
    * 1 FETCH (UID 1 BODY[HEADER] {{Subject: giant}})
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        async with asyncio.timeout(20):
            await run_once(db, tmp_path, account_at(server.port))
    assert sorted(await stored(db)) == [1]
    assert await quarantine_rows(db) == [(2, "FetchIncomplete", 1)]


@pytest.mark.case("14")
async def test_an_answer_that_does_not_say_for_whom_is_asked_again(db: Database, tmp_path: Path) -> None:
    """Items without UID are asked for one by one, metadata included, and the run goes on."""
    script = (
        inbox(2, uid_next=3)
        + r"""
    > UID SEARCH UID 1:2
    * SEARCH 1 2
    OK done
    > UID FETCH 1:2 (UID FLAGS INTERNALDATE RFC822.SIZE)
    * 1 FETCH (FLAGS () RFC822.SIZE 4)
    * 2 FETCH (UID 2 FLAGS (\Seen) RFC822.SIZE 4)
    OK done
    > UID FETCH 1 (FLAGS UID)
    * 1 FETCH (FLAGS ())
    OK done
    >> UID FETCH 1 (UID BODY.PEEK[])
    * 1 FETCH (BODY[] {{a: 1}})
    OK done
    >> UID FETCH 2 (UID BODY.PEEK[])
    * 2 FETCH (UID 2 BODY[] {{a: 2}})
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert server.unexpected == []
    assert not outcome.is_failed
    inbox_rows = await stored(db)
    assert [row[1] for row in inbox_rows.values()] == [b"a: 1", b"a: 2"]
    observed = await rows(db, "SELECT uid, remote_flags_observed_at IS NULL FROM stored_emails ORDER BY uid")
    assert observed == [(1, True), (2, False)]


@pytest.mark.case("44", "220")
async def test_a_message_that_breaks_the_connection_is_isolated_and_the_others_arrive(
    db: Database, tmp_path: Path
) -> None:
    """Each break costs a new connection and a new EXAMINE; after enough of them the one message is set aside."""
    lying = r"* 2 FETCH (UID 2 BODY[] {{2|Subject: x\r\n* 1 EXPUNGE\r\n}})"
    script = (
        inbox(3, uid_next=4)
        + described(1, 2, 3)
        + rf"""
    > UID SEARCH UID 1:3
    * SEARCH 1 2 3
    OK done
    >> UID FETCH 1 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{{{a: 1}}}})
    OK done
    >> UID FETCH 3 (UID BODY.PEEK[])
    * 3 FETCH (UID 3 BODY[] {{{{a: 3}}}})
    OK done
    >> UID FETCH *2* (UID BODY.PEEK[])
    {lying}
    OK done
    >> UID FETCH 1:3 (UID BODY.PEEK[])
    {lying}
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert server.unexpected == []
    assert not outcome.is_failed
    assert sorted(await stored(db)) == [1, 3]
    assert await quarantine_rows(db) == [(2, "FetchIncomplete", 1)]
    assert len(server.sent("EXAMINE")) == server.connections
    assert (await checkpoint(db))[1] == 3


@pytest.mark.case("43")
@pytest.mark.spec("SYNC-62")
async def test_a_message_of_unreported_size_arrives(db: Database, tmp_path: Path) -> None:
    """RFC822.SIZE may be missing; the row takes the size of what came."""
    script = (
        inbox(1, uid_next=2)
        + r"""
    > UID SEARCH UID 1:1
    * SEARCH 1
    OK done
    > UID FETCH 1 (UID FLAGS INTERNALDATE RFC822.SIZE)
    * 1 FETCH (UID 1 FLAGS ())
    OK done
    > UID FETCH 1 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{a: b}})
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert not outcome.is_failed
    assert await rows(db, "SELECT size_octets FROM stored_emails") == [(4,)]


@pytest.mark.spec("SYNC-61")
@pytest.mark.case("209")
async def test_an_understated_message_becomes_a_row_from_its_header(db: Database, tmp_path: Path) -> None:
    """Whether it was read over or cost the connection, the result is the same as for an announced size."""
    script = (
        inbox(3, uid_next=4)
        + described(1, 2, 3)
        + r"""
    > UID SEARCH UID 1:3
    * SEARCH 1 2 3
    OK done
    > UID FETCH 1:3 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{1500|0}}
    !cut
    > UID FETCH 1:3 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{1400000000|begin}}
    > UID FETCH 2:3 (UID BODY.PEEK[])
    * 2 FETCH (UID 2 BODY[] {{BIG}})
    * 3 FETCH (UID 3 BODY[] {{a: 3}})
    OK done
    > UID FETCH 1:2 (UID BODY.PEEK[HEADER])
    * 1 FETCH (UID 1 BODY[HEADER] {{Subject: first\r\n\r\n}})
    * 2 FETCH (UID 2 BODY[HEADER] {{Subject: second\r\n\r\n}})
    OK done
    """.replace("BIG", "x" * 1200)
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port), max_raw_mime_bytes=1024)
    assert server.unexpected == []
    assert not outcome.is_failed
    assert await rows(db, "SELECT uid, subject, size_octets, content_availability FROM stored_emails ORDER BY uid") == [
        (1, "first", 1_400_000_000, "ExceededSizeLimit"),
        (2, "second", 1200, "ExceededSizeLimit"),
        (3, None, 4, "Available"),
    ]


async def first_run(db: Database, tmp_path: Path) -> None:
    """Three messages stored, for what comes later."""
    script = (
        inbox(3, uid_next=4)
        + described(1, 2, 3)
        + r"""
    > UID SEARCH UID 1:3
    * SEARCH 1 2 3
    OK done
    > UID FETCH 1:3 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{a: 1}})
    * 2 FETCH (UID 2 BODY[] {{a: 2}})
    * 3 FETCH (UID 3 BODY[] {{a: 3}})
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        assert not (await run_once(db, tmp_path, account_at(server.port))).is_failed


@pytest.mark.spec("SYNC-73")
async def test_an_answer_without_flags_ends_the_folder_run_and_erases_nothing(db: Database, tmp_path: Path) -> None:
    """24001: an incomplete answer never passes for a change or a deletion."""
    await first_run(db, tmp_path)
    script = (
        inbox(3, uid_next=4)
        + r"""
    >> UID FETCH 1:3 (FLAGS UID)
    * 1 FETCH (UID 1 FLAGS (\Seen))
    * 2 FETCH (UID 2)
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert (folder(outcome).outcome, folder(outcome).failure_code) == (Outcome.UNEXPECTED_FAILURE, 24001)
    assert outcome.is_failed
    assert [row[2] for row in (await stored(db)).values()] == [False, False, False]


@pytest.mark.spec("SYNC-73")
async def test_a_server_that_contradicts_itself_deletes_nothing(db: Database, tmp_path: Path) -> None:
    """What a search left out is asked for by name; a message that is then there after all ends the run."""
    await first_run(db, tmp_path)
    script = (
        inbox(2, uid_next=4)
        + r"""
    >> UID FETCH 1:3 (FLAGS UID)
    OK done
    >> UID SEARCH UID 1:3
    * SEARCH 1
    OK done
    >> UID SEARCH UID 2:3
    * SEARCH 3
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert folder(outcome).failure_code == 24001
    assert await tombstones(db) == []


@pytest.mark.case("56", "59")
@pytest.mark.spec("SYNC-36")
async def test_a_throttled_account_waits_and_no_message_is_blamed(db: Database, tmp_path: Path) -> None:
    """The folder is deferred, the cursor kept, nothing quarantined."""
    script = (
        inbox(2, uid_next=3)
        + described(1, 2)
        + r"""
    > UID SEARCH UID 1:2
    * SEARCH 1 2
    OK done
    >> UID FETCH * (UID BODY.PEEK[])
    NO Request is throttled. Suggested Backoff Time: 299609 milliseconds
    """
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
        assert len(server.sent("BODY.PEEK[]")) == 1
    assert folder(outcome).outcome is Outcome.DEFERRED_AFTER_MAIL_SERVER_UNAVAILABLE
    assert await quarantine_rows(db) == []
    assert (await checkpoint(db))[1] is None


@pytest.mark.case("19")
async def test_an_empty_folder_with_a_mod_sequence_of_zero_neither_wipes_nor_loops(
    db: Database, tmp_path: Path
) -> None:
    """HIGHESTMODSEQ 0 is no sequence; the second run does not even open the folder."""
    script = inbox(
        0, uid_next=1, modseq="* OK [HIGHESTMODSEQ 0]", status="MESSAGES 0 UIDNEXT 1 UIDVALIDITY 7 HIGHESTMODSEQ 0"
    )
    async with ScriptedImap(script, capabilities="IMAP4rev1 CONDSTORE") as server:
        for _ in range(3):
            outcome = await run_once(db, tmp_path, account_at(server.port))
            assert not outcome.is_failed
    assert folder(outcome).was_proven_unchanged
    assert len(server.sent("EXAMINE")) == 1
    assert server.unexpected == []


@pytest.mark.case("79")
async def test_folder_lines_that_could_not_be_read_are_in_the_outcome(db: Database, tmp_path: Path) -> None:
    """People can see that a folder is missing from the mirror, and that it is the server's doing."""
    script = '> LIST *\n* LIST () "/" INBOX\n* LIST () "/" "a"b"\nLONG\nOK done\n' + inbox(0, uid_next=1)
    script = script.replace("LONG", f'* LIST () "/" "{"l" * 600}"')
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert outcome.unreadable_folder_lines == 2
    assert not outcome.is_failed


@pytest.mark.spec("SYNC-9", "SYNC-11")
async def test_a_folder_that_fails_does_not_take_the_others_with_it(db: Database, tmp_path: Path) -> None:
    """The refused folder is a failure with its code; its neighbour is synchronized."""
    script = r"""
    > LIST *
    * LIST () "/" Broken
    * LIST () "/" INBOX
    OK done
    > STATUS "INBOX" *
    * STATUS INBOX (MESSAGES 0 UIDNEXT 1 UIDVALIDITY 7)
    OK done
    > STATUS "Broken" *
    NO denied
    > EXAMINE "Broken"
    NO [NOPERM] denied for someone@example.com
    """ + inbox(0, uid_next=1)
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert folder(outcome).outcome is Outcome.SYNCHRONIZED
    assert (folder(outcome, "BROKEN").outcome, folder(outcome, "BROKEN").failure_code) == (
        Outcome.UNEXPECTED_FAILURE,
        24002,
    )
    assert outcome.is_failed
