"""`mailkeep derive`, and the same work at the end of `sync --once --derive` and `import`: what stored mail gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from mailkeep.app import App
from mailkeep.cli.exits import ExitCode, report, run
from mailkeep.cli.terminal import err, say, show_json, table
from mailkeep.config import home
from mailkeep.display import counted, moment
from mailkeep.stages import StageResult, StageStatus


def derive(
    stage: Annotated[
        list[str] | None, typer.Option("--stage", help="Only this stage; may be repeated. Else all of them.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what each stage came to as JSON.")] = False,
) -> None:
    """Derive from stored mail what is outstanding: languages, and whatever else mailkeep works out after arrival.

    `mailkeep serve` and a lasting `mailkeep sync` do this by themselves. Interrupt it at will: it goes on where it
    stands.
    """

    async def work() -> tuple[ExitCode, tuple[StageStatus, ...], tuple[StageResult, ...]]:
        async with App.open(home()) as mailkeep:
            results = await derive_all(mailkeep, stage or ())
            return told(results), await mailkeep.stage_statuses(), results

    code, statuses, results = run(work())
    if as_json:
        show_json({"stages": stages_json(results)})
    else:
        stage_table(statuses)
    raise typer.Exit(code)


async def derive_all(mailkeep: App, names: Sequence[str] = ()) -> tuple[StageResult, ...]:
    """Run stages to their end, with a line that shows how far they are on a terminal."""
    if not err.is_terminal:
        return await mailkeep.derive(names)
    with err.status("Deriving…") as status:
        return await mailkeep.derive(
            names, report=lambda so_far: status.update(f"{so_far.name}: {counted(so_far.done, 'message')}")
        )


def told(results: Sequence[StageResult]) -> ExitCode:
    """Say in a line each what stages came to, and nothing of those that had nothing to do; the exit code."""
    code = ExitCode.OK
    for result in results:
        if result.error is not None:
            code = max(code, report(result.error))
        elif result.held_elsewhere:
            say(f"{result.name}: another mailkeep process works at it")
        elif result.done or result.failed:
            impossible = f", {result.failed} impossible" if result.failed else ""
            later = f"; goes on {moment(result.next_due)}" if result.next_due is not None else ""
            say(f"{result.name}: {counted(result.done, 'message')} done{impossible}{later}")
    return code


def stages_json(results: Sequence[StageResult]) -> list[dict[str, object]]:
    """The results as JSON."""
    return [
        {
            "stage": result.name,
            "done": result.done,
            "failed": result.failed,
            "held_elsewhere": result.held_elsewhere,
            "next_due": result.next_due,
            "code": None if result.error is None else result.error.code,
        }
        for result in results
    ]


def stage_table(statuses: Sequence[StageStatus]) -> None:
    """The counts of every stage."""
    table(
        ("stage", "done", "outstanding", "impossible"),
        [(one.name, str(one.done), str(one.outstanding), str(one.failed)) for one in statuses],
        right=(1, 2, 3),
    )


def say_outstanding(statuses: Sequence[StageStatus]) -> None:
    """One line for each stage that is not through, and one where messages are impossible for it."""
    for one in statuses:
        if one.outstanding or one.failed:
            impossible = f", {one.failed} impossible" if one.failed else ""
            say(f"{one.name}: {one.done} done, {one.outstanding} outstanding{impossible} (mailkeep derive)")
