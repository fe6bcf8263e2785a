"""A mailbox on a real server, mirrored and kept in line."""

import logging
from pathlib import Path

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import checkpoint, folder, mail, rows, run_once, stored, tombstones
from support.tap import Tap

from mailkeep.config import AccountSettings
from mailkeep.db import Database
from mailkeep.mailbox import AccountId, folder_status
from mailkeep.sync import Outcome, Progress

pytestmark = pytest.mark.anyio

SERVERS = ("dovecot", "dovecot_without_condstore", "plain_dovecot")


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Dovecot:
    """The same mailbox behind servers that offer everything, no mod-sequences, and nothing."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Dovecot)
    return found


def account(server: Dovecot, user: str, **options: object) -> AccountSettings:
    return account_at(server.ports.plain, user_name=user, **options)  # type: ignore[arg-type]


@pytest.mark.spec("SYNC-29")
@pytest.mark.case("49")
async def test_a_first_run_stores_every_octet_and_marks_nothing_as_read(
    db: Database, tmp_path: Path, server: Dovecot, user: str
) -> None:
    """All folders, identical octets, flags as they are; what the server shows afterwards is what it showed before."""
    messages = [mail(number) for number in range(1, 24)]
    server.fill(user, "INBOX", messages)
    with server.client(user) as other:
        other.append("Sent", mail("sent"), flags=["\\Seen", "$MDNSent"])
        other.flag("INBOX", 3, "\\Flagged", "todo")
        before = other.flags("INBOX")
    outcome = await run_once(db, tmp_path, account(server, user))
    assert not outcome.is_failed
    assert not outcome.more_remains
    inbox = await stored(db)
    assert [row[1] for row in inbox.values()] == messages
    assert (inbox[3][3], inbox[3][4]) == (True, ["TODO"])
    assert (await stored(db, "SENT"))[1][2:] == (True, False, ["$MDNSENT"])
    with server.client(user) as other:
        assert other.flags("INBOX") == before
    assert (await rows(db, "SELECT count(*) FROM email_search_documents"))[0][0] == 24


@pytest.mark.spec("SYNC-7")
async def test_every_mirrored_folder_gets_its_turn(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """Folders with blanks, quotes, delimiters and other scripts, several at once, each on its own connection."""
    names = ["a b", 'quo"te', "deep/er/still", "Entw&APw-rfe", "back\\slash"]
    with dovecot.client(user) as other:
        for name in names:
            other.create(name)
            other.append(name, mail(name.encode().hex()))
    outcome = await run_once(db, tmp_path, account(dovecot, user), max_concurrent_folders_per_account=3)
    assert not outcome.is_failed
    aliases = {"A B", 'QUO"TE', "DEEP/ER/STILL", "ENTWÜRFE", "BACK\\SLASH"}
    for alias in aliases:
        assert folder(outcome, alias).arrivals.stored == 1
        assert len(await stored(db, alias)) == 1


@pytest.mark.case("22")
@pytest.mark.spec("SYNC-53")
async def test_a_run_without_changes_costs_a_handful_of_commands(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """LIST with states proves every folder unchanged; nothing is opened, yet the freshness that readers see moves."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(30)])
    with dovecot.client(user) as other:
        for number in range(20):
            other.create(f"folder{number}")
    await run_once(db, tmp_path, account(dovecot, user))
    before = await checkpoint(db)
    async with Tap(dovecot.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user))
    assert all(item.was_proven_unchanged for item in outcome.folders)
    assert len(outcome.folders) == 25
    assert outcome.commands_sent <= 4
    assert not tap.commands("EXAMINE")
    after = await checkpoint(db)
    assert after[:4] == before[:4]
    assert after[4] > before[4]


async def test_without_list_status_each_folder_is_asked_once(
    db: Database, tmp_path: Path, plain_dovecot: Dovecot, user: str
) -> None:
    """Servers with nothing to offer cost one STATUS for each folder, and empty folders are not opened."""
    await run_once(db, tmp_path, account(plain_dovecot, user))
    async with Tap(plain_dovecot.ports.plain) as tap:
        await run_once(db, tmp_path, account_at(tap.port, user_name=user))
    assert len(tap.commands("STATUS")) == 5
    assert not tap.commands("EXAMINE")


