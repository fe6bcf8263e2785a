"""Full-text search of one mailbox, newest first, under the cursor rules of lists.

Two bounded ways to a page. A word that many messages hold is found by walking the newest 1,000 messages. A rarer one
is asked of the word index month by month, newest month first, and only until the page is full: a lexeme that names
mailbox and month is part of every message's words, so the index gives one mailbox's messages of one month.
"""

# ruff: noqa: A002, S608 -- `filter` as lists name it; SQL is made of literal parts

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from sqlalchemy import Row, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from mailkeep_inbox.bounds import DEFAULT_PAGE, MAX_PAGE
from mailkeep_inbox.checks import assert_mailbox_scope, require_directions, require_filter, require_limit
from mailkeep_inbox.cursors import assert_mailbox_cursor, decode_mailbox_cursor, encode_mailbox_cursor, fingerprint
from mailkeep_inbox.handle import Handle, reading
from mailkeep_inbox.highlight import highlights_of
from mailkeep_inbox.list_sql import COLUMNS, directions_of, filter_condition, view_condition
from mailkeep_inbox.lists import NO_FILTER, filter_parameters, items_of, scope_parameters, wanted_cursor
from mailkeep_inbox.model import (
    Directions,
    Key,
    MailboxFilter,
    MailboxScope,
    MailboxSort,
    MailboxView,
    SearchHit,
    SearchPage,
)
from mailkeep_inbox.search_terms import highlight_pattern, parse_query, term_arrays
from mailkeep_inbox.sender_displays import ResolveSenderDisplays, attach_from_display

WALKED_ROWS: Final = 1_000
_SCOPE: Final = "mail.tenant_id = CAST(:tenant_id AS text) AND mail.principal_id = CAST(:principal_id AS text)"
_MAILBOX_LEXEME: Final = (
    "'M' || left(md5(length(CAST(:tenant_id AS text)) || ':' || CAST(:tenant_id AS text) || ':' "
    "|| CAST(:principal_id AS text)), 16)"
)


async def search_user_mailbox(
    db: Handle,
    scope: MailboxScope,
    *,
    query: str,
    limit: int = DEFAULT_PAGE,
    view: MailboxView | str = MailboxView.ALL,
    filter: MailboxFilter = NO_FILTER,
    cursor: str | None = None,
    direction: Directions = "inbound",
    resolve_sender_displays: ResolveSenderDisplays | None = None,
) -> SearchPage:
    """Messages that hold all words of `query` in subject, sender or text: words, "phrases", prefix*, -without.

    Raises MailboxRangeError for a query without words and MailboxCursorError for a cursor of another search.
    """
    assert_mailbox_scope(scope)
    require_limit(limit, maximum=MAX_PAGE)
    require_filter(filter)
    terms = parse_query(query)
    wanted = wanted_cursor(view, MailboxSort.DATE, filter, (), require_directions(direction))
    wanted = replace(wanted, query=fingerprint(query))
    place = None
    if cursor is not None:
        place = decode_mailbox_cursor(cursor)
        assert_mailbox_cursor(place, wanted)
    key = wanted.key if place is None else place.key
    parameters = scope_parameters(scope) | filter_parameters(filter) | term_arrays(terms)
    parameters |= {"limit": limit + 1, "created_at": key.created_at, "id": key.id, "walked": WALKED_ROWS}
    condition = _condition(MailboxView(view), direction, filter_condition(filter))
    async with reading(db) as connection:
        rows = await _rows(connection, condition, parameters)
    items = await attach_from_display(
        items_of(rows[:limit]), tenant_id=scope.tenant_id, resolve=resolve_sender_displays
    )
    pattern = highlight_pattern(terms)
    hits = tuple(
        SearchHit(item, highlights_of(pattern, item, row.body_text)) for item, row in zip(items, rows, strict=False)
    )
    following = None
    if len(rows) > limit:
        last = rows[limit - 1]
        following = encode_mailbox_cursor(replace(wanted, key=Key(last.created_at, last.id)))
    return SearchPage(hits, following)


def _condition(view: MailboxView, direction: Directions, chosen_filter: str) -> str:
    sides = ", ".join(f"'{side}'" for side in directions_of(view, direction))
    return f"m.direction IN ({sides}) AND {view_condition(view)}{chosen_filter}"


