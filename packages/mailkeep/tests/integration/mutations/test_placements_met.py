"""What we moved or copied comes back: rows go over with their messages, nothing is fetched twice, nothing is doubled."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.accounts import account_at
from support.cyrus import Cyrus
from support.dovecot import Dovecot
from support.engine import engine, folder, mail, rows, run_once, stored, tombstones
from support.own_changes import OwnChanges, copying, derived, relocation, whereabouts
from support.tap import Tap

from mailkeep.config import AccountSettings, AuthoredDeleteDisposition
from mailkeep.db import Database
from mailkeep.mailbox import AccountId
from mailkeep.mutations import Stage
from mailkeep.mutations.auditing import tidy
from mailkeep.search import SearchRequest, search_emails
from mailkeep.sync import AccountOutcome
from mailkeep.sync.verify import verify_account

pytestmark = pytest.mark.anyio

SERVERS = ("dovecot", "plain_dovecot", "cyrus")


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Dovecot | Cyrus:
    """A server with all that Dovecot has, one that advertises nothing, and another implementation."""
    found: Dovecot | Cyrus = request.getfixturevalue(request.param)
    return found


class Mailbox:
    """INBOX with three messages, mirrored; an empty Archive beside it."""

    def __init__(self, db: Database, home: Path, server: Dovecot | Cyrus, user: str) -> None:
        self.db, self.home, self.server, self.user = db, home, server, user
        self.ours = OwnChanges(db, server, user)

    def account(self, port: int | None = None, **options: Any) -> AccountSettings:
        return account_at(port or self.server.ports.plain, user_name=self.user, **options)

    async def run(self, **options: Any) -> AccountOutcome:
        outcome = await run_once(self.db, self.home, self.account(**options))
        assert not outcome.is_failed
        return outcome

    async def begin(self, *names: str, **options: Any) -> list[UUID]:
        """Fill, mirror; the ids of the messages by UID."""
        with self.server.client(self.user) as other:
            other.create("Archive")
            for name in names or ("one", "two", "three"):
                other.append("INBOX", mail(name))
        await self.run(**options)
        return [row[0] for row in (await stored(self.db)).values()]


@pytest.fixture
def mailbox(db: Database, tmp_path: Path, server: Dovecot | Cyrus, user: str) -> Mailbox:
    return Mailbox(db, tmp_path, server, user)


@pytest.fixture
def on_dovecot(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> Mailbox:
    return Mailbox(db, tmp_path, dovecot, user)


@pytest.mark.spec("MUT-44", "MUT-45", "MUT-48", "SYNC-81", "DATA-24")
async def test_a_relocation_carries_its_row_over_and_nothing_is_fetched(mailbox: Mailbox) -> None:
    """Id, conversation, octets, document, passages and attachments stay, the folder, UID and flags are the new ones."""
    db, ours = mailbox.db, mailbox.ours
    _, two, _ = await mailbox.begin()
    await rows(
        db,
        "INSERT INTO email_chunks VALUES (gen_random_uuid(), %s, 0, 0, 'passage', repeat('0', 64), 1, false, now())"
        " RETURNING id",
        two,
    )
    before = await derived(db, two)
    change = await ours.relocated(two, "INBOX", 2, "Archive")
    with mailbox.server.client(mailbox.user) as other:
        other.flag("Archive", 1, "\\Flagged", "Kept")
    async with Tap(mailbox.server.ports.plain) as tap:
        outcome = await mailbox.run(port=tap.port)
    assert tap.commands("BODY") == []
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "present")
    assert len(await whereabouts(db)) == 3
    assert await derived(db, two) == before
    assert (await stored(db, "ARCHIVE"))[1][3:] == (True, ["KEPT"])
    assert await ours.observed(change) == (True, True)
    archive = folder(outcome, "ARCHIVE")
    assert (archive.recognized.relocated, archive.arrivals.stored, archive.octets_fetched) == (1, 0, 0)
    again = await mailbox.run()
    assert sum(one.gone + one.arrivals.stored + one.recognized.relocated for one in again.folders) == 0
    assert await tombstones(db) == []


@pytest.mark.spec("MUT-44", "MUT-45")
async def test_more_placements_than_a_run_may_fetch_are_met_at_once(on_dovecot: Mailbox) -> None:
    """Bounds are on what is fetched: with new mail among them the first run stops at it, and none is fetched twice."""
    db, ours, names = on_dovecot.db, on_dovecot.ours, [f"number {number}" for number in range(7)]
    ids = await on_dovecot.begin(*names)
    for uid, email_id in enumerate(ids[:3], start=1):
        await ours.relocated(email_id, "INBOX", uid, "Archive")
    with on_dovecot.server.client(on_dovecot.user) as other:
        for name in ("new", "newer", "newest"):
            other.append("Archive", mail(name))
    for uid, email_id in enumerate(ids[3:], start=4):
        await ours.relocated(email_id, "INBOX", uid, "Archive")
    bounds = {"max_metadata_batch_size": 2, "max_metadata_batches_per_run": 1}
    async with Tap(on_dovecot.server.ports.plain) as tap:
        first = await run_once(db, on_dovecot.home, on_dovecot.account(tap.port), **bounds)
        await run_once(db, on_dovecot.home, on_dovecot.account(tap.port), until_complete=True, **bounds)
    places = await whereabouts(db)
    assert folder(first, "ARCHIVE").arrivals.stored == 2
    assert [places[email_id] for email_id in ids] == [("ARCHIVE", uid, "present") for uid in (1, 2, 3, 7, 8, 9, 10)]
    assert len(places) == 10
    assert len(tap.commands("BODY")) == 2
    assert await tombstones(db) == []


@pytest.mark.spec("MUT-45", "FIND-1")
async def test_search_follows_a_carried_message_into_its_folder(on_dovecot: Mailbox) -> None:
    """Its words are found in the new folder and no more in the old one, whose mark left the vector."""
    db = on_dovecot.db
    (one,) = await on_dovecot.begin("walrus")
    await on_dovecot.ours.relocated(one, "INBOX", 1, "Archive")
    await on_dovecot.run()
    async with engine(db, on_dovecot.home, on_dovecot.account()) as resources:
        for alias, expected in (("INBOX", []), ("ARCHIVE", [one])):
            request = SearchRequest(query_text="walrus", folders=(alias,))
            hits = (await search_emails(db, resources.settings, request)).matches
            assert [hit.summary.stored_email_id for hit in hits] == expected


@pytest.mark.spec("MUT-48")
async def test_the_source_may_be_seen_gone_first_and_the_row_waits_readable(on_dovecot: Mailbox) -> None:
    """With its destination out of the mirror for a while the row stays in its old place, and goes over later."""
    db, ours = on_dovecot.db, on_dovecot.ours
    only_inbox: list[dict[str, Any]] = [{"alias": "INBOX", "remote_path": "INBOX"}]
    both = [*only_inbox, {"alias": "ARCHIVE", "remote_path": "Archive"}]
    _, two, _ = await on_dovecot.begin(folders=both)
    change = await ours.relocated(two, "INBOX", 2, "Archive")
    outcome = await on_dovecot.run(folders=only_inbox)
    assert (folder(outcome).gone, folder(outcome).recognized.own_removals) == (1, 1)
    assert (await whereabouts(db))[two] == ("INBOX", 2, "kept")
    assert await ours.observed(change) == (False, True)
    async with Tap(on_dovecot.server.ports.plain) as tap:
        await on_dovecot.run(port=tap.port, folders=both)
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "present")
    assert tap.commands("BODY") == []


@pytest.mark.spec("MUT-48", "MUT-B11")
async def test_a_record_that_a_message_waits_for_is_not_pruned(on_dovecot: Mailbox) -> None:
    """Its time is over and its destination is not mirrored: it stays until the message was met, and goes then."""
    db, ours = on_dovecot.db, on_dovecot.ours
    only_inbox: list[dict[str, Any]] = [{"alias": "INBOX", "remote_path": "INBOX"}]
    _, two, _ = await on_dovecot.begin()
    await ours.relocated(two, "INBOX", 2, "Archive")
    await on_dovecot.run(folders=only_inbox)
    records = "SELECT count(*) FROM mailbox_mutations"
    for folders, left in ((only_inbox, 1), (None, 0)):
        await on_dovecot.run(folders=folders)
        later = datetime.now(UTC) + timedelta(days=400)
        await tidy(db, AccountId("anna"), now=later, retention=timedelta(days=1), record_retention=timedelta(days=1))
        assert await rows(db, records) == [(left,)]
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "present")


@pytest.mark.spec("MUT-44")
async def test_two_aliases_of_one_folder_share_no_row(on_dovecot: Mailbox) -> None:
    """Whichever is read first takes the row, the other one has the message as a new one; each holds it once."""
    db = on_dovecot.db
    names = [("INBOX", "INBOX"), ("KEPT", "Archive"), ("DONE", "Archive")]
    folders: list[dict[str, Any]] = [{"alias": alias, "remote_path": path} for alias, path in names]
    _, two, _ = await on_dovecot.begin(folders=folders)
    await on_dovecot.ours.relocated(two, "INBOX", 2, "Archive")
    await on_dovecot.run(folders=folders)
    places = await whereabouts(db)
    assert sorted(place[:2] for place in places.values()) == [("DONE", 1), ("INBOX", 1), ("INBOX", 3), ("KEPT", 1)]
    assert places[two][2] == "present"


@pytest.mark.spec("MUT-48")
async def test_the_placement_may_be_met_first(on_dovecot: Mailbox) -> None:
    """The source folder was not looked at: its later windows find nothing of the message that they could remove."""
    db, ours = on_dovecot.db, on_dovecot.ours
    only_archive: list[dict[str, Any]] = [{"alias": "ARCHIVE", "remote_path": "Archive"}]
    both = [*only_archive, {"alias": "INBOX", "remote_path": "INBOX"}]
    _, two, _ = await on_dovecot.begin(folders=both)
    change = await ours.relocated(two, "INBOX", 2, "Archive")
    await on_dovecot.run(folders=only_archive)
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "present")
    assert await ours.observed(change) == (True, True)
    async with Tap(on_dovecot.server.ports.plain) as tap:
        outcome = await on_dovecot.run(port=tap.port, folders=both)
    assert folder(outcome).gone == 0
    assert tap.commands("SEARCH") == []  # the count of the folder is explained, so its UIDs are not compared
    assert sorted(await whereabouts(db)) == sorted({two: None, **{row[0]: None for row in (await stored(db)).values()}})


@pytest.mark.spec("MUT-49", "MUT-31")
async def test_without_copyuid_the_message_is_new_mail(on_dovecot: Mailbox) -> None:
    """Nothing is guessed: a second row arrives, the first goes as any message that is gone; the change stays visible."""
    db, ours = on_dovecot.db, on_dovecot.ours
    _, two, _ = await on_dovecot.begin()
    change = await ours.recorded(two, relocation("Archive"))
    ours.moved("INBOX", 2, "Archive")
    await ours.note(change, Stage.COMPLETED)
    outcome = await on_dovecot.run()
    assert folder(outcome, "ARCHIVE").arrivals.stored == 1
    assert (await whereabouts(db))[two] == ("INBOX", 2, "hidden")
    assert len(await whereabouts(db)) == 4
    assert await ours.observed(change) == (False, True)


@pytest.mark.spec("MUT-46", "MUT-52", "SYNC-82")
async def test_a_copy_is_a_second_message_whose_arrival_is_withheld(mailbox: Mailbox) -> None:
    """Its own id, octets and document; counted as ours once, while another client's copy is not."""
    db, ours = mailbox.db, mailbox.ours
    one, *_ = await mailbox.begin()
    change = await ours.recorded(one, copying("Archive"))
    await ours.note(change, Stage.COMPLETED, placement=ours.copied("INBOX", 1, "Archive"))
    ours.copied("INBOX", 2, "Archive")
    outcome = await mailbox.run()
    archive = folder(outcome, "ARCHIVE")
    assert (archive.arrivals.stored, archive.recognized.own_arrivals, archive.recognized.relocated) == (2, 1, 0)
    assert (await whereabouts(db))[one] == ("INBOX", 1, "present")
    copies = await stored(db, "ARCHIVE")
    assert [row[1] for row in copies.values()] == [mail("one"), mail("two")]
    assert await ours.observed(change) == (True, False)
    assert sum(one.recognized.own_arrivals for one in (await mailbox.run()).folders) == 0


