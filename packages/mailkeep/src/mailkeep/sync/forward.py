"""What arrived: discover, fetch, read and store, ascending by UID, several chunks under way at once.

While two chunks are stored, the next is being read and the one after that fetched. The checkpoint follows what is
stored or quarantined, one chunk after the other in a transaction of its own, and never overtakes it (SYNC-56, SYNC-57;
case 212): a chunk that is stored before the one in front of it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from mailkeep.errors import ContentUnavailable
from mailkeep.imap import Metadata, UidSet
from mailkeep.mailbox import (
    Arrival,
    PreparedBatch,
    QuarantineReason,
    store_prepared,
)
from mailkeep.sync.contents import fetch_metadata, settle_metadata
from mailkeep.sync.faults import after_attempts, judge
from mailkeep.sync.intake import claim_room, fetch_arrivals, quarantine_faulty, within_budget
from mailkeep.sync.model import LimitReached
from mailkeep.sync.plan import advanced
from mailkeep.sync.volume import Chunk, InFlight, chunks
from mailkeep.sync.work import FolderWork

PAGES_DESCRIBED_AT_ONCE = 10  # of metadata in one question, once the first page is on its way
STORED_AT_ONCE = 2
CHUNKS_UNDER_WAY = STORED_AT_ONCE + 2  # one being fetched, one being read
OCTETS_UNDER_WAY = 32 * 1024 * 1024  # of one folder run, so that large messages go one by one and memory stays small


@dataclass(frozen=True, slots=True)
class Fetched:
    """A chunk off the wire. `held` octets are reserved in flight, `claimed` against the storage ceiling."""

    arrivals: tuple[Arrival, ...]
    faulty: dict[int, QuarantineReason]
    sizes: dict[int, int | None]
    through_uid: int
    held: int
    claimed: int


async def forward_pass(work: FolderWork, narrow: Callable[[FolderWork, UidSet], Awaitable[UidSet]]) -> bool:
    """Bring in what arrived, as far as this run's bounds allow; whether the folder's end was reached.

    `narrow` takes the UIDs found and leaves those that have to be fetched.
    """
    plan = work.plan
    if not plan.discovers:
        work.discovered = 0
        return True
    if work.ahead is not None and (work.ahead.low, work.ahead.high) == (plan.first_uid, plan.last_uid):
        hits = work.ahead.hits
    else:
        since = work.account.earliest_email_received_date
        hits = await work.link.call(lambda session: session.search(plan.first_uid, plan.last_uid, since=since))
    if work.account.earliest_email_received_date is None:
        work.discovered = len(hits)
    hits = await narrow(work, hits)
    if not hits:
        return True
    work.resources.preparer.expect(len(hits))
    read: asyncio.Queue[tuple[Fetched, asyncio.Task[PreparedBatch]] | None] = asyncio.Queue()
    places = asyncio.Semaphore(CHUNKS_UNDER_WAY)
    lane = InFlight(OCTETS_UNDER_WAY)
    in_front = asyncio.Event()  # of the next chunk to be stored: set when the checkpoint is past what it stands for
    in_front.set()
    reached_end = False

    async def fetch(group: asyncio.TaskGroup) -> None:
        nonlocal reached_end
        async for fetched in _fetched_chunks(work, hits, places, lane):
            prepared = group.create_task(
                work.resources.preparer.prepare(fetched.arrivals, limits=work.resources.limits)
            )
            read.put_nowait((fetched, prepared))
        reached_end = not work.limits_reached - {LimitReached.STORED_CONTENT_BYTES} and not _is_stopping(work)
        for _ in range(STORED_AT_ONCE):
            read.put_nowait(None)

    async def store() -> None:
        nonlocal in_front
        while (item := await read.get()) is not None:
            fetched, prepared = item
            before, in_front = in_front, asyncio.Event()
            behind = in_front
            try:
                await _store(work, fetched, prepared, before)
            finally:
                work.resources.in_flight.release(fetched.held)
            behind.set()
            lane.release(fetched.held)
            places.release()

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fetch(group))
            for _ in range(STORED_AT_ONCE):
                group.create_task(store())
    except BaseExceptionGroup as failures:
        raise _first_cause(failures) from failures
    finally:
        while not read.empty():
            left = read.get_nowait()
            if left is not None:
                work.resources.in_flight.release(left[0].held)
                work.resources.ceiling.settle(left[0].claimed, 0)
    if work.blocked is not None:
        raise work.blocked
    return reached_end


def _first_cause(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one failure that stopped the pass; the tasks cancelled on its account do not count."""
    for failure in failures.exceptions:
        return _first_cause(failure) if isinstance(failure, BaseExceptionGroup) else failure
    return failures


def _is_stopping(work: FolderWork) -> bool:
    return work.resources.stopping.is_set()


