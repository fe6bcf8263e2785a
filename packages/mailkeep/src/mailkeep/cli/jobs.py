"""`mailkeep worker` and `mailkeep jobs`: work in the background, and what operators see and decide of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from mailkeep.app import App
from mailkeep.background import ScheduleReport
from mailkeep.cli.exits import ExitCode, run, stop_on_signals
from mailkeep.cli.sync import AccountOption
from mailkeep.cli.terminal import is_narrow, say, show, show_json, table
from mailkeep.config import JobType, check_references, home
from mailkeep.display import counted, moment, neutralise
from mailkeep.errors import ConfigurationRefused, FilterRefused
from mailkeep.jobs import (
    Decision,
    JobRow,
    JobState,
    Stopped,
    cancel_job,
    count_stopped,
    drop_job,
    held_by,
    job_type_named,
    list_jobs,
    paused_types,
    retry_job,
    retry_stopped,
    show_job,
)

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
    DONE = "done"
    DROPPED = "dropped"


_STATES = {
    Listed.STOPPED: JobState.DEAD_LETTERED,
    Listed.PENDING: JobState.PENDING,
    Listed.RUNNING: JobState.CLAIMED,
    Listed.DONE: JobState.SUCCEEDED,
    Listed.DROPPED: JobState.DROPPED,
}
_NONE = {
    Listed.STOPPED: "No job has stopped. Others: --state pending, running, done or dropped.",
    Listed.PENDING: "No job waits.",
    Listed.RUNNING: "No job runs.",
    Listed.DONE: "No job has finished, or none that is still kept.",
    Listed.DROPPED: "No job was dropped, or none that is still kept.",
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
        if not mailkeep.accounts():
            raise ConfigurationRefused(
                "these settings have no account, so that jobs would fail here; "
                "a worker wants the mailkeep.toml and the secrets that mailkeep serve has"
            )
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
    """List jobs, latest change first: those that have stopped and wait for a decision, or those of another state."""

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
        if page.jobs:
            _table(state, page.jobs)
        else:
            say(_NONE[state])
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
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help=f"The type of work: {', '.join(JobType)}.")],
    account: Annotated[
        str | None, typer.Option("--account", "-a", help="The account, by id or name; needed when there are several.")
    ] = None,
    folder: Annotated[str | None, typer.Option("--folder", "-f", help="Only the folder of this alias.")] = None,
    fill: Annotated[bool, typer.Option("--fill", help="When verifying, also fetch what is missing.")] = False,
) -> None:
    """Ask for work now, ahead of scheduled work; a `mailkeep serve` or `mailkeep worker` does it."""

    async def work() -> None:
        async with App.open(home()) as mailkeep:
            known = mailkeep.accounts(account)
            if len(known) != 1:
                names = ", ".join(neutralise(one.account_id) for one in known) or "none yet"
                raise FilterRefused(f"name the account with --account; there are: {names}")
            (chosen,) = known
            made = await mailkeep.background.ask_for(job_type, chosen, folder=folder, fill=fill)
            show(str(made))
            if job_type in await paused_types(mailkeep.db):
                say(f"That type is paused; it waits for: mailkeep jobs resume {job_type}")
            say(f"A running `mailkeep serve` or `mailkeep worker` does it; see: mailkeep jobs show {made}")

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
        if paused:
            await mailkeep.background.pause(name)
        else:
            await mailkeep.background.resume(name)
    say(_TOLD[Decision.ACCEPTED])


@app.command("schedules")
def schedules_command(as_json: JsonOption = False) -> None:
    """List the declared schedules: when each last made a job, and its next occasion."""

    async def work() -> tuple[ScheduleReport, ...]:
        async with App.open(home()) as mailkeep:
            return await mailkeep.background.schedule_reports()

    reports = run(work())
    if as_json:
        show_json({"schedules": reports})
        return
    if not reports:
        say("The settings declare no schedule (jobs.schedules).")
        return
    if is_narrow():
        for one in reports:
            following = "paused" if one.paused_at is not None else f"next {moment(one.next)}"
            about = f"{one.job}, {following}, last occasion {moment(one.last_occasion)}"
            show(f"{neutralise(one.schedule)}\n  {neutralise(one.recurrence)}\n  {about}")
        return
    table(
        ("schedule", "when", "job", "last occasion", "next", "paused"),
        [
            (
                one.schedule,
                one.recurrence,
                one.job,
                moment(one.last_occasion),
                moment(one.next),
                moment(one.paused_at),
            )
            for one in reports
        ],
    )


def _decided(act: Callable[..., Awaitable[Decision]], job: UUID) -> None:
    async def work() -> Decision:
        async with App.open(home()) as mailkeep:
            return await act(mailkeep.db, job)

    decision = run(work())
    say(_TOLD[decision])
    raise typer.Exit(ExitCode.OK if decision is Decision.ACCEPTED else ExitCode.FAILED)


def _utc(when: datetime | None) -> datetime | None:
    return when if when is None or when.tzinfo is not None else when.replace(tzinfo=UTC)


def _table(state: Listed, jobs: Sequence[JobRow]) -> None:
    """One row for each job, with what matters in that state."""
    columns = _COLUMNS[state]
    if is_narrow():  # rows would break inside the ids
        for job in jobs:
            facts = (f"{name} {cell}" for name in columns if (cell := _CELLS[name](job)) != "-")
            show(f"{job.id}\n  {job.job_type}  {neutralise(job.account_id or '-')}\n  {neutralise(', '.join(facts))}")
        return
    head = ("job", "type", "account", *columns)
    rows = [
        (str(job.id), job.job_type, job.account_id or "-", *(_CELLS[name](job) for name in columns)) for job in jobs
    ]
    table(head, rows, right=tuple(at for at, name in enumerate(head) if name == "attempts"))


def _progress(job: JobRow) -> str:
    if job.progress_done is None:
        return "-"
    return f"{job.progress_done} of {job.progress_total}" if job.progress_total else str(job.progress_done)


def _result(job: JobRow) -> str:
    return "-" if not job.result else ", ".join(f"{name}={count}" for name, count in job.result.items())


def _holder(job: JobRow) -> str:
    return "-" if job.lease_owner is None else f"{held_by(job.lease_owner)} until {moment(job.lease_expires_at)}"


_CELLS: dict[str, Callable[[JobRow], str]] = {
    "attempts": lambda job: str(job.attempts),
    "reason": lambda job: job.reason or "-",
    "key": lambda job: job.key,
    "enqueued": lambda job: moment(job.enqueued_at),
    "starts": lambda job: moment(job.available_at),
    "since": lambda job: moment(job.state_changed_at),
    "progress": _progress,
    "held by": _holder,
    "result": _result,
}
_COLUMNS: dict[Listed, tuple[str, ...]] = {
    Listed.STOPPED: ("attempts", "reason", "since", "enqueued", "key"),
    Listed.PENDING: ("starts", "attempts", "reason", "enqueued", "key"),
    Listed.RUNNING: ("progress", "attempts", "since", "held by", "key"),
    Listed.DONE: ("result", "since", "attempts", "key"),
    Listed.DROPPED: ("reason", "since", "attempts", "key"),
}


def _facts(job: JobRow) -> list[tuple[str, str]]:
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
        ("held by", _holder(job)),
        ("progress", _progress(job)),
        ("result", _result(job)),
    ]
