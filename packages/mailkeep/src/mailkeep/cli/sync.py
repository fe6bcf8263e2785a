"""`mailkeep sync` and `mailkeep status`: mirror, and prove what is held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from mailkeep.app import AccountReport, App, RunResult
from mailkeep.cli.deriving import derive_all, say_outstanding, stages_json, told
from mailkeep.cli.exits import ExitCode, report, run, stop_on_signals
from mailkeep.cli.progress import ProgressDisplay
from mailkeep.cli.terminal import say, show_json, table
from mailkeep.config import AccountKind, check_references, home
from mailkeep.display import counted, duration, moment, neutralise, size
from mailkeep.errors import ConfigurationRefused, MailkeepError
from mailkeep.sync import AccountOutcome, FolderOutcome

AccountOption = Annotated[str | None, typer.Option("--account", "-a", help="Only this account, by id or name.")]


def sync(
    once: Annotated[
        bool, typer.Option("--once", help="Mirror until everything is here, then end; without it keep mirroring.")
    ] = False,
    account: AccountOption = None,
    retry_quarantined: Annotated[
        bool, typer.Option("--retry-quarantined", help="Fetch quarantined messages again first.")
    ] = False,
    derive: Annotated[
        bool, typer.Option("--derive", help="With --once: also do all work after arrival, as mailkeep derive does.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what each account's run came to as JSON.")] = False,
) -> None:
    """Mirror the accounts' mail from their servers, after carrying out the changes that were asked for.

    Nothing else on a server is ever changed.

    With --once it ends when every message is stored and found by its words; what is derived later (languages, texts
    of attachments) waits for --derive, mailkeep derive, or the service.

    Ctrl-C stops cleanly: everything stored stays, and the next run goes on at the next message. Exit code 3 means
    that a server was unavailable or refused the login, 1 that a folder failed.
    """
    try:
        code = run(_sync(account, once=once, retry_quarantined=retry_quarantined, derive=derive, as_json=as_json))
    except KeyboardInterrupt:
        say("Stopped. What was stored is kept; go on with: mailkeep sync" + (" --once" if once else ""))
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    raise typer.Exit(code)


async def _sync(account: str | None, *, once: bool, retry_quarantined: bool, derive: bool, as_json: bool) -> int:
    async with App.open(home()) as mailkeep:
        chosen = [one for one in mailkeep.accounts(account) if one.kind is AccountKind.IMAP]
        if not chosen:
            raise ConfigurationRefused("there is no account to mirror; add one with: mailkeep account add")
        check_references(mailkeep.settings, mailkeep.home)
        with ProgressDisplay() as display:
            if retry_quarantined:
                retried = await mailkeep.retry_quarantined(chosen)
                say(f"{counted(retried, 'message')} left the quarantine.")
            if not once:
                await mailkeep.supervise(stop_on_signals(), accounts=chosen, progress=display.show)
                say("Stopped. What was stored is kept; go on with: mailkeep sync")
                return ExitCode.OK
            results = await mailkeep.synchronize(chosen, progress=display.show)
        derived = await derive_all(mailkeep) if derive else ()
    if as_json:
        show_json({"accounts": [_as_json(result) for result in results], "stages": stages_json(derived)})
    return max([*(_told(result) for result in results), told(derived)], default=ExitCode.OK)


def _told(result: RunResult) -> int:
    """Say in a few lines what a run came to; its exit code."""
    if isinstance(result.outcome, MailkeepError):
        say(f"{neutralise(result.account_id)}:")
        return report(result.outcome)
    outcome = result.outcome
    arrivals = outcome.arrivals
    seconds = (outcome.finished_at - outcome.started_at).total_seconds()
    parts = [f"{counted(arrivals.stored, 'message')} stored ({size(arrivals.octets_stored)})"]
    parts += [f"{counted(sum(folder.flags_changed for folder in outcome.folders), 'flag')} changed"]
    parts += [f"{sum(folder.gone for folder in outcome.folders)} gone"]
    if arrivals.quarantined:
        parts.append(f"{len(arrivals.quarantined)} quarantined (see: mailkeep status --quarantine)")
    if arrivals.oversized:
        parts.append(f"{arrivals.oversized} too large, kept by header only")
    folders = counted(len(outcome.folders), "folder")
    say(f"{neutralise(result.account_id)}: {', '.join(parts)}; {folders} in {duration(seconds)}")
    for folder in outcome.folders:
        if (line := folder_line(folder)) is not None:
            say(line)
    if outcome.unreadable_folder_lines:
        left_out = counted(outcome.unreadable_folder_lines, "folder")
        say(f"  {left_out} left out: no name that can be read, or one that is too long")
    return ExitCode.FAILED if outcome.is_failed else ExitCode.OK


def folder_line(folder: FolderOutcome) -> str | None:
    """What a person must know of a folder's run; None for one that simply worked."""
    facts = []
    if folder.outcome.value != "Synchronized":
        code = "" if not folder.failure_code else f" [{folder.failure_code}]"
        facts.append(folder.outcome.value + code)
    if folder.limits_reached:
        facts.append("stopped at " + ", ".join(sorted(limit.value for limit in folder.limits_reached)))
    return f"  {neutralise(folder.alias)}: {'; '.join(facts)}" if facts else None


