"""The conversation under one entity ref (section 9): pages oldest first, each message with its parent.

Parents are looked up over the whole conversation, not the page, so that they are the same on every page. It reads the
cached identifiers, never a frame.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any, Final

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from mailkeep_inbox.ancestry import Carriers, Node, candidates_of, parent_ids
from mailkeep_inbox.bounds import (
    DEFAULT_THREAD_PAGE,
    MAX_ANCESTRY_HOP_IDS,
    MAX_ANCESTRY_LOOKUPS,
    MAX_ANCESTRY_NODES,
    MAX_THREAD_PAGE,
)
from mailkeep_inbox.checks import assert_mailbox_scope, require_directions, require_limit
from mailkeep_inbox.cursors import decode_thread_cursor, encode_thread_cursor, wire_moment
from mailkeep_inbox.handle import Handle, reading
from mailkeep_inbox.list_sql import sides_of
from mailkeep_inbox.lists import scope_parameters
from mailkeep_inbox.model import EARLIEST, Direction, Directions, Key, MailboxRef, MailboxScope, ThreadItem, ThreadPage
from mailkeep_inbox.refs import StoredLists, require_ref
from mailkeep_inbox.statements import statement

_CANDIDATES_A_HOP: Final = 40
"""Of one message: a frame can name tens of thousands, and its neighbours' nearest ones come first."""
_BEGINNING: Final = Key(EARLIEST, "")


async def read_mailbox_thread(
    db: Handle,
    scope: MailboxScope,
    *,
    ref: MailboxRef,
    cursor: str | None = None,
    limit: int = DEFAULT_THREAD_PAGE,
    direction: Directions = "inbound",
) -> ThreadPage:
    """A page of the messages of one mailbox that are about `ref`, archived and trashed ones included (INBOX-69).

    `direction="all"` shows both sides of a conversation. Raises MailboxRangeError for limit, ref or cursor.
    """
    assert_mailbox_scope(scope)
    require_limit(limit, maximum=MAX_THREAD_PAGE)
    wanted = require_ref(ref)
    sides = sides_of(require_directions(direction))
    place = _BEGINNING if cursor is None else decode_thread_cursor(cursor, wanted, direction)
    parameters = scope_parameters(scope) | {
        "ref": json.dumps([{"kind": wanted.kind, "id": wanted.id}], ensure_ascii=False),
        "directions": list(sides),
    }
    async with reading(db) as connection:
        rows = (
            await connection.execute(
                statement("thread_page"),
                parameters | {"created_at": place.created_at, "id": place.id, "limit": limit + 1},
            )
        ).all()
        page = rows[:limit]
        stored = StoredLists()
        references = {row.id: stored.texts(row.id, row.reference_list) for row in page}
        stored.report()
        nodes = {row.id: _node(row, references[row.id]) for row in page}
        parents = await _parents(connection, nodes, parameters)
    following = None
    if len(rows) > limit:
        following = encode_thread_cursor(Key(page[-1].created_at, page[-1].id), wanted, direction)
    return ThreadPage(tuple(_item(row, references[row.id], parents[row.id]) for row in page), following)


async def _parents(
    connection: AsyncConnection, nodes: dict[str, Node], parameters: dict[str, Any]
) -> dict[str, str | None]:
    """Breadth first, one query a hop, until all is known or 2,000 messages were met (INBOX-72, INBOX-74)."""
    known = dict(nodes)
    carriers = Carriers({})
    frontier = list(nodes.values())
    while len(known) < MAX_ANCESTRY_NODES + len(nodes) and len(carriers.known) < MAX_ANCESTRY_LOOKUPS:
        missing = {node.id: carriers.unknown(node, most=_CANDIDATES_A_HOP) for node in frontier}
        wanted = list(dict.fromkeys(chain.from_iterable(missing.values())))[:MAX_ANCESTRY_HOP_IDS]
        if not wanted:
            break
        rows = (await connection.execute(statement("thread_carriers"), parameters | {"message_ids": wanted})).all()
        stored = StoredLists()
        found = {row.wanted_id: _node(row, stored.texts(row.id, row.reference_list)) for row in rows}
        stored.report()
        carriers.known |= {message_id: found.get(message_id) for message_id in wanted}
        new = {node.id: node for node in found.values() if node.id not in known}
        known |= new
        frontier = [node for node in frontier if missing[node.id]] + list(new.values())
    return parent_ids(known, carriers)


def _node(row: Row[Any], references: tuple[str, ...]) -> Node:
    return Node(row.id, row.message_id, candidates_of(row.in_reply_to, references), row.created_at)


def _item(row: Row[Any], references: tuple[str, ...], parent_id: str | None) -> ThreadItem:
    return ThreadItem(
        id=row.id,
        message_id=row.message_id or row.id,
        in_reply_to=row.in_reply_to,
        references=references,
        from_address=row.from_address or "",
        subject=row.subject,
        created_at=wire_moment(row.created_at),
        read=row.read_at is not None,
        archived=row.archived_at is not None,
        direction=Direction(row.direction),
        parent_id=parent_id,
    )
