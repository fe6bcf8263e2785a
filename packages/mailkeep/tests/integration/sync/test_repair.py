"""Damaged content is fetched again, and what an earlier build could not store is tried once by this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import folder, mail, rows, run_once, stored
from support.scripted_imap import ScriptedImap
from support.tap import Tap

from mailkeep.db import Database
from mailkeep.errors import StoredContentUnreadable
from mailkeep.mailbox import AccountId, ReadableFolder, Scope, folder_bindings, folder_status, raw_mime
from mailkeep.sync.resources import utc_now

pytestmark = pytest.mark.anyio

DAMAGE = """
UPDATE email_message_contents c SET raw_mime = overlay(c.raw_mime placing 'X'::bytea from 1)
FROM stored_emails e WHERE e.id = c.stored_email_id AND e.uid = ANY(%s)
"""
REQUESTS = """
SELECT e.uid, r.defect, r.last_attempt_outcome FROM email_content_repair_requests r
JOIN stored_emails e ON e.id = r.stored_email_id ORDER BY e.uid
"""


async def damage(db: Database, *uids: int) -> None:
    """Spoil stored octets behind the store's back, and read them, which notices."""
    async with db.connection() as connection:
        await connection.execute(DAMAGE, (list(uids),))
    await read(db, *uids)


async def read(db: Database, *uids: int) -> None:
    """Try to read messages whose content is damaged."""
    (binding,) = [one for one in await folder_bindings(db, AccountId("anna")) if one.alias == "INBOX"]
    scope = Scope((binding.account_id,), (ReadableFolder(binding.folder_id, binding.account_id, "INBOX", None),), False)
    for (stored_email_id,) in await rows(db, "SELECT id FROM stored_emails WHERE uid = ANY(%s)", list(uids)):
        with pytest.raises(StoredContentUnreadable):
            await raw_mime(db, stored_email_id, scope=scope, now=utc_now())


async def status(db: Database) -> Any:
    """What status tells of INBOX."""
    return next(one for one in await folder_status(db, AccountId("anna")) if one.alias == "INBOX")


@pytest.mark.spec("SYNC-119", "SYNC-120")
async def test_damaged_content_is_fetched_again_onto_its_row(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A quiet folder is opened for it, those messages alone are fetched, the requests are cleared, nothing is marked."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 9)])
    await run_once(db, tmp_path, account_at(dovecot.ports.plain, user_name=user))
    before = await stored(db)
    await damage(db, 3, 6)
    assert ((await status(db)).damaged, (await status(db)).unrepairable) == (2, 0)
    async with Tap(dovecot.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user))
    assert folder(outcome).repaired == 2
    assert [line.split("UID FETCH ")[1].split()[0] for line in tap.commands("BODY.PEEK[]")] == ["3,6"]
    assert await stored(db) == before
    assert await rows(db, REQUESTS) == []
    assert folder(await run_once(db, tmp_path, account_at(dovecot.ports.plain, user_name=user))).was_proven_unchanged
    with dovecot.client(user) as other:
        assert not any("\\Seen" in flags for flags in other.flags("INBOX").values())


