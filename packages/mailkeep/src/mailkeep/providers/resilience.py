"""The one layer of retries around an endpoint (ASK-72): its pipeline, with failures as endpoints have them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mailkeep.config import PipelineClass, PipelineSettings, ResilienceSettings
from mailkeep.errors import EmbeddingProviderFailed, PipelineRejected
from mailkeep.providers.model import FailureClass, failure
from mailkeep.resilience import Conduct, Pipeline

T = TypeVar("T")

KIND = PipelineClass.AI_PROVIDER_INVOCATION


class Guard:
    """What stands between a caller and one endpoint; one instance for each alias."""

    def __init__(self, alias: str, settings: PipelineSettings | None = None) -> None:
        self._alias = alias
        conduct = Conduct(
            is_transient=lambda error: isinstance(error, EmbeddingProviderFailed) and error.retryable,
            too_late=lambda: failure(FailureClass.REQUEST_TIMED_OUT, alias, may_be_billed=True),
        )
        self._pipeline = Pipeline(KIND, alias, settings or ResilienceSettings().of(KIND), conduct)

    async def call(self, attempt: Callable[[], Awaitable[T]], *, attempts: int | None = None) -> T:
        """Call until it succeeds, fails for good, or fails as often as allowed, `attempts` times at most.

        What the pipeline rejects is TransportFaulted. Once an attempt may be billed, the failure says so.
        """
        billed = False

        async def noting() -> T:
            nonlocal billed
            try:
                return await attempt()
            except EmbeddingProviderFailed as error:
                billed = error.may_be_billed = billed or error.may_be_billed
                raise

        try:
            return await self._pipeline.run(noting, attempts=attempts)
        except PipelineRejected as error:
            raise failure(
                FailureClass.TRANSPORT_FAULTED, self._alias, detail=error.message, may_be_billed=billed
            ) from None
