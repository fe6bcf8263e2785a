"""The SQL of a list, composed from literal parts: which rows a view shows, and in which order an index gives them.

Conditions of a view are literals, never parameters, since only literals let the planner take a partial index. All
values of callers are parameters. Every read of this module touches `mailbox.mailbox` alone.
"""

# ruff: noqa: S608 -- literal parts of this module; what callers give is a parameter

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from sqlalchemy import TextClause, text

from mailkeep_inbox.model import Directions, MailboxFilter, MailboxView

COLUMNS: Final = """m.id, m.direction, m.address, m.created_at, m.from_address, m.subject, m.snippet, m.message_id,
    m.in_reply_to, m.refs::text AS refs, m.attachments::text AS attachments, m.read_at, m.priority, m.classification,
    m.status, m.assignee, m.labels, m.snoozed_until"""

NOW: Final = "now() AT TIME ZONE 'UTC'"
_ACTIVE: Final = "m.archived_at IS NULL AND m.trashed_at IS NULL"
_AWAKE: Final = f"(m.snoozed_until IS NULL OR m.snoozed_until <= {NOW})"
_SHELVES: Final[Mapping[MailboxView, str]] = {
    MailboxView.ALL: _ACTIVE,
    MailboxView.UNREAD: f"{_ACTIVE} AND m.read_at IS NULL",
    MailboxView.ARCHIVED: "m.archived_at IS NOT NULL AND m.trashed_at IS NULL",
    MailboxView.TRASH: "m.trashed_at IS NOT NULL",
    MailboxView.SNOOZED: f"{_ACTIVE} AND m.snoozed_until > {NOW}",
    MailboxView.SENT: "true",
}
_SCOPE: Final = "m.tenant_id = CAST(:tenant_id AS text) AND m.principal_id = CAST(:principal_id AS text)"
_ORDER: Final = "created_at DESC, id DESC"
_SEEK: Final = "(m.created_at, m.id) < (CAST(:created_at AS timestamp), CAST(:id AS text))"

BANDED_VIEWS: Final = frozenset({MailboxView.ALL, MailboxView.UNREAD})
"""The views whose rows are in the index by priority."""


def directions_of(view: MailboxView, direction: Directions) -> tuple[str, ...]:
    """What a view is asked of: its own side of the mail for `sent`, else what the caller wants."""
    return ("outbound",) if view is MailboxView.SENT else sides_of(direction)


def sides_of(direction: Directions) -> tuple[str, ...]:
    """The stored values of a direction argument."""
    return ("inbound", "outbound") if direction == "all" else (direction,)


def view_condition(view: MailboxView) -> str:
    """Which rows of either direction a view shows, over the alias `m`."""
    awake = f" AND {_AWAKE}" if view in BANDED_VIEWS else ""
    return f"{_SHELVES[view]}{awake}"


def filter_condition(chosen: MailboxFilter) -> str:
    """` AND …` for every filter that is set; the parameters are named as the filters."""
    names = [name for name in ("priority", "classification", "status", "assignee") if getattr(chosen, name) is not None]
    parts = [f" AND m.{name} = CAST(:{name} AS text)" for name in names]
    if chosen.label is not None:
        parts.append(" AND m.labels IS NOT NULL AND m.labels @> ARRAY[CAST(:label AS text)]")
    return "".join(parts)


@cache
def page_by_date(view: MailboxView, direction: Directions, chosen_filter: str, *, has_cursor: bool) -> TextClause:
    """A page newest first: for each direction one bounded index scan."""
    seek = f" AND {_SEEK}" if has_cursor else ""
    branches = [
        f"SELECT {COLUMNS} FROM mailbox.mailbox AS m WHERE {_SCOPE} AND m.direction = '{side}' "
        f"AND {view_condition(view)}{chosen_filter}{seek} ORDER BY m.created_at DESC, m.id DESC LIMIT :limit"
        for side in directions_of(view, direction)
    ]
    if len(branches) == 1:
        return text(branches[0])
    return text(f"SELECT * FROM (({') UNION ALL ('.join(branches)})) AS sides ORDER BY {_ORDER} LIMIT :limit")