@pytest.mark.spec("MUT-B5")
async def test_a_move_that_is_confirmed_and_not_ended_is_joined(on_dovecot: Mailbox) -> None:
    """The server has acknowledged MOVE, so nothing is left at the source: the row goes over at once."""
    _, two, _ = await on_dovecot.begin()
    change = await on_dovecot.ours.recorded(two, relocation("Archive"))
    placement = on_dovecot.ours.moved("INBOX", 2, "Archive")
    await on_dovecot.ours.note(change, Stage.PLACEMENT_CONFIRMED, placement=placement)
    async with on_dovecot.ours.held_back():
        outcome = await on_dovecot.run()
    assert (await whereabouts(on_dovecot.db))[two] == ("ARCHIVE", 1, "present")
    assert folder(outcome, "ARCHIVE").octets_fetched == 0


@pytest.mark.spec("MUT-B5")
@pytest.mark.parametrize("stage", [Stage.PLACEMENT_CONFIRMED, Stage.SOURCE_FLAGGED_DELETED])
async def test_a_copy_whose_source_is_still_to_be_removed_is_remembered(on_dovecot: Mailbox, stage: Stage) -> None:
    """It is passed over, not fetched and not stored; when the source is gone the row goes over, without a new arrival."""
    db, ours = on_dovecot.db, on_dovecot.ours
    _, two, _ = await on_dovecot.begin()
    change = await ours.recorded(two, relocation("Archive"))
    await ours.note(change, stage, placement=ours.copied("INBOX", 2, "Archive"), from_copy=True)
    async with Tap(on_dovecot.server.ports.plain) as tap, ours.held_back():
        await on_dovecot.run(port=tap.port)
        assert (await whereabouts(db))[two] == ("INBOX", 2, "present")
        assert len(await whereabouts(db)) == 3
        ours.expunged("INBOX", 2)
        await ours.note(change, Stage.COMPLETED, from_copy=True)
        outcome = await on_dovecot.run(port=tap.port)
    assert tap.commands("BODY") == []
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "present")
    assert folder(outcome, "ARCHIVE").recognized.relocated == 1


