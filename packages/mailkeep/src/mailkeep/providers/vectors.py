"""Judging what a provider answered: as many vectors as texts, of the declared width, finite (FIND-80). Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from mailkeep.providers.model import FailureClass, Vector, failure

_SMALLEST_LENGTH: Final = 1e-12


def usable_vectors(
    found: Sequence[Sequence[float]], *, count: int, dimension: int, allow_trim: bool, normalize: bool, alias: str
) -> list[Vector]:
    """The vectors to store: trimmed to `dimension` where that is allowed, of length 1 where the profile says so.

    A trimmed vector is always scaled, since what was cut off took its share of the length. Raises
    EmbeddingProviderFailed of class VectorShapeUnexpected; its text holds no number of a vector.
    """
    if len(found) != count:
        raise failure(FailureClass.VECTOR_SHAPE_UNEXPECTED, alias, detail="another count than asked for")
    widths = {len(vector) for vector in found}
    if len(widths) > 1:
        raise failure(FailureClass.VECTOR_SHAPE_UNEXPECTED, alias, detail="mixed widths")
    width = widths.pop() if widths else dimension
    if width < dimension:
        raise failure(FailureClass.VECTOR_SHAPE_UNEXPECTED, alias, detail="narrower than declared")
    if width > dimension and not allow_trim:
        raise failure(FailureClass.VECTOR_SHAPE_UNEXPECTED, alias, detail="wider than declared")
    return [_usable(vector[:dimension], is_scaled=normalize or width > dimension, alias=alias) for vector in found]


def _usable(vector: Sequence[float], *, is_scaled: bool, alias: str) -> Vector:
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in vector):
        raise failure(FailureClass.VECTOR_SHAPE_UNEXPECTED, alias, detail="not finite")
    if not is_scaled:
        return tuple(float(number) for number in vector)
    length = math.sqrt(math.fsum(number * number for number in vector))
    if not math.isfinite(length) or length < _SMALLEST_LENGTH:
        raise failure(FailureClass.VECTOR_SHAPE_UNEXPECTED, alias, detail="without direction")
    return tuple(number / length for number in vector)
