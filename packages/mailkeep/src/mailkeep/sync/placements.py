"""Messages that we moved or copied into the open folder: joined before anything is fetched (spec MUT-44 to MUT-48).

`join_placements` stands before the discovery's fetches, as `relink_known` does, and takes out what needs none;
`settle_placements` looks afterwards at what remains of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from itertools import islice

from mailkeep.imap import ReadOnlySession, UidSet
from mailkeep.mailbox import AccountId, Disposition, Flags, Uid
from mailkeep.mutations import placements as expected
from mailkeep.mutations.model import Mutation
from mailkeep.mutations.placements import Expected, ExpectedPlacement, Treatment
from mailkeep.mutations.recognition import recognized
from mailkeep.sync.refetch import refetch
from mailkeep.sync.work import FolderWork

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 0.1  # while a move into the folder is being answered
MOST_LOOKS = 100


async def join_placements(work: FolderWork, hits: UidSet) -> UidSet:
    """Those of `hits` that have to be fetched. Relocations take their rows along, or are passed over for now.

    Also what lies at no hit is looked for: below the checkpoint, where it was passed over, or beyond an earliest date.
    """
    answer = await _expected(work, _end(work, hits))
    through = _reach(work, hits, answer.placements)
    found = [one for one in answer.placements if one.uid <= through]
    if beyond := hits.between(1, answer.highest_stored):
        hits = await _without_met(work, hits, beyond)
    if not found:
        return hits
    work.joined_through = through
    to_carry = [one for one in found if one.treatment is Treatment.CARRY]
    held = [one.uid for one in found if one.treatment is Treatment.HOLD]
    flags = await _look_at(work, to_carry)
    work.placements_gone = {one.mutation_id for one in to_carry if one.uid not in flags}
    carried = await expected.carry_placed(
        work.resources.db,
        work.binding,
        uid_validity=work.uid_validity,
        placements=[one for one in to_carry if one.uid in flags],
        flags=flags,
        now=work.resources.now(),
    )
    work.recognized += recognized(relocated=len(carried))
    work.meter.stored(work.binding.alias, messages=len(carried), octets=0)
    return UidSet.of(UidSet.of((*carried, *held)).absent(hits))


async def settle_placements(work: FolderWork, *, reached_end: bool) -> None:
    """After the arrivals: what of the placements has been met, was passed over and is to come after all, or is gone.

    Those under another UIDVALIDITY are given up once the whole folder was gone through.
    """
    if work.joined_through is None:
        return
    through = work.joined_through if reached_end else work.checkpoint.last_seen_uid or 0
    answer = await expected.expected_placements(
        work.resources.db, work.binding, uid_validity=work.uid_validity, through=through
    )
    found = answer.placements
    missed = [one for one in found if one.treatment is Treatment.ORDINARY]
    await refetch(work, [one.uid for one in missed if one.mutation is Mutation.RELOCATE])
    arrived = [one for one in found if one.treatment is Treatment.ARRIVED]
    work.recognized += recognized(own_arrivals=sum(one.mutation is Mutation.COPY for one in arrived))
    gone = [one for one in found if one.mutation_id in work.placements_gone]
    lost = [one for one in found if one.treatment is Treatment.LOST and reached_end]
    await expected.settle_placements(
        work.resources.db,
        sorted({one.mutation_id for one in (*missed, *arrived, *gone, *lost)}),
        disposition=Disposition(work.account.remotely_deleted_email_disposition.value),
        now=work.resources.now(),
    )


async def _expected(work: FolderWork, through: int) -> Expected:
    """The placements to be met. One that a move under way at this moment is about to name is waited for, a while."""
    db, account_id = work.resources.db, AccountId(work.account.account_id)
    attempts = 0
    while True:
        answer = await expected.expected_placements(db, work.binding, uid_validity=work.uid_validity, through=through)
        if not answer.is_under_way or attempts == MOST_LOOKS or not await expected.is_converging(db, account_id):
            return answer
        if not attempts:
            fields = {"account_id": account_id, "folder": work.binding.alias}
            log.info("waiting for the answer to a change", extra=fields)
        attempts += 1
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def _without_met(work: FolderWork, hits: UidSet, beyond: UidSet) -> UidSet:
    """`hits` without what a run that was cut short took over `beyond` its checkpoint."""
    low, high = beyond.ranges[0][0], beyond.ranges[-1][1]
    met = await expected.met_placements(
        work.resources.db, work.binding, uid_validity=work.uid_validity, low=low, high=high
    )
    return UidSet.of(UidSet.of(met).absent(hits)) if met else hits


async def _look_at(work: FolderWork, placements: Sequence[ExpectedPlacement]) -> dict[Uid, Flags | None]:
    """What the server says of these messages. One it leaves out is asked for by name before it counts as gone."""
    asked = UidSet.of(one.uid for one in placements)
    if not asked:
        return {}
    answer = await work.link.call(partial(ReadOnlySession.fetch_flags, uids=asked))
    flags: dict[Uid, Flags | None] = {Uid(uid): Flags.from_imap(names) for uid, names in answer.items()}
    silent = UidSet.of(uid for uid in asked if uid not in flags)
    if silent:
        there = await work.link.call(partial(ReadOnlySession.present, uids=silent))
        flags.update({Uid(uid): None for uid in silent if uid in there})
    return flags


def _end(work: FolderWork, hits: UidSet) -> int:
    """The last UID that the folder had when it was opened, as far as it is known."""
    last = work.plan.last_uid
    return last if last is not None else max(hits.highest or 0, work.checkpoint.last_seen_uid or 0)


def _reach(work: FolderWork, hits: UidSet, placements: Sequence[ExpectedPlacement]) -> int:
    """The last UID that this run gets to, as far as its bounds on messages to be fetched go."""
    bounds = work.resources.bounds
    most = bounds.max_metadata_batch_size * bounds.max_metadata_batches_per_run
    not_fetched = UidSet.of(one.uid for one in placements if one.treatment in (Treatment.CARRY, Treatment.HOLD))
    if len(hits) - len(not_fetched) <= most:  # nearly always
        return _end(work, hits)
    beyond = next(islice(not_fetched.absent(hits), most, None), None)
    return _end(work, hits) if beyond is None else beyond - 1