@pytest.mark.spec("MUT-B5", "MUT-B6")
async def test_a_move_that_is_being_answered_is_waited_for(
    on_dovecot: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    """A prompt pass has sent MOVE and not written its answer down when the run finds the message: it is not doubled."""
    caplog.set_level(logging.INFO)
    db, ours = on_dovecot.db, on_dovecot.ours
    _, two, _ = await on_dovecot.begin()
    change = await ours.recorded(two, relocation("Archive"))
    placement = ours.moved("INBOX", 2, "Archive")
    await ours.note(change, Stage.PLACEMENT_ISSUED)
    async with Tap(on_dovecot.server.ports.plain) as tap, ours.held_back(), asyncio.TaskGroup() as group:
        run = group.create_task(on_dovecot.run(port=tap.port))
        while not any(line.message == "waiting for the answer to a change" for line in caplog.records):
            assert not run.done()
            await asyncio.sleep(0)
        await ours.note(change, Stage.PLACEMENT_CONFIRMED, placement=placement)
    assert tap.commands("BODY") == []
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "present")
    assert len(await whereabouts(db)) == 3


@pytest.mark.spec("MUT-B5", "MUT-54")
async def test_a_remembered_copy_whose_relocation_is_given_up_becomes_a_message_of_its_own(on_dovecot: Mailbox) -> None:
    """Source and copy both exist on the server, so both are here; nothing is missing in either folder."""
    db, ours = on_dovecot.db, on_dovecot.ours
    _, two, _ = await on_dovecot.begin()
    change = await ours.recorded(two, relocation("Archive"))
    placement = ours.copied("INBOX", 2, "Archive")
    await ours.note(change, Stage.PLACEMENT_CONFIRMED, placement=placement, from_copy=True)
    async with ours.held_back():
        await on_dovecot.run()
    await ours.note(change, Stage.ABANDONED, from_copy=True, abandoned_from=Stage.PLACEMENT_CONFIRMED)
    await on_dovecot.run()
    assert (await whereabouts(db))[two] == ("INBOX", 2, "present")
    assert (await stored(db, "ARCHIVE"))[1][1] == mail("two")
    again = await on_dovecot.run()
    assert all(one.was_proven_unchanged for one in again.folders)


