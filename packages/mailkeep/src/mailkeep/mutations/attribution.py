"""Who changed a flag: a store of our own, or the owner of the mailbox (spec MUT-50, MUT-51, SYNC-84).

A store explains a reading when it went to that very occurrence, may have reached the server after the reading before,
and asked for what is reported now. There is no mark that a store was used: the first reading after it ends what it can
explain, whether or not that reading showed a change.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from mailkeep.db import Database, load_queries
from mailkeep.mailbox import FlagChange, FolderId, Uid, UidValidity
from mailkeep.mutations.model import Mutation

log = logging.getLogger(__name__)

_SQL: Final = load_queries("mailkeep.mutations")
STORES_CONSIDERED: Final = 5  # the newest, of one mutation of one message
KEYWORD_SETS_CONSIDERED: Final = 256  # that stores of ours can have led to one after another


class FlagValue(StrEnum):
    """What of a message's flags is judged by itself."""

    SEEN = "seen"
    FLAGGED = "flagged"
    KEYWORDS = "keywords"


@dataclass(frozen=True, slots=True)
class OwnStore:
    """A store of ours that may have been sent since its message's flags were last read."""

    mutation_id: UUID
    mutation: Mutation
    seen: bool | None
    flagged: bool | None
    keywords: frozenset[str]

    def applied_to(self, keywords: frozenset[str]) -> frozenset[str]:
        if self.mutation is Mutation.ADD_KEYWORDS:
            return keywords | self.keywords
        if self.mutation is Mutation.REMOVE_KEYWORDS:
            return keywords - self.keywords
        return self.keywords


@dataclass(frozen=True, slots=True)
class AttributedChange:
    """One value of a message's flags that moved, and by whom: stores of ours, or with none the mailbox's owner."""

    stored_email_id: UUID
    value: FlagValue
    explained_by: tuple[UUID, ...]

    @property
    def is_own(self) -> bool:
        return bool(self.explained_by)


async def unspent_stores(
    db: Database, folder_id: FolderId, *, uid_validity: UidValidity, low: int, high: int
) -> dict[Uid, tuple[OwnStore, ...]]:
    """The stores within a range of UIDs that their messages' last readings did not show, by message, oldest first.

    Of each kind the five newest. To be asked after the reading that they are to explain.
    """
    values = {
        "folder_id": folder_id,
        "uid_validity": uid_validity,
        "low": low,
        "high": high,
        "cap": STORES_CONSIDERED + 1,
    }
    async with db.connection() as connection:
        rows = await (await connection.execute(_SQL["unspent_stores"], values)).fetchall()
    found: dict[Uid, list[OwnStore]] = {}
    for uid, mutation_id, mutation, seen, flagged, keywords, _ in rows:
        named = frozenset(keyword.upper() for keyword in keywords or ())
        found.setdefault(uid, []).append(OwnStore(mutation_id, Mutation(mutation), seen, flagged, named))
    return {uid: _newest(folder_id, uid, stores) for uid, stores in found.items()}


def _newest(folder_id: FolderId, uid: Uid, stores: Sequence[OwnStore]) -> tuple[OwnStore, ...]:
    kept: list[OwnStore] = []
    for store in reversed(stores):
        if sum(one.mutation is store.mutation for one in kept) == STORES_CONSIDERED:
            log.info(
                "more stores than are considered",
                extra={"folder_id": folder_id, "uid": uid, "mutation": store.mutation.value},
            )
        else:
            kept.append(store)
    return tuple(reversed(kept))


def attribute(changes: Sequence[FlagChange], stores: Mapping[Uid, Sequence[OwnStore]]) -> list[AttributedChange]:
    """Every value that moved, by whom. Pure. A first reading is no change (SYNC-84)."""
    attributed: list[AttributedChange] = []
    for change in changes:
        before, now = change.before, change.now
        if before is None:
            continue
        own = stores.get(change.uid, ())
        if before.seen != now.seen:
            ids = tuple(one.mutation_id for one in own if one.seen is now.seen)
            attributed.append(AttributedChange(change.stored_email_id, FlagValue.SEEN, ids))
        if before.flagged != now.flagged:
            ids = tuple(one.mutation_id for one in own if one.flagged is now.flagged)
            attributed.append(AttributedChange(change.stored_email_id, FlagValue.FLAGGED, ids))
        if before.keywords != now.keywords:
            ids = _keyword_stores(frozenset(before.keywords), frozenset(now.keywords), own)
            attributed.append(AttributedChange(change.stored_email_id, FlagValue.KEYWORDS, ids))
    return attributed


def _keyword_stores(before: frozenset[str], now: frozenset[str], stores: Sequence[OwnStore]) -> tuple[UUID, ...]:
    """The stores that lead from one set to the other, alone or one after another; none when they do not."""
    ways: dict[frozenset[str], tuple[UUID, ...]] = {before: ()}
    for store in stores:
        if store.mutation.is_about_keywords:
            for reached, ids in list(ways.items()):
                if len(ways) < KEYWORD_SETS_CONSIDERED:
                    ways.setdefault(store.applied_to(reached), (*ids, store.mutation_id))
    return ways.get(now, ())
