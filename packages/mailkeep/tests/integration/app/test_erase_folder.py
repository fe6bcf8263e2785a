"""Erasing one folder: in passes, resumable, never one that is mirrored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.accounts import account_at
from support.engine import settings_with
from support.mail import conversation
from support.store import NOW, inbox, rows, store

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.errors import ConfigurationRefused
from mailkeep.mailbox import (
    AccountId,
    Checkpoint,
    QuarantineReason,
    Uid,
    UidValidity,
    advance_checkpoint,
    bind_folder,
    erase_folder,
    load_checkpoint,
    quarantine,
)
from mailkeep.upkeep import erasable_account, erase

pytestmark = pytest.mark.anyio

ANN = AccountId("ann")


def settings(*mappings: dict[str, Any]) -> Settings:
    """One mirrored account, of which the given folders are mapped, and passes of ten messages."""
    folders = list(mappings) or None
    account = account_at(1, account_id="ann", folders=folders)
    return settings_with(account, max_reconciled_emails_per_run=10)


async def filled(db: Database, alias: str = "OLD") -> Any:
    """A folder with 25 messages in two generations, a checkpoint and a quarantined message."""
    earlier = await inbox(db, alias=alias)
    await store(db, earlier, *conversation(12))
    binding = await bind_folder(db, ANN, alias=alias, remote_path=f"{alias}/moved", hierarchy_delimiter="/")
    await store(db, binding, *conversation(13, domain="example.org"))
    await advance_checkpoint(db, binding.folder_id, expected=None, new=Checkpoint(UidValidity(7), Uid(13)))
    await quarantine(
        db, binding.folder_id, uid_validity=UidValidity(7), uid=Uid(14), reason=QuarantineReason.FETCH_REFUSED,
        detail=None, size_octets=None, now=NOW,
    )  # fmt: skip
    return binding


@pytest.mark.spec("SYNC-28")
async def test_an_unmapped_folder_is_erased_with_all_that_hangs_on_it(db: Database) -> None:
    """Every generation of the alias goes, the binding stays, other folders keep everything; again succeeds on nothing."""
    binding = await filled(db)
    await store(db, await inbox(db, alias="KEPT"), *conversation(3, domain="example.net"))
    one = settings({"alias": "kept", "remote_path": "Kept"})
    assert await erase(db, one, ANN, alias="OLD") == 25
    for table in ("stored_emails", "email_message_contents", "email_search_documents"):
        assert await rows(db, f"SELECT count(*) FROM {table}") == [(3,)], table
    assert await load_checkpoint(db, binding.folder_id) is None
    assert await rows(db, "SELECT count(*) FROM quarantined_messages") == [(0,)]
    assert await rows(db, "SELECT count(*) FROM mail_folders WHERE alias = 'OLD'") == [(2,)]
    assert await erase(db, one, ANN, alias="OLD") == 0
    assert await erase(db, one, AccountId("nobody"), alias="NEVER") == 0


@pytest.mark.spec("SYNC-28")
async def test_a_mirrored_folder_is_refused(db: Database) -> None:
    """Mapped with synchronization, or one of all folders of the account; switched off or unmapped it is accepted."""
    await filled(db)
    for refusing in (settings(), settings({"alias": "old", "remote_path": "Old"})):
        with pytest.raises(ConfigurationRefused):
            await erase(db, refusing, ANN, alias="OLD")
    assert await rows(db, "SELECT count(*) FROM stored_emails") == [(25,)]
    off = settings({"alias": "old", "remote_path": "Old", "synchronize": False})
    assert await erase(db, off, erasable_account(off, "Mail of ann"), alias="OLD") == 25


@pytest.mark.spec("SYNC-28")
async def test_an_interrupted_erasure_resumes(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass is committed; the checkpoint stays until the pass that empties the folder."""
    binding = await filled(db)
    redo, passes = db.redo, 0

    async def cut_after_two(work: Any) -> Any:
        nonlocal passes
        passes += 1
        if passes == 3:
            raise asyncio.CancelledError
        return await redo(work)

    monkeypatch.setattr(db, "redo", cut_after_two)
    with pytest.raises(asyncio.CancelledError):
        await erase_folder(db, ANN, alias="OLD", emails_per_pass=10)
    monkeypatch.setattr(db, "redo", redo)
    assert await rows(db, "SELECT count(*) FROM stored_emails") == [(5,)]
    assert await load_checkpoint(db, binding.folder_id) is not None
    assert await erase_folder(db, ANN, alias="OLD", emails_per_pass=10) == 5
    assert await load_checkpoint(db, binding.folder_id) is None
