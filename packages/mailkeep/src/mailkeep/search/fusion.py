"""Reciprocal Rank Fusion of two rankings (FIND-48). Pure: places are all that counts, since scores share no scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

K: Final = 60
DEPTH: Final = 4
"""Each ranking is asked for so many times the window."""


def fuse(*rankings: Iterable[UUID]) -> dict[UUID, float]:
    """The score of each message of any ranking: the sum of 1 / (60 + place), places from 1, the best if repeated."""
    scores: dict[UUID, float] = {}
    for ranking in rankings:
        for place, one in enumerate(dict.fromkeys(ranking), start=1):
            scores[one] = scores.get(one, 0.0) + 1 / (K + place)
    return scores


def in_order(scores: Mapping[UUID, float], timeline: Iterable[UUID]) -> tuple[tuple[UUID, float], ...]:
    """Best score first, ties in the order of `timeline`, which names every message once."""
    return tuple(sorted(((one, scores[one]) for one in timeline if one in scores), key=lambda pair: -pair[1]))
