"""Vectors of passages: the model that is declared, the generation that is read, the one being built, and their cost.

`Embeddings` is what a process holds of it; `EmbeddingStage` makes vectors, switches generations and removes old ones.
"""

from mailkeep.embeddings.identity import ProfileIdentity
from mailkeep.embeddings.index import is_walkable, vector_literal
from mailkeep.embeddings.lifecycle import Estimate, Forecast, Outcome, Prospect
from mailkeep.embeddings.meaning import Meaning, SemanticState
from mailkeep.embeddings.metrics import render_metrics
from mailkeep.embeddings.profiles import Lifecycle, Profile, Registration
from mailkeep.embeddings.report import Coverage, EmbeddingReport, forecast_json, report_json
from mailkeep.embeddings.runtime import Embeddings
from mailkeep.embeddings.spend import SpendState
from mailkeep.embeddings.stage import EmbeddingStage

__all__ = [
    "Coverage",
    "EmbeddingReport",
    "EmbeddingStage",
    "Embeddings",
    "Estimate",
    "Forecast",
    "Lifecycle",
    "Meaning",
    "Outcome",
    "Profile",
    "ProfileIdentity",
    "Prospect",
    "Registration",
    "SemanticState",
    "SpendState",
    "forecast_json",
    "is_walkable",
    "render_metrics",
    "report_json",
    "vector_literal",
]
