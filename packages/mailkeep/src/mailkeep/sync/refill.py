"""Content of messages that met the storage ceiling, once there is room again (SYNC-68)."""

from __future__ import annotations

from functools import partial

from mailkeep.mailbox import awaiting_content
from mailkeep.sync.faults import judge
from mailkeep.sync.intake import quarantine_faulty
from mailkeep.sync.refetch import refetch
from mailkeep.sync.resources import Resources
from mailkeep.sync.work import FolderWork


def has_room_for(resources: Resources, size: int) -> bool:
    """Whether a waiting message of that size, 0 when unreported, fits below the storage ceiling now."""
    limit = resources.bounds.max_raw_mime_bytes
    return resources.ceiling.has_room(min(size, limit) if size else limit)


async def refill(work: FolderWork) -> int:
    """Fetch what waits, lowest UID first, at most one batch; how many rows got their content.

    Stores onto the existing rows and leaves the checkpoint. Ends where the ceiling or the run's budget is met again.
    """
    waiting = await awaiting_content(
        work.resources.db,
        work.binding.folder_id,
        uid_validity=work.uid_validity,
        limit=work.resources.bounds.max_metadata_batch_size,
    )
    result = await refetch(work, [uid for uid, _ in waiting], ends_at_ceiling=True, judge=partial(judge, work, ()))
    await quarantine_faulty(work, result.faulty, {int(uid): size for uid, size in waiting})
    return len(result.whole)
