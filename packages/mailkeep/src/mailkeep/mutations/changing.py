"""The commands of one batch, in their order, with a commit between any two that matters (spec MUT section 5).

Nothing here waits or repeats. A refusal that will be the same tomorrow abandons its rows (MUT-34); one that may pass
fails them; a connection that breaks leaves the stages as they were committed, and the caller notes the failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mailkeep.config import SpecialUse
from mailkeep.errors import (
    CommandRefused,
    FolderRecreated,
    IncompleteAnswer,
    MutationFailedUnexpectedly,
    MutationUnsupported,
    SourceDiffers,
    SourceMissing,
)
from mailkeep.imap import Identity, UidSet
from mailkeep.imap.writing import FLAGGED, SEEN, Opened, WritingSession
from mailkeep.mutations.ledger import Ledger
from mailkeep.mutations.model import Mutation, Stage
from mailkeep.mutations.plan import Due, Key, contradicts

KEYWORDS_AT_ONCE: Final = 64
"""Of one STORE: a message may carry more than a command line should."""


@dataclass(frozen=True, slots=True)
class Work:
    """One batch under way."""

    ledger: Ledger
    session: WritingSession
    key: Key


def uids_of(rows: Sequence[Due]) -> UidSet:
    return UidSet.of(row.uid for row in rows)


async def refuse_unsupported(work: Work, rows: Sequence[Due]) -> list[Due]:
    """The rows for which the server has a safe way; the others are abandoned before any command (MUT-4, MUT-34)."""
    session, mutation = work.session, work.key.mutation
    needs_uidplus = mutation is Mutation.DELETE or (
        mutation is Mutation.RELOCATE
        and (work.key.requires_source_removal if work.key.stage is not Stage.RECORDED else not session.offers("MOVE"))
    )
    unsafe = list(rows) if needs_uidplus and not session.offers("UIDPLUS") else []
    if mutation is Mutation.DELETE and not unsafe and session.offers("X-GM-EXT-1"):
        # Gmail keeps what is expunged anywhere else in All Mail (case 70).
        unsafe = [row for row in rows if row.folder_role not in (SpecialUse.TRASH, SpecialUse.JUNK)]
    if unsafe:
        await work.ledger.abandon(unsafe, MutationUnsupported.code)
    return work.ledger.unfinished(rows)


async def open_folder(work: Work, rows: Sequence[Due]) -> Opened | None:
    """Select the rows' folder; None when it is another one than they were recorded in (MUT-29)."""
    try:
        opened = await work.session.select(work.key.folder_path)
    except CommandRefused:
        folder = await work.session.find(work.key.folder_path)
        if folder is not None and folder.is_selectable:
            raise
        await work.ledger.abandon(rows, SourceMissing.code)
        return None
    if opened.uid_validity != work.key.uid_validity:
        await work.ledger.abandon(rows, FolderRecreated.code)
        return None
    if opened.is_read_only and work.key.mutation is not Mutation.COPY:
        await work.ledger.abandon(rows, MutationUnsupported.code)
        return None
    return opened


async def verify_sources(work: Work, rows: Sequence[Due]) -> tuple[list[Due], Mapping[int, Identity]]:
    """The rows whose messages are there and are the stored ones, and what the server says of them (case 5).

    One that is gone was removed by somebody else, unless the removal is all that the row still owed.
    """
    found = await work.session.identities(uids_of(rows))
    absent = [row for row in rows if row.uid not in found]
    if absent:
        still_there = await work.session.present(uids_of(absent))
        if untold := [row for row in absent if row.uid in still_there]:
            await work.ledger.fail(untold, IncompleteAnswer.code)
        gone = [row for row in absent if row.uid not in still_there]
        if work.key.stage is Stage.RECORDED:
            await work.ledger.abandon(gone, SourceMissing.code)
        else:
            await _finish_removed(work, gone)
    if others := [row for row in rows if row.uid in found and contradicts(row, found[row.uid])]:
        await work.ledger.abandon(others, SourceDiffers.code)
    return work.ledger.unfinished(rows), found


