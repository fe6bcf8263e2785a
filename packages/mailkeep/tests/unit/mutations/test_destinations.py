"""Which folder is meant: by alias or role of the same account, by a mapping or what a run bound; nothing is guessed."""

from __future__ import annotations

from typing import Any

import pytest

from mailkeep.config import AccountSettings
from mailkeep.mailbox import AccountId, FolderBinding, FolderId, SpecialUse
from mailkeep.mutations import DestinationReason, NoDestination
from mailkeep.mutations.destinations import destination_at, resolve_destination


def account(*folders: dict[str, Any]) -> AccountSettings:
    """An account that maps these folders; none: every folder is mirrored."""
    return AccountSettings.model_validate(
        {
            "account_id": "home",
            "display_name": "Home",
            "host": "mail.example.org",
            "user_name": "robin",
            "secrets": {"password": "env:X"},
            "folders": list(folders) or None,
        }
    )


def bound(alias: str, path: str | None = None, role: SpecialUse | None = None, delimiter: str = ".") -> FolderBinding:
    return FolderBinding(FolderId(1), AccountId("home"), alias, 1, path or alias.title(), delimiter, role)


def reason(given: AccountSettings | None, bindings: list[FolderBinding], selector: str, **more: bool) -> str:
    with pytest.raises(NoDestination) as refused:
        resolve_destination(given, bindings, selector, only_visible=more.get("only_visible", False))
    assert refused.value.message.startswith(refused.value.reason)
    return refused.value.reason


def test_where_every_folder_is_mirrored_a_bound_alias_is_enough() -> None:
    """Any case; the path and delimiter are the server's own."""
    found = resolve_destination(account(), [bound("LISTS", "INBOX.Lists")], " lists ", only_visible=True)
    assert (found.alias, found.path, found.delimiter, found.creates, found.is_mirrored) == (
        "LISTS",
        "INBOX.Lists",
        ".",
        False,
        True,
    )


@pytest.mark.spec("MUT-60")
def test_each_way_of_meaning_no_folder_has_its_reason() -> None:
    """Unknown alias, unknown role, a role that no server has named, two folders of one role, an account that is gone."""
    assert reason(account(), [bound("INBOX")], "Lists") == DestinationReason.UNMAPPED
    assert reason(account(), [bound("INBOX")], "role:Trash") == DestinationReason.UNRESOLVED
    by_role = account({"alias": "BIN", "special_use": "Trash"})
    assert reason(by_role, [bound("INBOX")], "bin") == DestinationReason.NOT_ADVERTISED
    assert reason(by_role, [bound("INBOX")], "role:trash") == DestinationReason.NOT_ADVERTISED
    two = [bound("BIN", role=SpecialUse.TRASH), bound("OTHER BIN", role=SpecialUse.TRASH)]
    assert reason(account(), two, "ROLE: Trash") == DestinationReason.AMBIGUOUS
    assert reason(None, [], "bin") == DestinationReason.NO_ACCOUNT
    assert (
        reason(account({"alias": "BIN", "remote_path": "Bin"}), [bound("LISTS")], "lists")
        == "DestinationFolderUnmapped"
    )


@pytest.mark.spec("MUT-60", "MUT-53")
def test_a_mapping_is_enough_also_for_a_folder_that_is_not_mirrored() -> None:
    """What is not mirrored is said, so that the message's disposition is taken along."""
    mapped = account({"alias": "OLD", "remote_path": "Ältere", "synchronize": False})
    found = resolve_destination(mapped, [bound("INBOX")], "old", only_visible=False)
    assert (found.path, found.delimiter, found.is_mirrored) == ("&AMQ-ltere", ".", False)
    assert reason(mapped, [], "old", only_visible=True) == DestinationReason.UNMAPPED  # withheld from tools


@pytest.mark.spec("MUT-61")
def test_only_a_mapping_that_says_so_may_be_created() -> None:
    mapped = account({"alias": "OLD", "remote_path": "Old/2026", "create_if_missing": True})
    assert resolve_destination(mapped, [], "old", only_visible=True).creates


@pytest.mark.spec("MUT-60")
def test_an_alias_that_was_pointed_elsewhere_since_the_last_run_leads_where_the_settings_say() -> None:
    """A binding counts for the path it is of only; written names are compared as people read them."""
    mapped = account({"alias": "LISTS", "remote_path": "Entwürfe"})
    assert (
        resolve_destination(mapped, [bound("LISTS", "Entw&APw-rfe")], "lists", only_visible=True).path == "Entw&APw-rfe"
    )
    assert resolve_destination(mapped, [bound("LISTS", "Lists")], "lists", only_visible=True).path == "Entw&APw-rfe"


def test_a_role_that_a_mapping_declares_outweighs_one_that_a_server_advertises() -> None:
    mapped = account({"alias": "A", "remote_path": "A", "special_use": "Archive"}, {"alias": "B", "remote_path": "B"})
    bindings = [bound("A"), bound("B", role=SpecialUse.ARCHIVE)]
    assert resolve_destination(mapped, bindings, "role:Archive", only_visible=True).alias == "A"


def test_a_way_back_leads_to_the_path_that_the_message_came_from() -> None:
    """Not to where its alias leads today; whether that path is mirrored is judged anew."""
    mapped = account({"alias": "INBOX", "remote_path": "INBOX"}, {"alias": "LISTS", "remote_path": "New"})
    source = bound("LISTS", "Lists")
    back = destination_at(mapped, [bound("INBOX", "INBOX"), source], source)
    assert (back.path, back.is_mirrored) == ("Lists", False)
    assert destination_at(mapped, [bound("INBOX", "INBOX")], bound("INBOX", "INBOX")).is_mirrored
