"""The timeline: pages by keyset in one documented order, without gaps or repetitions while mail arrives (FIND-18..26).

A page is at most two reads: behind the boundary among dated mail, then undated mail when the page is short. Each read
walks one index range per account, or per folder where few are wanted, and merges them; a predicate over many accounts
would sort all mail (DATA-17).
"""

from __future__ import annotations

from typing import Final

from mailkeep.db import Connection
from mailkeep.search.cursor import Boundary
from mailkeep.search.model import Direction, Summary
from mailkeep.search.queries import Selection, Walk, read_range

MAX_FOLDER_WALKS: Final = 2
"""Up to so many folders of an account are walked each by itself, also when the request named none."""
MAX_NAMED_FOLDER_WALKS: Final = 64


def plan_walks(selection: Selection, *, names_folders: bool) -> list[Walk]:
    """The index ranges that together hold the selection's folders."""
    by_account: dict[str, list[int]] = {}
    for folder_id, names in selection.folders.items():
        by_account.setdefault(names.account_id, []).append(folder_id)
    most = MAX_NAMED_FOLDER_WALKS if names_folders else MAX_FOLDER_WALKS
    walks: list[Walk] = []
    for account_id in sorted(by_account):
        folder_ids = by_account[account_id]
        if len(folder_ids) <= most:
            walks.extend(Walk("mail_folder_id", folder_id) for folder_id in sorted(folder_ids))
        else:
            walks.append(Walk("mailbox_account_id", account_id))
    return walks


async def read_page(
    connection: Connection,
    selection: Selection,
    *,
    direction: Direction,
    boundary: Boundary | None,
    limit: int,
    names_folders: bool,
) -> list[Summary]:
    """Up to `limit` summaries behind the boundary, from the first or last row on when it is None."""
    walks = plan_walks(selection, names_folders=names_folders)
    if not walks:
        return []
    if boundary is None:
        return await read_range(
            connection, selection, walks, direction=direction, boundary=None, dated=None, limit=limit
        )
    is_dated = boundary.received_at is not None
    found = await read_range(
        connection, selection, walks, direction=direction, boundary=boundary, dated=is_dated, limit=limit
    )
    other_side_follows = is_dated is (direction is Direction.NEWEST_FIRST)
    if len(found) < limit and other_side_follows:
        found += await read_range(
            connection,
            selection,
            walks,
            direction=direction,
            boundary=None,
            dated=not is_dated,
            limit=limit - len(found),
        )
    return found
