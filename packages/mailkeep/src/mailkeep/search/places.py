"""Where a typed query looks: its own folders and accounts within those of the request, by the one resolver (FIND-1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.errors import RoleUnmapped
from mailkeep.mailbox import Scope, resolve_scope
from mailkeep.search.language import TypedQuery
from mailkeep.search.model import SearchRequest

_ROLE: Final = "role:"


async def resolve_typed_scope(db: Database, settings: Settings, request: SearchRequest, typed: TypedQuery) -> Scope:
    """The folders that both the request and its query leave. Raises as `resolve_scope`."""
    include_junk = request.include_junk_mail or typed.includes_junk
    scope = await resolve_scope(
        db, settings, accounts=request.accounts, folders=request.folders, include_junk=include_junk
    )
    if typed.accounts or typed.folders:
        named = await _named(db, settings, typed.folders, accounts=typed.accounts, include_junk=include_junk)
        scope = _within(scope, named, keeps=True)
    if typed.excluded_folders:
        named = await _named(db, settings, typed.excluded_folders, include_junk=True)
        scope = _within(scope, named, keeps=False)
    return scope


async def _named(
    db: Database,
    settings: Settings,
    folders: Sequence[str],
    *,
    accounts: Sequence[str] = (),
    include_junk: bool,
) -> Scope:
    """What the query names. Where no account has told which folder is, say, its trash, a folder of that name is it."""
    try:
        return await resolve_scope(db, settings, accounts=accounts, folders=folders, include_junk=include_junk)
    except RoleUnmapped:
        plain = [name[len(_ROLE) :] if name.startswith(_ROLE) else name for name in folders]
        return await resolve_scope(db, settings, accounts=accounts, folders=plain, include_junk=include_junk)


def _within(scope: Scope, named: Scope, *, keeps: bool) -> Scope:
    held, waiting = set(named.folder_ids), set(named.unbound)
    return replace(
        scope,
        folders=tuple(one for one in scope.folders if (one.folder_id in held) is keeps),
        unbound=tuple(one for one in scope.unbound if (one in waiting) is keeps),
    )
