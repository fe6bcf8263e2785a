"""Sections `embeddings` and `embedding_backfill`: which model gives passages their vectors, and what that may cost.

The endpoints are an ordered chain into one vector space (FIND-77). Without any, the built-in model is the declared one
where it is installed. Addresses and credentials are no part of a profile's identity, so editing them costs nothing.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Final, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from mailkeep.config.values import Duration, SecretReference, Section, refuse

FIRST_PARTY_ADDRESS: Final = "https://api.openai.com/v1"
MAX_INDEXED_DIMENSION: Final = 2000
"""pgvector builds no HNSW index on wider vectors."""
DETERMINISTIC_PROVIDER: Final = "deterministic"
IDENTITY_KEYS: Final = (
    "provider",
    "model",
    "model_version",
    "dimension",
    "distance_metric",
    "input_character_limit",
    "passage_instruction",
    "normalize_vectors",
)
"""What fixes a vector space; all endpoints of a chain agree in these."""


class EndpointKind(StrEnum):
    """How an endpoint makes vectors."""

    OPENAI_COMPATIBLE = "OpenAICompatible"
    DETERMINISTIC = "Deterministic"


class DistanceMetric(StrEnum):
    """How near two vectors are."""

    COSINE = "Cosine"
    INNER_PRODUCT = "InnerProduct"
    EUCLIDEAN = "EuclideanDistance"


class EmbeddingEndpointSettings(Section):
    """One endpoint of the chain."""

    alias: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Its name.")
    kind: EndpointKind = Field(
        default=EndpointKind.OPENAI_COMPATIBLE,
        description="`OpenAICompatible`, or `Deterministic`: vectors made from letters, without meaning, for trials.",
    )
    provider: str = Field(min_length=1, max_length=64, description="Whose model it is; part of the profile.")
    model: str = Field(min_length=1, max_length=128, description="The model; part of the profile.")
    model_version: str | None = Field(
        default=None, min_length=1, max_length=64, description="Its version; part of the profile."
    )
    routed_model_name: str | None = Field(
        default=None, min_length=1, max_length=128, description="The name that requests carry; `model` when left out."
    )
    routed_query_model_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="The name that requests for a query carry, where a server tells queries and passages apart by it.",
    )
    dimension: int = Field(ge=1, le=16_000, description="Numbers in one vector; part of the profile.")
    distance_metric: DistanceMetric = Field(
        default=DistanceMetric.COSINE,
        description="`Cosine`, `InnerProduct` or `EuclideanDistance`; part of the profile.",
    )
    input_character_limit: int = Field(
        default=8000, ge=1, le=1_000_000, description="Characters of one input; the rest is cut. Part of the profile."
    )
    passage_instruction: str | None = Field(
        default=None, max_length=512, description="Written before each passage; part of the profile."
    )
    query_instruction: str | None = Field(
        default=None, max_length=512, description="Written before a query instead of `passage_instruction`."
    )
    normalize_vectors: bool = Field(default=True, description="Scale vectors to length 1; part of the profile.")
    supports_requested_dimension: bool = Field(
        default=True, description="Whether requests name the dimension; false for services that refuse that."
    )
    address: str | None = Field(
        default=None, max_length=2048, repr=False, description="Base address with its path; OpenAI's when left out."
    )
    api_key: SecretReference | None = Field(default=None, repr=False, description="Where the key is kept.")
    unauthenticated: bool = Field(default=False, description="Send no key. Exactly one of this and `api_key`.")

    @model_validator(mode="after")
    def _usable(self) -> Self:
        defects: list[tuple[str, str]] = []
        for key in ("passage_instruction", "query_instruction"):
            text = getattr(self, key)
            if text is not None and not text.strip():
                defects.append((key, "is blank; leave it out instead"))
        if (self.kind is EndpointKind.DETERMINISTIC) != (self.provider == DETERMINISTIC_PROVIDER):
            defects.append(("provider", f"is {DETERMINISTIC_PROVIDER} for the kind Deterministic, and only for it"))
        if self.kind is EndpointKind.OPENAI_COMPATIBLE:
            defects += self._address_defects()
        elif self.address is not None or self.api_key is not None:
            defects.append(("kind", "calls nobody and takes neither address nor api_key"))
        refuse(defects)
        return self

    def _address_defects(self) -> list[tuple[str, str]]:
        defects: list[tuple[str, str]] = []
        if (self.api_key is None) == (not self.unauthenticated):
            defects.append(("api_key", "exactly one of api_key and unauthenticated = true is needed"))
        if self.address is None:
            return defects
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            defects.append(("address", "should be an absolute http or https address without query"))
        elif parts.username is not None or parts.password is not None:
            defects.append(("address", "holds a credential; use api_key"))
        elif parts.scheme == "http" and self.api_key is not None:
            defects.append(("address", "a key would cross the network readable; use https"))
        return defects


class EmbeddingsSettings(Section):
    """Search by meaning: the model, and what it may cost."""

    use_built_in_model: bool = Field(
        default=True,
        description="Without endpoints, declare the built-in model if `mailkeep[local-embeddings]` is installed.",
    )
    endpoints: tuple[EmbeddingEndpointSettings, ...] = Field(
        default=(), max_length=8, description="An ordered chain: the next one is asked when one fails."
    )
    allow_trim_vectors: bool = Field(
        default=False,
        description="Cut vectors that are wider than declared, and admit widths over 2000 (never indexed).",
    )
    max_passages_per_request: int = Field(default=64, ge=1, le=2048, description="Passages in one request.")
    request_timeout: Duration = Field(
        default=timedelta(minutes=1),
        gt=timedelta(0),
        le=timedelta(hours=1),
        description="Longest time for one request.",
    )
    max_characters_per_email: int = Field(
        default=200_000, ge=1000, le=10_000_000, description="Characters of one message that are cut into passages."
    )
    max_requests_per_minute: int = Field(default=0, ge=0, le=100_000, description="Requests a minute; 0 sets no pace.")
    max_input_characters_per_period: int = Field(
        default=50_000_000, ge=0, description="Ceiling of what a period may cost, in characters; 0 is none."
    )
    spend_period: Duration = Field(
        default=timedelta(days=1),
        ge=timedelta(minutes=1),
        le=timedelta(days=31),
        description="Length of a period, counted from 1970.",
    )

    @model_validator(mode="after")
    def _one_space(self) -> Self:
        defects: list[tuple[str, str]] = []
        aliases: set[str] = set()
        for position, endpoint in enumerate(self.endpoints):
            first = self.endpoints[0]
            if endpoint.alias in aliases:
                defects.append((f"endpoints[{position}].alias", "is used twice"))
            aliases.add(endpoint.alias)
            defects += [
                (f"endpoints[{position}].{key}", f"differs between {first.alias} and {endpoint.alias}")
                for key in IDENTITY_KEYS
                if getattr(endpoint, key) != getattr(first, key)
            ]
            if endpoint.dimension > MAX_INDEXED_DIMENSION and not self.allow_trim_vectors:
                defects.append(
                    (
                        f"endpoints[{position}].dimension",
                        f"over {MAX_INDEXED_DIMENSION} needs allow_trim_vectors = true",
                    )
                )
        refuse(defects)
        return self


class EmbeddingBackfillSettings(Section):
    """How stored mail gets its vectors in the background."""

    enabled: bool = Field(default=True, description="Whether passages get vectors by themselves.")
    interval: Duration = Field(
        default=timedelta(seconds=30),
        ge=timedelta(seconds=1),
        le=timedelta(days=1),
        description="Wait after a transient failure.",
    )
    idle_sweep_interval: Duration = Field(
        default=timedelta(minutes=15),
        ge=timedelta(seconds=1),
        le=timedelta(days=1),
        description="Wait between two walks over all mail, which retry what was refused.",
    )
    batch_size: int = Field(default=20, ge=1, le=500, description="Messages read at once.")
    max_batches_per_run: int = Field(default=5, ge=1, le=1000, description="Batches in one pass.")
