"""Messages fetched by their UIDs, through the ordinary arrival path, onto whatever the store holds of them.

The one walk of everything that fetches again: what waited for storage room, damaged content, quarantine, holes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mailkeep.mailbox import (
    BatchOutcome,
    ContentAvailability,
    QuarantineReason,
    Uid,
    release_quarantine,
    store_batch,
)
from mailkeep.sync.contents import Judge, fetch_metadata
from mailkeep.sync.intake import Room, claim_room, fetch_arrivals, quarantine_faulty, within_budget
from mailkeep.sync.volume import Chunk, chunks
from mailkeep.sync.work import FolderWork


@dataclass(slots=True)
class Refetched:
    """What became of each UID asked for; one in none of these was not reached by the run's budget.

    `whole` came with their octets and `by_header` without, for the reason given; both are stored, except those that
    `outcome` names as quarantined. `faulty` could not be fetched. `gone` are not on the server any more.
    """

    outcome: BatchOutcome = field(default_factory=BatchOutcome)
    whole: set[Uid] = field(default_factory=set)
    by_header: dict[Uid, ContentAvailability] = field(default_factory=dict)
    faulty: dict[int, QuarantineReason] = field(default_factory=dict)
    gone: set[Uid] = field(default_factory=set)

    @property
    def stored(self) -> int:
        """How many messages are in the store now, by their header or whole."""
        return len(self.whole | self.by_header.keys()) - len(self.outcome.quarantined)


async def refetch(
    work: FolderWork, uids: Sequence[int], *, ends_at_ceiling: bool = False, judge: Judge | None = None
) -> Refetched:
    """Fetch and store these messages, ascending; stops early only where the run's budget ends. The checkpoint stays.

    What does not fit below the storage ceiling comes by its header and waits there (SYNC-64); with `ends_at_ceiling`
    the walk ends in front of it. `judge` as for `fetch_arrivals`; without it, what does not come is at fault.
    """
    result = Refetched()
    bounds = work.resources.bounds
    for first in range(0, len(uids), bounds.max_metadata_batch_size):
        page = uids[first : first + bounds.max_metadata_batch_size]
        found = await fetch_metadata(work.link, page)
        result.gone |= {Uid(uid) for uid in page} - {Uid(message.uid) for message in found}
        for chunk in chunks(found, limit=bounds.max_raw_mime_bytes):
            affordable = within_budget(work, chunk.messages)
            room = claim_room(work, affordable)
            is_last = len(affordable) < len(chunk.messages)
            if ends_at_ceiling and room.beyond:
                room, is_last = Room(room.claimed, room.within), True
            await _bring_in(work, chunk, room, result, judge)
            if is_last:
                return result
    return result


async def refetch_quarantined(work: FolderWork, waiting: Mapping[Uid, int | None]) -> Refetched:
    """One more attempt at quarantined messages, given with their sizes.

    Stored ones leave the quarantine, so do those that are gone from the server; the others count another attempt.
    """
    result = await refetch(work, list(waiting))
    work.arrivals += result.outcome
    work.arrivals += await quarantine_faulty(work, result.faulty, {int(uid): size for uid, size in waiting.items()})
    if result.gone:
        await release_quarantine(
            work.resources.db, work.binding.folder_id, uid_validity=work.uid_validity, uids=sorted(result.gone)
        )
    return result


async def _bring_in(work: FolderWork, chunk: Chunk, room: Room, result: Refetched, judge: Judge | None) -> None:
    resources, stored_octets = work.resources, 0
    try:
        async with resources.in_flight.holding(room.claimed):
            intake = await fetch_arrivals(work, room, oversized=chunk.oversized, judge=judge)
            outcome = await store_batch(
                resources.db,
                work.binding,
                uid_validity=work.uid_validity,
                arrivals=intake.arrivals,
                now=resources.now(),
                limits=resources.limits,
            )
            stored_octets = outcome.octets_stored
    finally:
        resources.ceiling.settle(room.claimed, stored_octets)
    result.outcome += outcome
    faulty = intake.faulty | intake.suspects  # of what is not to hold anything up, it may be either
    result.faulty.update(faulty)
    for arrival in intake.arrivals:
        if arrival.octets is None:
            result.by_header[arrival.uid] = arrival.availability
        else:
            result.whole.add(arrival.uid)
    asked = [message.uid for message in (*room.within, *room.beyond, *chunk.oversized)]
    result.gone |= _unaccounted(asked, {arrival.uid for arrival in intake.arrivals} | set(map(Uid, faulty)))


def _unaccounted(asked: Sequence[int], met: Collection[Uid]) -> set[Uid]:
    """Messages that went between the question for their size and the one for their content (SYNC-67)."""
    return {uid for uid in map(Uid, asked) if uid not in met}