def _as_json(result: RunResult) -> dict[str, object]:
    if isinstance(result.outcome, MailkeepError):
        return {"account": result.account_id, "failed": True, "code": result.outcome.code, "folders": []}
    outcome: AccountOutcome = result.outcome
    return {
        "account": result.account_id,
        "failed": outcome.is_failed,
        "code": outcome.failure_code,
        "commands": outcome.commands_sent,
        "octets_received": outcome.octets_received,
        "folders_left_out": outcome.unreadable_folder_lines,
        "folders": [
            {
                "folder": folder.alias,
                "outcome": folder.outcome,
                "code": folder.failure_code,
                "stored": folder.arrivals.stored,
                "quarantined": len(folder.arrivals.quarantined),
                "oversized": folder.arrivals.oversized,
                "flags_changed": folder.flags_changed,
                "gone": folder.gone,
                "more_remains": folder.more_remains,
                "limits_reached": sorted(limit.value for limit in folder.limits_reached),
            }
            for folder in outcome.folders
        ],
    }


def status(
    account: AccountOption = None,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="List the quarantined messages with their reasons.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show per folder what the server holds and what is here: stored, quarantined, skipped and why, missing, how fresh.

    The server's count is the one of the last run, so nothing is asked of the server. A folder is complete when its
    stored, quarantined and skipped messages add up to the server's.
    """
    if quarantine:
        run(_quarantine(account, as_json=as_json))
    else:
        run(_status(account, as_json=as_json))


async def _status(account: str | None, *, as_json: bool) -> None:
    async with App.open(home()) as mailkeep:
        reports = await mailkeep.status(account)
        stages = await mailkeep.stage_statuses()
        attachments = await mailkeep.attachment_outcomes()
        stopped = await mailkeep.stopped_jobs()
    if as_json:
        show_json({"accounts": reports, "stages": stages, "attachments": attachments, "stopped_jobs": stopped})
        return
    if not reports:
        say("No account yet. Add one with: mailkeep account add")
        return
    rows = [row for one in reports for row in _rows(one)]
    table(
        ("account", "folder", "server", "stored", "quarantined", "skipped", "missing", "synchronized"),
        rows,
        right=(2, 3, 4, 5, 6),
        whole=(7,),
    )
    say_outstanding(stages)
    if attachments:
        say(f"attachments read: {', '.join(f'{count} {outcome}' for outcome, count in attachments.items())}")
    _remark(reports)
    if stopped:
        say(f"{counted(stopped, 'job')} given up; see: mailkeep jobs list")
    for one in reports:
        if one.pause_reason is not None and one.next_run_at is not None:
            say(
                f"{one.account}: the mail server asked for patience ({one.pause_reason}); "
                f"next run {moment(one.next_run_at)}"
            )
    for one in reports:
        _say_changes(one)
    if any(folder.quarantined for one in reports for folder in one.folders):
        say("Quarantined messages with their reasons: mailkeep status --quarantine")


def _say_changes(account: AccountReport) -> None:
    """What was asked of the mailbox and is not done."""
    counts = account.changes
    if counts.unfinished or counts.dead_lettered:
        stuck = f", {counts.dead_lettered} given up" if counts.dead_lettered else ""
        waiting = counted(counts.unfinished, "change")
        say(f"{neutralise(account.account)}: {waiting} waiting{stuck}; see: mailkeep changes list")


def _remark(reports: Sequence[AccountReport]) -> None:
    """Damaged content, and the last comparison with the server: one line for the folders that lack nothing."""
    for one in reports:
        for folder in one.folders:
            named = f"{neutralise(one.account)} {neutralise(folder.folder)}"
            if folder.damaged:
                vain = f"; tried in vain for {folder.unrepairable}" if folder.unrepairable else ""
                damaged = counted(folder.damaged, "message")
                say(f"{named}: the content of {damaged} is damaged and to be fetched again{vain}")
            if folder.proof is not None and folder.proof.holes:
                when = moment(folder.proof.proved_at)
                missing = f"{folder.proof.holes} missing (mailkeep verify --fill)"
                say(f"{named}: compared with the server at {when}: {missing}")
        whole = [
            folder.proof.proved_at for folder in one.folders if folder.proof is not None and not folder.proof.holes
        ]
        if whole:
            which = "all folders" if len(whole) == len(one.folders) else f"{len(whole)} of {len(one.folders)} folders"
            when = f"{moment(min(whole))} or later"
            say(f"{neutralise(one.account)}: {which} compared with the server, at {when}: nothing missing")


def _rows(account: AccountReport) -> list[tuple[str, ...]]:
    if not account.folders:
        return [(account.account, "-", "-", "-", "-", "-", "-", "never")]
    return [
        (
            account.account,
            folder.folder,
            "-" if folder.server is None else str(folder.server),
            str(folder.stored),
            str(folder.quarantined),
            " ".join([str(folder.skipped), *(f"{reason}={n}" for reason, n in folder.skipped_by_reason.items())]),
            "-" if folder.missing is None else str(folder.missing),
            moment(folder.synchronized_at),
        )
        for folder in account.folders
    ]


async def _quarantine(account: str | None, *, as_json: bool) -> None:
    async with App.open(home()) as mailkeep:
        entries = await mailkeep.quarantine(account)
    if as_json:
        show_json({"quarantined": entries})
        return
    if not entries:
        say("Nothing is quarantined.")
        return
    table(
        ("account", "folder", "uid", "reason", "detail", "size", "attempts", "last attempt"),
        [
            (
                entry.account,
                entry.folder,
                str(entry.uid),
                entry.reason,
                entry.detail or "",
                "?" if entry.size is None else size(entry.size),
                str(entry.attempts),
                moment(entry.last_attempt_at),
            )
            for entry in entries
        ],
        right=(2, 5, 6),
    )
    say("Try them again with: mailkeep sync --once --retry-quarantined")
