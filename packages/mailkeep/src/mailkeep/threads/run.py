"""Placing and reading conversations: loads, calls the plans, stores."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.db import Connection, load_queries, uuid7s
from mailkeep.threads.model import (
    MAX_MERGES_FOLLOWED,
    MAX_THREAD_ENTRIES,
    Placements,
    Thread,
    ThreadInput,
    ThreadPlacement,
)
from mailkeep.threads.order import reading_order
from mailkeep.threads.plan import StoredMember, ThreadPlan, identifier_hash, plan_parents, plan_threads

_SQL: Final = load_queries("mailkeep.threads")


async def lock_account(connection: Connection, account_id: str) -> None:
    """Wait until no other transaction stores mail of this account; held until the transaction ends."""
    await connection.execute(_SQL["lock_account"], {"key": _lock_key(account_id)})


async def place(
    connection: Connection, account_id: str, *, messages: Sequence[ThreadInput], now: datetime
) -> Placements:
    """Put a batch into the conversations of its account, in a fixed number of statements whatever its size.

    Runs inside the storing transaction, under `lock_account`, before the rows of the batch are written. Conversations,
    bindings and merges are written here; the rows take their placement when they are stored, and `adopt` follows.
    """
    plan, touched = await _place_in_threads(connection, account_id, messages=messages, now=now)
    parents, adoptions = await _find_parents(connection, messages, touched=touched)
    return Placements(
        placements={
            message.stored_email_id: ThreadPlacement(
                plan.thread_of[message.stored_email_id], parents.get(message.stored_email_id)
            )
            for message in messages
        },
        adoptions=adoptions,
    )


async def adopt(connection: Connection, adoptions: Mapping[UUID, UUID]) -> None:
    """Hang stored replies below the messages of the batch that they answer; those must exist by now."""
    if adoptions:
        children = sorted(adoptions)
        await connection.execute(
            _SQL["adopt"], {"children": children, "parents": [adoptions[child] for child in children]}
        )


async def threads_of(connection: Connection, account_id: str, *, identifiers: Sequence[str]) -> list[UUID]:
    """The conversations that the given identifiers are bound to, each once."""
    hashes = [identifier_hash(one) for one in identifiers]
    cursor = await connection.execute(_SQL["bound_identifiers"], {"account_id": account_id, "hashes": hashes})
    return list({row[1] for row in await cursor.fetchall()})


async def read_thread(connection: Connection, thread_id: UUID, *, folder_ids: Collection[int]) -> Thread:
    """One conversation in reading order, as far as it lies in the given folders. Unknown ids read as empty."""
    row = await (
        await connection.execute(_SQL["survivor"], {"thread_id": thread_id, "max_merges": MAX_MERGES_FOLLOWED})
    ).fetchone()
    resolved: UUID = thread_id if row is None else row[0]
    cursor = await connection.execute(
        _SQL["thread_entries"],
        {"thread_id": resolved, "folder_ids": list(folder_ids), "limit": MAX_THREAD_ENTRIES + 1},
    )
    rows = await cursor.fetchall()
    return Thread(
        thread_id=resolved,
        entries=reading_order((row[0], row[1], row[2]) for row in rows[:MAX_THREAD_ENTRIES]),
        is_truncated=len(rows) > MAX_THREAD_ENTRIES,
    )


async def _place_in_threads(
    connection: Connection, account_id: str, *, messages: Sequence[ThreadInput], now: datetime
) -> tuple[ThreadPlan, set[UUID]]:
    """The plan, written; and the conversations that held mail before, merged ones under both ids."""
    hashes = {identifier_hash(one) for message in messages for one in message.identifiers}
    cursor = await connection.execute(_SQL["bound_identifiers"], {"account_id": account_id, "hashes": list(hashes)})
    bound: dict[str, UUID] = {}
    assembled: dict[UUID, datetime] = {}
    for identifier, thread_id, assembled_at in await cursor.fetchall():
        bound[identifier] = thread_id
        assembled[thread_id] = assembled_at
    current = {m.current_thread_id for m in messages if m.current_thread_id is not None} - set(assembled)
    if current:
        cursor = await connection.execute(_SQL["threads"], {"thread_ids": list(current)})
        assembled.update({row[0]: row[1] for row in await cursor.fetchall()})
    fresh = iter(uuid7s(now, len(messages)))
    plan = plan_threads(messages, bound=bound, assembled=assembled, new_id=lambda: next(fresh))
    if plan.new_threads:
        await connection.execute(
            _SQL["add_threads"], {"account_id": account_id, "now": now, "thread_ids": plan.new_threads}
        )
    if plan.merges:
        merges = {"losers": list(plan.merges), "survivors": list(plan.merges.values())}
        await connection.execute(_SQL["lock_members"], {"losers": merges["losers"]})
        for statement in ("move_members", "move_identifiers", "point_losers"):
            await connection.execute(_SQL[statement], merges)
    if plan.bindings:
        await connection.execute(
            _SQL["bind_identifiers"],
            {
                "account_id": account_id,
                "hashes": list(plan.bindings),
                "thread_ids": list(plan.bindings.values()),
            },
        )
    return plan, set(assembled) - set(plan.merges)


async def _find_parents(
    connection: Connection, messages: Sequence[ThreadInput], *, touched: Collection[UUID]
) -> tuple[dict[UUID, UUID], dict[UUID, UUID]]:
    members: list[StoredMember] = []
    ancestors: dict[UUID, UUID | None] = {}
    if touched:
        cursor = await connection.execute(
            _SQL["members"],
            {
                "thread_ids": list(touched),
                "answered": list({one for message in messages for one in message.in_reply_to}),
                "arrived": list({message.message_id for message in messages if message.message_id is not None}),
            },
        )
        members = [StoredMember(*row) for row in await cursor.fetchall()]
    if members:
        cursor = await connection.execute(_SQL["ancestors"], {"ids": [member.id for member in members]})
        ancestors = {row[0]: row[1] for row in await cursor.fetchall()}
    return plan_parents(messages, members=members, ancestors=ancestors)


def _lock_key(account_id: str) -> int:
    """A lock of its own per account among the 2**63 advisory locks."""
    digest = hashlib.sha256(b"mailkeep.threads\x1f" + account_id.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
