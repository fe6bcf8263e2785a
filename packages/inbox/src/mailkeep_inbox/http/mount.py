"""Mounting: the table of operations becomes routes of the host's application or router, or an application of its own.

Whatever lies below the root and is no route answers 404 or 405 here, so that no host redirects `/me/inbox/` (INBOX-3).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from mailkeep_inbox.bounds import HEARTBEAT_SECONDS
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.events import MailboxEventBus
from mailkeep_inbox.handle import Handle
from mailkeep_inbox.http.answers import Refusal, refusal
from mailkeep_inbox.http.changing import Handler
from mailkeep_inbox.http.host import MailboxHost, ResolvePrincipal
from mailkeep_inbox.http.operations import OPERATIONS, ROOT, Operation
from mailkeep_inbox.openapi import operation_document
from mailkeep_inbox.sender_displays import ResolveSenderDisplays
from mailkeep_inbox.vocabulary import MailboxVocabulary

App = TypeVar("App")
Endpoint = Callable[[Request], Awaitable[Response]]
_PATHS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = tuple(
    (compile_path(path)[0], tuple(each.method for each in OPERATIONS if each.path == path))
    for path in dict.fromkeys(operation.path for operation in OPERATIONS)
)


def mount_mailbox(
    app: App,
    *,
    db: Handle,
    bus: MailboxEventBus,
    resolve_principal: ResolvePrincipal,
    vocabulary: MailboxVocabulary,
    resolve_sender_displays: ResolveSenderDisplays | None = None,
    heartbeat_interval: float = HEARTBEAT_SECONDS,
    resumable_events: bool = False,
) -> App:
    """Register the routes on a Starlette or FastAPI application or router and return it.

    The host chooses the prefix by nesting, and puts its own gate in front that way. `resumable_events` gives events
    ids from the event log, so that a client that reconnects is told what it missed. Raises MailboxRangeError for
    options that could only fail later.
    """
    host = MailboxHost(
        db=db,
        bus=bus,
        resolve_principal=resolve_principal,
        vocabulary=vocabulary,
        resolve_sender_displays=resolve_sender_displays,
        heartbeat_interval=heartbeat_interval,
        resumable_events=resumable_events,
    )
    router: Any = app.router if isinstance(app, Starlette) else app
    if hasattr(router, "add_api_route"):
        _add_to_fastapi(router, host)
    elif isinstance(router, Router):
        router.routes.extend(_route(operation, host) for operation in OPERATIONS)
    else:
        raise MailboxRangeError("app must be a Starlette or FastAPI application or router; see mailbox_asgi_app")
    router.routes.extend(Route(path, _NoRoute(), include_in_schema=False) for path in (ROOT, ROOT + "/{rest:path}"))
    return app


def mailbox_asgi_app(
    *,
    db: Handle,
    bus: MailboxEventBus,
    resolve_principal: ResolvePrincipal,
    vocabulary: MailboxVocabulary,
    resolve_sender_displays: ResolveSenderDisplays | None = None,
    heartbeat_interval: float = HEARTBEAT_SECONDS,
    resumable_events: bool = False,
) -> ASGIApp:
    """The same routes as an ASGI application of their own, for hosts of any other kind."""
    return mount_mailbox(
        Router(redirect_slashes=False, default=_NoRoute()),
        db=db,
        bus=bus,
        resolve_principal=resolve_principal,
        vocabulary=vocabulary,
        resolve_sender_displays=resolve_sender_displays,
        heartbeat_interval=heartbeat_interval,
        resumable_events=resumable_events,
    )


def _add_to_fastapi(router: Any, host: MailboxHost) -> None:
    """As routes of FastAPI, so that dependencies of the host apply and its document shows them."""
    for operation in OPERATIONS:
        router.add_api_route(
            operation.path,
            _endpoint(operation.handler, host),
            methods=[operation.method],
            name=operation.name,
            operation_id=operation.name,
            response_class=Response,
            response_description="OK",
            openapi_extra=operation_document(operation, host.vocabulary),
        )


def _route(operation: Operation, host: MailboxHost) -> Route:
    route = Route(operation.path, _endpoint(operation.handler, host), methods=[operation.method], name=operation.name)
    route.methods = {operation.method}
    return route


def _endpoint(handler: Handler, host: MailboxHost) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            return await handler(host, request)
        except Refusal as refused:
            return refusal(refused.status, refused.text)
        except MailboxRangeError as fault:
            return refusal(400, str(fault))

    return endpoint


class _NoRoute:
    """Answers what is below the root and no route: 405 where another method would do, else 404."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]  # with the host's prefix, however it was nested
        below = path[path.find(ROOT) :] if ROOT in path else path
        allowed = {method for pattern, methods in _PATHS if pattern.match(below) for method in methods}
        if allowed:
            response = refusal(405, "Method Not Allowed", allow=", ".join(sorted(allowed)))
        else:
            response = refusal(404, "Not Found")
        await response(scope, receive, send)
