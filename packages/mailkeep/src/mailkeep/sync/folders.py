"""Which folders an account mirrors, and under which aliases. Pure (SYNC-12 to SYNC-16)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mailkeep.config import FolderMapping, SpecialUse
from mailkeep.imap import RemoteFolder
from mailkeep.sync.model import Outcome

MAX_ALIAS_CHARACTERS = 128
MAX_PATH_CHARACTERS = 512
_ROLE_ORDER = tuple(SpecialUse)


@dataclass(frozen=True, slots=True)
class Target:
    """An alias that leads to exactly one folder of the server."""

    alias: str
    folder: RemoteFolder
    role: SpecialUse | None


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the configuration came to on this server. `unresolved` has the aliases that lead nowhere, and why."""

    targets: tuple[Target, ...]
    unresolved: tuple[tuple[str, Outcome], ...] = ()


def resolve_folders(
    mappings: Sequence[FolderMapping] | None,
    listed: Sequence[RemoteFolder],
    *,
    bound: Mapping[str, str],
    folders_are_labels: bool = False,
) -> Resolution:
    """Every mapping against the listing; without mappings every selectable folder, INBOX first.

    `bound` is the remote path that each alias is bound to today: derived aliases keep to it, so that a new folder of
    a similar name never takes over the alias of an old one. A bound folder that is listed no more is unresolved; its
    mail stays. `folders_are_labels` says that the server shows each message in several folders (X-GM-EXT-1).
    """
    usable = [folder for folder in listed if folder.is_selectable and len(folder.path) <= MAX_PATH_CHARACTERS]
    if mappings is None:
        chosen = _each_message_once(usable) if folders_are_labels else usable
        targets_of_all = _every_folder(chosen, bound)
        paths = {target.folder.path for target in targets_of_all}
        lost = [alias for alias, path in bound.items() if path not in paths]
        return Resolution(targets_of_all, tuple((alias, Outcome.ALIAS_UNRESOLVED) for alias in lost))
    targets: list[Target] = []
    unresolved: list[tuple[str, Outcome]] = []
    for mapping in mappings:
        if not mapping.synchronize:
            continue
        matches = _matches(mapping, usable)
        if len(matches) == 1:
            targets.append(Target(mapping.alias, matches[0], mapping.special_use))
        else:
            unresolved.append((mapping.alias, Outcome.ALIAS_AMBIGUOUS if matches else Outcome.ALIAS_UNRESOLVED))
    return Resolution(tuple(targets), tuple(unresolved))


def names_too_long(listed: Iterable[RemoteFolder]) -> int:
    """How many folders that hold mail are passed over because their path is longer than can be kept."""
    return sum(folder.is_selectable and len(folder.path) > MAX_PATH_CHARACTERS for folder in listed)


def _matches(mapping: FolderMapping, listed: Iterable[RemoteFolder]) -> list[RemoteFolder]:
    if mapping.remote_path is not None:
        wanted = "INBOX" if mapping.remote_path.upper() == "INBOX" else mapping.remote_path
        by_key = [folder for folder in listed if folder.path == wanted]
        # People write names as they read them; the server's own octets go first.
        return by_key or [folder for folder in listed if folder.name == wanted]
    if mapping.special_use is None:
        return []
    return [folder for folder in listed if mapping.special_use in folder.roles]


def _each_message_once(listed: Sequence[RemoteFolder]) -> Sequence[RemoteFolder]:
    """Where folders are labels, the one that holds all mail, and those it leaves out: junk and trash (spec section 17).

    Without a folder for all mail (it can be hidden from IMAP) every label is mirrored: twice is better than never.
    """
    apart = {SpecialUse.ALL, SpecialUse.JUNK, SpecialUse.TRASH}
    if not any(SpecialUse.ALL in folder.roles for folder in listed):
        return listed
    return [folder for folder in listed if folder.roles & apart]


def _every_folder(listed: Sequence[RemoteFolder], bound: Mapping[str, str]) -> tuple[Target, ...]:
    """Aliases are the display names, upper-cased and made distinct; a folder keeps the alias it is bound to."""
    alias_of = {path: alias for alias, path in bound.items()}
    taken = {alias_of[folder.path] for folder in listed if folder.path in alias_of}
    given_roles: set[SpecialUse] = set()
    targets = []
    for folder in sorted(listed, key=lambda folder: (folder.path != "INBOX", folder.name.casefold(), folder.path)):
        alias = alias_of.get(folder.path) or _distinct(folder, taken)
        taken.add(alias)
        role = next((role for role in _ROLE_ORDER if role in folder.roles and role not in given_roles), None)
        if role is not None:
            given_roles.add(role)
        targets.append(Target(alias, folder, role))
    return tuple(targets)


def _distinct(folder: RemoteFolder, taken: set[str]) -> str:
    base = folder.name.strip().upper()[:MAX_ALIAS_CHARACTERS].strip() or "FOLDER"
    alias, number = base, 1
    while alias in taken:
        number += 1
        suffix = f" ({number})"
        alias = base[: MAX_ALIAS_CHARACTERS - len(suffix)] + suffix
    return alias
