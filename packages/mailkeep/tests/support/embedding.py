"""Shorthand for tests of embeddings: settings with deterministic models, stages run to their end, a scripted endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support.connections import end_connections

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.embeddings import Embeddings, EmbeddingStage
from mailkeep.passages import PassageStage
from mailkeep.stages import StageResult, drain

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOME = Path("/nonexistent")


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        self.now += timedelta(**by)


def endpoint(alias: str = "one", **changes: Any) -> dict[str, Any]:
    """The settings of a deterministic endpoint of 16 numbers."""
    return {
        "alias": alias,
        "kind": "Deterministic",
        "provider": "deterministic",
        "model": "letters",
        "dimension": 16,
        **changes,
    }


def hosted(port: int, alias: str = "hosted", **changes: Any) -> dict[str, Any]:
    """The settings of an endpoint on this machine."""
    return {
        "alias": alias,
        "provider": "scripted",
        "model": "letters",
        "dimension": 4,
        "address": f"http://127.0.0.1:{port}/v1",
        "unauthenticated": True,
        **changes,
    }


def settings_with(*endpoints: dict[str, Any], backfill: dict[str, Any] | None = None, **section: Any) -> Settings:
    """Settings of one local account `home` with these endpoints."""
    return Settings.model_validate(
        {
            "mail_synchronization": {
                "accounts": [{"account_id": "home", "display_name": "Home Mail", "kind": "local"}]
            },
            "embeddings": {"endpoints": list(endpoints), "use_built_in_model": False, **section},
            "embedding_backfill": backfill or {},
        }
    )


@dataclass(slots=True)
class Machine:
    """A process as far as embeddings go: its own models and stages on a database that may be shared."""

    db: Database
    settings: Settings
    clock: Clock = field(default_factory=Clock)
    home: Path = HOME
    embeddings: Embeddings = field(init=False)
    passages: PassageStage = field(init=False)
    stage: EmbeddingStage = field(init=False)

    def __post_init__(self) -> None:
        self.embeddings = Embeddings(self.settings, self.db, self.home, now=self.clock)
        self.passages = PassageStage(self.db, self.settings)
        self.stage = EmbeddingStage(self.db, self.settings, self.embeddings)

    async def cut(self) -> StageResult:
        """Cut all there is."""
        (result,) = await drain([self.passages], self.db, now=self.clock)
        assert result.error is None
        return result

    async def embed(self) -> StageResult:
        """Make vectors until the stage stops by itself."""
        (result,) = await drain([self.stage], self.db, now=self.clock)
        assert result.error is None, result.error
        return result

    async def build(self) -> None:
        """Cut, activate, embed and switch."""
        await self.cut()
        await self.embeddings.activate()
        await self.embed()
        report = await self.embeddings.report()
        assert report.serving is not None
        assert report.building is None


Script = Callable[[dict[str, Any]], tuple[int, bytes, dict[str, str]]]


@dataclass(slots=True)
class Endpoint:
    """An HTTP server that answers as its script says; `requests` holds what it was sent."""

    port: int = 0
    script: Script = field(default=lambda body: answer(body))
    requests: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)
    is_silent: bool = False
    received: asyncio.Event = field(default_factory=asyncio.Event)


def answer(
    body: dict[str, Any], *, vector: Callable[[str], Sequence[float]] | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """One vector for each input: of width 4, by the letters of the text."""
    of = vector or letters
    data = [{"index": at, "embedding": list(of(text))} for at, text in enumerate(body["input"])]
    return 200, json.dumps({"data": data}).encode(), {}


def letters(text: str) -> list[float]:
    """A direction by four letters."""
    counts = [1.0 + text.lower().count(letter) for letter in "aeio"]
    length = sum(one * one for one in counts) ** 0.5
    return [one / length for one in counts]


def status(code: int, **headers: str) -> Script:
    """A script that always answers with a status."""
    return lambda body: (code, b'{"error": "SECRET BODY"}', headers)


@asynccontextmanager
async def scripted_endpoint() -> AsyncIterator[Endpoint]:
    """The server for the length of the block."""
    found = Endpoint()
    serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving[asyncio.create_task(serve(reader, writer))] = writer

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
                body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
                raw = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
                found.requests.append(({key.lower(): value for key, value in raw.items()}, body))
                found.received.set()
                if found.is_silent:
                    await reader.read()
                    return
                code, octets, extra = found.script(body)
                lines = [
                    f"HTTP/1.1 {code} X",
                    f"Content-Length: {len(octets)}",
                    *(f"{k}: {v}" for k, v in extra.items()),
                ]
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + octets)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await end_connections(serving.values())
