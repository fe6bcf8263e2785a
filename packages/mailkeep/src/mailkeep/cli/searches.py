"""`mailkeep searches list | save | remove | run`: queries kept by name."""

from __future__ import annotations

from typing import Annotated

import typer

from mailkeep.app import App
from mailkeep.cli.exits import ExitCode, run
from mailkeep.cli.read import JsonOption
from mailkeep.cli.search import FacetsOption, GroupOption, LimitOption, point_at, run_search
from mailkeep.cli.terminal import say, show_json, table
from mailkeep.config import home
from mailkeep.display import neutralise
from mailkeep.search import Grouping, QueryMalformed, SavedSearch, SearchRequest

app = typer.Typer(no_args_is_help=True, help="Searches kept by name.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="What the search is called, any case.")]


@app.command("list")
def list_searches(as_json: JsonOption = False) -> None:
    """List the kept searches with what they ask for."""

    async def work() -> tuple[SavedSearch, ...]:
        async with App.open(home()) as mailkeep:
            return await mailkeep.saved_searches()

    found = run(work())
    if as_json:
        show_json({"searches": found})
    elif not found:
        say("No search is kept yet. Keep one with: mailkeep searches save NAME QUERY")
    else:
        table(("name", "query"), [(one.name, one.query_text) for one in found])


@app.command("save")
def save(
    name: NameArgument,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="A query as for mailkeep search.")],
) -> None:
    """Keep a query under a name; a query of that name is replaced."""
    text = " ".join(query)

    async def work() -> bool:
        async with App.open(home()) as mailkeep:
            return await mailkeep.save_search(name, text)

    try:
        replaced = run(work())
    except QueryMalformed as error:
        point_at(text, error, as_json=False)
        raise typer.Exit(ExitCode.USAGE) from None
    say(f"{'Replaced' if replaced else 'Kept'}. Run it with: mailkeep searches run {neutralise(name)}")


@app.command("remove")
def remove(name: NameArgument) -> None:
    """Forget a kept search. No mail is touched."""

    async def work() -> None:
        async with App.open(home()) as mailkeep:
            await mailkeep.remove_saved_search(name)

    run(work())
    say("Forgotten.")


@app.command("run")
def run_saved(
    name: NameArgument,
    group: GroupOption = Grouping.NONE,
    facets: FacetsOption = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Run a kept search: the mail that fits now."""

    async def work() -> SavedSearch:
        async with App.open(home()) as mailkeep:
            return await mailkeep.saved_search(name)

    request = SearchRequest(query_text=run(work()).query_text, result_limit=limit, grouping=group, with_facets=facets)
    run_search(request, as_json=as_json)
