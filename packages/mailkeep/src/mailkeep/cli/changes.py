"""`mailkeep changes`: what was asked of mail on its server, how far it is, and what people decide about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final
from uuid import UUID

import typer

from mailkeep.app import App, utc_now
from mailkeep.cli.changing import change_json, state_text, what_text
from mailkeep.cli.exits import ExitCode, run
from mailkeep.cli.read import parse_instant
from mailkeep.cli.sync import AccountOption
from mailkeep.cli.terminal import consent, say, show, show_json, table
from mailkeep.config import home
from mailkeep.display import counted, duration, moment, neutralise
from mailkeep.errors import ConfigurationRefused, FilterRefused, MailChangeInvalid
from mailkeep.mutations import (
    AuditEntry,
    AuditFilter,
    Change,
    ChangeFilter,
    Decision,
    Lifecycle,
    Mutation,
    Undone,
    UndoOutcome,
    UndoWish,
    count_trail,
    erase_trail,
    list_changes,
    parse_change_id,
    preview_undo,
    read_trail,
    resolve_change,
    retry_change,
    show_change,
    undo,
)

app = typer.Typer(no_args_is_help=True, help="Changes of mail on its server: what waits, what is stuck, what was done.")

ChangeArgument = Annotated[str, typer.Argument(metavar="CHANGE", help="The id that `mailkeep changes list` shows.")]
ChangesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="CHANGE", help="The ids that `mailkeep changes list` shows.")
]
StateOption = Annotated[
    Lifecycle | None, typer.Option("--state", help="Only changes in this state. Left out: all that are not completed.")
]
MutationOption = Annotated[Mutation | None, typer.Option("--mutation", help="Only changes of this kind.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", help="Entries on a page, 1 to 200.")]
AfterOption = Annotated[str | None, typer.Option("--after", help="The cursor that the page before ended with.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

_TOLD: Final = {
    Decision.ACCEPTED: "Done. `mailkeep serve` takes it up at once; without it, the next `mailkeep sync --once` does.",
    Decision.CHANGE_UNKNOWN: "There is no such change.",
    Decision.NOT_DEAD_LETTERED: "That change has not been given up, or not any more.",
    Decision.OUTCOME_UNKNOWN: "That change may have happened. Look, then say so: mailkeep changes resolve",
    Decision.NOT_IN_DOUBT: "There is no doubt about what became of that change, or not any more.",
}
_UNDONE: Final = {
    UndoOutcome.RECORDED: "the way back is recorded",
    UndoOutcome.WITHDRAWN: "withdrawn; it had not begun",
    UndoOutcome.NOTHING_TO_DO: "nothing to do",
}


@app.command("list")
def list_command(
    account: AccountOption = None,
    state: StateOption = None,
    mutation: MutationOption = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
) -> None:
    """List changes, the last asked for first: with their age, and the code of those that were given up."""

    async def work() -> None:
        async with App.open(home()) as mailkeep:
            account_id = None if account is None else mailkeep.accounts(account)[0].account_id
            which = ChangeFilter(account_id, state, mutation)
            page = await list_changes(mailkeep.db, which, page_size=limit, cursor=after)
        if as_json:
            show_json({"changes": [change_json(one) for one in page.changes], "next_cursor": page.next_cursor})
            return
        if not page.changes:
            say("No change is waiting or stuck." if state is None else "There is none.")
        else:
            _table(page.changes)
        if any(one.record.lifecycle is Lifecycle.DEAD_LETTERED for one in page.changes):
            say("What a code means, and what to do: docs/reference/errors.md; again: mailkeep changes retry CHANGE")
        if page.next_cursor is not None:
            say(f"More: --after {page.next_cursor}")

    run(work())


@app.command("show")
def show_command(change: ChangeArgument, as_json: JsonOption = False) -> None:
    """Show one change: what was asked, how far it is, and what it came to."""

    async def work() -> Change | None:
        async with App.open(home()) as mailkeep:
            return await show_change(mailkeep.db, parse_change_id(change))

    found = run(work())
    if found is None:
        say(_TOLD[Decision.CHANGE_UNKNOWN])
        raise typer.Exit(ExitCode.FAILED)
    if as_json:
        show_json(change_json(found) | _details(found))
        return
    for name, value in _facts(found):
        show(f"{name:<12} {neutralise(value)}")


@app.command("retry")
def retry_command(changes: ChangesArgument = None) -> None:
    """Attempt changes again that were given up, from where they stood. Ask for the reason first: it may still hold."""
    _decided(changes, lambda mailkeep, one: retry_change(mailkeep.db, one, now=utc_now()))


@app.command("resolve")
def resolve_command(
    changes: ChangesArgument = None,
    landed: Annotated[
        bool | None, typer.Option("--landed/--not-landed", help="Whether the message is in the folder it was to go to.")
    ] = None,
) -> None:
    """Say what became of a move or copy whose answer was lost; mailkeep never guesses and never sends it again.

    What landed is done. What did not is given up, and `mailkeep changes retry` asks for it again.
    """
    if landed is None:
        raise typer.BadParameter("say --landed or --not-landed", param_hint="--landed")
    _decided(changes, lambda mailkeep, one: resolve_change(mailkeep.db, one, landed=landed, now=utc_now()))


def _decided(changes: Sequence[str] | None, act: Callable[[App, UUID], Awaitable[Decision]]) -> None:
    if not changes:
        raise typer.BadParameter("name a change", param_hint="CHANGE")

    async def work() -> list[Decision]:
        ids = [parse_change_id(one) for one in changes]
        async with App.open(home()) as mailkeep:
            return [await act(mailkeep, one) for one in ids]

    decisions = run(work())
    for one, decision in zip(changes, decisions, strict=True):
        say(_TOLD[decision] if len(changes) == 1 else f"{neutralise(one)}: {_TOLD[decision]}")
    if any(decision is not Decision.ACCEPTED for decision in decisions):
        raise typer.Exit(ExitCode.FAILED)


@app.command("undo")
def undo_command(
    changes: ChangesArgument = None,
    request: Annotated[
        str | None, typer.Option("--request", help="Everything that one request asked for, in the place of ids.")
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only say what would be undone.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Undo changes: withdraw what has not begun, else ask for the way back, as a change of its own.

    Flags and keywords go back to what was seen before, a moved message goes back, a copy is deleted. A deletion cannot
    be undone. All that is named is undone, or nothing is.
    """
    if bool(changes) == (request is not None):
        raise MailChangeInvalid("name changes by their ids, or a --request")
    wish = UndoWish(changes or (), of_request=request)

    async def work() -> list[Undone]:
        async with App.open(home()) as mailkeep:
            if preview:
                return await preview_undo(mailkeep.db, mailkeep.settings, wish)
            return await undo(mailkeep.db, mailkeep.settings, wish, now=utc_now())

    answers = run(work())
    if as_json:
        show_json({"undone": [_undone_json(one) for one in answers]})
        return
    table(
        ("change", "what", "message", "outcome", "undone by"),
        [
            (
                str(one.change.record.id),
                what_text(one.change),
                str(one.change.record.stored_email_id),
                _UNDONE[one.outcome],
                "-" if one.inverse is None else f"{one.inverse.record.id} {state_text(one.inverse)}",
            )
            for one in answers
        ],
        whole=(0, 2),
    )
    if preview:
        say("Nothing was changed.")


