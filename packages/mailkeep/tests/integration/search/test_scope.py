"""What a caller may see: one scope for listing and search, withheld and gone mail indistinguishable from absent."""

from __future__ import annotations

from typing import Any

import pytest
from support.mail import message
from support.stored import NOW, folder, settings_for, store

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.errors import AccountNotAccessible, FilterRefused, RoleUnmapped
from mailkeep.mailbox import Checkpoint, SpecialUse, UidValidity, advance_checkpoint
from mailkeep.search import FolderFreshness, ListRequest, SearchRequest, list_emails, search_emails

pytestmark = pytest.mark.anyio

MAPPED = settings_for(
    {
        "account_id": "home",
        "display_name": "Home Mail",
        "folders": [
            {"alias": "inbox", "remote_path": "INBOX", "special_use": "Inbox"},
            {"alias": "junk", "remote_path": "Junk"},
            {"alias": "secret", "remote_path": "Secret", "visible_to_tools": False},
            {"alias": "later", "remote_path": "Later", "special_use": "Archive"},
        ],
    },
    "work",
)


async def fill(db: Database) -> None:
    """One message per folder, all with the word `zephyr`, the subject naming the folder."""
    roles = {"JUNK": SpecialUse.JUNK}
    for account, aliases in (
        ("home", ("INBOX", "JUNK", "SECRET", "REMOVED")),
        ("work", ("INBOX",)),
        ("gone", ("INBOX",)),
    ):
        for alias in aliases:
            binding = await folder(db, account, alias, special_use=roles.get(alias))
            await store(db, binding, [message(f"{account} {alias}", body="zephyr")])


async def seen(db: Database, settings: Settings = MAPPED, **request: Any) -> set[str | None]:
    """Subjects that listing shows; search must show the same, and freshness name the same folders."""
    page = await list_emails(db, settings, ListRequest(**request))
    result = await search_emails(db, settings, SearchRequest(query_text="zephyr", **request))
    listed = {summary.subject for summary in page.emails}
    assert {match.summary.subject for match in result.matches} == listed
    assert page.folder_freshness == result.folder_freshness
    assert {subject.split(" ")[1] for subject in listed if subject} <= {f.folder_alias for f in page.folder_freshness}
    return listed


@pytest.mark.spec("FIND-1", "FIND-4", "FIND-6", "FIND-7")
async def test_what_is_readable_is_the_mapped_and_visible_mail_without_junk(db: Database) -> None:
    """Withheld folders, removed mappings and accounts no longer configured do not exist for a reader."""
    await fill(db)
    assert await seen(db) == {"home INBOX", "work INBOX"}
    assert await seen(db, include_junk_mail=True) == {"home INBOX", "home JUNK", "work INBOX"}
    for alias in ("SECRET", "REMOVED", "NEVERHEARD"):
        assert await seen(db, folders=(alias,), include_junk_mail=True) == set()
        page = await list_emails(db, MAPPED, ListRequest(folders=(alias,)))
        assert page.folder_freshness == ()


@pytest.mark.spec("FIND-7")
async def test_junk_takes_part_only_on_request(db: Database) -> None:
    """Naming the folder or its role is no request for it; the result says which way it was answered."""
    await fill(db)
    assert await seen(db, folders=("junk",)) == set()
    assert await seen(db, folders=("role:Junk",)) == set()
    assert await seen(db, folders=("role:Junk",), include_junk_mail=True) == {"home JUNK"}
    assert (await list_emails(db, MAPPED, ListRequest(include_junk_mail=True))).included_junk_mail
    assert not (await search_emails(db, MAPPED, SearchRequest(query_text="zephyr"))).included_junk_mail


@pytest.mark.spec("FIND-2", "FIND-3", "FIND-5")
async def test_accounts_and_folders_are_named_whole(db: Database) -> None:
    """Ids exactly, display names and aliases in any case, never a fragment; unknown names are refused alike."""
    await fill(db)
    assert await seen(db, accounts=("work",)) == {"work INBOX"}
    assert await seen(db, accounts=("WORK mail",), folders=("Inbox",)) == {"work INBOX"}
    assert await seen(db, folders=("role:inbox",)) == {"home INBOX"}
    refusals = set()
    for name in ("wor", "gone", "HOME", "💥"):
        with pytest.raises(AccountNotAccessible) as refusal:
            await list_emails(db, MAPPED, ListRequest(accounts=(name,)))
        refusals.add(str(refusal.value))
    assert len(refusals) == 1
    with pytest.raises(RoleUnmapped):
        await seen(db, folders=("role:Trash",))


@pytest.mark.spec("FIND-8", "FIND-10")
async def test_mail_gone_from_the_server_is_hidden_and_copies_are_entries_of_their_own(db: Database) -> None:
    """A tombstone hides a row from both reads; the Deleted flag hides nothing; two folders are two entries."""
    binding = await folder(db, "work")
    await store(
        db, binding, [message("gone", body="zephyr"), message("flagged", body="zephyr"), message("kept", body="zephyr")]
    )
    await store(db, await folder(db, "work", "COPY"), [message("flagged", body="zephyr")])
    async with db.connection() as connection:
        await connection.execute(
            "UPDATE stored_emails SET remote_expunge_observed_at = now() WHERE subject IN ('gone', 'kept')"
        )
        await connection.execute(
            "UPDATE stored_emails SET is_retained_after_authored_delete = true WHERE subject = 'kept'"
        )
        await connection.execute("UPDATE stored_emails SET is_remotely_deleted = true WHERE subject = 'flagged'")
    page = await list_emails(db, MAPPED, ListRequest())
    assert sorted(summary.subject or "" for summary in page.emails) == ["flagged", "flagged", "kept"]
    result = await search_emails(db, MAPPED, SearchRequest(query_text="zephyr"))
    assert sorted(match.summary.subject or "" for match in result.matches) == ["flagged", "flagged", "kept"]


@pytest.mark.spec("FIND-9")
@pytest.mark.parametrize(
    "request_",
    [{"accounts": ("home",) * 65}, {"folders": ("X",) * 65}, {"folders": ("x" * 257,)}, {"folders": ("a\x00",)}],
)
async def test_selectors_out_of_bounds_are_refused(db: Database, request_: dict[str, Any]) -> None:
    """64 names counted as given, 256 characters, no control characters."""
    with pytest.raises(FilterRefused):
        await list_emails(db, MAPPED, ListRequest(**request_))
    with pytest.raises(FilterRefused):
        await search_emails(db, MAPPED, SearchRequest(query_text="x", **request_))


@pytest.mark.spec("FIND-29")
async def test_freshness_names_every_readable_folder_in_order(db: Database) -> None:
    """A folder never met is there without an instant, two bindings of one alias report the newest one."""
    await fill(db)
    for path, day in (("INBOX", 2), ("Moved", 1)):
        binding = await folder(db, "home", "INBOX", path=path)
        checkpoint = Checkpoint(uid_validity=UidValidity(1), synchronized_at=NOW.replace(day=day))
        await advance_checkpoint(db, binding.folder_id, expected=None, new=checkpoint)
    page = await list_emails(db, MAPPED, ListRequest())
    assert page.folder_freshness == (
        FolderFreshness("home", "Home Mail", "INBOX", NOW.replace(day=2)),
        FolderFreshness("home", "Home Mail", "LATER", None),
        FolderFreshness("work", "Work Mail", "INBOX", None),
    )
    assert [entry.was_synchronized for entry in page.folder_freshness] == [True, False, False]
