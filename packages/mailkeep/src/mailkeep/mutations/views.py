"""Recorded changes as faces show them: with the folder each is about, and only of mail that may be read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from psycopg.rows import dict_row

from mailkeep.config import Settings
from mailkeep.db import Database, load_queries
from mailkeep.errors import MailChangeInvalid, MailChangeUnknown, MutationFailedUnexpectedly
from mailkeep.mailbox import resolve_scope
from mailkeep.mutations.rows import record_of
from mailkeep.mutations.terms import checked_identity
from mailkeep.mutations.wishes import MAX_MESSAGES, MAX_MESSAGES_OF_TOOL, Caller, Change

log = logging.getLogger(__name__)

_SQL: Final = load_queries("mailkeep.mutations")
_ID_CHARACTERS: Final = 36


async def changes_named(db: Database, ids: Sequence[UUID]) -> list[Change]:
    """The changes of these ids, in that order; those that are no more are left out."""
    async with db.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_SQL["changes_by_id"], {"ids": list(ids)})
        found = {one.record.id: one for one in readable(await cursor.fetchall())}
    return [found[one] for one in ids if one in found]


async def readable_changes(
    db: Database,
    settings: Settings,
    *,
    change_ids: Sequence[str] = (),
    of_request: str | None = None,
    caller: Caller = Caller.PERSON,
) -> list[Change]:
    """Changes of mail that may be read, by their ids (in that order) or by the request that asked for them.

    Raises MailChangeInvalid for both or neither and for too many, MailChangeUnknown when one of the ids is none of such
    a change, or the request asked for none.
    """
    if bool(change_ids) == (of_request is not None):
        raise MailChangeInvalid("name either changes or the request that asked for them")
    most = MAX_MESSAGES if caller is Caller.PERSON else MAX_MESSAGES_OF_TOOL
    if len(change_ids) > most:
        raise MailChangeInvalid(f"name at most {most} changes at once")
    ids = list(dict.fromkeys(parse_change_id(text) for text in change_ids))
    scope = await resolve_scope(db, settings, include_junk=True)
    values: dict[str, object] = {"folder_ids": scope.folder_ids, "ids": ids, "limit": most + 1}
    name = "readable_changes"
    if of_request is not None:
        name, values["identity"] = "readable_changes_of_request", checked_identity(of_request, part="request_id")
    async with db.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_SQL[name], values)
        found = {one.record.id: one for one in readable(await cursor.fetchall())}
    if len(found) > most:
        raise MailChangeInvalid(f"that request asked for more than {most} changes; name them by their ids")
    if not found or any(one not in found for one in ids):
        raise MailChangeUnknown("there is no such change of readable mail")
    return [found[one] for one in ids] if ids else list(found.values())


def parse_change_id(text: str) -> UUID:
    """The id of a change. Raises MailChangeUnknown for what is none."""
    if len(text) <= _ID_CHARACTERS and text.isascii():
        try:
            return UUID(hex=text)
        except ValueError:
            pass
    raise MailChangeUnknown("there is no such change of readable mail")


def readable(rows: Sequence[dict[str, Any]]) -> list[Change]:
    """The rows that mean something; the others are left out, counted and logged (DATA-6)."""
    changes = []
    for row in rows:
        try:
            changes.append(Change(record_of(row), row["folder_alias"], row["folder_path"]))
        except MutationFailedUnexpectedly:
            continue
    if len(changes) < len(rows):
        log.warning("changes left out of an answer", extra={"uninterpretable": len(rows) - len(changes)})
    return changes
