"""Matches of one message in several folders, or of one conversation, shown as one (docs/spec/search.md Beyond 7)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mailkeep.search.model import Grouping, Summary

GROUPED_DEPTH: Final = 4
"""So many times the wanted matches are looked at when they are grouped."""


@dataclass(frozen=True, slots=True)
class Group:
    """The best message of a group with its rank, and the others in the order of theirs."""

    summary: Summary
    rank: float
    others: tuple[UUID, ...]


def grouped(ranked: Sequence[tuple[Summary, float]], grouping: Grouping) -> list[Group]:
    """The groups in the order of their best members."""
    members: dict[Hashable, list[tuple[Summary, float]]] = {}
    for summary, rank in ranked:
        members.setdefault(_key(summary, grouping), []).append((summary, rank))
    return [
        Group(best, rank, tuple(other.stored_email_id for other, _ in others))
        for (best, rank), *others in members.values()
    ]


def _key(summary: Summary, grouping: Grouping) -> Hashable:
    """A Message-ID alone proves nothing: copies also agree in author, subject and time."""
    if grouping is Grouping.CONVERSATIONS and summary.thread_id is not None:
        return summary.thread_id
    if grouping is Grouping.COPIES and summary.internet_message_id is not None:
        return (summary.internet_message_id, summary.sender_address, summary.subject, summary.sent_at)
    return summary.stored_email_id
