"""Lexical search: find the newest matches through the index, rank those, show the best (FIND-35..45).

`ts_rank` reads every vector it ranks, so of a frequent word only the newest RANKED matches are ranked, and the result
says so. Which instant those reach back to is read from a fixed sample of the mail; marks in the vectors then let the
index return the matches since that instant and little else. Rare words are ranked whole. Measured choices and figures:
docs/decisions/0003-lexical-search.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mailkeep.db import Connection
from mailkeep.search import marks, queries
from mailkeep.search.model import Filters, MatchCount
from mailkeep.search.queries import CompiledQuery, Ranked, Selection

RANKED: Final = 1_000
"""Matches that are ranked at most: the newest ones."""
RANKED_BY_PLACE: Final = 200
"""The same where every match is read for the place of its words (`subject:`)."""
FEW_FILTERED: Final = 2_000
"""A filter that selects no more messages than this is the way in; the words are then looked up in those alone."""
_ENOUGH_SAMPLES: Final = 16
"""So many sampled matches stand for 2,048: fewer than RANKED once in a hundred times, and then the next is tried."""
_PLENTY_OF_SAMPLES: Final = 64
_ENOUGH_SAMPLES_BY_PLACE: Final = 5


@dataclass(frozen=True, slots=True)
class Window:
    """The ranked window and what it was taken from."""

    ranked: Ranked
    match_count: MatchCount


NOTHING: Final = Window(ranked=Ranked(best=(), ranked=0, candidates=0), match_count=MatchCount(0, is_exact=True))


async def find(
    connection: Connection, selection: Selection, query: CompiledQuery, *, limit: int, names_scope: bool
) -> Window:
    """The best `limit` of the newest matches. `names_scope` says that the request named accounts or folders."""
    if not selection.folders:
        return NOTHING
    await queries.force_index(connection)
    if _begins_with_filters(selection.filters):
        ids = await queries.few_matching_filters(connection, selection, at_most=FEW_FILTERED)
        if ids is not None:
            ranked = await queries.rank_named(connection, query, ids=ids, limit=limit)
            return Window(ranked=ranked, match_count=MatchCount(ranked.candidates, is_exact=True))
    newest, oldest = await queries.received_span(connection, selection.account_ids)
    folders = marks.folder_marks(selection.folders) if names_scope else None
    most, enough = (RANKED_BY_PLACE, _ENOUGH_SAMPLES_BY_PLACE) if query.reads_vectors else (RANKED, _ENOUGH_SAMPLES)
    sample = await queries.read_sample(
        connection, selection, _all_of(query.text, marks.SAMPLE, folders), nth=(enough, _PLENTY_OF_SAMPLES)
    )
    for reach in (*sample.instants, None) if sample.matching >= enough else (None,):
        span = _span(selection.filters, reach, newest, oldest, query)
        ranked = await queries.rank_newest(
            connection,
            selection,
            ranking=query.ranking,
            # What only excludes cannot enter the index by itself.
            narrowed=_all_of(query.text, folders, None if query.is_selective else span),
            span=span if query.is_selective else None,
            not_before=reach,
            among=most,
            limit=limit,
        )
        if reach is None:
            return Window(ranked=ranked, match_count=MatchCount(ranked.candidates, is_exact=True))
        if ranked.candidates >= most:
            estimate = max(sample.matching * marks.SAMPLE_SHARE, ranked.candidates)
            return Window(ranked=ranked, match_count=MatchCount(estimate, is_exact=False))
    raise AssertionError("the last reach has no bound")


def _begins_with_filters(filters: Filters) -> bool:
    """Filters that have an index of their own."""
    return filters.sender_address is not None or filters.recipient_address is not None or filters.keyword is not None


def _span(
    filters: Filters, reach: datetime | None, newest: datetime | None, oldest: datetime | None, query: CompiledQuery
) -> str | None:
    """Marks of the time that the statement reads, where it has a beginning; None to read all of it.

    A query that only excludes has nothing to enter the index with, so it takes the marks of the whole time.
    """
    if newest is None or oldest is None:
        return None
    starts = [instant for instant in (reach, filters.received_on_or_after) if instant is not None]
    is_bounded = bool(starts) or filters.received_before is not None
    if not is_bounded and query.is_selective:
        return None
    latest = newest if filters.received_before is None else min(newest, filters.received_before)
    earliest = max(starts, default=oldest)
    span = marks.time_marks(earliest, max(earliest, latest))
    return span if span is None or is_bounded else f"{span} | {marks.UNDATED}"


def _all_of(*conditions: str | None) -> str:
    return " & ".join(f"({condition})" for condition in conditions if condition is not None)
