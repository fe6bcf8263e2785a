"""How fast a folder of messages is stored and searchable: `python benchmarks/arrival.py FOLDER`.

FOLDER is searched for files; each holds one message. They go in batches through `prepare` (in a thread, while the
previous batch is being stored) and `store_prepared` into a fresh embedded database with all its indexes and with every
commit on disk. Prints one JSON object per figure. `python benchmarks/arrival.py FOLDER --sequential` measures
preparing and storing apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.mailbox import (
    AccountId,
    Arrival,
    BatchOutcome,
    Flags,
    FolderBinding,
    Uid,
    UidValidity,
    bind_folder,
    prepare,
    store_prepared,
)

EPOCH = UidValidity(1)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch-messages", type=int, default=200)
    parser.add_argument("--batch-octets", type=int, default=4 << 20)
    parser.add_argument("--sequential", action="store_true")
    arguments = parser.parse_args()
    arrivals = [
        Arrival(Uid(uid), len(octets), datetime(2002, 9, 1, tzinfo=UTC), Flags(seen=True), octets)
        for uid, octets in enumerate(_messages(arguments.folder), start=1)
    ]
    batches = list(_batches(arrivals, arguments.batch_messages, arguments.batch_octets))
    with tempfile.TemporaryDirectory(prefix="mailkeep-bench-") as home:
        for name, value, unit in asyncio.run(_measure(Path(home), batches, is_sequential=arguments.sequential)):
            print(json.dumps({"name": name, "value": round(value, 3), "unit": unit}))


def _messages(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".eml", ".txt", ""):
            yield path.read_bytes()


def _batches(arrivals: Sequence[Arrival], max_messages: int, max_octets: int) -> Iterator[list[Arrival]]:
    batch: list[Arrival] = []
    size = 0
    for arrival in arrivals:
        if batch and (len(batch) == max_messages or size + arrival.size_octets > max_octets):
            yield batch
            batch, size = [], 0
        batch.append(arrival)
        size += arrival.size_octets
    if batch:
        yield batch


async def _measure(
    home: Path, batches: Sequence[Sequence[Arrival]], *, is_sequential: bool
) -> list[tuple[str, float, str]]:
    async with Database.open(Settings(), home) as db:
        binding = await bind_folder(db, AccountId("bench"), alias="INBOX", remote_path="INBOX", hierarchy_delimiter="/")
        run = _sequential if is_sequential else _overlapped
        figures, outcome = await run(db, binding, batches)
        async with db.connection() as connection:
            row = await (await connection.execute("SELECT pg_database_size(current_database())")).fetchone()
        assert row is not None
        return [
            *figures,
            ("arrival_messages_stored", outcome.stored, "messages"),
            ("arrival_messages_quarantined", len(outcome.quarantined), "messages"),
            ("arrival_octets_stored", outcome.octets_stored / 1e6, "MB"),
            ("arrival_database_size", row[0] / 1e6, "MB"),
        ]


async def _sequential(
    db: Database, binding: FolderBinding, batches: Sequence[Sequence[Arrival]]
) -> tuple[list[tuple[str, float, str]], BatchOutcome]:
    started = time.perf_counter()
    prepared = [prepare(batch) for batch in batches]
    between = time.perf_counter()
    outcome = BatchOutcome()
    for batch in prepared:
        outcome += await store_prepared(db, binding, uid_validity=EPOCH, batch=batch, now=datetime.now(UTC))
    ended = time.perf_counter()
    return [("arrival_prepare", between - started, "s"), ("arrival_store", ended - between, "s")], outcome


async def _overlapped(
    db: Database, binding: FolderBinding, batches: Sequence[Sequence[Arrival]]
) -> tuple[list[tuple[str, float, str]], BatchOutcome]:
    started = time.perf_counter()
    outcome = BatchOutcome()
    ahead = asyncio.create_task(asyncio.to_thread(prepare, batches[0]))
    for index in range(len(batches)):
        batch = await ahead
        if index + 1 < len(batches):
            ahead = asyncio.create_task(asyncio.to_thread(prepare, batches[index + 1]))
        outcome += await store_prepared(db, binding, uid_validity=EPOCH, batch=batch, now=datetime.now(UTC))
    return [("arrival_overlapped", time.perf_counter() - started, "s")], outcome


if __name__ == "__main__":
    main()
