"""Messages fetched by their UIDs, through the ordinary arrival path, onto whatever the store holds of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mailkeep.imap import Metadata
from mailkeep.mailbox import BatchOutcome, ContentAvailability, QuarantineReason, Uid, store_batch
from mailkeep.sync.contents import fetch_metadata
from mailkeep.sync.forward import FolderWork, fetch_arrivals
from mailkeep.sync.volume import Chunk, assumed_size, chunks


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


async def refetch(work: FolderWork, uids: Sequence[int]) -> Refetched:
    """Fetch and store these messages, ascending; stops early only where the run's budget ends.

    What does not fit below the storage ceiling comes by its header and waits there (SYNC-64). The checkpoint stays.
    """
    result = Refetched()
    size = work.resources.bounds.max_metadata_batch_size
    for first in range(0, len(uids), size):
        page = uids[first : first + size]
        found = await fetch_metadata(work.link, page)
        result.gone |= {Uid(uid) for uid in page} - {Uid(message.uid) for message in found}
        for chunk in chunks(found, limit=work.resources.bounds.max_raw_mime_bytes):
            if not work.budget.spend(chunk.octets):
                return result
            await _bring_in(work, chunk, result)
    return result


async def _bring_in(work: FolderWork, chunk: Chunk, result: Refetched) -> None:
    resources = work.resources
    limit, claimed = resources.bounds.max_raw_mime_bytes, 0
    whole: list[Metadata] = []
    waiting: list[Metadata] = []
    for message in chunk.messages:
        cost = assumed_size(message, limit)
        if resources.ceiling.claim(cost):
            claimed += cost
            whole.append(message)
        else:
            work.budget.give_back(cost)
            waiting.append(message)
    stored_octets = 0
    try:
        async with resources.in_flight.holding(claimed):
            arrivals, faulty = await fetch_arrivals(work, whole, oversized=chunk.oversized, waiting=waiting)
            outcome = await store_batch(
                resources.db, work.binding, uid_validity=work.uid_validity, arrivals=arrivals, now=resources.now()
            )
            stored_octets = outcome.octets_stored
    finally:
        resources.ceiling.settle(claimed, stored_octets)
    result.outcome += outcome
    result.faulty.update(faulty)
    for arrival in arrivals:
        if arrival.octets is None:
            result.by_header[arrival.uid] = arrival.availability
        else:
            result.whole.add(arrival.uid)
    result.gone |= _unaccounted(chunk, {arrival.uid for arrival in arrivals} | set(map(Uid, faulty)))


def _unaccounted(chunk: Chunk, met: Collection[Uid]) -> set[Uid]:
    """Messages that went between the question for their size and the one for their content (SYNC-67)."""
    return {uid for message in (*chunk.messages, *chunk.oversized) if (uid := Uid(message.uid)) not in met}
