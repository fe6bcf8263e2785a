"""Content of messages that met the storage ceiling, once there is room again (SYNC-68)."""

from __future__ import annotations

from mailkeep.mailbox import awaiting_content, store_batch
from mailkeep.sync.contents import fetch_metadata
from mailkeep.sync.forward import FolderWork, fetch_arrivals, quarantine_faulty
from mailkeep.sync.resources import Resources
from mailkeep.sync.volume import assumed_size, chunks


def has_room_for(resources: Resources, size: int) -> bool:
    """Whether a waiting message of that size, 0 when unreported, fits below the storage ceiling now."""
    limit = resources.bounds.max_raw_mime_bytes
    return resources.ceiling.has_room(min(size, limit) if size else limit)


async def refill(work: FolderWork) -> int:
    """Fetch what waits, lowest UID first, at most one batch; how many rows got their content.

    Stores onto the existing rows and leaves the checkpoint. Ends where the ceiling or the run's budget is met again.
    """
    resources, limit = work.resources, work.resources.bounds.max_raw_mime_bytes
    waiting = await awaiting_content(
        resources.db,
        work.binding.folder_id,
        uid_validity=work.uid_validity,
        limit=resources.bounds.max_metadata_batch_size,
    )
    filled = 0
    for chunk in chunks(await fetch_metadata(work.link, [uid for uid, _ in waiting]), limit=limit):
        claimed, affordable = 0, []
        for message in chunk.messages:
            cost = assumed_size(message, limit)
            if not work.budget.spend(cost):
                break
            if not resources.ceiling.claim(cost):
                work.budget.give_back(cost)
                break
            claimed += cost
            affordable.append(message)
        stored_octets = 0
        try:
            async with resources.in_flight.holding(claimed):
                arrivals, faulty = await fetch_arrivals(work, affordable, oversized=chunk.oversized)
                now = resources.now()
                outcome = await store_batch(
                    resources.db, work.binding, uid_validity=work.uid_validity, arrivals=arrivals, now=now
                )
                stored_octets = outcome.octets_stored
        finally:
            resources.ceiling.settle(claimed, stored_octets)
        await quarantine_faulty(work, faulty, {message.uid: message.size for message in affordable}, now)
        filled += sum(arrival.octets is not None for arrival in arrivals)
        if len(affordable) < len(chunk.messages):
            break
    return filled
