"""What arrived: discover, fetch, read and store, ascending by UID, three chunks under way at once.

While one chunk is stored, the next is being read and the one after that fetched. The checkpoint follows what is stored
or quarantined, one chunk at a time in a transaction of its own, and never overtakes it (SYNC-56, SYNC-57; case 212).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from mailkeep.config import AccountSettings
from mailkeep.imap import Ahead, FolderState, Metadata, UidSet
from mailkeep.mailbox import (
    Arrival,
    BatchOutcome,
    Checkpoint,
    ContentAvailability,
    Flags,
    FolderBinding,
    PreparedBatch,
    QuarantineReason,
    Uid,
    UidValidity,
    advance_checkpoint,
    quarantine,
    store_prepared,
)
from mailkeep.sync.contents import fetch_contents, fetch_metadata, settle_metadata
from mailkeep.sync.link import Link
from mailkeep.sync.model import LimitReached
from mailkeep.sync.plan import FolderPlan, advanced
from mailkeep.sync.progress import Meter
from mailkeep.sync.resources import Resources
from mailkeep.sync.volume import Chunk, InFlight, RunBudget, assumed_size, chunks

PAGES_DESCRIBED_AT_ONCE = 10  # of metadata in one question, once the first page is on its way
CHUNKS_UNDER_WAY = 3  # one being fetched, one being read, one being stored
OCTETS_UNDER_WAY = 32 * 1024 * 1024  # of one folder run, so that large messages go one by one and memory stays small
MAX_HEADER_OCTETS = 1024 * 1024  # of a message that is too large to fetch; a longer header is not kept


@dataclass(slots=True)
class FolderWork:
    """One folder run in progress. `checkpoint` is what the database holds of it at this moment."""

    resources: Resources
    account: AccountSettings
    link: Link
    binding: FolderBinding
    state: FolderState
    plan: FolderPlan
    checkpoint: Checkpoint
    meter: Meter
    budget: RunBudget
    ahead: Ahead | None = None
    """What was asked of the arrivals while the folder was being opened."""
    arrivals: BatchOutcome = field(default_factory=BatchOutcome)
    octets_fetched: int = 0
    discovered: int | None = None
    """How many messages the search found beyond the checkpoint; None while unknown, or when a date narrowed it."""
    vanished: UidSet | None = None
    """What the server said to have vanished since the recorded mod-sequence; None when it did not tell."""
    limits_reached: set[LimitReached] = field(default_factory=set)

    @property
    def uid_validity(self) -> UidValidity:
        return self.checkpoint.uid_validity

    async def move_checkpoint(self, new: Checkpoint) -> None:
        """Compare and set; raises ConcurrencyConflict when somebody else moved it (SYNC-57)."""
        await advance_checkpoint(self.resources.db, self.binding.folder_id, expected=self.checkpoint, new=new)
        self.checkpoint = new


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
    read: asyncio.Queue[tuple[Fetched, asyncio.Task[PreparedBatch]] | None] = asyncio.Queue()
    places = asyncio.Semaphore(CHUNKS_UNDER_WAY)
    lane = InFlight(OCTETS_UNDER_WAY)
    reached_end = False

    async def fetch(group: asyncio.TaskGroup) -> None:
        nonlocal reached_end
        async for fetched in _fetched_chunks(work, hits, places, lane):
            prepared = group.create_task(work.resources.preparer.prepare(fetched.arrivals))
            read.put_nowait((fetched, prepared))
        reached_end = not work.limits_reached - {LimitReached.STORED_CONTENT_BYTES} and not _is_stopping(work)
        read.put_nowait(None)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fetch(group))
            while (item := await read.get()) is not None:
                fetched, prepared = item
                try:
                    await _store(work, fetched, prepared)
                finally:
                    work.resources.in_flight.release(fetched.held)
                lane.release(fetched.held)
                places.release()
    except BaseExceptionGroup as failures:
        raise _first_cause(failures) from failures
    finally:
        while not read.empty():
            left = read.get_nowait()
            if left is not None:
                work.resources.in_flight.release(left[0].held)
                work.resources.ceiling.settle(left[0].claimed, 0)
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
        affordable = _within_budget(work, found)
        cut_short = len(affordable) < len(found)
        through = found[len(affordable)].uid - 1 if cut_short else page[-1]
        parts = list(chunks(affordable, limit=bounds.max_raw_mime_bytes))
        for index, chunk in enumerate(parts or [Chunk((), (), 0)]):
            if _is_stopping(work):
                return
            last = index + 1 >= len(parts)
            await places.acquire()
            await lane.acquire(chunk.octets)
            yield await _fetch_chunk(work, chunk, through if last else max(_uids(chunk)))
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


def _within_budget(work: FolderWork, found: list[Metadata]) -> list[Metadata]:
    """The messages from the front whose assumed cost this run can still bear; oversized ones cost nothing (SYNC-60)."""
    limit = work.resources.bounds.max_raw_mime_bytes
    for position, message in enumerate(found):
        is_oversized = message.size is not None and message.size > limit
        if not is_oversized and not work.budget.spend(assumed_size(message, limit)):
            return found[:position]
    return found


def _uids(chunk: Chunk) -> list[int]:
    return [message.uid for message in (*chunk.messages, *chunk.oversized)]


async def _fetch_chunk(work: FolderWork, chunk: Chunk, through_uid: int) -> Fetched:
    """Fetch one chunk: whole messages within the ceiling, headers of the others."""
    resources, limit = work.resources, work.resources.bounds.max_raw_mime_bytes
    claimed, whole, waiting = 0, [], []
    for message in chunk.messages:
        cost = assumed_size(message, limit)
        if resources.ceiling.claim(cost):
            claimed += cost
            whole.append(message)
        else:
            work.limits_reached.add(LimitReached.STORED_CONTENT_BYTES)
            work.budget.give_back(cost)
            waiting.append(message)
    held = 0
    try:
        await resources.in_flight.acquire(chunk.octets)
        held = chunk.octets
        arrivals, faulty = await fetch_arrivals(work, whole, oversized=chunk.oversized, waiting=waiting)
    except BaseException:
        resources.ceiling.settle(claimed, 0)
        resources.in_flight.release(held)
        raise
    return Fetched(
        arrivals=arrivals,
        faulty=faulty,
        sizes={message.uid: message.size for message in (*chunk.messages, *chunk.oversized)},
        through_uid=through_uid,
        held=held,
        claimed=claimed,
    )


async def fetch_arrivals(
    work: FolderWork, whole: Iterable[Metadata], *, oversized: Iterable[Metadata] = (), waiting: Iterable[Metadata] = ()
) -> tuple[tuple[Arrival, ...], dict[int, QuarantineReason]]:
    """Arrivals in UID order, and the messages that could not be fetched. Gone messages are in neither (SYNC-67)."""
    limit = work.resources.bounds.max_raw_mime_bytes
    by_uid = {message.uid: message for message in whole}
    contents = await fetch_contents(work.link, by_uid, limit=limit)
    spared = sum(
        assumed_size(message, limit) - len(contents.bodies.get(uid, b""))
        for uid, message in by_uid.items()
        if uid not in contents.oversized
    )
    work.budget.give_back(spared)
    arrivals = [_whole_arrival(by_uid[uid], octets) for uid, octets in contents.bodies.items()]
    work.octets_fetched += sum(map(len, contents.bodies.values()))

    reasons = {message.uid: ContentAvailability.EXCEEDED_SIZE_LIMIT for message in oversized}
    by_uid.update({message.uid: message for message in (*oversized, *waiting)})
    for uid, size in contents.oversized.items():
        # The server understated it: what it really sent is what people should read.
        reasons[uid] = ContentAvailability.EXCEEDED_SIZE_LIMIT
        by_uid[uid] = replace(by_uid[uid], size=size)
    reasons.update({message.uid: ContentAvailability.AWAITING_STORAGE_HEADROOM for message in waiting})
    faulty = dict(contents.faulty)
    if reasons:
        headers = await fetch_contents(work.link, reasons, limit=MAX_HEADER_OCTETS, headers_only=True)
        faulty.update(headers.faulty)
        for uid, availability in reasons.items():
            if uid in headers.bodies or uid in headers.oversized:
                arrivals.append(_header_arrival(by_uid[uid], headers.bodies.get(uid, b""), availability))
                work.octets_fetched += len(headers.bodies.get(uid, b""))
    return tuple(sorted(arrivals, key=lambda arrival: arrival.uid)), faulty


def _whole_arrival(message: Metadata, octets: bytes) -> Arrival:
    return Arrival(
        uid=Uid(message.uid),
        size_octets=message.size or len(octets),
        internaldate=message.internaldate,
        flags=None if message.flags is None else Flags.from_imap(message.flags),
        octets=octets,
    )


def _header_arrival(message: Metadata, header: bytes, availability: ContentAvailability) -> Arrival:
    return Arrival(
        uid=Uid(message.uid),
        size_octets=message.size or 0,
        internaldate=message.internaldate,
        flags=None if message.flags is None else Flags.from_imap(message.flags),
        octets=None,
        header_octets=header,
        availability=availability,
    )


async def _store(work: FolderWork, fetched: Fetched, prepared: asyncio.Task[PreparedBatch]) -> None:
    """Store a chunk, name what could not be fetched, then move the checkpoint past both."""
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
    await quarantine_faulty(work, fetched.faulty, fetched.sizes, now)
    faulty = tuple((Uid(uid), reason) for uid, reason in fetched.faulty.items())
    work.arrivals += outcome + BatchOutcome(quarantined=faulty)
    await work.move_checkpoint(advanced(work.checkpoint, fetched.through_uid, messages=work.state.messages, now=now))
    work.meter.stored(
        work.binding.alias,
        messages=len(fetched.arrivals) + len(faulty),
        octets=sum(len(arrival.octets or arrival.header_octets or b"") for arrival in fetched.arrivals),
    )


async def quarantine_faulty(
    work: FolderWork, faulty: dict[int, QuarantineReason], sizes: dict[int, int | None], now: datetime
) -> None:
    for uid, reason in faulty.items():
        await quarantine(
            work.resources.db,
            work.binding.folder_id,
            uid_validity=work.uid_validity,
            uid=Uid(uid),
            reason=reason,
            detail=None,
            size_octets=sizes.get(uid),
            now=now,
        )
