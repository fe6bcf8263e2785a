"""Who may read what: one resolver from requested accounts and folders to folder keys (FIND-1 to FIND-9).

Listing, search, content reads and attachments all take its `Scope`; access is decided nowhere else. A folder that is
withheld, no longer mapped or of an account that is no longer configured is indistinguishable from one that never was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mailkeep.config import AccountSettings, Settings
from mailkeep.db import Database, load_queries
from mailkeep.errors import AccountNotAccessible, FilterRefused, RoleUnmapped
from mailkeep.mailbox.model import AccountId, FolderId, SpecialUse

_SQL: Final = load_queries("mailkeep.mailbox")

MAX_SELECTORS: Final = 64
MAX_SELECTOR_CHARACTERS: Final = 256
ROLE_PREFIX: Final = "role:"
_UNBOUND: Final = FolderId(0)
"""Stands for the key of a folder that has none yet; real keys begin at 1."""


@dataclass(frozen=True, slots=True)
class ReadableFolder:
    """One binding whose mail may be read; several generations may stand behind one alias."""

    folder_id: FolderId
    account_id: AccountId
    alias: str
    special_use: SpecialUse | None


@dataclass(frozen=True, slots=True)
class Scope:
    """What one request reads. `account_ids` are those asked for, in the order of configuration, mail or not.

    `unbound` are the (account, alias) pairs in scope that are mapped but have not met their folder yet: they hold no
    mail, and freshness names them all the same (FIND-29).
    """

    account_ids: tuple[AccountId, ...]
    folders: tuple[ReadableFolder, ...]
    includes_junk: bool
    unbound: tuple[tuple[AccountId, str], ...] = ()

    @property
    def folder_ids(self) -> list[FolderId]:
        """The keys of the folders, for SQL."""
        return [folder.folder_id for folder in self.folders]

    @property
    def pairs(self) -> tuple[tuple[AccountId, str], ...]:
        """The distinct (account, alias) pairs, sorted."""
        return tuple(sorted({(folder.account_id, folder.alias) for folder in self.folders}))


async def resolve_scope(
    db: Database,
    settings: Settings,
    *,
    accounts: Sequence[str] | None = None,
    folders: Sequence[str] | None = None,
    include_junk: bool = False,
) -> Scope:
    """The folders that a request may read.

    `accounts` are ids (exact) or display names (any case), `folders` aliases or `role:<Name>`; none named is all that
    is served. Raises FilterRefused (51002) for too many or unusable selectors, AccountNotAccessible (53001) for a name
    that no served account answers to, RoleUnmapped (53003) for a role that no account in scope maps.
    """
    _check_selectors("accounts", accounts or ())
    _check_selectors("folders", folders or ())
    chosen = _chosen_accounts(settings, accounts or ())
    bound = await _bound_folders(db, [account.account_id for account in chosen])
    readable = [folder for account in chosen for folder in _readable(account, bound.get(account.account_id, ()))]
    waiting = [folder for account in chosen for folder in _unbound(account, bound.get(account.account_id, ()))]
    selected = [
        folder
        for folder in _selected([*readable, *waiting], folders or ())
        if include_junk or folder.special_use is not SpecialUse.JUNK
    ]
    return Scope(
        account_ids=tuple(AccountId(account.account_id) for account in chosen),
        folders=tuple(folder for folder in selected if folder.folder_id != _UNBOUND),
        includes_junk=include_junk,
        unbound=tuple((folder.account_id, folder.alias) for folder in selected if folder.folder_id == _UNBOUND),
    )


async def _bound_folders(db: Database, account_ids: Sequence[str]) -> dict[str, list[ReadableFolder]]:
    bound: dict[str, list[ReadableFolder]] = {}
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["folders_of_accounts"], {"account_ids": list(account_ids)})
        for folder_id, account_id, alias, role in await cursor.fetchall():
            folder = ReadableFolder(folder_id, account_id, alias, SpecialUse(role) if role is not None else None)
            bound.setdefault(account_id, []).append(folder)
    return bound


def _check_selectors(name: str, selectors: Sequence[str]) -> None:
    if len(selectors) > MAX_SELECTORS:
        raise FilterRefused(f"{name} takes at most {MAX_SELECTORS} names")
    for selector in selectors:
        if len(selector) > MAX_SELECTOR_CHARACTERS:
            raise FilterRefused(f"{name} takes names of at most {MAX_SELECTOR_CHARACTERS} characters")
        if not selector.isprintable():
            raise FilterRefused(f"{name} takes no control characters")


def _chosen_accounts(settings: Settings, names: Sequence[str]) -> list[AccountSettings]:
    served = settings.mail_synchronization.accounts
    if not names:
        return list(served)
    chosen: dict[str, AccountSettings] = {}
    for name in names:
        folded = name.strip().casefold()
        for account in served:
            if account.account_id == name.strip() or account.display_name.casefold() == folded:
                chosen[account.account_id] = account
                break
        else:
            raise AccountNotAccessible("there is no readable account of that name")
    return [account for account in served if account.account_id in chosen]


def _readable(account: AccountSettings, bound: Iterable[ReadableFolder]) -> list[ReadableFolder]:
    """The allow-list: mapped and visible folders, under the configured role; every bound one without a mapping."""
    if account.folders is None:
        return list(bound)
    roles: Mapping[str, SpecialUse | None] = {
        mapping.alias: mapping.special_use for mapping in account.folders if mapping.visible_to_tools
    }
    return [
        ReadableFolder(folder.folder_id, folder.account_id, folder.alias, roles[folder.alias] or folder.special_use)
        for folder in bound
        if folder.alias in roles
    ]


def _unbound(account: AccountSettings, bound: Iterable[ReadableFolder]) -> list[ReadableFolder]:
    """The mapped and visible folders that no run has bound yet."""
    met = {folder.alias for folder in bound}
    return [
        ReadableFolder(_UNBOUND, AccountId(account.account_id), mapping.alias, mapping.special_use)
        for mapping in account.folders or ()
        if mapping.visible_to_tools and mapping.alias not in met
    ]


def _selected(readable: Sequence[ReadableFolder], selectors: Sequence[str]) -> list[ReadableFolder]:
    if not selectors:
        return list(readable)
    keys: set[tuple[AccountId, str]] = set()
    for selector in selectors:
        folded = selector.strip()
        if folded[: len(ROLE_PREFIX)].lower() == ROLE_PREFIX:
            role = folded[len(ROLE_PREFIX) :].strip().casefold()
            matching = {
                (folder.account_id, folder.alias)
                for folder in readable
                if folder.special_use is not None and folder.special_use.casefold() == role
            }
            if not matching:
                raise RoleUnmapped("no folder in scope carries that role")
        else:
            matching = {(folder.account_id, folder.alias) for folder in readable if folder.alias == folded.upper()}
        keys |= matching
    return [folder for folder in readable if (folder.account_id, folder.alias) in keys]
