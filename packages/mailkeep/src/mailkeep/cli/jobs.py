"""`mailkeep worker` and `mailkeep jobs`: work in the background, and what operators see and decide of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from mailkeep.app import App
from mailkeep.background import applies_to, payload_of
from mailkeep.cli.exits import ExitCode, run, stop_on_signals
from mailkeep.cli.sync import AccountOption
from mailkeep.cli.terminal import say, show, show_json, table
from mailkeep.config import check_references, home
from mailkeep.display import counted, moment, neutralise
from mailkeep.errors import ConfigurationRefused, FilterRefused
from mailkeep.jobs import (
    Decision,
    JobRow,
    JobState,
    Schedule,
    Stopped,
    cancel_job,
    count_stopped,
    drop_job,
    job_type_named,
    list_jobs,
    pause_schedule,
    pause_type,
    paused_types,
    resume_type,
    retry_job,
    retry_stopped,
    schedule_states,
    show_job,
)
from mailkeep.upkeep import folder_alias

app = typer.Typer(no_args_is_help=True, help="Work in the background: what waits, runs and has stopped; schedules.")

JobArgument = Annotated[UUID, typer.Argument(metavar="JOB", help="The id that `mailkeep jobs list` shows.")]
TypeOption = Annotated[str | None, typer.Option("--type", "-t", help="Only jobs of this type.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TargetArgument = Annotated[str, typer.Argument(metavar="NAME", help="A type of job, or a schedule's id.")]


class Listed(StrEnum):
    """Which jobs are listed."""

    STOPPED = "stopped"
    PENDING = "pending"
    RUNNING = "running"


_STATES = {
    Listed.STOPPED: JobState.DEAD_LETTERED,
    Listed.PENDING: JobState.PENDING,
    Listed.RUNNING: JobState.CLAIMED,
}
_TOLD = {
    Decision.ACCEPTED: "Done.",
    Decision.JOB_UNKNOWN: "There is no such job.",
    Decision.JOB_NOT_DEAD_LETTERED: "That job has not stopped, or not any more.",
    Decision.JOB_NOT_PENDING: "That job does not wait, or not any more.",
}


def worker() -> None:
    """Work at jobs and schedules, and at nothing else; any number of these may run, on any machine.

    `mailkeep serve` does this as well. Ends on Ctrl-C and SIGTERM: jobs under way are given back without losing an
    attempt.
    """
    run(_work())


async def _work() -> None:
    async with App.open(home()) as mailkeep:
        if not mailkeep.settings.jobs.enabled:
            raise ConfigurationRefused("jobs.enabled is false: this process would do nothing")
        check_references(mailkeep.settings, mailkeep.home)
        stop = stop_on_signals()
        say("Working at jobs. Ctrl-C stops.")
        await mailkeep.work(stop)


@app.command("list")
def list_command(
    state: Annotated[Listed, typer.Option("--state", help="Which jobs.")] = Listed.STOPPED,
    job_type: TypeOption = None,
    account: AccountOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Jobs on a page, 1 to 200.")] = 50,
    after: Annotated[str | None, typer.Option("--after", help="The cursor that the page before ended with.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs, latest change first: those that have stopped and wait for a decision, else those that wait or run."""

    async def work() -> None:
        async with App.open(home()) as mailkeep:
            page = await list_jobs(
                mailkeep.db,
                state=_STATES[state],
                job_type=None if job_type is None else job_type_named(job_type),
                account_id=None if account is None else mailkeep.accounts(account)[0].account_id,
                page_size=limit,
                cursor=after,
            )
            paused = await paused_types(mailkeep.db)
        if as_json:
            show_json({"jobs": page.jobs, "next_cursor": page.next_cursor, "paused": paused})
            return
        _table(page.jobs)
        for name, since in paused.items():
            say(f"Paused since {moment(since)}: {name}")
        if page.next_cursor is not None:
            say(f"More: --after {page.next_cursor}")

    run(work())


