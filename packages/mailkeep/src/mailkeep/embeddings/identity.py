"""What makes two vectors comparable: the identity of a vector space and its fingerprint (FIND-61, FIND-62). Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Final

from mailkeep.config import DistanceMetric, EmbeddingEndpointSettings
from mailkeep.providers import LOCAL_DIMENSION, LOCAL_MODEL, LOCAL_PROVIDER

LOCAL_INPUT_CHARACTER_LIMIT: Final = 8000


@dataclass(frozen=True, slots=True)
class ProfileIdentity:
    """A vector space. Addresses, keys, rates and ceilings are no part of it, nor are the rules of cutting."""

    provider: str
    model_identifier: str
    model_version: str | None
    dimension: int
    distance_metric: DistanceMetric
    input_character_limit: int
    passage_instruction: str | None
    normalizes_vector: bool

    @property
    def fingerprint(self) -> str:
        """Lower-case hex SHA-256 over all fields in order: length-prefixed, big-endian, optionals with a marker."""
        digest = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("model_version", "passage_instruction"):
                digest.update(b"\x00" if value is None else b"\x01")
                value = "" if value is None else value
            octets = (str(int(value)) if isinstance(value, bool) else str(value)).encode()
            digest.update(len(octets).to_bytes(8, "big"))
            digest.update(octets)
        return digest.hexdigest()


def declared_identity(endpoint: EmbeddingEndpointSettings) -> ProfileIdentity:
    """The space that an endpoint's settings declare."""
    return ProfileIdentity(
        provider=endpoint.provider,
        model_identifier=endpoint.model,
        model_version=endpoint.model_version,
        dimension=endpoint.dimension,
        distance_metric=endpoint.distance_metric,
        input_character_limit=endpoint.input_character_limit,
        passage_instruction=endpoint.passage_instruction,
        normalizes_vector=endpoint.normalize_vectors,
    )


def local_identity(version: str) -> ProfileIdentity:
    """The space of the built-in model; the library writes the model's own instructions before each text."""
    return ProfileIdentity(
        provider=LOCAL_PROVIDER,
        model_identifier=LOCAL_MODEL,
        model_version=version,
        dimension=LOCAL_DIMENSION,
        distance_metric=DistanceMetric.COSINE,
        input_character_limit=LOCAL_INPUT_CHARACTER_LIMIT,
        passage_instruction=None,
        normalizes_vector=True,
    )


def prepared(text: str, *, instruction: str | None, limit: int) -> str:
    """What is sent of a text: the instruction and the text, cut to the limit from the start (FIND-79)."""
    return f"{instruction or ''}{text}"[:limit]
