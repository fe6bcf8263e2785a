"""More like this, by words: the terms that make a message what it is, joined by OR (docs/spec/search.md Beyond 9).

Significant is what stands often in the message and seldom in the mail; how seldom is read from the sample of one
message in 128. Numbers, parts of links and words of fewer than three letters say nothing about what a message is about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from mailkeep.db import Connection
from mailkeep.search import queries
from mailkeep.search.queries import TermCount
from mailkeep.terms import AnyOf, QueryNode, Sign

MAX_TERMS: Final = 12
MAX_CANDIDATES: Final = 64
_SUBJECT_FACTOR: Final = 3.0


async def resembling(connection: Connection, message: UUID) -> QueryNode | None:
    """What mail like that message holds; None for a message without words."""
    terms = await queries.read_terms(connection, message, at_most=MAX_CANDIDATES)
    sampled = await queries.count_sample(connection)
    chosen = significant(terms, sampled=sampled)
    return AnyOf(tuple(Sign(term) for term in chosen)) if chosen else None


def significant(terms: Sequence[TermCount], *, sampled: int) -> list[str]:
    """The heaviest terms first, at most MAX_TERMS; `sampled` is the number of messages in the sample."""
    return [term.term for term in sorted(terms, key=lambda term: (-_weight(term, sampled), term.term))[:MAX_TERMS]]


def _weight(term: TermCount, sampled: int) -> float:
    frequency = 1 + math.log(max(term.occurrences, 1))
    rarity = math.log((sampled + 1.5) / (term.sampled_messages + 0.5))
    return frequency * rarity * (_SUBJECT_FACTOR if term.is_in_subject else 1.0)
