"""One endpoint that speaks OpenAI's wire protocol: `POST <address>/embeddings`, bounded in time and size.

Redirects are refused, since they would carry the key elsewhere (ASK-70); error bodies are never read, since they quote
the request (ASK-71). The key is read anew for every call, so that a rotated file takes effect at once (ASK-68).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mailkeep.config import FIRST_PARTY_ADDRESS, EmbeddingEndpointSettings, EmbeddingsSettings, resolve_secret
from mailkeep.errors import EmbeddingProviderFailed, SecretUnavailable
from mailkeep.providers.model import FailureClass, Purpose, failure
from mailkeep.providers.resilience import Guard

if TYPE_CHECKING:
    import httpx

CLIENT_GRACE_SECONDS: Final = 30.0
"""Our own deadline fires before the library's."""
BYTES_PER_NUMBER: Final = 32
"""A number in JSON takes up to 24 characters, its separators two or, indented, more."""
ENVELOPE_BYTES: Final = 8192

# The library notes every address it asks; those can name a tenant.
logging.getLogger("httpx").setLevel(logging.WARNING)


class EndpointEmbedder:
    """An endpoint of the chain; see `mailkeep.providers.model.Embedder`."""

    is_metered: Final = True

    def __init__(
        self,
        endpoint: EmbeddingEndpointSettings,
        settings: EmbeddingsSettings,
        home: Path,
        *,
        guard: Guard | None = None,
    ) -> None:
        self.alias: Final = endpoint.alias
        self._endpoint = endpoint
        self._seconds = settings.request_timeout.total_seconds()
        self._home = home
        self._guard = guard if guard is not None else Guard(endpoint.alias)
        self._client: httpx.AsyncClient | None = None

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        """Ask, a query once and passages up to three times: a person does not wait for a back-off."""
        if purpose is Purpose.QUERY:
            return await self._guard.call(lambda: self._attempt(texts, purpose), attempts=1)
        return await self._guard.call(lambda: self._attempt(texts, purpose))

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _attempt(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        import httpx  # slow to load, and most commands never need it

        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "mailkeep"}
        headers |= await self._authorization()
        ceiling = len(texts) * self._endpoint.dimension * BYTES_PER_NUMBER + ENVELOPE_BYTES
        address = (self._endpoint.address or FIRST_PARTY_ADDRESS).rstrip("/") + "/embeddings"
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._opened(httpx).stream(
                    "POST", address, json=self._body(texts, purpose), headers=headers
                ) as response,
            ):
                if response.status_code != 200:
                    raise failure(classified(response.status_code), self.alias, detail=str(response.status_code))
                return read_answer(await self._bounded(response, ceiling), self.alias)
        except TimeoutError:
            raise failure(FailureClass.REQUEST_TIMED_OUT, self.alias, may_be_billed=True) from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise failure(FailureClass.TRANSPORT_FAULTED, self.alias, detail=type(error).__name__) from None
        except httpx.TimeoutException:
            raise failure(FailureClass.REQUEST_TIMED_OUT, self.alias, may_be_billed=True) from None
        except (httpx.HTTPError, OSError) as error:
            # The library's text can hold the address. What broke off after the request was sent may have been answered.
            raise failure(
                FailureClass.TRANSPORT_FAULTED, self.alias, detail=type(error).__name__, may_be_billed=True
            ) from None

    def _body(self, texts: Sequence[str], purpose: Purpose) -> dict[str, object]:
        name = self._endpoint.routed_model_name or self._endpoint.model
        if purpose is Purpose.QUERY and self._endpoint.routed_query_model_name is not None:
            name = self._endpoint.routed_query_model_name
        body: dict[str, object] = {"model": name, "input": list(texts), "encoding_format": "float"}
        if self._endpoint.supports_requested_dimension:
            body["dimensions"] = self._endpoint.dimension
        return body

    async def _authorization(self) -> dict[str, str]:
        if self._endpoint.api_key is None:
            return {}
        try:
            key = await asyncio.to_thread(resolve_secret, self._endpoint.api_key, self._home)
        except SecretUnavailable:
            raise failure(FailureClass.CREDENTIAL_REJECTED, self.alias, detail="the key cannot be read") from None
        text = key.get_secret_value()
        if not (text.isascii() and text.isprintable()):
            raise failure(FailureClass.CREDENTIAL_REJECTED, self.alias, detail="the key is not one line of ASCII")
        return {"Authorization": f"Bearer {text}"}

    def _opened(self, library: Any) -> httpx.AsyncClient:
        if self._client is None:
            self._client = library.AsyncClient(
                follow_redirects=False, trust_env=False, timeout=self._seconds + CLIENT_GRACE_SECONDS
            )
        assert self._client is not None
        return self._client

    async def _bounded(self, response: httpx.Response, ceiling: int) -> bytes:
        """The answer's octets, at most `ceiling` (FIND-81) and not compressed: what is counted is what is held."""
        if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise failure(FailureClass.VECTOR_SHAPE_UNEXPECTED, self.alias, detail="compressed", may_be_billed=True)
        octets = bytearray()
        async for chunk in response.aiter_raw():
            octets += chunk
            if len(octets) > ceiling:
                raise failure(FailureClass.VECTOR_SHAPE_UNEXPECTED, self.alias, detail="too long", may_be_billed=True)
        return bytes(octets)


def classified(status: int) -> FailureClass:
    """The class of an answer that is not 200 (ASK-70 to ASK-72)."""
    if status in (401, 403):
        return FailureClass.CREDENTIAL_REJECTED
    if status == 429:
        return FailureClass.RATE_LIMITED
    if status in (408, 504):
        return FailureClass.REQUEST_TIMED_OUT
    return FailureClass.TRANSPORT_FAULTED if status >= 500 else FailureClass.REQUEST_REFUSED


def read_answer(octets: bytes, alias: str) -> list[list[float]]:
    """The vectors of an answer, by their index. Raises EmbeddingProviderFailed, class VectorShapeUnexpected."""
    try:
        entries = json.loads(octets)["data"]
        ordered = sorted(entries, key=lambda entry: int(entry["index"]))
        if [entry["index"] for entry in ordered] != list(range(len(ordered))):
            raise _unusable(alias)
        return [_numbers(entry["embedding"]) for entry in ordered]
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError, struct.error):
        raise _unusable(alias) from None


def _unusable(alias: str) -> EmbeddingProviderFailed:
    return failure(FailureClass.VECTOR_SHAPE_UNEXPECTED, alias, detail="not an embeddings answer", may_be_billed=True)


def _numbers(given: object) -> list[float]:
    """A list of numbers, or base64 of little-endian floats, which some services answer whatever is asked for."""
    if isinstance(given, str):
        try:
            octets = base64.b64decode(given, validate=True)
        except binascii.Error:
            raise ValueError("no base64") from None
        return list(struct.unpack(f"<{len(octets) // 4}f", octets))
    if not isinstance(given, list) or any(
        isinstance(number, bool) or not isinstance(number, int | float) for number in given
    ):
        raise ValueError("no numbers")
    return [float(number) for number in given]