@pytest.mark.spec("SYNC-72", "SYNC-75", "SYNC-76", "SYNC-77", "SYNC-79")
@pytest.mark.case("1", "22", "23")
async def test_changes_reach_the_same_end_state_whatever_the_server_offers(
    db: Database, tmp_path: Path, server: Dovecot, user: str
) -> None:
    """Arrivals, flags, keywords, \\Deleted, removals and moves, found by every way of asking."""
    server.fill(user, "INBOX", [mail(number) for number in range(1, 11)])
    await run_once(db, tmp_path, account(server, user))
    ids = {uid: row[0] for uid, row in (await stored(db)).items()}
    with server.client(user) as other:
        other.flag("INBOX", 2, "\\Seen")
        other.flag("INBOX", 3, "\\Flagged", "zebra", "Apple", "apple")
        other.flag("INBOX", 4, "\\Deleted")
        other.expunge("INBOX", 5)
        other.move("INBOX", 6, "Trash")
        other.append("INBOX", mail("new"))
    outcome = await run_once(db, tmp_path, account(server, user))
    inbox = await stored(db)
    assert sorted(inbox) == [1, 2, 3, 4, 7, 8, 9, 10, 11]
    assert inbox[2][2] is True
    assert inbox[3][3] is True
    assert inbox[3][4] == ["APPLE", "ZEBRA"]
    assert {uid: row[0] for uid, row in inbox.items() if uid < 11} == {
        uid: found for uid, found in ids.items() if uid not in (5, 6)
    }
    assert len(await stored(db, "TRASH")) == 1
    assert await tombstones(db) == [5, 6]
    assert (folder(outcome).gone, folder(outcome).arrivals.stored) == (2, 1)
    (deleted,) = await rows(db, "SELECT uid FROM stored_emails WHERE is_remotely_deleted")
    assert deleted == (4,)
    again = await run_once(db, tmp_path, account(server, user))
    assert (folder(again).flags_changed, folder(again).gone, folder(again).arrivals.stored) == (0, 0, 0)
    assert await stored(db) == inbox


@pytest.mark.case("23")
@pytest.mark.spec("SYNC-72")
async def test_a_flag_change_alone_is_found_without_comparing_uids(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """UIDNEXT and the count are as before, only the mod-sequence moved: one narrowed FETCH, no SEARCH, no bodies."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 11)])
    await run_once(db, tmp_path, account(dovecot, user))
    with dovecot.client(user) as other:
        other.flag("INBOX", 7, "\\Seen")
    async with Tap(dovecot.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user))
    assert folder(outcome).flags_changed == 1
    assert (await stored(db))[7][2] is True
    assert len(tap.commands("CHANGEDSINCE")) == 1
    assert not tap.commands("SEARCH")
    assert not tap.commands("PEEK")


async def test_flags_without_mod_sequences_are_asked_for_in_bounded_pages(
    db: Database, tmp_path: Path, dovecot_without_condstore: Dovecot, user: str
) -> None:
    """Every message is asked about, never more than the bound at once."""
    dovecot_without_condstore.fill(user, "INBOX", [mail(number) for number in range(1, 11)])
    await run_once(db, tmp_path, account(dovecot_without_condstore, user))
    with dovecot_without_condstore.client(user) as other:
        other.flag("INBOX", "2,9", "\\Seen")
    async with Tap(dovecot_without_condstore.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user), max_reconciled_emails_per_run=3)
    assert folder(outcome).flags_changed == 2
    assert [line.split(" ", 1)[1] for line in tap.commands("FLAGS UID")] == [
        f"UID FETCH {part} (FLAGS UID)" for part in ("1:3", "4:6", "7:9", "10")
    ]


@pytest.mark.spec("SYNC-79")
@pytest.mark.case("223")
async def test_the_account_decides_what_becomes_of_a_deleted_message(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """RetainTombstone keeps the octets out of sight; EraseLocalCopy erases all of it, for later observations only."""
    dovecot.fill(user, "INBOX", [mail(1), mail(2), mail(3)])
    await run_once(db, tmp_path, account(dovecot, user))
    with dovecot.client(user) as other:
        other.expunge("INBOX", 1)
    await run_once(db, tmp_path, account(dovecot, user))
    with dovecot.client(user) as other:
        other.expunge("INBOX", 2)
    outcome = await run_once(db, tmp_path, account(dovecot, user, disposition="EraseLocalCopy"))
    assert folder(outcome).gone == 1
    assert await tombstones(db) == [1]
    assert sorted(await stored(db)) == [3]
    assert (await rows(db, "SELECT count(*) FROM email_message_contents"))[0][0] == 2
    assert (await rows(db, "SELECT count(*) FROM email_search_documents"))[0][0] == 2


@pytest.mark.spec("SYNC-82")
async def test_a_copy_is_a_message_of_its_own(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """The same octets in two folders are two rows, and erasing one leaves the other."""
    with dovecot.client(user) as other:
        other.append("INBOX", mail(1))
        other.append("Sent", mail(1))
    await run_once(db, tmp_path, account(dovecot, user, disposition="EraseLocalCopy"))
    with dovecot.client(user) as other:
        other.expunge("INBOX", 1)
    await run_once(db, tmp_path, account(dovecot, user, disposition="EraseLocalCopy"))
    assert not await stored(db)
    assert (await stored(db, "SENT"))[1][1] == mail(1)


@pytest.mark.spec("SYNC-52", "SYNC-56")
@pytest.mark.case("11")
async def test_sparse_uids_fill_batches_and_the_checkpoint_reaches_the_end(
    db: Database, tmp_path: Path, server: Dovecot, user: str
) -> None:
    """A gap of half a million UIDs costs nothing, and the last UID, deleted unseen, is passed."""
    server.fill(user, "INBOX", [mail(number) for number in range(1, 4)])
    with server.client(user) as other:
        other.uids("INBOX")
    server.set_next_uid(user, "INBOX", 500_000)
    with server.client(user) as other:
        for number in range(4):
            other.append("INBOX", mail(f"late {number}"))
        other.expunge("INBOX", 500_003)
    async with Tap(server.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user), max_metadata_batch_size=6)
    assert sorted(await stored(db)) == [1, 2, 3, 500_000, 500_001, 500_002]
    assert len(tap.commands("INTERNALDATE")) == 1
    assert (await checkpoint(db))[1] == 500_003
    assert not outcome.more_remains
    async with Tap(server.ports.plain) as tap:
        await run_once(db, tmp_path, account_at(tap.port, user_name=user))
    assert not tap.commands("SEARCH")


@pytest.mark.spec("SYNC-9", "SYNC-14", "SYNC-15")
async def test_an_alias_that_leads_nowhere_is_reported_and_no_failure(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """An edit mends it, a wait does not; the other folders are mirrored."""
    dovecot.fill(user, "INBOX", [mail(1)])
    folders = [{"alias": "in", "special_use": "Inbox"}, {"alias": "lost", "remote_path": "nowhere"}]
    outcome = await run_once(db, tmp_path, account(dovecot, user, folders=folders))
    assert folder(outcome, "LOST").outcome is Outcome.ALIAS_UNRESOLVED
    assert not outcome.is_failed
    assert len(await stored(db, "IN")) == 1


@pytest.mark.spec("SYNC-18", "SYNC-19")
async def test_a_repointed_alias_starts_at_the_first_uid_even_under_the_same_uid_validity(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """UIDVALIDITY means nothing across mailboxes: the new generation has no checkpoint, the older mail stays."""
    with dovecot.client(user) as other:
        for name in ("one", "two"):
            other.create(name)
            for number in range(3):
                other.append(name, mail(f"{name}{number}"))
    for name in ("one", "two"):
        dovecot.set_uid_validity(user, name, 4242)
        await run_once(db, tmp_path, account(dovecot, user, folders=[{"alias": "x", "remote_path": name}]))
    generations = await rows(
        db,
        """SELECT f.resolution_generation, f.remote_path, count(*) FROM mail_folders f
           JOIN stored_emails e ON e.mail_folder_id = f.id GROUP BY 1, 2 ORDER BY 1""",
    )
    assert generations == [(1, "one", 3), (2, "two", 3)]


@pytest.mark.spec("SYNC-24")
async def test_a_folder_switched_off_opens_no_connection_for_it_and_resumes_later(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Stored rows and the checkpoint stay; turning it on again continues."""
    dovecot.fill(user, "INBOX", [mail(1)])
    on = [{"alias": "in", "special_use": "Inbox"}]
    off = [{"alias": "in", "special_use": "Inbox", "synchronize": False}]
    await run_once(db, tmp_path, account(dovecot, user, folders=on))
    dovecot.fill(user, "INBOX", [mail(2)])
    async with Tap(dovecot.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user, folders=off))
    assert outcome.folders == ()
    assert not tap.commands("EXAMINE")
    assert len(await stored(db, "IN")) == 1
    await run_once(db, tmp_path, account(dovecot, user, folders=on))
    assert len(await stored(db, "IN")) == 2