@app.command("audit")
def audit_command(
    account: Annotated[str, typer.Option("--account", "-a", help="The account, by id or name.")],
    mutation: MutationOption = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only what ended on or after this day or instant.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only what ended before this day or instant.")] = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how changes of an account ended, newest first; it is kept while the account's audit_trail is enabled."""

    async def work() -> None:
        async with App.open(home()) as mailkeep:
            chosen = _chosen(mailkeep, account)
            which = AuditFilter(chosen, mutation, parse_instant(since, "--since"), parse_instant(until, "--until"))
            page = await read_trail(mailkeep.db, which, page_size=limit, cursor=after)
            enabled = any(one.audit_trail.enabled for one in mailkeep.accounts() if one.account_id == chosen)
        if as_json:
            show_json({"entries": page.entries, "next_cursor": page.next_cursor, "left_out": page.left_out})
            return
        if page.entries:
            _audit_table(page.entries)
        else:
            say("There is none." if enabled else "There is none; audit_trail.enabled is false for that account.")
        if page.left_out:
            say(f"Of this page {counted(page.left_out, 'line')} cannot be read by this version.")
        if page.next_cursor is not None:
            say(f"More: --after {page.next_cursor}")

    run(work())


@app.command("erase")
def erase_command(
    account: Annotated[str, typer.Option("--account", "-a", help="The account, by id; one that is gone, too.")],
    messages: Annotated[
        list[str] | None, typer.Option("--message", help="Only entries about this message; repeatable.")
    ] = None,
    messages_from: Annotated[
        Path | None, typer.Option("--messages-from", help="Only entries about the messages whose ids this file lists.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All entries of the account.")] = False,
    yes: YesOption = False,
) -> None:
    """Erase audit entries: those about a person's messages, or all of an account. This cannot be undone.

    Entries outlive the messages they are about, so that erasing a message leaves them; this removes them.
    """
    ids = _message_ids(messages, messages_from)
    if everything == (ids is not None):
        raise FilterRefused("name messages, or say --all")
    run(_erase(account, ids, yes=yes))


async def _erase(account: str, ids: list[UUID] | None, *, yes: bool) -> None:
    async with App.open(home()) as mailkeep:
        account_id = _chosen(mailkeep, account)
        found = await count_trail(mailkeep.db, account_id, stored_email_ids=ids)
        say(f"Audit entries that will be erased: {found}")
        consent(yes, "Erase them?")
        erased = await erase_trail(mailkeep.db, account_id, stored_email_ids=ids)
    say(f"Erased {erased}.")


def _message_ids(named: Sequence[str] | None, file: Path | None) -> list[UUID] | None:
    if named is None and file is None:
        return None
    try:
        listed = [] if file is None else file.read_text("utf-8").split()
        return [UUID(one) for one in (*(named or ()), *listed)]
    except (OSError, ValueError):
        raise FilterRefused("the ids of messages cannot be read: one a line, as `mailkeep list` prints them") from None


def _chosen(mailkeep: App, account: str) -> str:
    """The id of a configured account by any of its names, else the text: entries outlive the account, too."""
    configured = mailkeep.settings.account(account)
    if configured is None and not account.strip():
        raise ConfigurationRefused("name an account")
    return account if configured is None else configured.account_id


def _table(changes: Sequence[Change]) -> None:
    now = utc_now()
    table(
        ("change", "what", "account/folder", "to", "state", "attempts", "age"),
        [
            (
                str(one.record.id),
                what_text(one),
                f"{one.record.account_id}/{one.folder_alias}",
                one.record.terms.destination_folder_path or "-",
                state_text(one),
                str(one.record.attempt_count),
                duration(max(0.0, (now - one.record.recorded_at).total_seconds())),
            )
            for one in changes
        ],
        right=(5,),
        whole=(0,),
    )


def _audit_table(entries: Sequence[AuditEntry]) -> None:
    table(
        ("ended", "what", "message", "from", "to", "outcome", "asked by"),
        [
            (
                moment(one.completed_at),
                one.mutation.value,
                str(one.stored_email_id),
                f"{one.source_folder_path} {one.source_uid}",
                one.destination_folder_path or "-",
                one.outcome.value + ("" if one.failure_code is None else f" [{one.failure_code}]"),
                f"{one.requester_origin} {one.requester_identity}",
            )
            for one in entries
        ],
        whole=(0, 2),
    )


def _undone_json(one: Undone) -> dict[str, object]:
    return {
        "change": one.change.record.id,
        "outcome": one.outcome,
        "undone_by": None if one.inverse is None else change_json(one.inverse),
    }


def _details(change: Change) -> dict[str, object]:
    record = change.record
    return {
        "stage": record.stage,
        "abandoned_from": record.abandoned_from_stage,
        "uid_validity": record.source.uid_validity,
        "uid": record.source.uid,
        "placement": record.placement,
        "placement_observed_at": record.placement_observed_at,
        "source_removal_observed_at": record.source_removal_observed_at,
        "origin": record.requester.origin,
        "audited": record.audit_trail_enabled,
    }


def _facts(change: Change) -> list[tuple[str, str]]:
    record = change.record
    placed = record.placement
    return [
        ("change", str(record.id)),
        ("what", what_text(change)),
        ("message", str(record.stored_email_id)),
        ("from", f"{record.account_id}/{change.folder_alias}, UID {record.source.uid}"),
        ("to", record.terms.destination_folder_path or "-"),
        ("state", state_text(change)),
        (
            "stage",
            record.stage + (f", given up at {record.abandoned_from_stage}" if record.abandoned_from_stage else ""),
        ),
        ("attempts", str(record.attempt_count)),
        ("asked", f"{moment(record.recorded_at)} by {record.requester.origin} {record.requester.identity}"),
        ("since", moment(record.stage_changed_at)),
        ("arrived as", "-" if placed is None else f"UID {placed.uid}, read back {_when(record.placement_observed_at)}"),
        ("left", _when(record.source_removal_observed_at)),
        ("undoes", str(record.undoes_mutation_id or "-")),
    ]


def _when(instant: datetime | None) -> str:
    return "not yet" if instant is None else moment(instant)
