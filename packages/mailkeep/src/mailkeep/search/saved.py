"""Searches kept by name: the query as typed, read anew whenever it is run.

A name is found without regard to case. What is kept is one text, so folders, filters and words are all in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from mailkeep.db import Database, load_queries
from mailkeep.errors import FilterRefused, SavedSearchUnknown
from mailkeep.search.filters import check_query_text, is_printable
from mailkeep.search.language import read_query

MAX_NAME_CHARACTERS: Final = 64
MAX_SAVED_SEARCHES: Final = 1_000

_SQL: Final = load_queries("mailkeep.search")


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A kept query."""

    name: str
    query_text: str
    created_at: datetime
    updated_at: datetime


async def list_saved_searches(db: Database) -> tuple[SavedSearch, ...]:
    """All of them, by name."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["saved_searches"])
        return tuple(SavedSearch(*row) for row in await cursor.fetchall())


async def saved_search(db: Database, name: str) -> SavedSearch:
    """The one of that name. Raises SavedSearchUnknown."""
    async with db.connection() as connection:
        row = await (await connection.execute(_SQL["saved_search"], {"name": _named(name)})).fetchone()
    if row is None:
        raise SavedSearchUnknown("There is no saved search of that name.")
    return SavedSearch(*row)


async def save_search(db: Database, name: str, query_text: str, *, now: datetime, zone: tzinfo) -> bool:
    """Keep a query under a name; True when it replaced another one.

    Raises FilterRefused (QueryMalformed) for a query that cannot be run, a bad name, or one too many.
    """
    check_query_text(query_text)
    if read_query(query_text, now=now, zone=zone).is_empty:
        raise FilterRefused("query_text asks for nothing.")
    values = {"name": _named(name), "query_text": query_text.strip(), "now": now}
    async with db.connection() as connection:
        count = await (await connection.execute(_SQL["count_saved_searches"])).fetchone()
        if count is not None and count[0] >= MAX_SAVED_SEARCHES:
            raise FilterRefused(f"There can be at most {MAX_SAVED_SEARCHES} saved searches.")
        row = await (await connection.execute(_SQL["save_search"], values)).fetchone()
    return row is not None and bool(row[0])


async def remove_saved_search(db: Database, name: str) -> None:
    """Forget a query. Raises SavedSearchUnknown."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["remove_saved_search"], {"name": _named(name)})
        if not cursor.rowcount:
            raise SavedSearchUnknown("There is no saved search of that name.")


def _named(name: str) -> str:
    stripped = name.strip()
    if not stripped or len(stripped) > MAX_NAME_CHARACTERS or not is_printable(stripped):
        raise FilterRefused(f"The name of a saved search has 1 to {MAX_NAME_CHARACTERS} printable characters.")
    return stripped
