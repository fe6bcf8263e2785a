"""Word search with ranking and snippets by kind of term, beside `mu find` and `notmuch search` on the same mail.

Ours is the time of the search within a running process, scope, ranking, snippets and freshness included. A rival is
one process per search, so the time of a search for a word that no message holds is taken off: what is left is finding
and printing 20 matches, newest first, without ranking or snippets.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.search import SearchRequest, search_emails

from . import rivals
from .figure import Figure
from .search_home import MESSAGES, prepared_home, prepared_rivals
from .search_mail import CJK_RARE, COMMON, COMMON_OLD, RARE

RUNS = 40
WARM_RUNS = 3
LIMIT = 20
ABSENT = "xyzzyqwv"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of term; `rivals_can` says whether mu and notmuch understand it with their default settings."""

    name: str
    query: str
    rivals_can: bool = True


KINDS = (
    Kind("rare", RARE),
    Kind("common_recent", COMMON),
    Kind("common_old", COMMON_OLD),
    Kind("prefix", f"{COMMON[:4]}*"),
    Kind("two_words", f"{COMMON} {COMMON_OLD}"),
    Kind("name", "greta"),
    Kind("cjk", CJK_RARE, rivals_can=False),
)


def measure() -> Iterator[Figure]:
    """Yield p50 and p95 of each kind of term, in milliseconds."""
    home, settings = prepared_home()
    ours = asyncio.run(_measure_ours(home, settings))
    them = prepared_rivals()
    for kind, times in zip(KINDS, ours, strict=True):
        name = f"search_{kind.name}_{MESSAGES}"
        theirs = (
            {}
            if not kind.rivals_can
            else {
                "mu find": _measure_rival(them, kind.query, rivals.mu_find),
                "notmuch search": _measure_rival(them, kind.query, rivals.notmuch_search),
            }
        )
        yield Figure(f"{name}_p50", percentile(times, 50), "ms")
        if not theirs:
            yield Figure(f"{name}_p95", percentile(times, 95), "ms")
        for rival, rival_times in theirs.items():
            yield Figure(f"{name}_p95", percentile(times, 95), "ms", rival, percentile(rival_times, 95))


async def _measure_ours(home: Path, settings: Settings) -> list[list[float]]:
    async with Database.open(settings, home) as database:
        return [await _times(database, settings, kind.query) for kind in KINDS]


async def _times(database: Database, settings: Settings, query: str) -> list[float]:
    request = SearchRequest(query_text=query, result_limit=LIMIT)
    for _ in range(WARM_RUNS):
        result = await search_emails(database, settings, request)
    if not result.matches:
        raise RuntimeError(f"a search for a planted term found nothing ({len(query)} characters)")
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        await search_emails(database, settings, request)
        times.append((time.perf_counter() - started) * 1000)
    return times


def _measure_rival(them: rivals.Rivals, query: str, find: rivals.Search) -> list[float]:
    start_up = statistics.median(find(them, ABSENT, limit=LIMIT)[0] for _ in range(WARM_RUNS + 2))
    for _ in range(WARM_RUNS):
        _seconds, found = find(them, query, limit=LIMIT)
    if found == 0:
        raise RuntimeError("a rival found nothing for a planted term")
    return [max(0.0, find(them, query, limit=LIMIT)[0] - start_up) * 1000 for _ in range(RUNS)]


def percentile(times: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile."""
    ordered = sorted(times)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
