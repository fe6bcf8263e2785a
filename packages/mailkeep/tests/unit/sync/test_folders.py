"""From configuration and listing to folders."""

import pytest

from mailkeep.config import FolderMapping, SpecialUse
from mailkeep.imap import RemoteFolder
from mailkeep.sync.folders import resolve_folders
from mailkeep.sync.model import Outcome


def remote(path: str, *roles: SpecialUse, attributes: tuple[str, ...] = ()) -> RemoteFolder:
    return RemoteFolder(path, "/", frozenset(attributes), frozenset(roles))


INBOX = remote("INBOX", SpecialUse.INBOX)
SENT = remote("Gesendet", SpecialUse.SENT)


def mapping(alias: str, **options: object) -> FolderMapping:
    return FolderMapping.model_validate({"alias": alias, **options})


def aliases(listed: list[RemoteFolder], bound: dict[str, str] | None = None) -> dict[str, str]:
    return {target.alias: target.folder.path for target in resolve_folders(None, listed, bound=bound or {}).targets}


@pytest.mark.spec("SYNC-14")
def test_a_path_names_exactly_that_folder_and_its_role_is_only_a_label() -> None:
    """The role of a mapping with a path does not choose."""
    resolved = resolve_folders(
        [mapping("s", remote_path="Other", special_use="Sent")], [INBOX, SENT, remote("Other")], bound={}
    )
    assert [(t.alias, t.folder.path, t.role) for t in resolved.targets] == [("S", "Other", SpecialUse.SENT)]


@pytest.mark.spec("SYNC-14")
def test_inbox_is_named_in_any_case_and_other_paths_are_not() -> None:
    """INBOX is caseless, `sent` is not `Sent`."""
    found = resolve_folders(
        [mapping("i", remote_path="inbox"), mapping("s", remote_path="gesendet")], [INBOX, SENT], bound={}
    )
    assert [target.folder.path for target in found.targets] == ["INBOX"]
    assert found.unresolved == (("S", Outcome.ALIAS_UNRESOLVED),)


def test_a_path_may_be_written_as_people_read_it() -> None:
    """`Entwürfe` finds the folder whose octets are `Entw&APw-rfe`."""
    listed = [remote("Entw&APw-rfe")]
    assert resolve_folders([mapping("d", remote_path="Entwürfe")], listed, bound={}).targets[0].folder is listed[0]
    assert resolve_folders([mapping("d", remote_path="Entw&APw-rfe")], listed, bound={}).targets[0].folder is listed[0]


@pytest.mark.spec("SYNC-14", "SYNC-15")
def test_a_role_alone_takes_the_one_folder_that_advertises_it() -> None:
    """One is taken, two are ambiguous and never the first, none is unresolved."""
    wanted = [mapping("s", special_use="Sent")]
    assert resolve_folders(wanted, [INBOX, SENT], bound={}).targets[0].folder is SENT
    twice = resolve_folders(wanted, [SENT, remote("Sent", SpecialUse.SENT)], bound={})
    assert (twice.targets, twice.unresolved) == ((), (("S", Outcome.ALIAS_AMBIGUOUS),))
    assert resolve_folders(wanted, [INBOX], bound={}).unresolved == (("S", Outcome.ALIAS_UNRESOLVED),)


@pytest.mark.spec("SYNC-16")
def test_the_role_inbox_falls_back_to_the_folder_inbox() -> None:
    """INBOX has its role by name, whatever the server advertises."""
    assert resolve_folders([mapping("i", special_use="Inbox")], [INBOX], bound={}).targets[0].folder is INBOX


@pytest.mark.spec("SYNC-17")
def test_folders_that_cannot_be_selected_are_passed_over() -> None:
    """\\Noselect and \\NonExistent hold no mail."""
    listed = [INBOX, remote("a", attributes=("\\NOSELECT",)), remote("b", attributes=("\\NONEXISTENT",))]
    assert set(aliases(listed).values()) == {"INBOX"}


@pytest.mark.spec("SYNC-24")
def test_a_folder_that_is_not_to_be_synchronized_gets_no_turn() -> None:
    """`synchronize: false` is neither resolved nor reported."""
    resolved = resolve_folders([mapping("s", special_use="Sent", synchronize=False)], [SENT], bound={})
    assert (resolved.targets, resolved.unresolved) == ((), ())


def test_without_configuration_every_selectable_folder_is_mirrored() -> None:
    """INBOX first, aliases from display names, upper-cased, roles from the server."""
    listed = [SENT, remote("Entw&APw-rfe", SpecialUse.DRAFTS), INBOX]
    resolved = resolve_folders(None, listed, bound={})
    assert [(t.alias, t.role) for t in resolved.targets] == [
        ("INBOX", SpecialUse.INBOX),
        ("ENTWÜRFE", SpecialUse.DRAFTS),
        ("GESENDET", SpecialUse.SENT),
    ]


def test_aliases_are_distinct_and_bounded() -> None:
    """Names that differ in case or beyond the bound get numbers."""
    found = aliases([remote("Work"), remote("work"), remote("w" * 300), remote("W" * 301)])
    assert len(found) == 4
    assert {"WORK", "WORK (2)"} <= set(found)
    assert all(len(alias) <= 128 for alias in found)


def test_a_folder_keeps_the_alias_it_is_bound_to() -> None:
    """A new folder that sorts earlier does not take over an older one's alias."""
    bound = {"WORK": "work"}
    assert aliases([remote("Work"), remote("work")], bound) == {"WORK": "work", "WORK (2)": "Work"}


def test_one_role_is_given_once() -> None:
    """The second folder that claims a role is mirrored without it."""
    resolved = resolve_folders(None, [SENT, remote("Sent", SpecialUse.SENT)], bound={})
    assert [target.role for target in resolved.targets].count(SpecialUse.SENT) == 1


def test_where_folders_are_labels_each_message_is_mirrored_once() -> None:
    """All mail, and junk and trash, which it leaves out; every label when the folder of all mail is hidden."""
    labels = [INBOX, SENT, remote("Work"), remote("Spam", SpecialUse.JUNK), remote("Bin", SpecialUse.TRASH)]
    everything = remote("[Gmail]/All Mail", SpecialUse.ALL)
    chosen = resolve_folders(None, [*labels, everything], bound={}, folders_are_labels=True)
    assert {target.folder.path for target in chosen.targets} == {"Spam", "Bin", "[Gmail]/All Mail"}
    hidden = resolve_folders(None, labels, bound={}, folders_are_labels=True)
    assert len(hidden.targets) == 5
    configured = resolve_folders(
        [mapping("w", remote_path="Work")], [*labels, everything], bound={}, folders_are_labels=True
    )
    assert [target.alias for target in configured.targets] == ["W"]


def test_a_bound_folder_that_is_listed_no_more_is_reported() -> None:
    """People see that it has gone from the server; nothing is decided about its mail."""
    resolved = resolve_folders(None, [INBOX], bound={"INBOX": "INBOX", "OLD": "Old"})
    assert resolved.unresolved == (("OLD", Outcome.ALIAS_UNRESOLVED),)


@pytest.mark.case("82")
def test_identity_is_never_split_at_the_delimiter() -> None:
    """`a/b` as one name and as two levels is the same opaque path."""
    assert aliases([remote("a/b")]) == {"A/B": "a/b"}
