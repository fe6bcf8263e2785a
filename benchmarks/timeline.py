"""One page of 25 messages of the timeline, at the newest end and deep in the past. No rival serves such pages."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.search import ListRequest, list_emails

from .figure import Figure
from .lexical_search import percentile
from .search_home import MESSAGES, prepared_home

RUNS = 60
PAGES_DOWN = 200
PAGE_SIZE = 100


def measure() -> Iterator[Figure]:
    """Yield the time of the first page, and of a page PAGES_DOWN pages below it."""
    home, settings = prepared_home()
    first, deep = asyncio.run(_measure(home, settings))
    yield Figure(f"timeline_first_page_{MESSAGES}_p95", percentile(first, 95), "ms")
    yield Figure(f"timeline_deep_page_{MESSAGES}_p95", percentile(deep, 95), "ms")


async def _measure(home: Path, settings: Settings) -> tuple[list[float], list[float]]:
    async with Database.open(settings, home) as database:
        cursor = None
        for _ in range(min(PAGES_DOWN, MESSAGES // PAGE_SIZE - 2)):
            page = await list_emails(database, settings, ListRequest(page_size=PAGE_SIZE, cursor=cursor))
            cursor = page.next_cursor
        return [await _time(database, settings, None) for _ in range(RUNS)], [
            await _time(database, settings, cursor) for _ in range(RUNS)
        ]


async def _time(database: Database, settings: Settings, cursor: str | None) -> float:
    started = time.perf_counter()
    page = await list_emails(database, settings, ListRequest(cursor=cursor))
    if len(page.emails) != ListRequest().page_size:
        raise RuntimeError("the page is not full")
    return (time.perf_counter() - started) * 1000