@cache
def page_by_priority(view: MailboxView, direction: Directions, chosen_filter: str, *, has_cursor: bool) -> TextClause:
    """A page by rank, newest first in each rank.

    Where an index serves it: the priorities that the mailbox holds are found by skipping through the index, each gives
    one bounded scan in page order, as do the messages without any, and the few rows found are merged by rank.
    """
    if view not in BANDED_VIEWS or direction != "inbound":
        return _page_by_computed_rank(view, direction, chosen_filter, has_cursor=has_cursor)
    shelf = f"{_SCOPE} AND m.direction = 'inbound' AND {_SHELVES[view]}"
    band = "m.created_at, m.id"
    bound = (
        "(CASE WHEN {rank} = CAST(:rank AS integer) THEN CAST(:created_at AS timestamp) ELSE 'infinity' END, "
        "CASE WHEN {rank} = CAST(:rank AS integer) THEN CAST(:id AS text) ELSE '' END)"
    )
    known = f" AND ({band}) < {bound.format(rank='bands.rank')}" if has_cursor else ""
    unknown = f" AND ({band}) < {bound.format(rank='CAST(:unlisted AS integer)')}" if has_cursor else ""
    rest = f"AND {view_condition(view)}{chosen_filter}"
    order = "ORDER BY m.created_at DESC, m.id DESC LIMIT :limit"
    from_rank = "WHERE bands.rank >= CAST(:rank AS integer)" if has_cursor else ""
    return text(f"""
WITH RECURSIVE found (priority) AS (
    (SELECT m.priority FROM mailbox.mailbox AS m WHERE {shelf} AND m.priority IS NOT NULL ORDER BY m.priority LIMIT 1)
    UNION ALL
    SELECT (SELECT m.priority FROM mailbox.mailbox AS m WHERE {shelf} AND m.priority > found.priority
            ORDER BY m.priority LIMIT 1)
    FROM found WHERE found.priority IS NOT NULL
), bands AS (
    SELECT priority, COALESCE(array_position(CAST(:priorities AS text[]), priority) - 1, CAST(:unlisted AS integer))
        AS rank
    FROM found WHERE priority IS NOT NULL
)
SELECT * FROM (
    SELECT bands.rank, page.* FROM bands CROSS JOIN LATERAL (
        SELECT {COLUMNS} FROM mailbox.mailbox AS m
        WHERE {shelf} AND m.priority = bands.priority {rest}{known} {order}
    ) AS page {from_rank}
    UNION ALL
    SELECT CAST(:unlisted AS integer) AS rank, page.* FROM (
        SELECT {COLUMNS} FROM mailbox.mailbox AS m WHERE {shelf} AND m.priority IS NULL {rest}{unknown} {order}
    ) AS page
) AS merged ORDER BY rank, {_ORDER} LIMIT :limit""")


def _page_by_computed_rank(
    view: MailboxView, direction: Directions, chosen_filter: str, *, has_cursor: bool
) -> TextClause:
    """Where no index holds the rank: every row of the view is ranked and sorted. The rank is negated (INBOX-64)."""
    sides = ", ".join(f"'{side}'" for side in directions_of(view, direction))
    seek = (
        "WHERE (-rank, created_at, id) < (-CAST(:rank AS integer), CAST(:created_at AS timestamp), CAST(:id AS text))"
    )
    return text(f"""
SELECT * FROM (
    SELECT COALESCE(array_position(CAST(:priorities AS text[]), m.priority) - 1, CAST(:unlisted AS integer)) AS rank,
        {COLUMNS}
    FROM mailbox.mailbox AS m
    WHERE {_SCOPE} AND m.direction IN ({sides}) AND {view_condition(view)}{chosen_filter}
) AS ranked {seek if has_cursor else ""} ORDER BY rank, {_ORDER} LIMIT :limit""")


@cache
def item_by_id(*, directions: tuple[str, ...]) -> TextClause:
    """One row of a list."""
    sides = ", ".join(f"'{side}'" for side in directions)
    return text(
        f"SELECT {COLUMNS} FROM mailbox.mailbox AS m "
        f"WHERE m.id = CAST(:id AS text) AND {_SCOPE} AND m.direction IN ({sides})"
    )
