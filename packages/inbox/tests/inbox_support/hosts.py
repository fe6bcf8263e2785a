"""The three kinds of host, mounted below /api, with a principal named by a header; and a client that sends raw bytes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from mailkeep_inbox import (
    MailboxVocabulary,
    create_in_memory_mailbox_event_bus,
    mailbox_asgi_app,
    mount_mailbox,
)

VOCABULARY = MailboxVocabulary(("urgent", "normal", "low"), ("open", "done"))
HOSTS = ("starlette", "fastapi", "asgi")


def principal_of_header(request: Request) -> dict[str, str] | None:
    """`x-who: tenant/principal`; nobody without it."""
    who = request.headers.get("x-who")
    if who is None:
        return None
    tenant, principal = who.split("/")
    return {"tenant_id": tenant, "principal_id": principal}


def make_host(kind: str, db: Any, **options: Any) -> ASGIApp:
    """A host of that kind with the inbox at /api/me/inbox."""
    chosen: dict[str, Any] = {
        "db": db,
        "bus": create_in_memory_mailbox_event_bus(),
        "resolve_principal": principal_of_header,
        "vocabulary": VOCABULARY,
    } | options
    if kind == "starlette":
        inner = mount_mailbox(Router(), **chosen)
        return Starlette(routes=[Mount("/api", app=inner)])
    if kind == "fastapi":
        from fastapi import APIRouter

        app = FastAPI()
        app.include_router(mount_mailbox(APIRouter(), **chosen), prefix="/api")
        return app
    return _under_prefix(mailbox_asgi_app(**chosen), "/api")


def _under_prefix(app: ASGIApp, prefix: str) -> ASGIApp:
    """What any other host does: strip its prefix by ASGI's root_path."""

    async def host(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(prefix + "/"):
            await app(scope | {"root_path": prefix}, receive, send)
        else:
            raise AssertionError(scope["path"])

    return host


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an answer."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


class Client:
    """Asks a host as a principal."""

    def __init__(self, client: httpx2.AsyncClient, who: str | None) -> None:
        self._client = client
        self._who = who

    def as_(self, who: str | None) -> Client:
        """The same as another principal."""
        return Client(self._client, who)

    async def get(self, path: str) -> Answer:
        """GET below /api/me/inbox; `path` as it goes out."""
        return await self.send("GET", path)

    async def post(self, path: str, body: object = None) -> Answer:
        """POST; bytes go out as they are, anything else as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.send("POST", path, content)

    async def send(self, method: str, path: str, content: bytes | None = None) -> Answer:
        """Any request."""
        headers = {} if self._who is None else {"x-who": self._who}
        answer = await self._client.request(method, "http://host/api/me/inbox" + path, content=content, headers=headers)
        return Answer(answer.status_code, answer.content, dict(answer.headers))


@asynccontextmanager
async def client_of(app: ASGIApp, who: str | None = "acme/ann") -> AsyncIterator[Client]:
    """A client in the same process; an exception of the host fails the test."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app)) as client:
        yield Client(client, who)
