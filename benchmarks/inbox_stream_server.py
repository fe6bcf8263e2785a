"""The server that `inbox_streams` measures: event streams of one kind, and a route that publishes to all of them.

`python -m benchmarks.inbox_stream_server ours|sse-starlette` prints its port and serves until it is ended.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator

import uvicorn
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

import mailkeep_inbox as inbox

LISTENERS = 10
"""Mailboxes; the listeners are spread over them."""
BUS = inbox.create_in_memory_mailbox_event_bus()


def scope_of(number: int) -> inbox.MailboxScope:
    """One of the mailboxes."""
    return inbox.MailboxScope("acme", str(number % LISTENERS))


def ours() -> Starlette:
    """The library's own route."""
    return inbox.mount_mailbox(
        Starlette(routes=[Route("/publish/{count:int}", publish, methods=["POST"])]),
        db=None,  # type: ignore[arg-type]  # streams that are not resumable read no database
        bus=BUS,
        resolve_principal=lambda request: scope_of(int(request.headers["x-number"])),
        vocabulary=inbox.MailboxVocabulary(("normal",), ("open",)),
    )


def rival() -> Starlette:
    """The same events by a queue for each client and sse-starlette."""

    async def stream(request: Request) -> Response:
        queue: asyncio.Queue[inbox.MailboxEvent] = asyncio.Queue()
        stop = BUS.subscribe(scope_of(int(request.headers["x-number"])), queue.put_nowait)

        async def events() -> AsyncIterator[dict[str, str]]:
            try:
                while True:
                    event = await queue.get()
                    yield {"event": "mailbox", "data": json.dumps(event.as_wire(), separators=(",", ":"))}
            finally:
                stop()

        return EventSourceResponse(events(), ping=25)

    return Starlette(
        routes=[
            Route("/me/inbox/events", stream),
            Route("/publish/{count:int}", publish, methods=["POST"]),
        ]
    )


async def publish(request: Request) -> Response:
    """So many events to every mailbox, one after another, letting the streams write in between."""
    for number in range(request.path_params["count"]):
        for mailbox in range(LISTENERS):
            BUS.publish(scope_of(mailbox), inbox.MailboxEvent(f"{number:036d}", inbox.MailboxEventOp.CREATE))
        await asyncio.sleep(0.005)
    return PlainTextResponse("")


def main() -> None:
    """Serve on a free port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(2_048)
    print(listener.getsockname()[1], flush=True)
    app = ours() if sys.argv[1] == "ours" else rival()
    config = uvicorn.Config(app, log_level="critical", lifespan="off", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
