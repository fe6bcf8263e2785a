"""Which folder a change puts mail into: resolved when it is recorded, by alias or role, and never guessed. Pure.

Nothing falls back to a similar folder (MUT-60). A destination need not be mirrored: a mapping is enough, and what a run
has bound before tells the server's own spelling of its path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mailkeep.config import AccountSettings, FolderMapping, SpecialUse
from mailkeep.errors import DestinationRefused
from mailkeep.imap.names import display_name, encode_name, key_of_octets
from mailkeep.mailbox import FolderBinding

ROLE_PREFIX: Final = "role:"


class DestinationReason(StrEnum):
    """Why no folder is meant."""

    UNRESOLVED = "DestinationFolderUnresolved"
    UNMAPPED = "DestinationFolderUnmapped"
    NOT_ADVERTISED = "DestinationFolderNotAdvertised"
    AMBIGUOUS = "DestinationFolderAmbiguous"
    NO_ACCOUNT = "AccountNoLongerConfigured"


_SENTENCES: Final = {
    DestinationReason.UNRESOLVED: "no folder of the account has that role; give it to one in the settings",
    DestinationReason.UNMAPPED: "the account has no folder of that alias; see: mailkeep status",
    DestinationReason.NOT_ADVERTISED: "the folder is mapped by its role, and the server has named none of that role",
    DestinationReason.AMBIGUOUS: "several folders of the account have that role; name one by its alias",
    DestinationReason.NO_ACCOUNT: "the account is not configured any more",
}


class NoDestination(DestinationRefused):
    """No folder is meant, for `reason`."""

    def __init__(self, reason: DestinationReason) -> None:
        super().__init__(f"{reason}: {_SENTENCES[reason]}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Destination:
    """A folder of the server. Without `is_mirrored`, mail that goes there leaves what is mirrored."""

    alias: str
    path: str
    delimiter: str | None
    creates: bool
    is_mirrored: bool


@dataclass(frozen=True, slots=True)
class _Folder:
    """A mapped folder, and what a run bound it to."""

    alias: str
    role: SpecialUse | None
    mapping: FolderMapping | None
    binding: FolderBinding | None


def resolve_destination(
    account: AccountSettings | None, bindings: Sequence[FolderBinding], selector: str, *, only_visible: bool
) -> Destination:
    """The folder of that alias (any case) or of `role:<Role>`. Raises NoDestination (MUT-60).

    `bindings` are the newest of each alias. `only_visible` passes over folders that are withheld from tools.
    """
    if account is None:
        raise NoDestination(DestinationReason.NO_ACCOUNT)
    folders = [
        one for one in _mapped(account, bindings) if not only_visible or not one.mapping or one.mapping.visible_to_tools
    ]
    name = selector.strip()
    if name[: len(ROLE_PREFIX)].lower() == ROLE_PREFIX:
        chosen = _of_role(folders, name[len(ROLE_PREFIX) :].strip().casefold())
    else:
        found = [one for one in folders if one.alias == name.upper()]
        if not found:
            raise NoDestination(DestinationReason.UNMAPPED)
        chosen = found[0]
    return _destination(chosen, bindings)


def destination_at(account: AccountSettings, bindings: Sequence[FolderBinding], source: FolderBinding) -> Destination:
    """The folder that a binding is of, to put mail back into, whatever its alias leads to today."""
    mirrored = any(
        one.binding is not None and one.binding.remote_path == source.remote_path and _is_mirrored(one)
        for one in _mapped(account, bindings)
    )
    return Destination(source.alias, source.remote_path, source.hierarchy_delimiter, False, mirrored)


def has_role(account: AccountSettings, bindings: Sequence[FolderBinding], role: SpecialUse) -> bool:
    """Whether a mapped folder has the role."""
    return any(one.role is role for one in _mapped(account, bindings))


def _of_role(folders: Sequence[_Folder], role: str) -> _Folder:
    matching = [one for one in folders if one.role is not None and one.role.casefold() == role]
    declared = [one for one in matching if one.mapping is not None and one.mapping.special_use is not None]
    found = declared or matching
    if not found:
        raise NoDestination(DestinationReason.UNRESOLVED)
    if len(found) > 1:
        raise NoDestination(DestinationReason.AMBIGUOUS)
    return found[0]


def _mapped(account: AccountSettings, bindings: Sequence[FolderBinding]) -> Iterator[_Folder]:
    bound = {binding.alias: binding for binding in bindings}
    if account.folders is None:
        for binding in bindings:
            yield _Folder(binding.alias, binding.special_use, None, binding)
        return
    for mapping in account.folders:
        met = bound.get(mapping.alias)
        if met is not None and mapping.remote_path is not None and not _is_path_of(mapping.remote_path, met):
            met = None  # the alias was pointed elsewhere since the last run
        role = mapping.special_use or (None if met is None else met.special_use)
        yield _Folder(mapping.alias, role, mapping, met)


def _is_path_of(written: str, binding: FolderBinding) -> bool:
    wanted = "INBOX" if written.upper() == "INBOX" else written
    return wanted in (binding.remote_path, display_name(binding.remote_path))


def _destination(folder: _Folder, bindings: Sequence[FolderBinding]) -> Destination:
    creates = folder.mapping is not None and folder.mapping.create_if_missing
    if folder.binding is not None:
        path, delimiter = folder.binding.remote_path, folder.binding.hierarchy_delimiter
    elif folder.mapping is None or folder.mapping.remote_path is None:
        raise NoDestination(DestinationReason.NOT_ADVERTISED)
    else:
        path = _as_sent(folder.mapping.remote_path)
        delimiter = next((one.hierarchy_delimiter for one in bindings if one.hierarchy_delimiter), None)
    return Destination(folder.alias, path, delimiter, creates, _is_mirrored(folder))


def _is_mirrored(folder: _Folder) -> bool:
    return folder.mapping is None or folder.mapping.synchronize


def _as_sent(written: str) -> str:
    """A path as the operator wrote it, in the octets of a server; one in ASCII is taken as the server lists it."""
    if written.upper() == "INBOX":
        return "INBOX"
    return written if written.isascii() else key_of_octets(encode_name(written))
