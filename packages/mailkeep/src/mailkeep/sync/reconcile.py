"""What changed in mail that is held already: flags and disappearances (spec SYNC section 8).

Work follows change. Flags come folder-wide by mod-sequence where the server keeps one, else by asking for all of them
in bounded pages; disappearances are the difference of two sets of UIDs. Silence about a message is never taken for its
deletion: what seems gone is asked for by name before anything is recorded (SYNC-73).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from mailkeep.errors import IncompleteAnswer
from mailkeep.imap import ReadOnlySession, UidSet
from mailkeep.mailbox import (
    Disposition,
    Flags,
    Uid,
    apply_flags,
    apply_removals,
    local_uids,
    quarantined,
    release_quarantine,
)
from mailkeep.sync.forward import FolderWork
from mailkeep.sync.plan import FlagQuestion

CHANGED_PAGE = 100_000  # messages of one CHANGEDSINCE question; the answer to it is held in memory
APPLIED_AT_ONCE = 2_000  # messages of one UPDATE


async def reconcile_flags(work: FolderWork) -> int:
    """Bring stored flags in line with the server's; how many messages changed."""
    held_through = work.plan.first_uid - 1
    if work.plan.flags is FlagQuestion.NONE or not held_through:
        return 0
    changed = 0
    since = work.checkpoint.reconciled_through_modseq if work.plan.flags is FlagQuestion.CHANGED_SINCE else None
    observed_at = work.resources.now()
    for low, high in await _pages(work, held_through, is_narrowed=since is not None):
        asked = UidSet(((low, high),))
        answer = await work.link.call(partial(ReadOnlySession.fetch_flags, uids=asked, changed_since=since))
        for part in _parts(answer):
            changed += await apply_flags(
                work.resources.db,
                work.binding.folder_id,
                uid_validity=work.uid_validity,
                observed=part,
                observed_at=observed_at,
            )
    return changed


async def _pages(work: FolderWork, held_through: int, *, is_narrowed: bool) -> list[tuple[int, int]]:
    """UID ranges to ask about, each holding a bounded number of stored messages, together all of them."""
    size = CHANGED_PAGE if is_narrowed else work.resources.bounds.max_reconciled_emails_per_run
    if work.state.messages is not None and work.state.messages <= size:
        return [(1, held_through)]
    uids = await local_uids(work.resources.db, work.binding.folder_id, uid_validity=work.uid_validity)
    starts = [1, *(uids[position] for position in range(size, len(uids), size))]
    return list(zip(starts, [start - 1 for start in starts[1:]] + [held_through], strict=True))


def _parts(answer: Mapping[int, tuple[str, ...]]) -> Iterator[dict[Uid, Flags]]:
    read: dict[tuple[str, ...], Flags] = {}
    part: dict[Uid, Flags] = {}
    for uid, names in answer.items():
        flags = read.get(names)
        if flags is None:
            flags = read[names] = Flags.from_imap(names)
        part[Uid(uid)] = flags
        if len(part) == APPLIED_AT_ONCE:
            yield part
            part = {}
    if part:
        yield part


async def reconcile_removals(work: FolderWork) -> int:
    """Record what has gone from the server among what is held; how many messages.

    Raises IncompleteAnswer when the server contradicts itself about what it holds.
    """
    held_through = work.plan.first_uid - 1
    if not work.plan.compares_uids or not held_through:
        return 0
    db, folder_id = work.resources.db, work.binding.folder_id
    observed_at = work.resources.now()
    remote = await work.link.call(lambda session: session.search(1, held_through))
    held = await local_uids(db, folder_id, uid_validity=work.uid_validity)
    set_aside = [item.uid for item in await quarantined(db, folder_id) if item.uid_validity == work.uid_validity]
    absent = UidSet.of(uid for uid in remote.absent(sorted({*held, *set_aside})) if uid <= held_through)
    if not absent:
        return 0
    still_there = await work.link.call(lambda session: session.present(absent))
    if still_there:
        raise IncompleteAnswer("the mail server left out messages of a folder that it still holds")
    released = [uid for uid in set_aside if uid in absent]
    if released:
        await release_quarantine(db, folder_id, uid_validity=work.uid_validity, uids=released)
    return await apply_removals(
        db,
        folder_id,
        uid_validity=work.uid_validity,
        uids=[Uid(uid) for uid in absent],
        disposition=Disposition(work.account.remotely_deleted_email_disposition.value),
        observed_at=observed_at,
    )
