"""A folder whose UIDs were given out anew."""

import os
from datetime import date
from pathlib import Path

import pytest
from support.accounts import account_at
from support.cyrus import Cyrus
from support.dovecot import Dovecot
from support.engine import checkpoint, folder, mail, rows, run_once, stored, tombstones
from support.scripted_imap import ScriptedImap
from support.tap import Tap

from mailkeep.config import AccountSettings
from mailkeep.db import Database
from mailkeep.sync import Outcome

pytestmark = pytest.mark.anyio
RELINKED = int(os.environ.get("MAILKEEP_RELINKED", "1100"))


def account(server: Dovecot, user: str, **options: object) -> AccountSettings:
    return account_at(server.ports.plain, user_name=user, **options)  # type: ignore[arg-type]


@pytest.mark.case("1", "4")
@pytest.mark.spec("SYNC-51", "SYNC-71")
async def test_known_mail_is_linked_again_and_what_arrived_meanwhile_is_found(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Ids and octets stay, UIDs are the new ones, the mail of the same interval is stored, nothing is duplicated."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 9)])
    await run_once(db, tmp_path, account(dovecot, user))
    before = {row[1]: row[0] for row in (await stored(db)).values()}
    with dovecot.client(user) as other:
        other.append("INBOX", mail("meanwhile"))
        other.flag("INBOX", 3, "\\Seen")
    dovecot.set_uid_validity(user, "INBOX", 77_777)
    outcome = await run_once(db, tmp_path, account(dovecot, user))
    after = {row[1]: row[0] for row in (await stored(db)).values()}
    assert (folder(outcome).arrivals.relinked, folder(outcome).arrivals.stored) == (8, 9)
    assert {octets: after[octets] for octets in before} == before
    assert len(after) == 9
    assert (await stored(db))[3][2] is True
    assert await tombstones(db) == []
    assert (await checkpoint(db))[:2] == (77_777, 9)
    assert {row[0] for row in await rows(db, "SELECT uid_validity FROM stored_emails")} == {77_777}
    again = await run_once(db, tmp_path, account(dovecot, user))
    assert folder(again).was_proven_unchanged


@pytest.mark.case("1", "4", "85")
@pytest.mark.spec("SYNC-51", "SYNC-71")
@pytest.mark.timeout(1800 if RELINKED > 5_000 else 120)
@pytest.mark.parametrize("kind", ["dovecot", "cyrus"])
async def test_a_large_folder_is_linked_again_without_fetching_content(
    db: Database, tmp_path: Path, request: pytest.FixtureRequest, user: str, kind: str
) -> None:
    """Its mail gets other UIDs and UIDVALIDITY: ids, conversations and all that is derived stay, only Message-IDs and
    sizes are asked for. `make sweep` does it with 10,000 messages (MAILKEEP_RELINKED)."""
    derived = """
        SELECT e.id, e.email_thread_id, e.parent_stored_email_id, e.stored_at, d.extracted_at, d.search_vector,
               c.sha256_hash, c.stored_at
        FROM stored_emails e JOIN email_search_documents d ON d.stored_email_id = e.id
        JOIN email_message_contents c ON c.stored_email_id = e.id WHERE e.subject <> 'message 0' ORDER BY e.id"""
    server: Dovecot | Cyrus = request.getfixturevalue(kind)
    with server.client(user) as other:
        other.create("Life")
        for number in range(RELINKED + 1):
            octets = mail(number)
            if number % 3 == 2:  # a conversation of two, now and then
                octets = octets.replace(b"Date:", b"In-Reply-To: <%d@example.com>\r\nDate:" % (number - 1))
            other.append("Life", octets)
        await run_once(db, tmp_path, account_at(server.ports.plain, user_name=user), until_complete=True)
        before = await rows(db, derived)
        other.flag("Life", 4, "\\Flagged")
        other.give_new_uids("Life", skipping=1)
    async with Tap(server.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user), until_complete=True)
    assert len(before) == RELINKED
    assert len({row[1] for row in before}) < RELINKED
    assert await rows(db, derived) == before
    assert (folder(outcome, "LIFE").arrivals.relinked, folder(outcome, "LIFE").octets_fetched) == (RELINKED, 0)
    assert (await stored(db, "LIFE"))[3][3] is True
    assert not tap.commands("BODY.PEEK[]")
    assert len(tap.commands("PEEK")) == -(-RELINKED // 1000)
    assert await tombstones(db) == [1]
    again = await run_once(db, tmp_path, account_at(server.ports.plain, user_name=user))
    assert folder(again, "LIFE").was_proven_unchanged


@pytest.mark.case("1", "85")
async def test_messages_that_only_their_content_tells_apart_are_linked_by_it(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """The same Message-ID and size twice, and no Message-ID at all: these are fetched, the unmistakable one is not."""
    twins = [mail("twin").replace(b"text of twin", b"text of tw" + end) for end in (b"i1", b"i2")]
    nameless = b"Subject: no name\r\n\r\nnothing\r\n"
    dovecot.fill(user, "INBOX", [*twins, nameless, mail("alone")])
    await run_once(db, tmp_path, account(dovecot, user))
    before = {row[1]: row[0] for row in (await stored(db)).values()}
    dovecot.set_uid_validity(user, "INBOX", 88_888)
    async with Tap(dovecot.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user))
    assert {row[1]: row[0] for row in (await stored(db)).values()} == before
    assert folder(outcome).arrivals.relinked == 4
    assert folder(outcome).octets_fetched == sum(map(len, [*twins, nameless]))
    assert await tombstones(db) == []


@pytest.mark.case("1", "2")
@pytest.mark.spec("SYNC-71", "SYNC-79")
async def test_a_recreated_folder_of_the_same_name_is_another_folder(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """UIDs are used again for other mail: nothing is compared by UID; what is found nowhere is gone, what is, stays."""
    with dovecot.client(user) as other:
        other.create("Project")
        for name in ("kept", "lost", "also lost"):
            other.append("Project", mail(name))
        await run_once(db, tmp_path, account(dovecot, user))
        before = {row[1]: row[0] for row in (await stored(db, "PROJECT")).values()}
        other.delete("Project")
        other.create("Project")
        other.append("Project", mail("other"))
        other.append("Project", mail("kept"))
    dovecot.set_uid_validity(user, "Project", 31_337)
    outcome = await run_once(db, tmp_path, account(dovecot, user))
    project = await stored(db, "PROJECT")
    assert {uid: row[1] for uid, row in project.items()} == {1: mail("other"), 2: mail("kept")}
    assert project[2][0] == before[mail("kept")]
    assert folder(outcome, "PROJECT").gone == 2
    assert len(await tombstones(db)) == 2


@pytest.mark.case("2", "4")
@pytest.mark.spec("SYNC-51")
async def test_a_first_pass_that_is_interrupted_by_a_new_identity_starts_over(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Old rows are not taken for the new pass's own work; nothing is retired before everything was enumerated."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 13)])
    first = await run_once(
        db, tmp_path, account(dovecot, user), max_metadata_batch_size=4, max_metadata_batches_per_run=1
    )
    assert folder(first).more_remains
    dovecot.set_uid_validity(user, "INBOX", 999)
    second = await run_once(
        db, tmp_path, account(dovecot, user), max_metadata_batch_size=2, max_metadata_batches_per_run=1
    )
    assert folder(second).more_remains
    assert (await checkpoint(db))[:2] == (999, 6)  # four linked, two fetched
    assert len(await stored(db)) == 6
    assert await tombstones(db) == []
    last = await run_once(db, tmp_path, account(dovecot, user), until_complete=True)
    assert not last.more_remains
    assert [row[1] for row in (await stored(db)).values()] == [mail(number) for number in range(1, 13)]
    assert await tombstones(db) == []
    assert (await rows(db, "SELECT count(*) FROM stored_emails"))[0][0] == 12


@pytest.mark.spec("SYNC-54")
async def test_an_earliest_date_retires_nothing_it_did_not_enumerate(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Mail older than the date stays after a UIDVALIDITY change: narrowing deletes nothing."""
    dovecot.fill(user, "INBOX", [mail(1), mail(2)])
    await run_once(db, tmp_path, account(dovecot, user))
    dovecot.set_uid_validity(user, "INBOX", 555)
    outcome = await run_once(db, tmp_path, account(dovecot, user, earliest=date(2025, 1, 1)))
    assert folder(outcome).gone == 0
    assert await tombstones(db) == []


@pytest.mark.spec("SYNC-30")
@pytest.mark.case("220", "2")
async def test_a_new_identity_after_a_reconnect_ends_the_folder_run(db: Database, tmp_path: Path) -> None:
    """The connection breaks, the folder that is opened again is another one: 23001, and nothing is mixed."""
    script = r"""
    >> LIST *
    * LIST () "/" INBOX
    OK done
    >> STATUS *
    * STATUS INBOX (MESSAGES 1 UIDNEXT 2 UIDVALIDITY 7)
    OK done
    > EXAMINE *
    * 1 EXISTS
    * OK [UIDVALIDITY 7]
    * OK [UIDNEXT 2]
    OK done
    > EXAMINE *
    * 1 EXISTS
    * OK [UIDVALIDITY 8]
    * OK [UIDNEXT 2]
    OK done
    >> UID SEARCH *
    * SEARCH 1
    OK done
    > UID FETCH 1 (UID FLAGS *
    * 1 FETCH (UID 1 FLAGS () INTERNALDATE "05-Mar-2024 10:00:00 +0000" RFC822.SIZE 20)
    OK done
    > UID FETCH 1 (UID BODY*
    !cut
    """
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
        assert server.connections == 2
    assert (folder(outcome).outcome, folder(outcome).failure_code) == (Outcome.UNEXPECTED_FAILURE, 23001)
    assert (await checkpoint(db))[:2] == (7, None)
    assert await stored(db) == {}
