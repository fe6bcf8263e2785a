"""What a folder run puts right in passing: damaged content, and what an earlier build could not store.

Both fetch a message by its UID and store it onto the row, or in the place, that is known. Each waits for a reason to be
tried: a repair for somebody who met the damage since the last attempt (SYNC-120), a quarantined message for a build
that has not tried it. So neither is asked of the server again and again.
"""

from __future__ import annotations

import logging

from mailkeep.mailbox import (
    ContentAvailability,
    RepairObstacle,
    Uid,
    awaiting_repair,
    note_repair_attempts,
    untried_quarantine,
)
from mailkeep.sync.refetch import Refetched, refetch, refetch_quarantined
from mailkeep.sync.work import FolderWork

log = logging.getLogger(__name__)


async def repair(work: FolderWork) -> int:
    """Repair content and retry what another build quarantined, one batch of each; how many messages were mended."""
    return await _repair_contents(work) + await _retry_quarantined(work)


async def _repair_contents(work: FolderWork) -> int:
    resources, folder_id = work.resources, work.binding.folder_id
    limit = resources.bounds.max_metadata_batch_size
    waiting = await awaiting_repair(resources.db, folder_id, uid_validity=work.uid_validity, limit=limit)
    if not waiting:
        return 0
    result = await refetch(work, waiting)
    obstacles = {uid: obstacle for uid in waiting if (obstacle := _obstacle(uid, result)) is not None}
    await note_repair_attempts(
        resources.db, folder_id, uid_validity=work.uid_validity, obstacles=obstacles, now=resources.now()
    )
    mended = len(result.whole - obstacles.keys())
    log.info(
        "content repaired",
        extra={
            "account_id": work.binding.account_id,
            "folder": work.binding.alias,
            "repaired": mended,
            "not_repaired": len(obstacles),
        },
    )
    return mended


def _obstacle(uid: Uid, result: Refetched) -> RepairObstacle | None:
    """What stood in the way; None for a repaired message, and for one that waits for budget or storage room."""
    if uid in result.gone:
        return RepairObstacle.GONE_FROM_SERVER
    if uid in result.faulty:
        return RepairObstacle(result.faulty[uid].value)
    if any(uid == refused for refused, _ in result.outcome.quarantined):
        return RepairObstacle.STORAGE_REFUSED
    if result.by_header.get(uid) is ContentAvailability.EXCEEDED_SIZE_LIMIT:
        return RepairObstacle.EXCEEDED_SIZE_LIMIT
    return None


async def _retry_quarantined(work: FolderWork) -> int:
    """One attempt of this build at each message that another one left in quarantine."""
    resources, folder_id = work.resources, work.binding.folder_id
    limit = resources.bounds.max_metadata_batch_size
    untried = await untried_quarantine(resources.db, folder_id, uid_validity=work.uid_validity, limit=limit)
    if not untried:
        return 0
    return (await refetch_quarantined(work, untried)).stored
