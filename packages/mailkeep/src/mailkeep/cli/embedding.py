"""`mailkeep embeddings status | activate | cancel`: search by meaning, switched on by hand since it can cost money."""

from __future__ import annotations

from typing import Annotated

import typer

from mailkeep.app import App
from mailkeep.cli.deriving import derive_all, told
from mailkeep.cli.exits import ExitCode, run
from mailkeep.cli.terminal import consent, say, show, show_json, table
from mailkeep.config import home
from mailkeep.display import counted, moment, neutralise
from mailkeep.embeddings import (
    Coverage,
    EmbeddingReport,
    Forecast,
    Outcome,
    ProfileIdentity,
    Prospect,
    Registration,
    forecast_json,
    report_json,
)
from mailkeep.errors import ReindexRefused

STAGES = ("passages", "embeddings")

app = typer.Typer(no_args_is_help=True, help="Search by meaning: which model, how far it is, what it costs.")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("status")
def status(as_json: JsonOption = False) -> None:
    """Show the declared model, the one that searches use, the one being built, the provider's state and the spend."""

    async def work() -> EmbeddingReport:
        async with App.open(home()) as mailkeep:
            return await mailkeep.embeddings.report()

    report = run(work())
    if as_json:
        show_json(report_json(report))
        return
    if report.activation_outstanding:
        show("The declared model is not in use. See what it takes, and begin: mailkeep embeddings activate")
    table(
        ("", "model", "emails", "outstanding", "index"),
        [
            ("declared", _name(report.declared), "", "", ""),
            ("serving", *_cells(report.serving)),
            ("building", *_cells(report.building)),
        ],
        right=(2, 3),
    )
    failure = "" if report.health.failure_class is None else f" ({report.health.failure_class.value})"
    show(f"provider: {report.health.state.value}{failure} {moment(report.health.observed_at)}".rstrip())
    if report.refused_emails:
        show(f"{counted(report.refused_emails, 'email')} refused by the provider; tried again from time to time")
    ceiling = "no ceiling" if report.spend.ceiling is None else f"of {report.spend.ceiling}"
    show(
        f"spend: {report.spend.consumed} characters {ceiling} in the period until {moment(report.spend.period_ends_at)}"
    )


@app.command("activate")
def activate(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Make the vectors now, or leave that to serve.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Show what the declared model's vectors take, and begin to make them once you agree.

    Searches go on with what they have until everything has its vector. Interrupt it at will: `mailkeep serve`,
    `mailkeep derive` and this command go on where it stands.
    """
    outlook = run(_forecast())
    if not as_json:
        _tell(outlook)
    if outlook.prospect is Prospect.OTHER_BUILDING:
        raise ReindexRefused("another model is being built; cancel that first: mailkeep embeddings cancel")
    if outlook.prospect is Prospect.WOULD_START:
        consent(yes, "Make them?")
    try:
        code, registration = run(_activate(wait=wait))
    except KeyboardInterrupt:
        say("Stopped. What was made is kept; the same command goes on from there.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        show_json({**forecast_json(outlook), "outcome": registration.value})
    elif registration is Registration.ALREADY_SERVING:
        show("The declared model is in use already.")
    raise typer.Exit(code)


@app.command("cancel")
def cancel(as_json: JsonOption = False) -> None:
    """End the making of new vectors and remove them; what searches use stays."""

    async def work() -> Outcome:
        async with App.open(home()) as mailkeep:
            return await mailkeep.cancel_embeddings()

    outcome = run(work())
    if as_json:
        show_json({"outcome": outcome.value})
    else:
        show("Cancelled." if outcome is Outcome.CANCELLED else "Nothing is being built.")


async def _forecast() -> Forecast:
    async with App.open(home()) as mailkeep:
        return await mailkeep.embeddings.forecast()


async def _activate(*, wait: bool) -> tuple[ExitCode, Registration]:
    async with App.open(home()) as mailkeep:
        registration, _ = await mailkeep.activate_embeddings()
        code = told(await derive_all(mailkeep, STAGES)) if wait else ExitCode.OK
        return code, registration


def _tell(outlook: Forecast) -> None:
    estimate = outlook.estimate
    about = "about " if estimate.uncut_emails else ""
    say(
        f"{counted(estimate.outstanding_emails, 'email')} of {estimate.searchable_emails} lack vectors: "
        f"{about}{counted(estimate.outstanding_passages, 'passage')}, {estimate.outstanding_characters} characters, "
        f"roughly {estimate.approximate_tokens} tokens."
    )
    if not outlook.is_metered:
        say("The model runs on this machine: nothing leaves it and nothing is charged.")
    elif outlook.spend.ceiling is not None:
        say(f"The present period admits {outlook.spend.remaining} of {outlook.spend.ceiling} characters.")


def _name(identity: ProfileIdentity | None) -> str:
    if identity is None:
        return "none"
    return neutralise(f"{identity.provider} {identity.model_identifier} {identity.model_version or ''}".strip())


def _cells(coverage: Coverage | None) -> tuple[str, str, str, str]:
    if coverage is None:
        return "none", "", "", ""
    estimate = coverage.estimate
    return (
        _name(coverage.profile.identity),
        str(estimate.embedded_emails),
        str(estimate.outstanding_emails),
        "yes" if coverage.has_index else "no",
    )