@pytest.mark.spec("MUT-45")
async def test_a_place_that_is_taken_leaves_the_arrival_as_it_is(on_dovecot: Mailbox) -> None:
    """The placement was named after its message had been discovered: two rows for a moment, then the first is gone."""
    db, ours = on_dovecot.db, on_dovecot.ours
    _, two, _ = await on_dovecot.begin()
    change = await ours.recorded(two, relocation("Archive"))
    placement = ours.moved("INBOX", 2, "Archive")
    await ours.note(change, Stage.PLACEMENT_ISSUED)
    await on_dovecot.run()
    assert (await whereabouts(db))[two] == ("INBOX", 2, "kept")
    await ours.note(change, Stage.COMPLETED, placement=placement)
    await on_dovecot.run()
    assert (await whereabouts(db))[two] == ("INBOX", 2, "hidden")
    assert await ours.observed(change) == (True, True)
    assert list(await stored(db, "ARCHIVE")) == [1]


@pytest.mark.spec("MUT-49")
async def test_a_row_that_waits_for_a_placement_nobody_names_goes_as_any_other(on_dovecot: Mailbox) -> None:
    """Its MOVE was never answered; once the change has ended so, the row follows the account's own setting."""
    db, ours = on_dovecot.db, on_dovecot.ours
    _, two, _ = await on_dovecot.begin()
    change = await ours.recorded(two, relocation("Archive"))
    ours.moved("INBOX", 2, "Archive")
    await ours.note(change, Stage.PLACEMENT_ISSUED)
    await on_dovecot.run()
    assert (await whereabouts(db))[two] == ("INBOX", 2, "kept")
    await ours.note(change, Stage.COMPLETED)
    await on_dovecot.run()
    assert (await whereabouts(db))[two] == ("INBOX", 2, "hidden")