@pytest.mark.spec("SYNC-120")
async def test_what_the_server_has_no_more_stays_requested_and_says_so(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """It is not asked for in every run, only when somebody meets the damage again; the old octets are kept."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 4)])
    account = account_at(dovecot.ports.plain, user_name=user)
    await run_once(db, tmp_path, account)
    async with db.connection() as connection:  # a message of which the server never heard
        await connection.execute("UPDATE stored_emails SET uid = 900 WHERE uid = 2")
    await damage(db, 900)
    assert folder(await run_once(db, tmp_path, account)).repaired == 0
    assert await rows(db, REQUESTS) == [(900, "HashMismatch", "GoneFromServer")]
    assert ((await status(db)).damaged, (await status(db)).unrepairable) == (1, 1)
    assert folder(await run_once(db, tmp_path, account)).was_proven_unchanged
    await read(db, 900)
    assert not folder(await run_once(db, tmp_path, account)).was_proven_unchanged
    assert await rows(db, "SELECT count(*) FROM email_message_contents") == [(3,)]


@pytest.mark.spec("SYNC-120")
async def test_damage_of_another_uid_validity_or_of_removed_mail_is_not_fetched(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Their UIDs name nothing on the server, or something else."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 6)])
    account = account_at(dovecot.ports.plain, user_name=user)
    await run_once(db, tmp_path, account)
    await damage(db, 2, 4)
    async with db.connection() as connection:
        await connection.execute("UPDATE stored_emails SET uid_validity = uid_validity + 1 WHERE uid = 2")
        await connection.execute("UPDATE stored_emails SET remote_expunge_observed_at = now() WHERE uid = 4")
    async with Tap(dovecot.ports.plain) as tap:
        assert folder(await run_once(db, tmp_path, account_at(tap.port, user_name=user))).repaired == 0
    assert tap.commands("BODY.PEEK[]") == []
    assert [row[2] for row in await rows(db, REQUESTS)] == [None, None]


SCRIPT = r"""
>> LIST *
* LIST () "/" INBOX
OK done
>> STATUS *
* STATUS INBOX (MESSAGES 2 UIDNEXT 3 UIDVALIDITY 7)
OK done
>> EXAMINE *
* 2 EXISTS
* OK [UIDVALIDITY 7]
* OK [UIDNEXT 3]
OK done
>> UID FETCH * (FLAGS UID)
* 1 FETCH (UID 1 FLAGS ())
* 2 FETCH (UID 2 FLAGS ())
OK done
> UID SEARCH UID 1:2
* SEARCH 1 2
OK done
> UID FETCH 1:2 (UID FLAGS INTERNALDATE RFC822.SIZE)
* 1 FETCH (UID 1 FLAGS () RFC822.SIZE 4)
* 2 FETCH (UID 2 FLAGS () RFC822.SIZE 4)
OK done
>> UID FETCH 2 (UID FLAGS INTERNALDATE RFC822.SIZE)
* 2 FETCH (UID 2 FLAGS () RFC822.SIZE 4)
OK done
> UID FETCH 1:2 (UID BODY.PEEK[])
* 1 FETCH (UID 1 BODY[] {{a: 1}})
NO not that one
> UID FETCH 2 (UID BODY.PEEK[])
NO not that one
"""
RETRIED = "> UID FETCH 2 (UID BODY.PEEK[])\nNO still not\n> UID FETCH 2 (UID BODY.PEEK[])\n* 2 FETCH (UID 2 BODY[] {{a: 2}})\nOK done"
QUARANTINE = "SELECT uid, attempt_count FROM quarantined_messages"
FORMER_BUILD = "UPDATE quarantined_messages SET attempted_by_version = '0.0.1'"


@pytest.mark.case("212")
async def test_quarantined_mail_is_tried_once_by_every_new_build(db: Database, tmp_path: Path) -> None:
    """Not by the build that failed; an attempt that fails is counted and not repeated; one that works brings it in."""
    async with ScriptedImap(SCRIPT + RETRIED) as server:
        account = account_at(server.port)

        async def attempts() -> tuple[int, list[tuple[Any, ...]]]:
            assert not (await run_once(db, tmp_path, account)).is_failed
            return len(server.sent("UID FETCH 2 (UID BODY.PEEK[])")), await rows(db, QUARANTINE)

        assert await attempts() == (1, [(2, 1)])
        assert await attempts() == (1, [(2, 1)])
        for expected in ((2, [(2, 2)]), (3, [])):
            async with db.connection() as connection:
                await connection.execute(FORMER_BUILD)
            assert await attempts() == expected
            assert await attempts() == expected
    assert server.unexpected == []
    assert sorted(await stored(db)) == [1, 2]
