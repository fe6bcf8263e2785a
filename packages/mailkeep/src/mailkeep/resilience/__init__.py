"""Patience with others: pipelines of limit, total timeout, retry, circuit breaker and attempt timeout (SYNC-34).

`Pipelines` holds one pipeline for each class of calls and each counterpart, for the whole process.
"""

from mailkeep.resilience.breaker import Breaker, BreakerState
from mailkeep.resilience.pipeline import Conduct, Pipeline
from mailkeep.resilience.pipelines import Pipelines

__all__ = ["Breaker", "BreakerState", "Conduct", "Pipeline", "Pipelines"]
