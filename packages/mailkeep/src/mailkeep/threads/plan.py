"""Which conversation each message of a batch belongs to, and whom it answers: decided on values, without I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from mailkeep.threads.model import MAX_ANCESTORS_WALKED, ThreadInput


@dataclass(frozen=True, slots=True)
class ThreadPlan:
    """`thread_of` by stored email id; `bindings` are identifier hashes to add; `merges` lead losers to survivors."""

    thread_of: dict[UUID, UUID] = field(default_factory=dict)
    new_threads: list[UUID] = field(default_factory=list)
    bindings: dict[str, UUID] = field(default_factory=dict)
    merges: dict[UUID, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A stored message of a conversation that the batch touches."""

    id: UUID
    message_id: str | None
    in_reply_to: str | None
    parent_id: UUID | None


def identifier_hash(identifier: str) -> str:
    """Lower-hex SHA-256 of the identifier as it stands: any length fits an index entry (SYNC-114, case 184)."""
    return hashlib.sha256(identifier.encode()).hexdigest()


def plan_threads(
    messages: Sequence[ThreadInput],
    *,
    bound: Mapping[str, UUID],
    assembled: Mapping[UUID, datetime],
    new_id: Callable[[], UUID],
) -> ThreadPlan:
    """Join messages that share an identifier with each other or with a known conversation.

    `bound` leads the hashes of known identifiers to their conversations, `assembled` those to their first moment. Of
    several conversations that meet, the earliest assembled, then the lowest id, survives (SYNC-115).
    """
    leader: dict[object, object] = {}

    def find(node: object) -> object:
        leader.setdefault(node, node)
        while (above := leader[node]) != node:
            leader[node] = node = leader[above]
        return node

    hashes: dict[UUID, list[str]] = {}
    for message in messages:
        hashes[message.stored_email_id] = named = [identifier_hash(one) for one in message.identifiers]
        neighbours: list[object] = [*named, *(bound[one] for one in named if one in bound)]
        if message.current_thread_id is not None:
            neighbours.append(message.current_thread_id)
        for neighbour in neighbours:
            leader[find(neighbour)] = find(message.stored_email_id)

    met: dict[object, list[UUID]] = {}
    for thread_id in assembled:
        if thread_id in leader:
            met.setdefault(find(thread_id), []).append(thread_id)

    plan = ThreadPlan()
    chosen: dict[object, UUID] = {}
    for group, thread_ids in met.items():
        survivor, *losers = sorted(thread_ids, key=lambda thread_id: (assembled[thread_id], thread_id))
        chosen[group] = survivor
        plan.merges.update(dict.fromkeys(losers, survivor))
    for message in messages:
        group = find(message.stored_email_id)
        if group not in chosen:
            chosen[group] = new_id()
            plan.new_threads.append(chosen[group])
        plan.thread_of[message.stored_email_id] = chosen[group]
        for one in hashes[message.stored_email_id]:
            if one not in bound:
                plan.bindings[one] = chosen[group]
    return plan


def plan_parents(
    messages: Sequence[ThreadInput], *, members: Iterable[StoredMember], ancestors: Mapping[UUID, UUID | None]
) -> tuple[dict[UUID, UUID], dict[UUID, UUID]]:
    """Who answers whom: the edges of the batch, and those of stored replies whose parent is in the batch.

    The parent is the message that In-Reply-To names, lowest id first (SYNC-116). `members` are the stored messages that
    may be one or the other, `ancestors` the stored parents of everything above them. An edge that would close a
    cycle or stand more than 1000 levels deep is left out (case 139).
    """
    batch = {message.stored_email_id for message in messages}
    stored = [member for member in members if member.id not in batch]
    by_message_id: dict[str, UUID] = {}
    identified = [(m.stored_email_id, m.message_id) for m in messages] + [(m.id, m.message_id) for m in stored]
    for stored_email_id, message_id in sorted(identified, key=lambda pair: pair[0]):
        if message_id is not None:
            by_message_id.setdefault(message_id, stored_email_id)

    # Edges that stored messages of the batch have already count as well: reading mail again never turns one round.
    parent_of: dict[UUID, UUID | None] = dict(ancestors)
    edges: dict[UUID, UUID] = {}
    for message in messages:
        parent = next((by_message_id[one] for one in message.in_reply_to if one in by_message_id), None)
        if parent is not None and _is_free(message.stored_email_id, parent, parent_of):
            parent_of[message.stored_email_id] = edges[message.stored_email_id] = parent
    adoptions: dict[UUID, UUID] = {}
    for member in sorted(stored, key=lambda member: member.id):
        if member.parent_id is not None or member.in_reply_to is None:
            continue
        parent = by_message_id.get(member.in_reply_to)
        if parent in batch and parent is not None and _is_free(member.id, parent, parent_of):
            parent_of[member.id] = adoptions[member.id] = parent
    return edges, adoptions


def _is_free(child: UUID, parent: UUID, parent_of: Mapping[UUID, UUID | None]) -> bool:
    """Whether the walk up from `parent` ends within 1000 steps and does not meet `child`."""
    node: UUID | None = parent
    for _ in range(MAX_ANCESTORS_WALKED):
        if node is None:
            return True
        if node == child:
            return False
        node = parent_of.get(node)
    return node is None