async def _rows(connection: AsyncConnection, condition: str, parameters: dict[str, Any]) -> Sequence[Row[Any]]:
    """The page and one row more. The walk answers when it fills the page or reaches the end of the mailbox."""
    walked = (await connection.execute(_walk(condition), parameters)).all()
    found = [row for row in walked if row.id is not None]
    if len(found) >= parameters["limit"] or walked[0].walked < WALKED_ROWS:
        return found
    return (await connection.execute(_by_month(condition), parameters)).all()


_QUERY: Final = """
    SELECT (
        SELECT COALESCE(string_agg(part.query::text, ' & '), '')::tsquery FROM (
            SELECT phraseto_tsquery('pg_catalog.simple', phrase) AS query
            FROM unnest(CAST(:phrases AS text[])) AS phrase
            UNION ALL
            SELECT to_tsquery('pg_catalog.simple', prefix) FROM unnest(CAST(:prefixes AS text[])) AS prefix
            UNION ALL
            SELECT !!phraseto_tsquery('pg_catalog.simple', absence) FROM unnest(CAST(:absent AS text[])) AS absence
        ) AS part WHERE numnode(part.query) > 0
    ) AS query
"""
_NEWEST_FIRST: Final = "created_at DESC, id DESC"


@cache
def _walk(condition: str) -> TextClause:
    """Matches among the next 1,000 messages of the mailbox, and how many there were to look at."""
    return text(f"""
WITH asked AS MATERIALIZED ({_QUERY}), recent AS MATERIALIZED (
    SELECT mail.id, mail.created_at, mail.search @@ asked.query AS is_match
    FROM mailbox.principal_mail AS mail, asked
    WHERE {_SCOPE} AND (mail.created_at, mail.id) < (CAST(:created_at AS timestamp), CAST(:id AS text))
    ORDER BY mail.created_at DESC, mail.id DESC LIMIT :walked
)
SELECT counted.walked, page.* FROM (SELECT count(*) AS walked FROM recent) AS counted LEFT JOIN (
    SELECT {COLUMNS}, mail.body_text FROM recent
    CROSS JOIN LATERAL (SELECT * FROM mailbox.mailbox AS m WHERE m.id = recent.id AND {condition} OFFSET 0) AS m
    CROSS JOIN LATERAL (SELECT body_text FROM mailbox.principal_mail WHERE id = recent.id OFFSET 0) AS mail
    WHERE recent.is_match ORDER BY recent.created_at DESC, recent.id DESC LIMIT :limit
) AS page ON true ORDER BY page.created_at DESC, page.id DESC""")


@cache
def _by_month(condition: str) -> TextClause:
    """Matches month by month, the newest month first, until the page is full."""
    return text(f"""
WITH asked AS MATERIALIZED ({_QUERY}), months AS (
    SELECT generate_series(
        date_trunc('month', (SELECT mail.created_at FROM mailbox.principal_mail AS mail
            WHERE {_SCOPE} AND (mail.created_at, mail.id) < (CAST(:created_at AS timestamp), CAST(:id AS text))
            ORDER BY mail.created_at DESC, mail.id DESC LIMIT 1)),
        date_trunc('month', (SELECT mail.created_at FROM mailbox.principal_mail AS mail
            WHERE {_SCOPE} ORDER BY mail.created_at, mail.id LIMIT 1)),
        interval '-1 month') AS month
)
SELECT {COLUMNS}, mail.body_text FROM (
    SELECT found.* FROM months, asked CROSS JOIN LATERAL (
        SELECT mail.id, mail.created_at FROM (
            SELECT mail.id, mail.created_at FROM mailbox.principal_mail AS mail
            WHERE mail.search @@ (asked.query && ('''' || {_MAILBOX_LEXEME} || to_char(months.month, 'YYYYMM')
                || '''')::tsquery)
                AND {_SCOPE} AND (mail.created_at, mail.id) < (CAST(:created_at AS timestamp), CAST(:id AS text))
            ORDER BY mail.created_at DESC, mail.id DESC OFFSET 0
        ) AS mail
        CROSS JOIN LATERAL (SELECT 1 FROM mailbox.mailbox AS m WHERE m.id = mail.id AND {condition} OFFSET 0) AS shown
        ORDER BY mail.created_at DESC, mail.id DESC LIMIT :limit
    ) AS found LIMIT :limit
) AS hit
JOIN mailbox.mailbox AS m ON m.id = hit.id JOIN mailbox.principal_mail AS mail ON mail.id = hit.id
ORDER BY hit.created_at DESC, hit.id DESC""")
