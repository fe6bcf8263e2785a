"""What changed in mail that is held already: flags and disappearances (spec SYNC section 8).

Work follows change. Flags come folder-wide by mod-sequence where the server keeps one, else by asking for all of them
in bounded pages. Disappearances come with them where the server names what vanished (QRESYNC), as long as its counts
add up; else they are the difference of two sets of UIDs. Silence about a message is never taken for its deletion, and
neither is a word: what seems gone is asked for by name before anything is recorded (SYNC-73; cases 16, 17).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from mailkeep.config import AuthoredDeleteDisposition
from mailkeep.db import Connection
from mailkeep.errors import IncompleteAnswer
from mailkeep.imap import Changes, ReadOnlySession, UidSet
from mailkeep.mailbox import (
    Disposition,
    Explain,
    FlagChange,
    Flags,
    FolderId,
    Gone,
    Uid,
    apply_flags,
    apply_removals,
    local_uids,
    quarantined,
    release_quarantine,
)
from mailkeep.mutations.attribution import OwnStore, attribute, unspent_stores
from mailkeep.mutations.recognition import recognized
from mailkeep.mutations.removals import explain_removals, moved_out
from mailkeep.sync.plan import FlagQuestion
from mailkeep.sync.queries import known_within
from mailkeep.sync.work import FolderWork

log = logging.getLogger(__name__)

CHANGED_PAGE = 100_000  # messages of one CHANGEDSINCE question; the answer to it is held in memory
APPLIED_AT_ONCE = 2_000  # messages of one UPDATE


async def reconcile_flags(work: FolderWork) -> int:
    """Bring stored flags in line with the server's; how many messages changed. Keeps what it says of removals."""
    held_through = work.plan.held_through
    if work.plan.flags is FlagQuestion.NONE or not held_through:
        return 0
    changed = 0
    since = work.checkpoint.reconciled_through_modseq if work.plan.flags is FlagQuestion.CHANGED_SINCE else None
    observed_at = work.resources.now()
    vanished: UidSet | None = UidSet()
    for low, high in await _pages(work, held_through, is_narrowed=since is not None):
        answer = await work.link.call(partial(_ask, asked=UidSet(((low, high),)), since=since))
        vanished = None if vanished is None or answer.vanished is None else vanished | answer.vanished
        own = await _own_stores(work, answer)
        for part in _parts(answer.flags):
            changes = await apply_flags(
                work.resources.db,
                work.binding.folder_id,
                uid_validity=work.uid_validity,
                observed=part,
                observed_at=observed_at,
                touched=[uid for uid in own if uid in part],
            )
            changed += len(changes)
            _attribute(work, changes, own)
    work.vanished = vanished
    return changed


async def _own_stores(work: FolderWork, answer: Changes) -> dict[Uid, tuple[OwnStore, ...]]:
    """The stores of ours that an answer may show; known by then, since each was noted before it was sent."""
    if not answer.flags:
        return {}
    return await unspent_stores(
        work.resources.db,
        work.binding.folder_id,
        uid_validity=work.uid_validity,
        low=min(answer.flags),
        high=max(answer.flags),
    )


def _attribute(work: FolderWork, changes: Sequence[FlagChange], own: Mapping[Uid, Sequence[OwnStore]]) -> None:
    """Count who changed what. Rules and classification, which are to hear of the owner's changes, do not exist yet."""
    attributed = attribute(changes, own)
    work.recognized += recognized(flags=attributed)
    for one in attributed:
        log.debug(
            "flags changed",
            extra={
                "account_id": work.account.account_id,
                "folder": work.binding.alias,
                "stored_email_id": str(one.stored_email_id),
                "value": one.value.value,
                "author": "own" if one.is_own else "owner",
            },
        )


async def _ask(session: ReadOnlySession, *, asked: UidSet, since: int | None) -> Changes:
    if since is None:
        return Changes(await session.fetch_flags(asked))
    return await session.fetch_changes(asked, changed_since=since)


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
    held_through = work.plan.held_through
    said = work.vanished or UidSet()
    gone, is_believed = 0, work.vanished is not None
    meanwhile = await work.link.call(_take_vanished)
    if said or meanwhile:
        named = await known_within(
            work.resources.db, work.binding.folder_id, uid_validity=work.uid_validity, ranges=(said | meanwhile).ranges
        )
        is_believed = is_believed and await _explains_the_count(work, said, sum(uid in said for uid in named))
        absent = UidSet.of(named)
        if absent and await work.link.call(partial(ReadOnlySession.present, uids=absent)):
            await work.link.call(_disbelieve)
            is_believed = False
        else:
            gone = await _record(work, absent)
    else:
        is_believed = is_believed and _adds_up(work, 0)
    if work.plan.compares_uids and held_through and not is_believed:
        gone += await _compare_uids(work, held_through)
    return gone


def _adds_up(work: FolderWork, vanished: int) -> bool:
    """Whether the folder's count is explained by what arrived and what vanished since our last complete pass."""
    before, found, now = work.plan.held_before, work.discovered, work.state.messages
    return before is not None and found is not None and now is not None and before + found - vanished == now


async def _explains_the_count(work: FolderWork, said: UidSet, named: int) -> bool:
    """The same, for what vanished among what is held, and among what was carried to another folder before."""
    if _adds_up(work, named):
        return True
    elsewhere = await moved_out(
        work.resources.db, work.binding.folder_id, uid_validity=work.uid_validity, ranges=said.ranges
    )
    return bool(elsewhere) and _adds_up(work, named + elsewhere)


async def _take_vanished(session: ReadOnlySession) -> UidSet:
    return session.take_vanished()


async def _disbelieve(session: ReadOnlySession) -> None:
    """It named messages as vanished that it still holds (case 17)."""
    session.withdraw("QRESYNC")


async def _compare_uids(work: FolderWork, held_through: int) -> int:
    """Removals as the difference of the server's set of UIDs and ours (case 22)."""
    db, folder_id = work.resources.db, work.binding.folder_id
    remote = await work.link.call(lambda session: session.search(1, held_through))
    held = await local_uids(db, folder_id, uid_validity=work.uid_validity)
    set_aside = [item.uid for item in await quarantined(db, folder_id) if item.uid_validity == work.uid_validity]
    absent = UidSet.of(uid for uid in remote.absent(sorted({*held, *set_aside})) if uid <= held_through)
    if absent and await work.link.call(lambda session: session.present(absent)):
        raise IncompleteAnswer("the mail server left out messages of a folder that it still holds")
    return await _record(work, absent)


async def _record(work: FolderWork, absent: UidSet) -> int:
    """Bury or erase what is gone, and let go of what was quarantined of it."""
    if not absent:
        return 0
    db, folder_id, uids = work.resources.db, work.binding.folder_id, [Uid(uid) for uid in absent]
    await release_quarantine(db, folder_id, uid_validity=work.uid_validity, uids=uids)
    return await apply_removals(
        db,
        folder_id,
        uid_validity=work.uid_validity,
        uids=uids,
        disposition=Disposition(work.account.remotely_deleted_email_disposition.value),
        observed_at=work.resources.now(),
        explain=explain(work),
    )


def explain(work: FolderWork) -> Explain:
    """The attribution of disappearances to changes of our own, counted."""
    met: set[UUID] = set()

    async def explained(
        connection: Connection, folder_id: FolderId, gone: Sequence[Gone], now: datetime
    ) -> Mapping[UUID, AuthoredDeleteDisposition]:
        fates = await explain_removals(connection, folder_id, gone, now)
        work.recognized += recognized(own_removals=len(fates.keys() - met))
        met.update(fates)
        return fates

    return explained
