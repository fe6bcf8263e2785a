"""Search by words and meaning over many passages: time, recall against comparing everything, and the built-in model.

The store is that of the word search with one passage for each message; its vectors are synthetic, of length 1, in
clusters as those of real texts are, so that an index has neighbours to tell apart. Half of the mail belongs to a second
account. A query's vector is near some message's. The time of the built-in model is measured apart, as passages for each
second of processor time. The rival is pgvector without an index: every vector of the scope compared.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final, cast
from uuid import UUID

import psycopg

from mailkeep.config import Settings, load_settings
from mailkeep.config.edit import add_account
from mailkeep.db import Database
from mailkeep.db.ids import uuid7s
from mailkeep.embeddings import Embeddings, Lifecycle, Meaning, Profile, SemanticState
from mailkeep.embeddings.identity import local_identity
from mailkeep.embeddings.index import create_statement
from mailkeep.embeddings.profiles import begin_building, living_profiles
from mailkeep.mailbox import resolve_scope
from mailkeep.providers import LOCAL_DIMENSION, LocalEmbedder, Purpose, local_version
from mailkeep.search import Filters, SearchRequest, search_emails, semantic
from mailkeep.search.run import selection_of

from .corpus import WORK
from .figure import Figure
from .lexical_search import percentile
from .search_home import MESSAGES
from .search_mail import COMMON, RARE, mail
from .search_store import ACCOUNT_ID, fill

SECOND: Final = "second"
CLUSTERS: Final = 400
SPREAD: Final = 0.045
QUERIES: Final = 40
WINDOW: Final = 20
DEPTH: Final = 80
PASSAGES: Final = 16
COPIED: Final = 2_000


class Drawn:
    """Vectors out of clusters, the same in every run; `seed` draws others out of the same clusters."""

    def __init__(self, seed: int) -> None:
        self._random = Random(0)
        self._centres = [self._direction() for _ in range(CLUSTERS)]
        self._random = Random(seed)

    def vector(self) -> tuple[float, ...]:
        """One of length 1 near a cluster's middle; half of all mail is in a tenth of the clusters."""
        random = self._random
        centre = self._centres[random.randrange(CLUSTERS // 10 if random.random() < 0.5 else CLUSTERS)]
        return _unit([number + random.gauss(0, SPREAD) for number in centre])

    def _direction(self) -> tuple[float, ...]:
        return _unit([self._random.gauss(0, 1) for _ in range(LOCAL_DIMENSION)])


def _unit(numbers: Sequence[float]) -> tuple[float, ...]:
    length = math.sqrt(math.fsum(number * number for number in numbers))
    return tuple(number / length for number in numbers)


class Given:
    """Stands where the model of a process stands, with a vector for each query."""

    def __init__(self, profile: Profile, vectors: Sequence[tuple[float, ...]]) -> None:
        self._profile = profile
        self._vectors = iter(vectors)

    async def meaning(self, query_text: str) -> Meaning:
        """The next vector, whatever the text."""
        del query_text
        return Meaning(SemanticState.AVAILABLE, self._profile, next(self._vectors))


def measure() -> Iterator[Figure]:
    """Yield the model's rate, the p95 of hybrid searches, and the recall of four kinds of scope."""
    yield from asyncio.run(_measure_model())
    home, settings = prepared_semantic_home()
    yield from asyncio.run(_measure_store(home, settings))


def prepared_semantic_home() -> tuple[Path, Settings]:
    """The installation's folder, filled, with vectors and their index; made once and kept."""
    home = WORK / f"semantic-{MESSAGES}" / "home"
    done = home / "filled"
    if not done.exists():
        shutil.rmtree(home, ignore_errors=True)
        for account_id in (ACCOUNT_ID, SECOND):
            add_account(home, {"account_id": account_id, "display_name": account_id.title(), "kind": "local"})
        asyncio.run(_fill(home))
        done.touch()
    return home, load_settings(home)


async def _fill(home: Path) -> None:
    async with Database.open(load_settings(home), home) as database:
        await asyncio.to_thread(_fill_mail, database.dsn)
        _, profile = await begin_building(database, local_identity("synthetic"), now=datetime.now(UTC))
        await asyncio.to_thread(_fill_vectors, database.dsn, profile)


def _fill_mail(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        fill(connection, mail(MESSAGES))
        connection.execute("INSERT INTO mailbox_accounts (id) VALUES (%s)", [SECOND])
        moved = "alias IN ('ARCHIVE', 'SENT', 'TINY')"
        connection.execute(f"UPDATE mail_folders SET mailbox_account_id = %s WHERE {moved}", [SECOND])
        connection.execute(
            "UPDATE stored_emails SET mailbox_account_id = %s"
            f" WHERE mail_folder_id IN (SELECT id FROM mail_folders WHERE {moved})",
            [SECOND],
        )


def _fill_vectors(dsn: str, profile: Profile) -> None:
    drawn, now = Drawn(1), datetime.now(UTC)
    with psycopg.connect(dsn) as connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM stored_emails ORDER BY id").fetchall()]
        for start in range(0, len(ids), COPIED):
            _copy(connection, ids[start : start + COPIED], profile, drawn, now)
        connection.commit()
        connection.execute("SET maintenance_work_mem = '2GB'")
        connection.execute("SET max_parallel_maintenance_workers = 2")
        connection.execute(create_statement(profile))
        connection.execute("UPDATE embedding_profiles SET lifecycle_state = %s", [Lifecycle.ACTIVE.value])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _copy(
    connection: psycopg.Connection[tuple[object, ...]], ids: list[UUID], profile: Profile, drawn: Drawn, now: datetime
) -> None:
    chunks = uuid7s(now, len(ids))
    with connection.cursor().copy("COPY email_chunks FROM STDIN") as copy:
        for chunk, email in zip(chunks, ids, strict=True):
            copy.write_row((chunk, email, 0, 0, f"Passage of {email}. " * 20, "0" * 64, 1, False, now))
    with connection.cursor().copy("COPY email_embeddings FROM STDIN") as copy:
        for chunk in chunks:
            text = "[" + ",".join(f"{number:.5f}" for number in drawn.vector()) + "]"
            copy.write_row((chunk, profile.id, LOCAL_DIMENSION, text, now))


async def _measure_store(home: Path, settings: Settings) -> list[Figure]:
    drawn = Drawn(2)
    vectors = [drawn.vector() for _ in range(QUERIES)]
    async with Database.open(settings, home) as database:
        async with database.connection() as connection:
            profile, _ = await living_profiles(connection)
            row = await (
                await connection.execute("SELECT sender_normalized_address FROM stored_emails ORDER BY id LIMIT 1")
            ).fetchone()
        assert profile is not None
        assert row is not None
        exact = await _exact_times(database, settings, profile, vectors)
        figures = []
        for name, query in (("rare", RARE), ("common", COMMON)):
            times = await _hybrid_times(database, settings, profile, vectors, query)
            figures.append(
                Figure(
                    f"hybrid_{name}_{MESSAGES}_p95",
                    percentile(times, 95),
                    "ms",
                    "pgvector exact",
                    percentile(exact, 95),
                )
            )
        scopes: dict[str, dict[str, object]] = {
            "unscoped": {},
            "one_account": {"accounts": (SECOND,)},
            "one_folder": {"folders": ("TINY",)},
            "one_sender": {"filters": Filters(sender_address=row[0])},
        }
        for name, scope in scopes.items():
            recall = await _recall(database, settings, profile, vectors, scope)
            figures.append(Figure(f"semantic_recall_{name}_{MESSAGES}", recall, "share", "pgvector exact", 1.0))
    return figures


async def _hybrid_times(
    database: Database, settings: Settings, profile: Profile, vectors: Sequence[tuple[float, ...]], query: str
) -> list[float]:
    given = cast(Embeddings, Given(profile, vectors))
    times = []
    for _ in vectors:
        started = time.perf_counter()
        await search_emails(database, settings, SearchRequest(query_text=query, result_limit=WINDOW), embeddings=given)
        times.append((time.perf_counter() - started) * 1000)
    return times[3:]


async def _exact_times(
    database: Database, settings: Settings, profile: Profile, vectors: Sequence[tuple[float, ...]]
) -> list[float]:
    selection = selection_of(settings, await resolve_scope(database, settings), Filters())
    times = []
    for vector in vectors[:10]:
        started = time.perf_counter()
        async with database.connection() as connection:
            await semantic.VectorSearch(selection, profile, vector, None).exactly(connection, limit=DEPTH)
        times.append((time.perf_counter() - started) * 1000)
    return times


async def _recall(
    database: Database,
    settings: Settings,
    profile: Profile,
    vectors: Sequence[tuple[float, ...]],
    scope: dict[str, object],
) -> float:
    """The share of the exact window that a search of that scope ranks in its window, over all queries."""
    named = {key: value for key, value in scope.items() if key != "filters"}
    filters = cast(Filters, scope.get("filters", Filters()))
    selection = selection_of(settings, await resolve_scope(database, settings, **named), filters)  # type: ignore[arg-type]
    found = wanted = 0
    for vector in vectors:
        async with database.connection() as connection:
            exact = await semantic.VectorSearch(selection, profile, vector, None).exactly(connection, limit=WINDOW)
        async with database.connection() as connection:
            meaning = Meaning(SemanticState.AVAILABLE, profile, vector)
            ranked = await semantic.rank(connection, selection, meaning, strict=None, limit=DEPTH)
        ids = {hit.stored_email_id for hit in ranked[:WINDOW]}
        found += sum(hit.stored_email_id in ids for hit in exact)
        wanted += len(exact)
    return found / wanted


async def _measure_model() -> list[Figure]:
    if local_version() is None:
        return []
    model = LocalEmbedder()
    text = "We kept running along the harbour with both dogs and then sat down to eat at the old pier. " * 11
    await model.embed(["warm"], Purpose.QUERY)
    before, began = time.process_time(), time.perf_counter()
    await model.embed([text[:1000]] * PASSAGES, Purpose.PASSAGE)
    cpu, wall = time.process_time() - before, time.perf_counter() - began
    before = time.process_time()
    for _ in range(10):
        await model.embed(["when does the ferry leave"], Purpose.QUERY)
    return [
        Figure("built_in_passages_per_cpu_second", PASSAGES / cpu, "passages/s"),
        Figure(f"built_in_passages_per_second_{os.cpu_count()}_cores", PASSAGES / wall, "passages/s"),
        Figure("built_in_query_cpu", (time.process_time() - before) * 100, "ms"),
    ]
