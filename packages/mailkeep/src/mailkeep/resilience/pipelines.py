"""All pipelines of a process, one for each class and counterpart: a breaker shared by two servers describes neither."""

from __future__ import annotations

from mailkeep.config.resilience import PipelineClass, ResilienceSettings
from mailkeep.resilience.breaker import BreakerState
from mailkeep.resilience.pipeline import Conduct, Pipeline


class Pipelines:
    """Made once per process."""

    def __init__(self, settings: ResilienceSettings) -> None:
        self.settings = settings
        self._pipelines: dict[tuple[PipelineClass, str], Pipeline] = {}

    def of(self, kind: PipelineClass, instance: str, conduct: Conduct) -> Pipeline:
        """The pipeline of a counterpart, named by `instance`; its conduct is the one it was first asked with."""
        found = self._pipelines.get((kind, instance))
        if found is None:
            found = self._pipelines[kind, instance] = Pipeline(kind, instance, self.settings.of(kind), conduct)
        return found

    def breakers(self, instance: str) -> dict[PipelineClass, BreakerState]:
        """The breakers of a counterpart that was called in this process."""
        return {kind: pipeline.breaker for (kind, name), pipeline in self._pipelines.items() if name == instance}
