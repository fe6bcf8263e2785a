"""Who answers whom: parents by References linking (RFC 5256 §3, step 1), and the cutting of cycles. Pure.

A message's candidates are its In-Reply-To, then its References from the newest to the oldest; the first that a message
of the same conversation carries is its parent. Nothing is invented for a missing one, and subjects decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Node:
    """A message as far as its place in a conversation goes. `candidates` are msg-ids, nearest first, each once."""

    id: str
    message_id: str | None
    candidates: tuple[str, ...]
    created_at: datetime

    @property
    def age(self) -> tuple[datetime, str]:
        """The order in which carriers of one msg-id, and members of a cycle, are told apart."""
        return self.created_at, self.id


def candidates_of(in_reply_to: str | None, references: Iterable[str]) -> tuple[str, ...]:
    """The msg-ids a message may answer, nearest first."""
    nearest = [in_reply_to] if in_reply_to else []
    return tuple(dict.fromkeys([*nearest, *reversed(list(references))]))


@dataclass(slots=True)
class Carriers:
    """What is known about msg-ids so far: the oldest carrier of each, `None` where there is none."""

    known: dict[str, Node | None]

    def parent(self, node: Node) -> Node | None:
        """The parent of a node; `None` too while a nearer candidate has not been looked up (INBOX-74)."""
        for candidate in node.candidates:
            if candidate not in self.known:
                return None
            carrier = self.known[candidate]
            if carrier is not None and carrier.id != node.id:
                return carrier
        return None

    def unknown(self, node: Node, *, most: int) -> list[str]:
        """The msg-ids to look up before the parent of this node is decided, nearest first; none when it is."""
        wanted: list[str] = []
        for candidate in node.candidates:
            if candidate not in self.known:
                wanted.append(candidate)
            elif (carrier := self.known[candidate]) is not None and carrier.id != node.id:
                break
            if len(wanted) == most:
                break
        return wanted


def parent_ids(nodes: Mapping[str, Node], carriers: Carriers) -> dict[str, str | None]:
    """The parent of each node by row id, with every cycle cut at its youngest member (INBOX-73)."""
    parents = {row_id: carriers.parent(node) for row_id, node in nodes.items()}
    links: dict[str, str | None] = {row_id: parent.id if parent else None for row_id, parent in parents.items()}
    settled: set[str] = set()
    for start in links:
        path: dict[str, None] = {}
        step: str | None = start
        while step is not None and step in links and step not in settled and step not in path:
            path[step] = None
            step = links[step]
        if step is not None and step in path:
            members = list(path)[list(path).index(step) :]
            youngest = max(members, key=lambda row_id: nodes[row_id].age)
            links[youngest] = None
        settled |= path.keys()
    return links
