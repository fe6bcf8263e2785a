"""Run the application on a socket of this machine until told to stop; open requests get a bound to finish in."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from mailkeep.config import HttpSettings
from mailkeep.errors import ConfigurationRefused

SHUTDOWN_SECONDS = 5
REQUEST_HEAD_SECONDS = 15
MAX_CONNECTIONS = 200


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket and the address a person types."""

    socket: socket.socket
    url: str


def listen(settings: HttpSettings) -> Listener:
    """Bind the configured address. Raises ConfigurationRefused when the port is taken or may not be used."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((settings.host, settings.port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise ConfigurationRefused(
            f"port {settings.port} cannot be listened on: {error.strerror}; choose another one with http.port or --port"
        ) from error
    port = bound.getsockname()[1]
    name = f"[{settings.host}]" if family == socket.AF_INET6 else settings.host
    return Listener(bound, f"http://{name}:{port}")


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: the command owns the signals and sets `should_exit`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve(application: ASGIApp, listener: Listener) -> AsyncIterator[None]:
    """Serve while the block runs; afterwards stop accepting and let open requests finish within SHUTDOWN_SECONDS."""
    server = _Server(
        uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=REQUEST_HEAD_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.serve(sockets=[listener.socket]))
        try:
            yield  # connections wait in the socket's queue until the server has started
        finally:
            server.should_exit = True
            await asyncio.wait([running], timeout=SHUTDOWN_SECONDS + 2)
            running.cancel()