@app.command("show")
def show_command(job: JobArgument, as_json: JsonOption = False) -> None:
    """Show one job: its state, its attempts, why it failed last, how far it is and what it came to."""

    async def work() -> JobRow | None:
        async with App.open(home()) as mailkeep:
            return await show_job(mailkeep.db, job)

    found = run(work())
    if found is None:
        say(_TOLD[Decision.JOB_UNKNOWN])
        raise typer.Exit(ExitCode.FAILED)
    if as_json:
        show_json(found)
        return
    for name, value in _facts(found):
        show(f"{name:<12} {neutralise(value)}")


@app.command("retry")
def retry_command(
    job: Annotated[UUID | None, typer.Argument(metavar="JOB", help="The id; or name a --type instead.")] = None,
    job_type: Annotated[str | None, typer.Option("--type", "-t", help="All stopped jobs of this type.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Only those that stopped for this reason.")] = None,
    since: Annotated[
        datetime | None, typer.Option("--since", help="Only those that stopped then or later (UTC).")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--until", help="Only those that stopped then or earlier (UTC).")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", help="How many that are, in the place of being asked; another number stops it."),
    ] = None,
) -> None:
    """Let a stopped job run again, or all of one type; each runs under its own key, from its first attempt."""
    if (job is None) == (job_type is None):
        raise FilterRefused("name one job, or a --type whose stopped jobs are all meant")
    if job is not None:
        _decided(retry_job, job)
        return
    assert job_type is not None
    which = Stopped(job_type_named(job_type), reason, _utc(since), _utc(until))
    raise typer.Exit(run(_retry_all(which, count)))


async def _retry_all(which: Stopped, confirmed: int | None) -> ExitCode:
    async with App.open(home()) as mailkeep:
        found, until = await count_stopped(mailkeep.db, which)
        if confirmed is None:
            say(f"{counted(found, 'job')} would run again; confirm with --count {found}")
            return ExitCode.USAGE
        bounded = Stopped(which.job_type, which.reason, which.since, until)
        if await retry_stopped(mailkeep.db, bounded, expected=confirmed) is None:
            say(f"There are {found} by now; nothing was changed.")
            return ExitCode.FAILED
    say(f"{counted(confirmed, 'job')} will run again.")
    return ExitCode.OK


@app.command("drop")
def drop_command(job: JobArgument) -> None:
    """Give a stopped job up for good; what caused it cannot enqueue it again."""
    _decided(drop_job, job)


@app.command("cancel")
def cancel_command(job: JobArgument) -> None:
    """Give a job up that waits; one that runs is not interrupted."""
    _decided(cancel_job, job)


@app.command("add")
def add_command(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The type of work.")],
    account: Annotated[str, typer.Option("--account", "-a", help="The account, by id or name.")],
    folder: Annotated[str | None, typer.Option("--folder", "-f", help="Only the folder of this alias.")] = None,
    fill: Annotated[bool, typer.Option("--fill", help="When verifying, also fetch what is missing.")] = False,
) -> None:
    """Ask for work now, ahead of scheduled work; a `mailkeep serve` or `mailkeep worker` does it."""

    async def work() -> None:
        async with App.open(home()) as mailkeep:
            (chosen,) = mailkeep.accounts(account)
            kind = job_type_named(job_type)
            if not applies_to(kind, chosen):
                raise ConfigurationRefused("that account has no server; only re-deriving makes sense for it")
            payload = payload_of(kind, chosen.account_id, folder=folder_alias(folder), fill=fill)
            show(str(await mailkeep.background.ask(payload)))

    run(work())


@app.command("pause")
def pause_command(name: TargetArgument) -> None:
    """Start no more jobs of a type in any process, or let a schedule make none; what runs finishes."""
    run(_pause(name, paused=True))


@app.command("resume")
def resume_command(name: TargetArgument) -> None:
    """Go on with a paused type or schedule; occasions that passed meanwhile are not made up for."""
    run(_pause(name, paused=False))


