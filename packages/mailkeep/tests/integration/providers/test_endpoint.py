"""Endpoints over real HTTP against a scripted server: classification, bounds, keys, redirects, the chain."""

from __future__ import annotations

import base64
import json
import logging
import struct
from pathlib import Path
from typing import Any

import pytest
from support.embedding import START, answer, hosted, letters, scripted_endpoint, settings_with, status

from mailkeep.config import ResilienceSettings
from mailkeep.errors import EmbeddingProviderFailed
from mailkeep.providers import EmbeddingChain, EndpointEmbedder, Guard, ProviderState, Purpose

pytestmark = pytest.mark.anyio
KEY = "sk-test-1234567890"


QUICK = ResilienceSettings.model_validate({"ai_provider_invocation": {"base_delay": "1ms", "max_delay": "2ms"}})


def embedder(home: Path, port: int, **changes: Any) -> EndpointEmbedder:
    """One endpoint on that port; changes named `settings_...` are of the section."""
    section = {key.removeprefix("settings_"): changes.pop(key) for key in list(changes) if key.startswith("settings_")}
    settings = settings_with(hosted(port, **changes), **section).embeddings
    one = settings.endpoints[0]
    return EndpointEmbedder(one, settings, home, guard=Guard(one.alias, QUICK.ai_provider_invocation))


def chain(*embedders: EndpointEmbedder) -> EmbeddingChain:
    return EmbeddingChain(embedders, dimension=4, normalize=True, allow_trim=False, now=lambda: START)


@pytest.mark.spec("ASK-70", "ASK-71", "ASK-72")
@pytest.mark.parametrize(
    ("code", "failure_class", "calls"),
    [
        (401, "CredentialRejected", 1),
        (403, "CredentialRejected", 1),
        (429, "RateLimited", 3),
        (408, "RequestTimedOut", 3),
        (504, "RequestTimedOut", 3),
        (500, "TransportFaulted", 3),
        (503, "TransportFaulted", 3),
        (302, "RequestRefused", 1),
        (400, "RequestRefused", 1),
        (422, "RequestRefused", 1),
    ],
)
async def test_each_status_has_its_class_and_only_some_are_tried_again(
    tmp_path: Path, code: int, failure_class: str, calls: int
) -> None:
    """Retryable classes are tried three times, the others once; the body of a refusal is not told."""
    async with scripted_endpoint() as server:
        server.script = status(code, Location="http://127.0.0.1:1/elsewhere")
        one = embedder(tmp_path, server.port)
        with pytest.raises(EmbeddingProviderFailed) as raised:
            await one.embed(["a"], Purpose.PASSAGE)
        await one.close()
    assert (raised.value.failure_class, len(server.requests)) == (failure_class, calls)
    assert not raised.value.may_be_billed
    assert "SECRET" not in str(raised.value)
    assert str(server.port) not in str(raised.value)


@pytest.mark.spec("ASK-72", "FIND-51")
async def test_a_query_is_tried_once(tmp_path: Path) -> None:
    """A person does not wait for back-offs."""
    async with scripted_endpoint() as server:
        server.script = status(503)
        one = embedder(tmp_path, server.port)
        with pytest.raises(EmbeddingProviderFailed):
            await one.embed(["a"], Purpose.QUERY)
        await one.close()
    assert len(server.requests) == 1