@pytest.mark.spec("SYNC-21", "SYNC-139")
async def test_logs_hold_neither_mail_nor_secrets_nor_addresses(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At the lowest level of every logger: aliases, counts and codes; a remote path only when it is bound."""
    caplog.set_level(logging.DEBUG)
    with dovecot.client(user) as other:
        other.create("Geheim")
        other.append("Geheim", mail("confidential"))
        caplog.clear()
        await run_once(db, tmp_path, account(dovecot, user))
    ours = [record for record in caplog.records if record.name.startswith(("mailkeep", "imap"))]
    text = "\n".join(f"{record.getMessage()} {sorted(vars(record).items(), key=str)}" for record in ours)
    assert "folder run" in text
    for forbidden in (dovecot.password, "confidential", "ann@example.com", "all work"):
        assert forbidden not in text
    with_paths = [record for record in ours if "Geheim" in str(vars(record))]
    assert [record.getMessage() for record in with_paths] == ["folder bound"]


@pytest.mark.case("218")
async def test_what_the_server_holds_is_accounted_for(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """The server's count stands beside ours for each folder, and progress was told on the way."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(30)])
    told: list[Progress] = []
    await run_once(db, tmp_path, account(dovecot, user), progress=told.append, max_metadata_batch_size=10)
    status = {item.alias: item for item in await folder_status(db, AccountId("anna"))}
    assert (status["INBOX"].server, status["INBOX"].stored) == (30, 30)
    assert [step.messages_done for step in told if step.folder == "INBOX"][:3] == [10, 20, 30]
    assert {step.messages_total for step in told} == {30}
    assert told[-1].folders_done == told[-1].folders_total == 5
