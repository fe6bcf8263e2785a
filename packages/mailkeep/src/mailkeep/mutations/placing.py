"""Copies and moves: the command that is never sent twice without an answer, and what its answer means (MUT-22 to 24).

`PlacementIssued` is committed before the command. An answer of no takes a row back to where it was; no answer leaves it
there for good (MUT-35). Where a message went is what COPYUID says and nothing else (MUT-31); whether anything happened
is seen by the source of a move, and by the next UID of the folder that mail was copied to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mailkeep.errors import DestinationMissing, FolderCreationRefused, MutationFailedUnexpectedly, SourceMissing
from mailkeep.imap import FolderState
from mailkeep.imap.writing import Placed
from mailkeep.mutations.changing import Work, remove_sources, uids_of
from mailkeep.mutations.folders import create_folder
from mailkeep.mutations.model import Mutation, Stage
from mailkeep.mutations.plan import Due


async def place(work: Work, rows: list[Due]) -> None:
    """Copy or move the rows' messages to their destination, and remove the sources where a move had to be a copy."""
    before = await _destination(work, rows)
    if before is None:
        return
    by_move = work.key.mutation is Mutation.RELOCATE and work.session.offers("MOVE")
    removes_source = work.key.mutation is Mutation.RELOCATE and not by_move
    rows = await work.ledger.advance(rows, Stage.PLACEMENT_ISSUED, removal=removes_source)
    if not rows:
        return
    send = work.session.move if by_move else work.session.copy
    placed = await send(uids_of(rows), _path(work))
    if placed.refusal is not None:
        await _refused(work, rows, placed, _named(placed, before), by_move=by_move)
        return
    named = _named(placed, before)
    confirmed = await _confirm(work, [row for row in rows if row.uid in named], placed, named)
    unnamed = [row for row in rows if row.uid not in named]
    if unnamed and by_move:
        confirmed += await _moved_unnamed(work, unnamed, placed, others_are_named=bool(named))
    elif unnamed:
        confirmed += await _copied_unnamed(work, unnamed, before, placed, others_are_named=bool(named))
    await finish(work, confirmed, removes_source=removes_source)


async def finish(work: Work, rows: list[Due], *, removes_source: bool) -> None:
    """What is owed after a placement was confirmed (MUT-20)."""
    if removes_source:
        await remove_sources(work, rows, Stage.PLACEMENT_CONFIRMED)
    else:
        await work.ledger.complete(rows)


async def _destination(work: Work, rows: Sequence[Due]) -> FolderState | None:
    """The state of the folder that mail goes to, made where that is allowed; None without one (MUT-30, MUT-61)."""
    path, session = _path(work), work.session
    state = await session.state(path)
    if state is not None:
        return state
    folder = await session.find(path)
    if folder is not None and folder.is_selectable:
        return FolderState()
    if not work.key.terms.creates_destination:
        await work.ledger.abandon(rows, DestinationMissing.code)
        return None
    try:
        await create_folder(session, path)
    except FolderCreationRefused as error:
        await work.ledger.fail(rows, error.code)
        return None
    return await session.state(path) or FolderState()


async def _refused(work: Work, rows: Sequence[Due], placed: Placed, named: Mapping[int, int], *, by_move: bool) -> None:
    """The server said no. A move may have been carried out in part all the same (RFC 6851 §3.3)."""
    assert placed.refusal is not None
    untouched = list(rows)
    if by_move:
        still_there = await work.session.present(uids_of(rows))
        gone = [row for row in rows if row.uid not in still_there]
        untouched = [row for row in rows if row.uid in still_there]
        await work.ledger.complete(await _confirm(work, gone, placed, named))
    if placed.lacks_destination and not work.key.terms.creates_destination:
        await work.ledger.abandon(untouched, DestinationMissing.code, from_stage=Stage.RECORDED)
    else:
        await work.ledger.refuse(untouched, placed.refusal.code)
    raise placed.refusal


def _named(placed: Placed, destination: FolderState) -> dict[int, int]:
    """The placements that can be meant: of the folder's own UIDVALIDITY, where that is known (case 68)."""
    known = destination.uid_validity
    if known is not None and placed.placements.uid_validity != known:
        return {}
    return dict(placed.placements.uids)


async def _confirm(work: Work, rows: list[Due], placed: Placed, named: Mapping[int, int]) -> list[Due]:
    if not rows:
        return []
    return await work.ledger.confirm(rows, uid_validity=placed.placements.uid_validity, uids=named)


async def _moved_unnamed(work: Work, rows: list[Due], placed: Placed, *, others_are_named: bool) -> list[Due]:
    """A message that is still in its folder was not moved. One that is gone was, without being named; but where the
    server names others, it was gone before (MUT-B3)."""
    still_there = await work.session.present(uids_of(rows))
    if stayed := [row for row in rows if row.uid in still_there]:
        await work.ledger.refuse(stayed, MutationFailedUnexpectedly.code)
    gone = [row for row in rows if row.uid not in still_there]
    if others_are_named:
        await work.ledger.abandon(gone, SourceMissing.code, from_stage=Stage.RECORDED)
        return []
    return await _confirm(work, gone, placed, {})


async def _copied_unnamed(
    work: Work, rows: list[Due], before: FolderState, placed: Placed, *, others_are_named: bool
) -> list[Due]:
    """Whether a copy that nobody named was made is told by the next UID of its folder, or stays unknown.

    A message that the server leaves out while it names others, and that is there all the same, may or may not have been
    copied: it is neither copied again nor removed.
    """
    still_there = await work.session.present(uids_of(rows))
    if gone := [row for row in rows if row.uid not in still_there]:
        await work.ledger.abandon(gone, SourceMissing.code, from_stage=Stage.RECORDED)
    stayed = [row for row in rows if row.uid in still_there]
    if not stayed:
        return []
    after = await work.session.state(_path(work)) or FolderState()
    if others_are_named or before.uid_next is None or after.uid_next is None:
        await work.ledger.fail(stayed, MutationFailedUnexpectedly.code)
        return []
    grown = after.uid_next - before.uid_next
    if grown == 0:
        await work.ledger.refuse(stayed, MutationFailedUnexpectedly.code)
        return []
    if grown < len(stayed):
        await work.ledger.fail(stayed, MutationFailedUnexpectedly.code)
        return []
    return await _confirm(work, stayed, placed, {})


def _path(work: Work) -> str:
    path = work.key.terms.destination_folder_path
    assert path is not None, "a placement has a destination"
    return path