async def _pause(name: str, *, paused: bool) -> None:
    async with App.open(home()) as mailkeep:
        if any(schedule.schedule_id == name for schedule in mailkeep.background.schedules()):
            await pause_schedule(mailkeep.db, name, paused=paused)
        elif paused:
            await pause_type(mailkeep.db, job_type_named(name))
        else:
            await resume_type(mailkeep.db, job_type_named(name))
    say(_TOLD[Decision.ACCEPTED])


@app.command("schedules")
def schedules_command(as_json: JsonOption = False) -> None:
    """List the declared schedules: when each last made a job, and its next occasion."""

    async def work() -> list[dict[str, object]]:
        async with App.open(home()) as mailkeep:
            declared = mailkeep.background.schedules()
            states = await schedule_states(mailkeep.db, [schedule.schedule_id for schedule in declared])
        rows: list[dict[str, object]] = []
        for schedule in declared:
            state = states.get(schedule.schedule_id)
            rows.append(
                {
                    "schedule": schedule.schedule_id,
                    "job": schedule.payload.JOB_TYPE.value,
                    "last_occasion": None if state is None else state.last_occurrence_at,
                    "last_job": None if state is None else state.last_job_id,
                    "paused_at": None if state is None else state.paused_at,
                    "next": _following(schedule),
                }
            )
        return rows

    rows = run(work())
    if as_json:
        show_json({"schedules": rows})
        return
    if not rows:
        say("The settings declare no schedule (jobs.schedules).")
        return
    table(("schedule", "job", "last occasion", "next", "paused"), [_schedule_row(row) for row in rows])


def _schedule_row(row: dict[str, object]) -> tuple[str, ...]:
    moments = [row[key] for key in ("last_occasion", "next", "paused_at")]
    shown = [moment(when if isinstance(when, datetime) else None) for when in moments]
    return (str(row["schedule"]), str(row["job"]), *shown)


def _following(schedule: Schedule) -> datetime | None:
    return schedule.next_start(datetime.now(UTC))


def _decided(act: Callable[..., Awaitable[Decision]], job: UUID) -> None:
    async def work() -> Decision:
        async with App.open(home()) as mailkeep:
            return await act(mailkeep.db, job)

    decision = run(work())
    say(_TOLD[decision])
    raise typer.Exit(ExitCode.OK if decision is Decision.ACCEPTED else ExitCode.FAILED)


def _utc(when: datetime | None) -> datetime | None:
    return when if when is None or when.tzinfo is not None else when.replace(tzinfo=UTC)


def _table(jobs: Sequence[JobRow]) -> None:
    table(
        ("job", "type", "attempts", "reason", "key", "account", "enqueued", "since", "holder until"),
        [
            (
                str(job.id),
                job.job_type,
                str(job.attempts),
                job.reason or "-",
                job.key,
                job.account_id or "-",
                moment(job.enqueued_at),
                moment(job.state_changed_at),
                "-" if job.lease_owner is None else f"{job.lease_owner[:8]} {moment(job.lease_expires_at)}",
            )
            for job in jobs
        ],
        right=(2,),
    )


def _facts(job: JobRow) -> list[tuple[str, str]]:
    progress = "-" if job.progress_done is None else f"{job.progress_done} of {job.progress_total or '?'}"
    result = "-" if job.result is None else ", ".join(f"{name}={count}" for name, count in job.result.items())
    return [
        ("job", str(job.id)),
        ("type", job.job_type),
        ("state", job.state.value),
        ("key", job.key),
        ("account", job.account_id or "-"),
        ("attempts", str(job.attempts)),
        ("failure", " ".join(filter(None, (job.classification, job.reason))) or "-"),
        ("enqueued", moment(job.enqueued_at)),
        ("available", moment(job.available_at)),
        ("since", moment(job.state_changed_at)),
        ("holder", job.lease_owner or "-"),
        ("progress", progress),
        ("result", result),
    ]