@pytest.mark.spec("ASK-67", "ASK-68", "ASK-70")
async def test_the_key_is_read_for_each_call_and_never_follows_a_redirect(tmp_path: Path) -> None:
    """A rotated file takes effect on the next call; `unauthenticated` sends no header; a redirect gets no second call."""
    (tmp_path / "key").write_text(KEY)
    async with scripted_endpoint() as server, scripted_endpoint() as elsewhere:
        settings = settings_with(hosted(server.port)).embeddings
        keyed = settings.endpoints[0].model_copy(update={"api_key": "file:key", "unauthenticated": False})
        one = EndpointEmbedder(keyed, settings, tmp_path)
        await one.embed(["a"], Purpose.PASSAGE)
        (tmp_path / "key").write_text("another")
        await one.embed(["a"], Purpose.PASSAGE)
        server.script = status(307, Location=f"http://127.0.0.1:{elsewhere.port}/v1/embeddings")
        with pytest.raises(EmbeddingProviderFailed):
            await one.embed(["a"], Purpose.PASSAGE)
        server.script = answer
        open_one = embedder(tmp_path, server.port)
        await open_one.embed(["a"], Purpose.PASSAGE)
        await one.close()
        await open_one.close()
    sent = [headers.get("authorization") for headers, _ in server.requests]
    assert sent == [f"Bearer {KEY}", "Bearer another", "Bearer another", None]
    assert elsewhere.requests == []


@pytest.mark.spec("ASK-68")
async def test_a_key_that_cannot_be_read_is_a_rejected_credential(tmp_path: Path) -> None:
    """Nothing is sent without the key that was asked for."""
    async with scripted_endpoint() as server:
        settings = settings_with(hosted(server.port)).embeddings
        keyed = settings.endpoints[0].model_copy(update={"api_key": "file:gone", "unauthenticated": False})
        one = EndpointEmbedder(keyed, settings, tmp_path)
        with pytest.raises(EmbeddingProviderFailed) as raised:
            await one.embed(["a"], Purpose.PASSAGE)
        await one.close()
    assert raised.value.failure_class == "CredentialRejected"
    assert server.requests == []


@pytest.mark.spec("FIND-81")
async def test_an_answer_that_is_too_long_is_cut_off(tmp_path: Path) -> None:
    """More than the vectors could take is not read to its end."""
    async with scripted_endpoint() as server:
        server.script = lambda body: (200, b" " * 20_000 + answer(body)[1], {})
        one = embedder(tmp_path, server.port)
        with pytest.raises(EmbeddingProviderFailed, match="too long") as raised:
            await one.embed(["a"], Purpose.PASSAGE)
        await one.close()
    assert raised.value.may_be_billed


@pytest.mark.spec("FIND-80")
@pytest.mark.parametrize(
    "octets",
    [
        b"not json",
        b'{"data": {}}',
        b'{"data": [{"index": 1, "embedding": [1, 2, 3, 4]}]}',
        b'{"data": [{"index": 0, "embedding": ["x", 2, 3, 4]}]}',
        b'{"data": [{"index": 0, "embedding": [1, 2, 3]}]}',
        b'{"data": [{"index": 0, "embedding": [1, 2, 3, 4, 5]}]}',
        b'{"data": [{"index": 0, "embedding": [0, 0, 0, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [NaN, 2, 3, 4]}]}',
        b'{"data": [{"index": 0, "embedding": [1e999, 2, 3, 4]}]}',
        b'{"data": []}',
    ],
)
async def test_unusable_vectors_are_a_class_of_their_own_and_do_not_fall_through(tmp_path: Path, octets: bytes) -> None:
    """Another count, other widths, no numbers, no direction: the second endpoint is not asked."""
    async with scripted_endpoint() as first, scripted_endpoint() as second:
        first.script = lambda body: (200, octets, {})
        both = chain(embedder(tmp_path, first.port, alias="a"), embedder(tmp_path, second.port, alias="b"))
        with pytest.raises(EmbeddingProviderFailed) as raised:
            await both.embed(["a"], Purpose.PASSAGE)
        await both.close()
    assert raised.value.failure_class == "VectorShapeUnexpected"
    assert both.health.state is ProviderState.MISCONFIGURED
    assert second.requests == []


@pytest.mark.spec("FIND-78", "ASK-73")
@pytest.mark.parametrize("code", [401, 429, 503, 400])
async def test_a_failing_endpoint_falls_through_to_the_next(tmp_path: Path, code: int) -> None:
    """The second endpoint serves, and the chain as a whole is healthy."""
    async with scripted_endpoint() as first, scripted_endpoint() as second:
        first.script = status(code)
        both = chain(embedder(tmp_path, first.port, alias="a"), embedder(tmp_path, second.port, alias="b"))
        (vector,) = await both.embed(["aeio"], Purpose.PASSAGE)
        await both.close()
    assert vector == pytest.approx(letters("aeio"))
    assert both.health.state is ProviderState.SERVING


