"""Mounting and the OpenAPI document, without a database (INBOX-2 to INBOX-6, INBOX-89)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from inbox_support.hosts import VOCABULARY, client_of, make_host
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from mailkeep_inbox import (
    MailboxRangeError,
    MailboxScope,
    MailboxVocabulary,
    create_in_memory_mailbox_event_bus,
    mailbox_asgi_app,
    mailbox_openapi,
    mount_mailbox,
)

CONTRACT = {
    ("get", ""), ("get", "/unread-count"), ("get", "/events"), ("get", "/{id}"), ("post", "/bulk"),
    *(("post", f"/{{id}}/{verb}") for verb in ("read", "unread", "trash", "archive", "restore", "enrich", "assign")),
}  # fmt: skip
BEYOND = {
    ("get", "/thread"), ("get", "/search"), ("get", "/{id}/attachments/{part}"), ("post", "/bulk-by-filter"),
    ("post", "/mark-all-read"), ("post", "/{id}/snooze"), ("post", "/{id}/labels"),
}  # fmt: skip


def options(**changed: Any) -> dict[str, Any]:
    return {
        "db": None,
        "bus": create_in_memory_mailbox_event_bus(),
        "resolve_principal": lambda request: None,
        "vocabulary": VOCABULARY,
    } | changed


@pytest.mark.spec("INBOX-2", "INBOX-3")
@pytest.mark.parametrize("app", [Starlette(), Router(), FastAPI(), APIRouter()])
def test_mounting_returns_what_it_was_given(app: Any) -> None:
    """Applications and routers of both frameworks."""
    assert mount_mailbox(app, **options()) is app


@pytest.mark.spec("INBOX-3")
def test_other_hosts_are_told_what_to_use() -> None:
    """Something else is refused with the name of the other function."""
    with pytest.raises(MailboxRangeError, match="mailbox_asgi_app"):
        mount_mailbox(object(), **options())


@pytest.mark.spec("INBOX-4", "INBOX-5")
@pytest.mark.parametrize(
    "changed",
    [
        {"vocabulary": MailboxVocabulary((), ("a",))},
        {"vocabulary": MailboxVocabulary(("a",), ())},
        {"vocabulary": MailboxVocabulary(("a", "a"), ("a",))},
        {"vocabulary": MailboxVocabulary(("a", ""), ("a",))},
        {"vocabulary": MailboxVocabulary(("a",), ("b", "b"))},
        *({"heartbeat_interval": value} for value in (0, -1, math.inf, math.nan, True, "25")),
    ],
)
def test_faulty_options_are_refused_at_mount(changed: dict[str, Any]) -> None:
    """Never at the first request."""
    for mount in (lambda **given: mount_mailbox(Starlette(), **given), mailbox_asgi_app):
        with pytest.raises(MailboxRangeError):
            mount(**options(**changed))


@pytest.mark.spec("INBOX-4", "INBOX-5")
def test_vocabulary_has_no_default() -> None:
    """The taxonomy is the host's."""
    given = options()
    del given["vocabulary"]
    with pytest.raises(TypeError):
        mount_mailbox(Starlette(), **given)


def operations_of(document: dict[str, Any], prefix: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method, path.removeprefix(prefix + "/me/inbox")): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


@pytest.mark.spec("INBOX-89")
@pytest.mark.parametrize("kind", ["fragment", "fastapi"])
def test_document_describes_every_operation_with_the_words_of_the_host(kind: str) -> None:
    """Summary, tag and responses of each; bounds of limit; enums in the host's order."""
    if kind == "fragment":
        document = mailbox_openapi(VOCABULARY, prefix="/api")
    else:
        host = make_host("fastapi", None)
        assert isinstance(host, FastAPI)
        document = host.openapi()
    operations = operations_of(document, "/api")
    assert set(operations) == CONTRACT | BEYOND
    assert len({operation["operationId"] for operation in operations.values()}) == len(operations)
    for operation in operations.values():
        assert operation["summary"]
        assert operation["tags"] == ["mailbox"]
        assert "200" in operation["responses"]
        assert "422" not in operation["responses"]
    parameters = {each["name"]: each["schema"] for each in operations["get", ""]["parameters"]}
    assert {"limit", "view", "sort", "priority", "status", "classification", "assignee", "cursor"} <= set(parameters)
    assert parameters["limit"] == {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}
    assert parameters["priority"]["enum"] == ["urgent", "normal", "low"]
    assert parameters["status"]["enum"] == ["open", "done"]


@pytest.mark.anyio
@pytest.mark.spec("INBOX-1", "INBOX-2")
async def test_gate_of_the_host_answers_first() -> None:
    """A gate around the mounted application, and a dependency of FastAPI, come before any check of ours."""

    async def gate(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("who are you", 401)(scope, receive, send)

    async with client_of(gate) as client:
        assert (await client.get("?limit=0")).status == 401

    def deny() -> None:
        raise HTTPException(401)

    app = FastAPI()
    app.include_router(mount_mailbox(APIRouter(), **options()), prefix="/api", dependencies=[Depends(deny)])
    async with client_of(app) as client:
        assert (await client.get("?limit=0")).status == 401


@pytest.mark.anyio
@pytest.mark.spec("INBOX-8", "INBOX-4")
@pytest.mark.parametrize("kind", ["starlette", "fastapi", "asgi"])
async def test_principal_may_be_resolved_by_async_code_from_the_request(kind: str) -> None:
    """The host's function gets the request and is awaited when it has to be."""
    asked: list[str] = []

    async def resolve(request: Request) -> MailboxScope | None:
        asked.append(request.headers["x-who"])
        return None

    async with client_of(make_host(kind, None, resolve_principal=resolve)) as client:
        assert (await client.get("/unread-count")).body == b'{"unread":0}'
    assert asked == ["acme/ann"]
