"""What is asked of an embedder, and the closed set of ways in which it fails (docs/spec/answering.md section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

from mailkeep.errors import EmbeddingProviderFailed

Vector = tuple[float, ...]


class Purpose(StrEnum):
    """What a text is: models that tell the two apart are told."""

    PASSAGE = "passage"
    QUERY = "query"


class FailureClass(StrEnum):
    """Why a call gave nothing usable."""

    CREDENTIAL_REJECTED = "CredentialRejected"
    RATE_LIMITED = "RateLimited"
    REQUEST_TIMED_OUT = "RequestTimedOut"
    TRANSPORT_FAULTED = "TransportFaulted"
    REQUEST_REFUSED = "RequestRefused"
    VECTOR_SHAPE_UNEXPECTED = "VectorShapeUnexpected"


RETRYABLE: Final = frozenset(
    {FailureClass.RATE_LIMITED, FailureClass.REQUEST_TIMED_OUT, FailureClass.TRANSPORT_FAULTED}
)


def failure(
    failure_class: FailureClass, alias: str, *, may_be_billed: bool = False, detail: str = ""
) -> EmbeddingProviderFailed:
    """The error of a class; it names the endpoint by its alias only (ASK-65).

    `may_be_billed` says that the request may have been answered, so that its characters count as spent.
    """
    suffix = f" ({detail})" if detail else ""
    return EmbeddingProviderFailed(
        f"endpoint {alias}: {failure_class.value}{suffix}",
        failure_class=failure_class.value,
        retryable=failure_class in RETRYABLE,
        may_be_billed=may_be_billed or failure_class is FailureClass.VECTOR_SHAPE_UNEXPECTED,
    )


class Embedder(Protocol):
    """Makes one vector of each text, in their order."""

    @property
    def alias(self) -> str:
        """Its name in logs and metrics."""
        ...

    @property
    def is_metered(self) -> bool:
        """Whether a call costs something: what it embeds counts against the ceiling."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        """The vectors as they came; their shape is judged by the chain. Raises EmbeddingProviderFailed."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
