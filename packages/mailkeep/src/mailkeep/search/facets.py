"""Counts of the ranked messages by sender, folder and month (docs/spec/search.md Beyond 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from mailkeep.db import Connection
from mailkeep.mailbox import FolderId
from mailkeep.search import queries
from mailkeep.search.model import Facet, FacetKind
from mailkeep.search.queries import Selection

MAX_VALUES: Final = 12
"""Values of one kind: the most frequent ones."""


async def read_facets(
    connection: Connection, selection: Selection, best: Sequence[tuple[UUID, float]]
) -> tuple[Facet, ...]:
    """The facets by kind, each kind by falling count, then by value."""
    counts = await queries.count_facets(connection, [one for one, _ in best], folder_ids=selection.folder_ids)
    merged: dict[tuple[FacetKind, str], int] = {}
    for kind, value, count in counts:
        name = value
        if kind is FacetKind.FOLDER:
            names = selection.folders[FolderId(int(value))]
            name = f"{names.account_id}/{names.alias}"
        merged[kind, name] = merged.get((kind, name), 0) + count
    found: list[Facet] = []
    for kind in FacetKind:
        own = [Facet(kind, value, count) for (of, value), count in merged.items() if of is kind]
        found += sorted(own, key=lambda facet: (-facet.count, facet.value))[:MAX_VALUES]
    return tuple(found)
