"""`mailkeep serve` and `mailkeep mcp`: keep mirroring and answer on this machine, or answer one client over stdio."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from mailkeep.app import App
from mailkeep.cli.exits import run, stop_on_signals
from mailkeep.cli.terminal import say
from mailkeep.config import HttpSettings, check_references, home, posture_warnings
from mailkeep.following import SettingsNotice


def serve(
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on, in the place of http.port.")
    ] = None,
    no_sync: Annotated[bool, typer.Option("--no-sync", help="Only answer; mirror nothing.")] = False,
) -> None:
    """Keep all accounts mirrored and serve the status page, search, MCP and probes on this machine.

    Ends cleanly on Ctrl-C and SIGTERM: no new work begins, and running folders get a moment to finish.
    """
    run(_serve(port, mirrors=not no_sync))


async def _serve(port: int | None, *, mirrors: bool) -> None:
    # Heavy imports, needed by this command only.
    from mailkeep.http import create_app, listen
    from mailkeep.http import serve as serve_http

    async with App.open(home()) as mailkeep:
        for warning in posture_warnings(mailkeep.settings):
            say(f"Warning: {warning}")
        check_references(mailkeep.settings, mailkeep.home)
        listener = listen(_listener_settings(mailkeep.settings.http, port))
        stop = stop_on_signals()
        async with serve_http(create_app(mailkeep), listener):
            _say_how_to_connect(mailkeep, listener.url)
            async with asyncio.TaskGroup() as group:
                group.create_task(mailkeep.work(stop))
                group.create_task(mailkeep.follow_settings(stop, say_notice))
                if mirrors:
                    group.create_task(mailkeep.supervise(stop))
                await stop.wait()
            say("Stopping…")


def say_notice(notice: SettingsNotice) -> None:
    """Say what became of a change to the settings file."""
    if notice.trouble is not None:
        say(f"The changed settings are not in use; those from before stay. {notice.trouble}")
        return
    say("The changed settings are in use from the next run on.")
    if notice.needs_restart:
        say(f"Waiting for a restart: {', '.join(notice.needs_restart)}")


def _listener_settings(settings: HttpSettings, port: int | None) -> HttpSettings:
    return settings if port is None else settings.model_copy(update={"port": port})


def _say_how_to_connect(mailkeep: App, url: str) -> None:
    say(f"Status and search: {url}/")
    if mailkeep.settings.mcp_endpoint.enabled:
        say(f"MCP endpoint:      {url}/mcp   (or, over stdio, the command: mailkeep mcp)")
    if not mailkeep.accounts():
        say("There is no account yet; add one with: mailkeep account add")
    elif not mailkeep.settings.mail_synchronization.enabled:
        say("Nothing is mirrored while mail_synchronization.enabled is false.")
    say("Ctrl-C stops.")


def mcp() -> None:
    """Answer one MCP client over standard input and output; for desktop assistants on this machine."""
    run(_mcp())


async def _mcp() -> None:
    from mailkeep.mcp import run_stdio

    async with App.open(home()) as mailkeep:
        if sys.stdin.isatty():
            say("This command is for MCP clients, which start it themselves. It waits for one; Ctrl-D ends it.")
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(mailkeep.follow_settings(stop, say_notice))
            try:
                await run_stdio(mailkeep)
            finally:
                stop.set()
