"""A query of fields alone: there is nothing to rank by, so the newest messages come first."""

from __future__ import annotations

from typing import Final

from mailkeep.db import Connection
from mailkeep.search import queries, timeline
from mailkeep.search.lexical import Window
from mailkeep.search.model import Direction, MatchCount
from mailkeep.search.queries import Ranked, Selection

COUNTED: Final = 1_000
"""Matches are counted up to here."""


async def find(connection: Connection, selection: Selection, *, limit: int, names_folders: bool) -> Window:
    """The newest `limit` messages of the selection, with a count that is exact up to COUNTED."""
    page = await timeline.read_page(
        connection,
        selection,
        direction=Direction.NEWEST_FIRST,
        boundary=None,
        limit=limit,
        names_folders=names_folders,
    )
    counted = len(page)
    if len(page) == limit:
        ids = await queries.few_matching_filters(connection, selection, at_most=COUNTED)
        counted = COUNTED + 1 if ids is None else len(ids)
    best = tuple((summary.stored_email_id, 0.0) for summary in page)
    return Window(
        ranked=Ranked(best=best, ranked=len(best), candidates=counted),
        match_count=MatchCount(counted, is_exact=counted <= COUNTED),
    )
