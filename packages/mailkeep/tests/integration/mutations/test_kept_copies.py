"""Messages that are gone from the server through us: what readers see of them, and who leaves them alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.embedding import Machine, endpoint
from support.engine import engine, folder, rows, run_once, settings_with, stored
from support.mail import message
from support.own_changes import ERASE, RETAIN, TOMBSTONE, OwnChanges, relocation, whereabouts
from support.tap import Tap

from mailkeep.config import AccountSettings, Settings
from mailkeep.db import Database
from mailkeep.errors import EmailNotAccessible
from mailkeep.mailbox import (
    AccountId,
    ContentFailure,
    EmailContent,
    FolderStatus,
    ReadOptions,
    folder_status,
    read_contents,
    resolve_scope,
    rewind,
    stored_count,
)
from mailkeep.reports import folder_report
from mailkeep.search import ListRequest, SearchRequest, list_emails, search_emails
from mailkeep.sync import AccountOutcome, retry_quarantined
from mailkeep.sync.verify import FolderProof, verify_account

pytestmark = pytest.mark.anyio

NAMES = ("walrus kept", "walrus hidden", "walrus erased", "walrus present")


@dataclass
class Scene:
    """Four messages of one conversation in INBOX, the first three deleted through us, each with another disposition."""

    db: Database
    home: Path
    server: Dovecot
    user: str
    ids: tuple[UUID, ...] = ()

    @property
    def ours(self) -> OwnChanges:
        return OwnChanges(self.db, self.server, self.user)

    def account(self, port: int | None = None, **options: Any) -> AccountSettings:
        return account_at(port or self.server.ports.plain, user_name=self.user, **options)

    @property
    def settings(self) -> Settings:
        return settings_with(self.account())

    async def run(self, **options: Any) -> AccountOutcome:
        outcome = await run_once(self.db, self.home, self.account(**options))
        assert not outcome.is_failed
        return outcome

    async def begin(self) -> None:
        root = "root@example.org"
        with self.server.client(self.user) as other:
            for number, name in enumerate(NAMES):
                octets = message(name, body=f"{name} on the ice", message_id=f"{number}@example.org", references=[root])
                other.append("INBOX", octets)
        await self.run()
        self.ids = tuple(row[0] for row in (await stored(self.db)).values())

    async def delete(self) -> None:
        for email_id, uid, disposition in zip(self.ids, (1, 2, 3), (RETAIN, TOMBSTONE, ERASE), strict=False):
            await self.ours.deleted(email_id, "INBOX", uid, disposition)
        await self.run()

    async def status(self) -> FolderStatus:
        return next(one for one in await folder_status(self.db, AccountId("anna")) if one.alias == "INBOX")

    async def proof(self, port: int | None = None, *, fill: bool = False) -> FolderProof:
        account = self.account(port)
        async with engine(self.db, self.home, account) as resources:
            found = await verify_account(resources, account.account_id, fill=fill)
        assert found.is_complete
        return next(one for one in found.folders if one.alias == "INBOX")


@pytest.fixture
async def scene(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> Scene:
    found = Scene(db, tmp_path, dovecot, user)
    await found.begin()
    return found


@pytest.mark.spec("MUT-53", "SYNC-80", "DATA-23")
async def test_kept_mail_is_listed_found_and_read_and_hidden_mail_is_not(scene: Scene) -> None:
    """Timeline, search, content and conversation show the kept and the present message, and nothing of the others."""
    await scene.delete()
    kept, _, _, present = scene.ids
    db, settings = scene.db, scene.settings
    listed = await list_emails(db, settings, ListRequest())
    assert {one.stored_email_id for one in listed.emails} == {kept, present}
    found = await search_emails(db, settings, SearchRequest(query_text="walrus"))
    assert {match.summary.stored_email_id for match in found.matches} == {kept, present}
    scope = await resolve_scope(db, settings)
    read = await read_contents(db, scope=scope, now=datetime.now(UTC), ids=scene.ids)
    kinds = [type(outcome) for outcome in read.outcomes]
    assert kinds == [EmailContent, ContentFailure, ContentFailure, EmailContent]
    shown = read.outcomes[0]
    assert isinstance(shown, EmailContent)
    assert "kept on the ice" in str(shown.body)
    assert shown.other_stored_email_ids == (present,)
    (thread,) = await rows(db, "SELECT email_thread_id FROM stored_emails WHERE id = %s", kept)
    whole = await read_contents(db, scope=scope, now=datetime.now(UTC), thread_id=thread[0], options=ReadOptions())
    assert [one.stored_email_id for one in whole.outcomes] == [kept, present]


@pytest.mark.spec("MUT-53", "DATA-23")
async def test_kept_mail_gets_passages_and_vectors_and_hidden_mail_none(scene: Scene) -> None:
    """The stages that derive go on with what readers may see; search by meaning finds it."""
    await scene.delete()
    kept, hidden, _, present = scene.ids
    sections = {"embeddings": {"endpoints": [endpoint()], "use_built_in_model": False}}
    settings = Settings.model_validate({**scene.settings.model_dump(), **sections})
    machine = Machine(scene.db, settings)
    await machine.build()
    vectors = await rows(
        scene.db,
        "SELECT DISTINCT c.stored_email_id FROM email_embeddings v JOIN email_chunks c ON c.id = v.email_chunk_id",
    )
    assert {row[0] for row in vectors} == {kept, present}
    assert hidden in await whereabouts(scene.db)


@pytest.mark.spec("MUT-53", "SYNC-143")
async def test_nobody_takes_them_for_missing_or_for_surplus(scene: Scene) -> None:
    """Status, proof and a filling proof count the one message that the server has; nothing is fetched or shown again."""
    await scene.delete()
    status = await scene.status()
    assert (status.server, status.stored, status.tombstoned, status.retained) == (1, 1, 1, 1)
    report = folder_report(status)
    assert (report.stored, report.missing, report.gone, report.kept) == (1, 0, 1, 1)
    async with Tap(scene.server.ports.plain) as tap:
        inbox = await scene.proof(tap.port, fill=True)
    counts = inbox.counts
    assert (counts.server, counts.stored, counts.holes, counts.surplus, counts.filled) == (1, 1, 0, 0, 0)
    assert tap.commands("FETCH") == []
    assert [place[2] for place in (await whereabouts(scene.db)).values()] == ["kept", "hidden", "present"]
    assert all(one.was_proven_unchanged for one in (await scene.run()).folders)
    assert await stored_count(scene.db, AccountId("anna")) == 3


@pytest.mark.spec("MUT-53", "SYNC-120", "SYNC-68")
async def test_nobody_asks_the_server_for_them(scene: Scene) -> None:
    """Damage met in a kept message, and content that waited for room, are no work for a run: its UID is gone."""
    await scene.delete()
    kept, *_ = scene.ids
    await rows(
        scene.db, "UPDATE email_message_contents SET mime_byte_length = 1 WHERE stored_email_id = %s RETURNING 1", kept
    )
    scope = await resolve_scope(scene.db, scene.settings)
    (outcome,) = (await read_contents(scene.db, scope=scope, now=datetime.now(UTC), ids=[kept])).outcomes
    assert isinstance(outcome, ContentFailure)
    status = await scene.status()
    assert (status.damaged, status.unrepairable) == (1, 1)
    await rows(
        scene.db,
        "UPDATE stored_emails SET content_availability = 'AwaitingStorageHeadroom' WHERE id = %s RETURNING 1",
        kept,
    )
    async with Tap(scene.server.ports.plain) as tap:
        outcome = await scene.run(port=tap.port)
        async with engine(scene.db, scene.home, scene.account(tap.port)) as resources:
            await retry_quarantined(resources, "anna")
    assert all(one.was_proven_unchanged for one in outcome.folders)
    assert tap.commands("FETCH") == []
    assert (await scene.status()).skipped_by_reason == {}


@pytest.mark.spec("MUT-12")
async def test_no_change_can_be_asked_of_them(scene: Scene) -> None:
    """Kept, hidden and erased messages are not found alike."""
    await scene.delete()
    for email_id in scene.ids[:3]:
        with pytest.raises(EmailNotAccessible):
            await scene.ours.recorded(email_id, relocation("Trash"))
    await scene.ours.recorded(scene.ids[3], relocation("Trash"))


@pytest.mark.spec("MUT-12", "MUT-48")
async def test_no_change_can_be_asked_of_a_message_that_is_still_to_be_met(scene: Scene) -> None:
    """While it waits in its old place nobody knows a UID of it; afterwards it can be changed again."""
    only_inbox: list[dict[str, Any]] = [{"alias": "INBOX", "remote_path": "INBOX"}]
    email_id = scene.ids[0]
    await scene.ours.relocated(email_id, "INBOX", 1, "Sent")
    await scene.run(folders=only_inbox)
    with pytest.raises(EmailNotAccessible):
        await scene.ours.recorded(email_id, relocation("Trash"))
    await scene.run()
    await scene.ours.recorded(email_id, relocation("Trash"))


@pytest.mark.spec("MUT-54", "SYNC-128")
async def test_a_rewind_leaves_them(scene: Scene) -> None:
    """Starting over reconciles what the server holds; the kept and the hidden copy stay as they are."""

    await scene.delete()
    before = await whereabouts(scene.db)
    await rewind(scene.db, AccountId("anna"), alias=None)
    outcome = await scene.run(disposition="EraseLocalCopy")
    assert folder(outcome).gone == 0
    assert await whereabouts(scene.db) == before


@pytest.mark.spec("MUT-53", "SYNC-71")
async def test_a_kept_copy_and_its_twin_survive_a_new_uid_validity(scene: Scene) -> None:
    """A second copy of the deleted message is in the folder: it alone takes the new identity, the kept row stays kept."""
    with scene.server.client(scene.user) as other:
        other.copy("INBOX", 1, "INBOX")
    await scene.run()
    twin = (await stored(scene.db))[5][0]
    await scene.delete()
    scene.server.set_uid_validity(scene.user, "INBOX", 99_999)
    await scene.run()
    places = await whereabouts(scene.db)
    assert places[twin][2] == "present"
    assert places[scene.ids[0]][2] == "kept"
    assert places[scene.ids[1]][2] == "hidden"
    assert len(await stored(scene.db)) == 2
