"""Whoever turns text into vectors: endpoints that speak OpenAI's wire protocol, and the built-in model.

An `Embedder` answers one call, `EmbeddingChain` asks several in order until one answers. No mail text, address or key
enters an error or a log.
"""

from mailkeep.providers.chain import EmbeddingChain, Health, ProviderState
from mailkeep.providers.deterministic import DeterministicEmbedder
from mailkeep.providers.endpoint import EndpointEmbedder
from mailkeep.providers.local import LOCAL_DIMENSION, LOCAL_MODEL, LOCAL_PROVIDER, LocalEmbedder, local_version
from mailkeep.providers.model import Embedder, FailureClass, Purpose, Vector, failure
from mailkeep.providers.pacing import Pacer
from mailkeep.providers.resilience import Guard
from mailkeep.providers.vectors import usable_vectors

__all__ = [
    "LOCAL_DIMENSION",
    "LOCAL_MODEL",
    "LOCAL_PROVIDER",
    "DeterministicEmbedder",
    "Embedder",
    "EmbeddingChain",
    "EndpointEmbedder",
    "FailureClass",
    "Guard",
    "Health",
    "LocalEmbedder",
    "Pacer",
    "ProviderState",
    "Purpose",
    "Vector",
    "failure",
    "local_version",
    "usable_vectors",
]
