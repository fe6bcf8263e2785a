"""`mailkeep db upgrade | status | sql`: the schema, and a look at the tables for people who know SQL."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Annotated

import typer

from mailkeep.app import App, database_status, upgrade_database
from mailkeep.cli.exits import ExitCode, run
from mailkeep.cli.terminal import say, show_json, table
from mailkeep.config import home

app = typer.Typer(no_args_is_help=True, help="The database: its schema and its tables.")

READ_ONLY = "-c default_transaction_read_only=on"


@app.command("upgrade")
def upgrade() -> None:
    """Apply the migrations that the database lacks. The embedded database is upgraded by every start."""
    applied = run(upgrade_database(home()))
    for name in applied:
        say(f"applied {name}")
    say("The schema is up to date." if not applied else f"Applied {len(applied)} migrations.")


@app.command("status")
def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show which migrations are applied and which are missing; exit 1 when some are missing or unknown."""
    found = run(database_status(home()))
    if as_json:
        show_json(found)
    else:
        rows = [
            *((name, "applied") for name in found.applied),
            *((name, "missing") for name in found.missing),
            *((name, "unknown to this build") for name in found.unknown),
        ]
        table(("migration", "state"), sorted(rows))
    if found.missing or found.unknown:
        say("Run: mailkeep db upgrade" if found.missing else "The database belongs to a newer build.")
        raise typer.Exit(ExitCode.FAILED)


@app.command("sql")
def sql(
    command: Annotated[str | None, typer.Option("--command", "-c", help="Run this one statement and end.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Allow changes; psql only. Know what you do.")] = False,
) -> None:
    """Open psql on the database, read-only unless --write; where psql is missing, a simple prompt reads statements.

    With -c one statement is run and its rows are printed. The password is never an argument of another process.
    """
    if command is None and (psql := shutil.which("psql")) is not None:
        raise typer.Exit(run(_psql(psql, write=write)))
    if write:
        raise typer.BadParameter("needs psql and no -c", param_hint="--write")
    if command is not None:
        run(_statements([command], as_json=as_json))
        return
    if sys.stdin.isatty():
        say("psql is not installed; one statement per line, read-only, Ctrl-D ends.")
    run(_prompt(as_json=as_json))


async def _psql(psql: str, *, write: bool) -> int:
    async with App.open(home()) as mailkeep:
        environment = {**os.environ, **mailkeep.psql_environment()}
        if not write:
            environment["PGOPTIONS"] = f"{environment.get('PGOPTIONS', '')} {READ_ONLY}".strip()
        # psql owns the terminal while it runs; the database stays open for it.
        return subprocess.run([psql], env=environment, check=False).returncode  # noqa: ASYNC221, S603


async def _statements(statements: list[str], *, as_json: bool) -> None:
    async with App.open(home()) as mailkeep:
        for statement in statements:
            await _show(mailkeep, statement, as_json=as_json)


async def _prompt(*, as_json: bool) -> None:
    async with App.open(home()) as mailkeep:
        while True:
            if sys.stdin.isatty():
                sys.stderr.write("mailkeep=> ")
                sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                return
            if line.strip():
                await _show(mailkeep, line, as_json=as_json)


async def _show(mailkeep: App, statement: str, *, as_json: bool) -> None:
    result = await mailkeep.read_sql(statement)
    if as_json:
        show_json([dict(zip(result.columns, row, strict=True)) for row in result.rows])
        return
    table(result.columns, [["" if value is None else str(value) for value in row] for row in result.rows])
    if result.was_cut:
        say(f"Only the first {len(result.rows)} rows are shown.")