@pytest.mark.spec("MUT-45", "MUT-48")
async def test_an_owner_s_move_back_is_the_owner_s(on_dovecot: Mailbox) -> None:
    """Before any run the message is moved on: its placement holds nothing, so the row goes and the arrival is new."""
    db, ours = on_dovecot.db, on_dovecot.ours
    _, two, _ = await on_dovecot.begin()
    change = await ours.relocated(two, "INBOX", 2, "Archive")
    with on_dovecot.server.client(on_dovecot.user) as other:
        other.move("Archive", 1, "INBOX")
    await on_dovecot.run()
    assert (await whereabouts(db))[two] == ("INBOX", 2, "hidden")
    assert (await stored(db))[4][1] == mail("two")
    assert await ours.observed(change) == (True, True)
    assert all(one.was_proven_unchanged for one in (await on_dovecot.run()).folders)


@pytest.mark.spec("MUT-45")
async def test_an_owner_s_move_back_of_a_carried_message_is_the_owner_s(on_dovecot: Mailbox) -> None:
    """The spent relocation explains nothing of it."""
    db, ours = on_dovecot.db, on_dovecot.ours
    _, two, _ = await on_dovecot.begin()
    await ours.relocated(two, "INBOX", 2, "Archive")
    await on_dovecot.run()
    with on_dovecot.server.client(on_dovecot.user) as other:
        other.move("Archive", 1, "INBOX")
    outcome = await on_dovecot.run()
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "hidden")
    assert folder(outcome).arrivals.stored == 1
    assert sum(one.recognized.own_removals for one in outcome.folders) == 0