@pytest.mark.spec("ASK-73")
async def test_health_follows_real_calls_and_transitions_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Retryable classes give Unavailable, terminal ones Misconfigured; a first success is no transition."""
    caplog.set_level(logging.INFO, logger="mailkeep.providers.chain")
    async with scripted_endpoint() as server:
        one = chain(embedder(tmp_path, server.port))
        assert one.health.state is ProviderState.UNOBSERVED
        await one.embed(["a"], Purpose.QUERY)
        for code, expected in (
            (503, ProviderState.UNAVAILABLE),
            (503, ProviderState.UNAVAILABLE),
            (401, ProviderState.MISCONFIGURED),
        ):
            server.script = status(code)
            with pytest.raises(EmbeddingProviderFailed):
                await one.embed(["a"], Purpose.QUERY)
            assert one.health.state is expected
        server.script = answer
        await one.embed(["a"], Purpose.QUERY)
        await one.close()
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "WARNING", "INFO"]


@pytest.mark.spec("FIND-80", "FIND-79")
async def test_requests_name_model_dimension_and_instruction(tmp_path: Path) -> None:
    """The routed name, that of queries, and the width travel; a service that refuses `dimensions` is not sent it."""
    async with scripted_endpoint() as server:
        asked = {"routed_model_name": "route", "routed_query_model_name": "route-query"}
        one = embedder(tmp_path, server.port, **asked)
        plain = embedder(tmp_path, server.port, supports_requested_dimension=False)
        await one.embed(["a", "b"], Purpose.PASSAGE)
        await one.embed(["q"], Purpose.QUERY)
        await plain.embed(["a"], Purpose.PASSAGE)
        await one.close()
        await plain.close()
    bodies = [body for _, body in server.requests]
    assert [(body["model"], body["input"], body.get("dimensions")) for body in bodies] == [
        ("route", ["a", "b"], 4),
        ("route-query", ["q"], 4),
        ("letters", ["a"], None),
    ]


async def test_vectors_in_base64_and_out_of_order_are_read(tmp_path: Path) -> None:
    """Some services answer base64 whatever is asked for, and the order is that of `index`."""

    def script(body: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        data = [
            {"index": at, "embedding": base64.b64encode(struct.pack("<4f", 1.0 + at, 0, 0, 0)).decode()}
            for at in (1, 0)
        ]
        return 200, json.dumps({"data": data}).encode(), {}

    async with scripted_endpoint() as server:
        server.script = script
        one = embedder(tmp_path, server.port)
        assert await one.embed(["a", "b"], Purpose.PASSAGE) == [[1.0, 0, 0, 0], [2.0, 0, 0, 0]]
        await one.close()


@pytest.mark.spec("ASK-72")
async def test_a_slow_answer_is_given_up_after_the_timeout_and_may_be_billed(tmp_path: Path) -> None:
    """Our own deadline fires; the request may have been answered."""
    async with scripted_endpoint() as server:
        server.is_silent = True
        one = embedder(tmp_path, server.port, settings_request_timeout="50ms")
        with pytest.raises(EmbeddingProviderFailed) as raised:
            await one.embed(["a"], Purpose.QUERY)
        await one.close()
    assert (raised.value.failure_class, raised.value.may_be_billed) == ("RequestTimedOut", True)


@pytest.mark.spec("ASK-72")
async def test_a_port_nobody_listens_on_is_a_transport_fault_that_cost_nothing(tmp_path: Path) -> None:
    """Without a connection nothing can have been billed."""
    one = embedder(tmp_path, 1)
    with pytest.raises(EmbeddingProviderFailed) as raised:
        await one.embed(["a"], Purpose.QUERY)
    await one.close()
    assert (raised.value.failure_class, raised.value.may_be_billed) == ("TransportFaulted", False)