async def store_flag(work: Work, rows: list[Due], opened: Opened) -> None:
    """Seen and flagged (MUT-19)."""
    terms = work.key.terms
    seen = work.key.mutation is Mutation.SET_SEEN
    await _store(
        work, rows, opened, SEEN if seen else FLAGGED, bool(terms.desired_seen_state or terms.desired_flagged_state)
    )


async def _store(work: Work, rows: list[Due], opened: Opened, flag: str, wanted: bool) -> None:
    if wanted and not opened.keeps([flag]):
        await work.ledger.abandon(rows, MutationUnsupported.code)
        return
    rows = await work.ledger.issue(rows)
    change = work.session.add_flags if wanted else work.session.remove_flags
    if rows:
        await change(uids_of(rows), [flag])
        await work.ledger.complete(rows)


async def store_keywords(work: Work, rows: list[Due], opened: Opened, found: Mapping[int, Identity]) -> None:
    """Add, remove, or reach exactly these keywords, the surplus first (MUT-26); no flags of the server's own."""
    keywords = work.key.terms.keywords or ()
    mutation = work.key.mutation
    if mutation is not Mutation.REMOVE_KEYWORDS and keywords and not opened.keeps(keywords):
        await work.ledger.abandon(rows, MutationUnsupported.code)
        return
    if mutation is Mutation.SET_KEYWORDS:
        removed, added = await _difference(work, rows, found)
    else:
        removed = {row.uid: list(keywords) for row in rows if mutation is Mutation.REMOVE_KEYWORDS}
        added = [row.uid for row in rows if mutation is Mutation.ADD_KEYWORDS]
    rows = await work.ledger.issue(rows)
    kept = {row.uid for row in rows}
    surplus = sorted({name for uid, names in removed.items() if uid in kept for name in names})
    for names in _parts(surplus):
        await work.session.remove_flags(UidSet.of(uid for uid in removed if uid in kept), names)
    if keywords and (lacking := UidSet.of(uid for uid in added if uid in kept)):
        await work.session.add_flags(lacking, keywords)
    await work.ledger.complete(rows)


async def _difference(
    work: Work, rows: Sequence[Due], found: Mapping[int, Identity]
) -> tuple[dict[int, list[str]], list[int]]:
    """What each message carries beyond the wanted keywords, by UID, and who lacks some of them.

    To take a keyword from a message that does not carry it changes nothing, so one command serves all.
    """
    told = {uid: one.flags for uid, one in found.items() if one.flags is not None}
    if untold := [row for row in rows if row.uid not in told]:
        told |= await work.session.flags(uids_of(untold))
    wanted = {keyword.casefold() for keyword in work.key.terms.keywords or ()}
    surplus: dict[int, list[str]] = {}
    lacking: list[int] = []
    for row in rows:
        carried = [name for name in told.get(row.uid) or () if not name.startswith("\\")]
        if beyond := [name for name in carried if name.casefold() not in wanted]:
            surplus[row.uid] = beyond
        if wanted - {name.casefold() for name in carried}:
            lacking.append(row.uid)
    return surplus, lacking


async def remove_sources(work: Work, rows: list[Due], stage: Stage) -> None:
    """Mark, then expunge exactly these (MUT-4, MUT-25); whether they went is looked at (case 70)."""
    if stage is not Stage.SOURCE_FLAGGED_DELETED:
        rows = await work.ledger.issue(rows)
        if rows:
            await work.session.mark_deleted(uids_of(rows))
        rows = await work.ledger.advance(rows, Stage.SOURCE_FLAGGED_DELETED)
    if not rows:
        return
    await work.session.expunge(uids_of(rows))
    still_there = await work.session.present(uids_of(rows))
    await work.ledger.complete([row for row in rows if row.uid not in still_there])
    if stayed := [row for row in rows if row.uid in still_there]:
        await work.ledger.fail(stayed, MutationFailedUnexpectedly.code)


async def _finish_removed(work: Work, rows: Sequence[Due]) -> None:
    """The source is gone, which is all that these still owed."""
    await work.ledger.complete(rows)


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(names), KEYWORDS_AT_ONCE):
        yield names[first : first + KEYWORDS_AT_ONCE]


__all__ = [
    "Work",
    "open_folder",
    "refuse_unsupported",
    "remove_sources",
    "store_flag",
    "store_keywords",
    "uids_of",
    "verify_sources",
]