@pytest.mark.spec("MUT-45", "MUT-48")
@pytest.mark.parametrize("met_in_between", [True, False])
async def test_there_and_back_by_us_is_the_same_row(on_dovecot: Mailbox, met_in_between: bool) -> None:
    """Moved away and back, seen in between or not: one row, at its last place, nothing fetched."""
    db, ours = on_dovecot.db, on_dovecot.ours
    _, two, _ = await on_dovecot.begin()
    there = await ours.relocated(two, "INBOX", 2, "Archive")
    if met_in_between:
        await on_dovecot.run()
    back = await ours.recorded(two, relocation("INBOX"))
    await rows(  # an undo takes the message where its first relocation put it
        db,
        "UPDATE mailbox_mutations m SET mail_folder_id = f.id, uid_validity = t.placement_uid_validity,"
        " uid = t.placement_uid FROM mail_folders f, mailbox_mutations t"
        " WHERE m.id = %s AND t.id = %s AND f.alias = 'ARCHIVE' RETURNING m.id",
        back,
        there,
    )
    await ours.note(back, Stage.COMPLETED, placement=ours.moved("Archive", 1, "INBOX"))
    async with Tap(on_dovecot.server.ports.plain) as tap:
        await on_dovecot.run(port=tap.port)
    assert tap.commands("BODY") == []
    assert (await whereabouts(db))[two] == ("INBOX", 4, "present")
    assert len(await whereabouts(db)) == 3
    assert await ours.observed(there) == await ours.observed(back) == (True, True)
    assert all(one.was_proven_unchanged for one in (await on_dovecot.run()).folders)


@pytest.mark.spec("MUT-45", "SYNC-54")
async def test_an_earliest_date_does_not_keep_a_message_that_is_here_from_following(on_dovecot: Mailbox) -> None:
    """The search leaves the old message out; its placement leads to it all the same."""
    db = on_dovecot.db
    on_dovecot.server.fill(on_dovecot.user, "INBOX", [mail("old")])  # type: ignore[union-attr]  -- received in 2024
    await on_dovecot.begin("new")
    (old,) = [row[0] for row in (await stored(db)).values() if row[1] == mail("old")]
    (uid,) = [uid for uid, row in (await stored(db)).items() if row[0] == old]
    await on_dovecot.ours.relocated(old, "INBOX", uid, "Archive")
    async with Tap(on_dovecot.server.ports.plain) as tap:
        await on_dovecot.run(port=tap.port, earliest=date(2025, 1, 1))
    assert (await whereabouts(db))[old] == ("ARCHIVE", 1, "present")
    assert tap.commands("BODY") == []


@pytest.mark.spec("MUT-45", "MUT-53")
@pytest.mark.parametrize("disposition", ["RetainLocalCopy", "RetainTombstone"])
async def test_a_folder_that_is_mirrored_later_takes_the_rows_that_were_moved_there(
    on_dovecot: Mailbox, disposition: str
) -> None:
    """What was kept, or hidden, when it left the mirror comes back as the same row when its folder joins the mirror."""
    db = on_dovecot.db
    only_inbox: list[dict[str, Any]] = [{"alias": "INBOX", "remote_path": "INBOX"}]
    _, two, _ = await on_dovecot.begin(folders=only_inbox)
    fate = AuthoredDeleteDisposition(disposition)
    await on_dovecot.ours.relocated(two, "INBOX", 2, "Archive", disposition=fate)
    await on_dovecot.run(folders=only_inbox)
    assert (await whereabouts(db))[two] == ("INBOX", 2, "kept" if disposition == "RetainLocalCopy" else "hidden")
    async with Tap(on_dovecot.server.ports.plain) as tap:
        await on_dovecot.run(port=tap.port)
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "present")
    assert tap.commands("BODY") == []


