"""The table of all commands, and the way in."""

from __future__ import annotations

import logging
import os
import sys
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated

import typer

from mailkeep.cli import (
    account,
    changes,
    changing,
    database,
    deriving,
    embedding,
    jobs,
    keys,
    mail,
    read,
    search,
    searches,
    serving,
    sync,
    transfer,
    verify,
)
from mailkeep.cli.exits import DEBUG_VARIABLE, ExitCode, guarded
from mailkeep.cli.terminal import show

app = typer.Typer(
    name="mailkeep",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Mirror your mail from IMAP servers into your own PostgreSQL, and find all of it.\n\n"
    "Everything lives in one folder: $MAILKEEP_HOME, or ~/.mailkeep. Reading changes nothing on a server; only mark, "
    "move, copy, archive, trash and delete do.",
    epilog="Exit codes: " + ", ".join(f"{code.value} {code.meaning}" for code in ExitCode) + ".",
)


def _print_version(value: bool) -> None:
    if value:
        show(f"mailkeep {version('mailkeep')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_print_version, is_eager=True)
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is done to stderr.")] = False,
) -> None:
    """Options of every command."""
    del show_version
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.ERROR,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        force=True,
    )


MIRROR, FIND, CHANGE, RUN, KEEP = (
    "Your accounts and their mirrors",
    "Find and read",
    "Change mail on its server",
    "Keep running",
    "Look after what is stored",
)
"""The groups of the help page, in their order."""

app.add_typer(account.app, name="account", rich_help_panel=MIRROR)
app.add_typer(keys.app, name="keys", rich_help_panel=MIRROR)
app.command("sync", rich_help_panel=MIRROR)(sync.sync)
app.command("status", rich_help_panel=MIRROR)(sync.status)
app.command("verify", rich_help_panel=MIRROR)(verify.verify)
app.command("derive", rich_help_panel=KEEP)(deriving.derive)
app.add_typer(embedding.app, name="embeddings", rich_help_panel=FIND)
app.command("list", rich_help_panel=FIND)(read.list_mail)
app.command("search", rich_help_panel=FIND)(search.search)
app.command("show", rich_help_panel=FIND)(read.show_message)
app.command("mark", rich_help_panel=CHANGE)(changing.mark)
app.command("move", rich_help_panel=CHANGE)(changing.move)
app.command("copy", rich_help_panel=CHANGE)(changing.copy)
app.command("archive", rich_help_panel=CHANGE)(changing.archive)
app.command("trash", rich_help_panel=CHANGE)(changing.trash)
app.command("delete", rich_help_panel=CHANGE)(changing.delete)
app.add_typer(changes.app, name="changes", rich_help_panel=CHANGE)
app.command("import", rich_help_panel=KEEP)(transfer.import_mail)
app.command("export", rich_help_panel=KEEP)(transfer.export_mail)
app.command("serve", rich_help_panel=RUN)(serving.serve)
app.command("mcp", rich_help_panel=RUN)(serving.mcp)
app.add_typer(searches.app, name="searches", rich_help_panel=FIND)
app.command("worker", rich_help_panel=RUN)(jobs.worker)
app.add_typer(jobs.app, name="jobs", rich_help_panel=RUN)
app.add_typer(mail.app, name="mail", rich_help_panel=KEEP)
app.add_typer(database.app, name="db", rich_help_panel=KEEP)


def main() -> None:
    """Run the command line of this process and end it with the command's exit code."""
    os.umask(0o077)  # whatever is written belongs to its owner
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode still shows mail
    sys.exit(guarded(lambda: app(prog_name="mailkeep")))


__all__ = ["DEBUG_VARIABLE", "app", "main"]
