"""The reading order of a conversation, computed at each read and stored nowhere (SYNC-117, DATA-31)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import UUID

from mailkeep.threads.model import ThreadEntry

_LAST = datetime.max.replace(tzinfo=UTC)


def reading_order(rows: Iterable[tuple[UUID, UUID | None, datetime | None]]) -> tuple[ThreadEntry, ...]:
    """Depth first from (id, parent id, sent at): siblings by `sent_at`, undated last, then id.

    A parent that is not among the rows makes a root. A cycle, which no write of ours makes, is cut at its earliest
    member, so that every row appears exactly once.
    """
    listed = sorted(rows, key=lambda row: (row[2] if row[2] is not None else _LAST, row[0]))
    parents = {row[0]: row[1] for row in listed}
    children: dict[UUID, list[tuple[UUID, UUID | None, datetime | None]]] = {}
    roots = []
    for row in listed:
        if row[1] is not None and row[1] in parents:
            children.setdefault(row[1], []).append(row)
        else:
            roots.append(row)
    entries: dict[UUID, ThreadEntry] = {}
    for root in (*roots, *listed):
        if root[0] in entries:
            continue
        pending = [(root, 0)]
        while pending:
            (stored_email_id, parent, sent_at), depth = pending.pop()
            if stored_email_id in entries:
                continue
            seen_parent = parent if depth else None
            entries[stored_email_id] = ThreadEntry(stored_email_id, seen_parent, sent_at, depth)
            pending.extend((child, depth + 1) for child in reversed(children.get(stored_email_id, ())))
    return tuple(entries.values())
