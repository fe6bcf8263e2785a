"""What every web request passes first."""

from __future__ import annotations

import pytest

from mailkeep.http.guard import LoopbackGuard, refused


@pytest.mark.parametrize("host", [b"127.0.0.1:8025", b"localhost", b"LOCALHOST:1", b"[::1]:8025"])
def test_requests_to_this_machine_pass(host: bytes) -> None:
    """Every spelling of the loopback address is served, on any port."""
    assert refused([(b"host", host)]) is None
    assert refused([(b"host", host), (b"origin", b"http://" + host)]) is None


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"host", b"mail.example.com")],
        [(b"host", b"127.0.0.1.example.com")],
        [(b"host", b"example.com@127.0.0.1")],
        [(b"host", b"127.0.0.1/x")],
        [(b"host", b"127.0.0.1"), (b"host", b"example.com")],
        [(b"host", b"\xff")],
        [(b"host", b"[::1")],
    ],
)
def test_a_rebound_or_odd_host_is_misdirected(headers: list[tuple[bytes, bytes]]) -> None:
    """A foreign name that resolves to this machine is the mark of DNS rebinding."""
    answer = refused(headers)
    assert answer is not None
    assert answer[0] == 421


@pytest.mark.parametrize(
    "origin", [b"https://example.com", b"null", b"http://127.0.0.1.example.com", b"file://", b"ftp://localhost", b""]
)
def test_requests_of_foreign_pages_are_refused(origin: bytes) -> None:
    """A page of another site cannot make the browser ask here, nor can a sandboxed or local file."""
    answer = refused([(b"host", b"127.0.0.1"), (b"origin", origin)])
    assert answer is not None
    assert answer[0] == 403


@pytest.mark.anyio
async def test_every_answer_carries_the_protecting_headers_once() -> None:
    """Refusals and answers alike forbid scripts, frames, sniffing and caching; an answer's own header wins."""
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def application(scope: object, receive: object, send: object) -> None:
        headers = [(b"Content-Type", b"text/html"), (b"Cache-Control", b"max-age=60")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})  # type: ignore[operator]

    guard = LoopbackGuard(application)
    await guard({"type": "http", "headers": [(b"host", b"localhost")]}, None, send)  # type: ignore[arg-type]
    await guard({"type": "http", "headers": [(b"host", b"evil")]}, None, send)  # type: ignore[arg-type]
    answered, refusal = sent[0]["headers"], sent[1]["headers"]
    assert isinstance(answered, list)
    assert isinstance(refusal, list)
    for headers in (answered, refusal):
        policy = dict(headers)[b"content-security-policy"]
        assert b"default-src 'none'" in policy
        assert b"unsafe" not in policy
        assert dict(headers)[b"x-content-type-options"] == b"nosniff"
    assert [value for name, value in answered if name.lower() == b"cache-control"] == [b"max-age=60"]
