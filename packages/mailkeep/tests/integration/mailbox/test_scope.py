"""Who may read what: one resolver for listing, search, reading and attachments."""

from __future__ import annotations

from typing import Any

import pytest

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.errors import AccountNotAccessible, FilterRefused, RoleUnmapped
from mailkeep.mailbox import AccountId, SpecialUse, bind_folder, resolve_scope

pytestmark = pytest.mark.anyio


def settings(*accounts: dict[str, Any]) -> Settings:
    """Settings with local accounts."""
    filled = [{"display_name": f"{one['account_id']}'s mail", "kind": "local", **one} for one in accounts]
    return Settings(mail_synchronization={"accounts": filled})  # type: ignore[arg-type]


WHOLE = {"account_id": "ann"}
MAPPED = {
    "account_id": "bob",
    "display_name": "Bob at work",
    "folders": [
        {"alias": "in", "special_use": "Inbox"},
        {"alias": "spam", "special_use": "Junk", "remote_path": "Spam"},
        {"alias": "hidden", "remote_path": "Hidden", "visible_to_tools": False},
        {"alias": "off", "remote_path": "Off", "synchronize": False},
    ],
}


@pytest.fixture
async def bound(db: Database) -> Database:
    """Two accounts with folders, and one that is no longer configured."""
    for account, alias, role in (
        ("ann", "INBOX", SpecialUse.INBOX),
        ("ann", "JUNK E-MAIL", SpecialUse.JUNK),
        ("ann", "WORK", None),
        ("bob", "IN", None),
        ("bob", "SPAM", None),
        ("bob", "HIDDEN", None),
        ("bob", "OFF", None),
        ("bob", "UNMAPPED", SpecialUse.INBOX),
        ("gone", "INBOX", SpecialUse.INBOX),
    ):
        await bind_folder(
            db, AccountId(account), alias=alias, remote_path=alias, hierarchy_delimiter="/", special_use=role
        )
    return db


async def pairs(db: Database, *accounts: dict[str, Any], **request: Any) -> list[tuple[str, str]]:
    """The readable (account, alias) pairs of a request."""
    return list((await resolve_scope(db, settings(*accounts), **request)).pairs)


@pytest.mark.spec("FIND-1", "FIND-4", "FIND-6", "FIND-7")
async def test_nothing_named_is_everything_readable_but_junk(bound: Database) -> None:
    """All folders of an account without a mapping, the mapped and visible ones of another, of served accounts only."""
    assert await pairs(bound, WHOLE, MAPPED) == [("ann", "INBOX"), ("ann", "WORK"), ("bob", "IN")]
    scope = await resolve_scope(bound, settings(WHOLE, MAPPED), accounts=[], folders=[])
    assert (scope.account_ids, scope.includes_junk) == (("ann", "bob"), False)


@pytest.mark.spec("FIND-7")
async def test_junk_needs_the_override_and_withheld_folders_ignore_it(bound: Database) -> None:
    """The override reveals junk, by configured or advertised role, and nothing else."""
    assert await pairs(bound, WHOLE, MAPPED, include_junk=True) == [
        ("ann", "INBOX"),
        ("ann", "JUNK E-MAIL"),
        ("ann", "WORK"),
        ("bob", "IN"),
        ("bob", "SPAM"),
    ]
    assert await pairs(bound, WHOLE, MAPPED, folders=["role:Junk"]) == []
    assert await pairs(bound, WHOLE, MAPPED, folders=["role:Junk", "work"], include_junk=True) == [
        ("ann", "JUNK E-MAIL"),
        ("ann", "WORK"),
        ("bob", "SPAM"),
    ]


@pytest.mark.spec("FIND-2", "FIND-3")
async def test_accounts_are_named_by_exact_id_or_display_name(bound: Database) -> None:
    """A fragment, another case of the id, an unserved and an invented account are the same refusal."""
    assert await pairs(bound, WHOLE, MAPPED, accounts=["bob"]) == [("bob", "IN")]
    assert await pairs(bound, WHOLE, MAPPED, accounts=["bob AT work", "bob"]) == [("bob", "IN")]
    refusals = set()
    for name in ("BOB", "Bob", "bo", "gone", "nobody", ""):
        with pytest.raises(AccountNotAccessible) as raised:
            await pairs(bound, WHOLE, MAPPED, accounts=[name])
        refusals.add(str(raised.value))
    assert len(refusals) == 1


@pytest.mark.spec("FIND-5", "SYNC-22", "SYNC-25")
async def test_folders_are_named_by_alias_or_role(bound: Database) -> None:
    """Aliases in any case; a role expands to each account's own folder; an unmapped alias selects nothing."""
    assert await pairs(bound, WHOLE, MAPPED, folders=["inbox"]) == [("ann", "INBOX")]
    assert await pairs(bound, WHOLE, MAPPED, folders=["role:inbox"]) == [("ann", "INBOX"), ("bob", "IN")]
    assert await pairs(bound, WHOLE, MAPPED, folders=["unmapped", "hidden", "off", "nowhere"]) == []
    for role in ("role:Drafts", "role:Nonsense"):
        with pytest.raises(RoleUnmapped):
            await pairs(bound, WHOLE, MAPPED, folders=[role])


@pytest.mark.spec("FIND-9")
async def test_selectors_are_bounded_before_anything_is_read(bound: Database) -> None:
    """Count as supplied, length and control characters; the refusal names the filter and never the value."""
    for request in (
        {"accounts": ["ann"] * 65},
        {"folders": ["inbox"] * 65},
        {"folders": ["secret" * 50]},
        {"accounts": ["secret\n"]},
    ):
        with pytest.raises(FilterRefused) as raised:
            await pairs(bound, WHOLE, **request)
        assert "secret" not in str(raised.value)
        assert next(iter(request)) in str(raised.value)
    assert await pairs(bound, WHOLE, accounts=["ann"] * 64) == [("ann", "INBOX"), ("ann", "WORK")]


@pytest.mark.spec("FIND-4")
async def test_no_served_account_reads_nothing(bound: Database) -> None:
    """The scope of an empty configuration is empty, not everything; validation still runs."""
    assert await pairs(bound) == []
    with pytest.raises(FilterRefused):
        await pairs(bound, folders=["x\0"])


async def test_all_generations_behind_an_alias_are_readable(bound: Database) -> None:
    """A repointed alias keeps showing its older mail."""
    await bind_folder(bound, AccountId("ann"), alias="WORK", remote_path="Work 2", hierarchy_delimiter="/")
    scope = await resolve_scope(bound, settings(WHOLE), folders=["work"])
    assert (len(scope.folder_ids), scope.pairs) == (2, (("ann", "WORK"),))