@pytest.mark.spec("MUT-45", "SYNC-19")
async def test_the_destination_may_be_bound_anew(on_dovecot: Mailbox) -> None:
    """An alias that pointed elsewhere and back has another generation; the placement is of the path, not of a binding."""
    db = on_dovecot.db

    def folders(path: str) -> list[dict[str, Any]]:
        return [{"alias": "INBOX", "remote_path": "INBOX"}, {"alias": "KEPT", "remote_path": path}]

    _, two, _ = await on_dovecot.begin(folders=folders("Archive"))
    await on_dovecot.run(folders=folders("Sent"))
    await on_dovecot.ours.relocated(two, "INBOX", 2, "Archive")
    await on_dovecot.run(folders=folders("Archive"))
    assert (await whereabouts(db))[two] == ("KEPT", 1, "present")
    (generation,) = await rows(
        db,
        "SELECT resolution_generation FROM mail_folders f JOIN stored_emails e ON e.mail_folder_id = f.id"
        " WHERE e.id = %s",
        two,
    )
    assert generation == (3,)


@pytest.mark.spec("MUT-45", "SYNC-71")
async def test_a_recreated_destination_gives_the_placement_up(on_dovecot: Mailbox) -> None:
    """No UID leads to it any more: the message is new there, and what waited goes as any message that is gone."""
    db, ours, server = on_dovecot.db, on_dovecot.ours, on_dovecot.server
    assert isinstance(server, Dovecot)
    only_inbox: list[dict[str, Any]] = [{"alias": "INBOX", "remote_path": "INBOX"}]
    _, two, _ = await on_dovecot.begin()
    change = await ours.relocated(two, "INBOX", 2, "Archive")
    await on_dovecot.run(folders=only_inbox)
    server.set_uid_validity(on_dovecot.user, "Archive", 77_777)
    await on_dovecot.run()
    assert (await whereabouts(db))[two] == ("INBOX", 2, "hidden")
    assert (await stored(db, "ARCHIVE"))[1][1] == mail("two")
    assert await ours.observed(change) == (True, True)


@pytest.mark.spec("MUT-45", "SYNC-71")
async def test_a_recreated_source_does_not_keep_the_row(on_dovecot: Mailbox) -> None:
    """The source folder's UIDs were given anew after the move: the row, left under the old ones, goes over."""
    db, server = on_dovecot.db, on_dovecot.server
    assert isinstance(server, Dovecot)
    _, two, _ = await on_dovecot.begin()
    await on_dovecot.ours.relocated(two, "INBOX", 2, "Archive")
    server.set_uid_validity(on_dovecot.user, "INBOX", 88_888)
    async with Tap(server.ports.plain) as tap:
        await on_dovecot.run(port=tap.port)
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "present")
    assert tap.commands("BODY.PEEK[]") == []
    assert len(await whereabouts(db)) == 3


@pytest.mark.spec("MUT-44", "SYNC-143")
async def test_filling_holes_joins_placements_too(on_dovecot: Mailbox) -> None:
    """`verify --fill` before the next run meets the placement as a hole: the row goes over, nothing is fetched."""
    db = on_dovecot.db
    _, two, _ = await on_dovecot.begin()
    await on_dovecot.ours.relocated(two, "INBOX", 2, "Archive")
    async with Tap(on_dovecot.server.ports.plain) as tap:
        account = on_dovecot.account(tap.port)
        async with engine(db, on_dovecot.home, account) as resources:
            proof = await verify_account(resources, account.account_id, fill=True)
    assert proof.is_complete
    assert tap.commands("BODY") == []
    assert (await whereabouts(db))[two] == ("ARCHIVE", 1, "present")
    async with Tap(on_dovecot.server.ports.plain) as tap:
        await on_dovecot.run(port=tap.port)
    assert tap.commands("BODY") == []
