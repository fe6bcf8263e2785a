"""Vectors made from the letters of a text alone: the same text, the same vector, on every machine (FIND-82).

Texts that share words are near one another; that is all. For trials and tests, and only where the settings name it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Final

from mailkeep.providers.model import FailureClass, Purpose, failure

MAX_TEXTS: Final = 256


class DeterministicEmbedder:
    """Each word adds a direction of its own."""

    is_metered: Final = True

    def __init__(self, alias: str, dimension: int) -> None:
        self.alias: Final = alias
        self._dimension = dimension

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        """At most MAX_TEXTS vectors of length 1."""
        del purpose
        if len(texts) > MAX_TEXTS:
            raise failure(FailureClass.REQUEST_REFUSED, self.alias, detail=f"more than {MAX_TEXTS} texts")
        return [self._vector(text) for text in texts]

    async def close(self) -> None:
        """There is nothing to close."""

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self._dimension
        for word in text.casefold().split() or [""]:
            digest = hashlib.sha256(word.encode()).digest()
            for at in range(0, 32, 8):
                place = int.from_bytes(digest[at : at + 4], "big") % self._dimension
                vector[place] += 1.0 if digest[at + 4] & 1 else -1.0
        length = math.sqrt(math.fsum(number * number for number in vector))
        if not length:
            vector[0] = length = 1.0
        return [number / length for number in vector]
