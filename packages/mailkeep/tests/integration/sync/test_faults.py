"""Messages that do not come: whether they are set aside, or the folder waits for its server."""

from pathlib import Path

import pytest
from support.accounts import account_at
from support.engine import checkpoint, folder, rows, run_once, stored
from support.scripted_imap import ScriptedImap

from mailkeep.db import Database
from mailkeep.sync import FolderOutcome, Outcome

pytestmark = pytest.mark.anyio

NO_CONTENT = 22002


def server_with(last: int, *answers: str) -> str:
    """INBOX with the UIDs from 1 to `last`; `answers` say what the content of messages comes to."""
    lines = "\n".join(f"* {uid} FETCH (UID {uid} FLAGS () RFC822.SIZE 4)" for uid in range(1, last + 1))
    uids = " ".join(map(str, range(1, last + 1)))
    return rf"""
    >> LIST *
    * LIST () "/" INBOX
    OK done
    >> STATUS *
    * STATUS INBOX (MESSAGES {last} UIDNEXT {last + 1} UIDVALIDITY 7)
    OK done
    >> EXAMINE *
    * {last} EXISTS
    * OK [UIDVALIDITY 7]
    * OK [UIDNEXT {last + 1}]
    OK done
    >> UID FETCH * (UID FLAGS INTERNALDATE RFC822.SIZE)
    {lines}
    OK done
    >> UID FETCH * (FLAGS UID)
    {lines}
    OK done
    >> UID SEARCH *
    * SEARCH {uids}
    OK done
    """ + "\n".join(answers)


def gives(uid: int) -> str:
    return f">> UID FETCH {uid} (UID BODY.PEEK[])\n* {uid} FETCH (UID {uid} BODY[] {{{{a: {uid}}}}})\nOK done"


def breaks(uids: str = "*") -> str:
    return f">> UID FETCH {uids} (UID BODY.PEEK[])\n!cut"


def refuses(uids: str = "*") -> str:
    return f">> UID FETCH {uids} (UID BODY.PEEK[])\nNO broken"


async def run(db: Database, home: Path, script: str) -> FolderOutcome:
    async with ScriptedImap(script) as server:
        return folder(await run_once(db, home, account_at(server.port)))


async def set_aside(db: Database) -> list[int]:
    return [row[0] for row in await rows(db, "SELECT uid FROM quarantined_messages ORDER BY uid")]


@pytest.mark.case("44", "212")
@pytest.mark.spec("SYNC-55", "SYNC-144")
@pytest.mark.parametrize("fault", [breaks, refuses])
async def test_a_server_that_gives_no_content_at_all_is_at_fault_however_often(
    db: Database, tmp_path: Path, fault: object
) -> None:
    """Known mail does not come either: the folder is deferred by name, nothing is set aside, and later all arrives."""
    assert callable(fault)
    await run(db, tmp_path, server_with(1, gives(1)))
    for _ in range(5):
        outcome = await run(db, tmp_path, server_with(4, fault()))
        assert (outcome.outcome, outcome.failure_code) == (Outcome.DEFERRED_AFTER_MAIL_SERVER_UNAVAILABLE, NO_CONTENT)
    assert await set_aside(db) == []
    assert (await checkpoint(db))[1] == 1
    mended = await run(db, tmp_path, server_with(4, gives(2), gives(3), gives(4), refuses()))
    assert mended.outcome is Outcome.SYNCHRONIZED
    assert sorted(await stored(db)) == [1, 2, 3, 4]


@pytest.mark.case("44")
@pytest.mark.spec("SYNC-144")
@pytest.mark.parametrize("fault", [breaks, refuses])
async def test_a_single_poisonous_arrival_is_told_from_a_broken_server_by_known_mail(
    db: Database, tmp_path: Path, fault: object
) -> None:
    """What is stored comes, the new message does not: it is set aside in the same run, and the folder goes on."""
    assert callable(fault)
    await run(db, tmp_path, server_with(1, gives(1)))
    outcome = await run(db, tmp_path, server_with(2, gives(1), fault()))
    assert outcome.outcome is Outcome.SYNCHRONIZED
    assert await set_aside(db) == [2]
    assert (await checkpoint(db))[1] == 2


@pytest.mark.spec("SYNC-144")
async def test_a_witness_may_be_poisonous_itself(db: Database, tmp_path: Path) -> None:
    """Stored messages are asked for one by one, and one of them that comes is enough."""
    await run(db, tmp_path, server_with(2, gives(1), gives(2), refuses()))
    outcome = await run(db, tmp_path, server_with(3, gives(1), breaks()))
    assert outcome.outcome is Outcome.SYNCHRONIZED
    assert await set_aside(db) == [3]


@pytest.mark.spec("SYNC-144")
async def test_what_a_folder_has_alone_is_set_aside_after_its_attempts(db: Database, tmp_path: Path) -> None:
    """Without other mail nobody can tell; the first of two messages has three attempts, then the second begins."""
    outcomes = []
    for _ in range(3):
        outcome = await run(db, tmp_path, server_with(1, breaks()))
        outcomes.append(outcome.outcome)
    assert outcomes == [Outcome.DEFERRED_AFTER_MAIL_SERVER_UNAVAILABLE] * 2 + [Outcome.SYNCHRONIZED]
    assert await set_aside(db) == [1]
    second = await run(db, tmp_path, server_with(2, breaks()))
    assert second.failure_code == NO_CONTENT
    assert await rows(db, "SELECT blocked_uid, blocked_attempts FROM synchronization_checkpoints") == [(2, 1)]
    assert (await checkpoint(db))[1] == 1


@pytest.mark.spec("SYNC-144")
async def test_many_poisonous_messages_do_not_hold_the_one_behind_them(db: Database, tmp_path: Path) -> None:
    """After twenty refusals in a row one of those not asked for yet tells that the server gives mail."""
    outcome = await run(db, tmp_path, server_with(26, gives(26), gives(25), refuses()))
    assert outcome.outcome is Outcome.SYNCHRONIZED
    assert await set_aside(db) == list(range(1, 25))
    assert sorted(await stored(db)) == [25, 26]


@pytest.mark.spec("SYNC-11", "SYNC-144")
async def test_a_run_that_fails_midway_says_what_it_stored(db: Database, tmp_path: Path) -> None:
    """Two batches are stored before the server stops giving anything; the outcome counts them."""
    once = [gives(uid).removeprefix(">") for uid in (1, 2)]
    async with ScriptedImap(server_with(4, *once, breaks())) as server:
        outcome = folder(await run_once(db, tmp_path, account_at(server.port), max_metadata_batch_size=1))
    assert outcome.failure_code == NO_CONTENT
    assert outcome.arrivals.stored == 2
    assert sorted(await stored(db)) == [1, 2]
    assert (await checkpoint(db))[1] == 2