async def _fetched_chunks(
    work: FolderWork, hits: UidSet, places: asyncio.Semaphore, lane: InFlight
) -> AsyncIterator[Fetched]:
    """Chunks in ascending UID order, until the end, a bound of this run, or a request to stop."""
    bounds = work.resources.bounds
    async for page, found in _described_pages(work, hits):
        affordable = within_budget(work, found)
        cut_short = len(affordable) < len(found)
        through = found[len(affordable)].uid - 1 if cut_short else page[-1]
        parts = list(chunks(affordable, limit=bounds.max_raw_mime_bytes))
        for index, chunk in enumerate(parts or [Chunk((), (), 0)]):
            if _is_stopping(work):
                return
            last = index + 1 >= len(parts)
            await places.acquire()
            await lane.acquire(chunk.octets)
            end = through if last else max(_uids(chunk))
            try:
                fetched = await _fetch_chunk(work, chunk, end, following=hits.after(end))
            except ContentUnavailable as error:
                work.blocked = error  # what came before is stored first
                return
            yield fetched
            if work.blocked is not None:
                return
        if cut_short:
            work.limits_reached.add(LimitReached.CONTENT_BYTES_PER_RUN)
            return


async def _described_pages(work: FolderWork, hits: UidSet) -> AsyncIterator[tuple[list[int], list[Metadata]]]:
    """Pages of UIDs with the metadata of what is still there of each, as many as one run may have.

    The first is described by itself, so that its contents can be asked for; the others ten at once, a round trip each.
    """
    bounds = work.resources.bounds
    pages = list(islice(hits.pages(bounds.max_metadata_batch_size), bounds.max_metadata_batches_per_run + 1))
    allowed = pages[: bounds.max_metadata_batches_per_run]
    starts = [0, *range(1, len(allowed), PAGES_DESCRIBED_AT_ONCE)]
    for start, end in zip(starts, [*starts[1:], len(allowed)], strict=True):
        asked = UidSet.of(uid for page in allowed[start:end] for uid in page)
        if work.ahead is not None and all(work.ahead.low <= uid <= work.ahead.high for uid in asked):
            described = await settle_metadata(work.link, asked, work.ahead.metadata)
        else:
            described = await fetch_metadata(work.link, asked)
        for page in allowed[start:end]:
            among = set(page)
            yield page, [message for message in described if message.uid in among]
    if len(pages) > len(allowed):
        work.limits_reached.add(LimitReached.METADATA_BATCHES_PER_RUN)


def _uids(chunk: Chunk) -> list[int]:
    return [message.uid for message in (*chunk.messages, *chunk.oversized)]


async def _fetch_chunk(work: FolderWork, chunk: Chunk, through_uid: int, *, following: Iterator[int]) -> Fetched:
    """Fetch one chunk: whole messages within the ceiling, headers of the others.

    Where nobody can tell why a message does not come, the chunk ends in front of it. Raises ContentUnavailable.
    """
    resources = work.resources
    room = claim_room(work, chunk.messages)
    if room.beyond:
        work.limits_reached.add(LimitReached.STORED_CONTENT_BYTES)
    held = 0
    try:
        await resources.in_flight.acquire(chunk.octets)
        held = chunk.octets
        intake = await fetch_arrivals(work, room, oversized=chunk.oversized, judge=partial(judge, work, following))
        at_fault = await after_attempts(work, intake.suspects)
    except BaseException:
        resources.ceiling.settle(room.claimed, 0)
        resources.in_flight.release(held)
        raise
    if blocked := intake.suspects.keys() - at_fault.keys():
        through_uid = min(blocked) - 1
    return Fetched(
        arrivals=intake.arrivals,
        faulty=intake.faulty | at_fault,
        sizes={message.uid: message.size for message in (*chunk.messages, *chunk.oversized)},
        through_uid=through_uid,
        held=held,
        claimed=room.claimed,
    )


async def _store(
    work: FolderWork, fetched: Fetched, prepared: asyncio.Task[PreparedBatch], in_front: asyncio.Event
) -> None:
    """Store a chunk, name what could not be fetched, then, after those in front, move the checkpoint past both."""
    stored_octets = 0
    try:
        batch = await prepared
        now = work.resources.now()
        outcome = await store_prepared(
            work.resources.db, work.binding, uid_validity=work.uid_validity, batch=batch, now=now
        )
        stored_octets = outcome.octets_stored
    finally:
        work.resources.ceiling.settle(fetched.claimed, stored_octets)
    await in_front.wait()
    work.arrivals += outcome
    work.arrivals += await quarantine_faulty(work, fetched.faulty, fetched.sizes)
    await work.move_checkpoint(advanced(work.checkpoint, fetched.through_uid, messages=work.state.messages, now=now))
    work.meter.stored(
        work.binding.alias,
        messages=len(fetched.arrivals) + len(fetched.faulty),
        octets=sum(len(arrival.octets or arrival.header_octets or b"") for arrival in fetched.arrivals),
    )
