"""`mailkeep mark | move | copy | archive | trash | delete`: changes of mail on its server, written down to be done."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import typer

from mailkeep.app import App, utc_now
from mailkeep.cli.exits import ExitCode, run
from mailkeep.cli.search import point_at
from mailkeep.cli.terminal import consent, say, show_json, table
from mailkeep.config import home
from mailkeep.display import counted, neutralise
from mailkeep.mutations import (
    MAX_MESSAGES,
    Act,
    Archive,
    Asked,
    Change,
    Copy,
    Delete,
    LeftOut,
    LeftOutReason,
    Lifecycle,
    Mark,
    Move,
    Preview,
    Trash,
    Wish,
    ask,
    preview,
    show_changes,
)
from mailkeep.search import QueryMalformed, SearchRequest

WAIT_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.2
"""Between two looks at changes that are waited for."""
SHOWN_CHANGES: Final = 20
"""Of more changes only the counts are shown, unless JSON is asked for."""
_LEFT_OUT: Final = {
    LeftOutReason.ALREADY_THERE: "are there already",
    LeftOutReason.ALREADY_LEAVING: "are on their way to another folder; wait until that is done",
}

IdsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="Ids that list and search print; - reads them from stdin.")
]
QueryOption = Annotated[
    str | None, typer.Option("--query", "-q", help="All messages that this search finds, in the place of ids.")
]
PreviewOption = Annotated[bool, typer.Option("--preview", help="Only say what would be changed.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait up to a minute until it is done, and say how it ended.")]
RequestOption = Annotated[
    str | None,
    typer.Option("--request-id", help="A name for this request: the same one again asks for nothing more."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FolderOption = Annotated[str, typer.Option("--to", help="The folder of the same account: ALIAS or role:Archive.")]


@dataclass(frozen=True, slots=True)
class Options:
    """How a change is asked for."""

    ids: Sequence[str] | None
    query: str | None
    preview: bool
    wait: bool
    request_id: str | None
    yes: bool
    as_json: bool


def mark(
    ids: IdsArgument = None,
    read: Annotated[bool | None, typer.Option("--read/--unread", help="Mark as read, or as unread.")] = None,
    star: Annotated[bool | None, typer.Option("--star/--unstar", help="Star (flag), or take the star away.")] = None,
    add_keyword: Annotated[
        list[str] | None, typer.Option("--add-keyword", help="Add this keyword; repeatable.")
    ] = None,
    remove_keyword: Annotated[
        list[str] | None, typer.Option("--remove-keyword", help="Remove this keyword; repeatable.")
    ] = None,
    set_keywords: Annotated[
        str | None,
        typer.Option("--set-keywords", help='Exactly these keywords, with blanks between; "" clears all of them.'),
    ] = None,
    query: QueryOption = None,
    preview: PreviewOption = False,
    wait: WaitOption = False,
    request_id: RequestOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Mark mail as read or starred, or change its keywords, on its server.

    The change is written down and done by `mailkeep serve` at once, or by the next `mailkeep sync --once`; what list
    and show tell follows when it has been read back.
    """
    act = Mark(
        seen=read,
        flagged=star,
        set_keywords=None if set_keywords is None else tuple(set_keywords.split()),
        remove_keywords=tuple(remove_keyword) if remove_keyword else None,
        add_keywords=tuple(add_keyword) if add_keyword else None,
    )
    _carry_out(act, Options(ids, query, preview, wait, request_id, yes, as_json))


def move(
    to: FolderOption,
    ids: IdsArgument = None,
    query: QueryOption = None,
    preview: PreviewOption = False,
    wait: WaitOption = False,
    request_id: RequestOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move mail to another folder of its account. Undone by: mailkeep changes undo."""
    _carry_out(Move(to), Options(ids, query, preview, wait, request_id, yes, as_json))


def copy(
    to: FolderOption,
    ids: IdsArgument = None,
    query: QueryOption = None,
    preview: PreviewOption = False,
    wait: WaitOption = False,
    request_id: RequestOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Copy mail to another folder of its account. Asked for twice it makes two copies, save under one --request-id."""
    _carry_out(Copy(to), Options(ids, query, preview, wait, request_id, yes, as_json))


def archive(
    ids: IdsArgument = None,
    query: QueryOption = None,
    preview: PreviewOption = False,
    wait: WaitOption = False,
    request_id: RequestOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move mail to the folder with the role Archive; where there is none, as at Gmail, to the one with the role All."""
    _carry_out(Archive(), Options(ids, query, preview, wait, request_id, yes, as_json))


def trash(
    ids: IdsArgument = None,
    query: QueryOption = None,
    preview: PreviewOption = False,
    wait: WaitOption = False,
    request_id: RequestOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move mail to the folder with the role Trash. What becomes of it there is the server's affair."""
    _carry_out(Trash(), Options(ids, query, preview, wait, request_id, yes, as_json))


def delete(
    ids: IdsArgument = None,
    query: QueryOption = None,
    preview: PreviewOption = False,
    wait: WaitOption = False,
    request_id: RequestOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete mail from its server for good; this cannot be undone. `mailkeep trash` is the gentle way.

    The copy here is kept, hidden or erased as the account's `authored_delete_email_disposition` says.
    """
    _carry_out(Delete(), Options(ids, query, preview, wait, request_id, yes, as_json))


def _carry_out(act: Act, options: Options) -> None:
    if bool(options.ids) == (options.query is not None):
        raise typer.BadParameter("name messages by their ids, or by a --query", param_hint="ID")
    try:
        code = run(_change(act, options))
    except QueryMalformed as error:
        point_at(options.query or "", error, as_json=options.as_json)
        code = ExitCode.USAGE
    if code is not ExitCode.OK:
        raise typer.Exit(code)


async def _change(act: Act, options: Options) -> ExitCode:
    async with App.open(home()) as mailkeep:
        ids = await _named(mailkeep, options)
        if not ids:
            say("No message matches.")
            return ExitCode.OK
        wish = Wish(ids, act, options.request_id)
        if options.preview:
            _show_preview(await preview(mailkeep.db, mailkeep.settings, wish), as_json=options.as_json)
            return ExitCode.OK
        if isinstance(act, Delete) or options.query is not None:
            await _confirm(mailkeep, wish, options)
        asked = await ask(mailkeep.db, mailkeep.settings, wish, now=utc_now())
        if options.wait:
            asked = replace(asked, changes=await _ended(mailkeep, asked.changes))
    _show(asked, as_json=options.as_json, waited=options.wait)
    return _code(asked, waited=options.wait)


async def _named(mailkeep: App, options: Options) -> list[str]:
    if options.query is not None:
        request = SearchRequest(query_text=options.query)
        found = await mailkeep.matching(request, at_most=MAX_MESSAGES)
        say(f"{counted(len(found), 'message')} found.")
        return [str(one) for one in found]
    given = list(options.ids or ())
    return sys.stdin.read().split() if given == ["-"] else given


async def _confirm(mailkeep: App, wish: Wish, options: Options) -> None:
    """Show what would be changed and ask. Without a terminal only a deletion needs --yes: the rest can be undone."""
    is_deletion = isinstance(wish.act, Delete)
    if options.yes or (not is_deletion and not sys.stdin.isatty()):
        return
    found = await preview(mailkeep.db, mailkeep.settings, wish)
    for group in found.groups:
        place = neutralise(f"{group.account_id}/{group.folder_alias}")
        to = "" if group.destination is None else f" to {neutralise(group.destination)}"
        say(f"{group.mutation}: {counted(group.count, 'message')} of {place}{to}")
    consent(options.yes, "Delete them from the server for good?" if is_deletion else "Change them?")


async def _ended(mailkeep: App, changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes when all have ended, or after WAIT_SECONDS as they are."""
    ends = time.monotonic() + WAIT_SECONDS
    known = {one.record.id: one for one in changes}
    while True:
        open_ids = [one.record.id for one in known.values() if not one.record.stage.is_terminal]
        if not open_ids or time.monotonic() >= ends:
            return tuple(known.values())
        await asyncio.sleep(LOOK_SECONDS)
        known |= {one.record.id: one for one in await show_changes(mailkeep.db, open_ids)}


def _code(asked: Asked, *, waited: bool) -> ExitCode:
    """FAILED where something was not done: given up, still waiting after the wait, or left out while on its way."""
    lives = [one.record.lifecycle for one in asked.changes]
    if Lifecycle.DEAD_LETTERED in lives or (waited and any(life is not Lifecycle.COMPLETED for life in lives)):
        return ExitCode.FAILED
    is_late = any(one.reason is LeftOutReason.ALREADY_LEAVING for one in asked.left_out)
    return ExitCode.FAILED if is_late else ExitCode.OK


def _show_preview(found: Preview, *, as_json: bool) -> None:
    if as_json:
        show_json(
            {
                "would_change": found.groups,
                "would_refuse": [
                    {"account": one.account_id, "count": one.count, "code": one.error.code, "reason": one.error.message}
                    for one in found.refusals
                ],
                "left_out": found.left_out,
            }
        )
        return
    table(
        ("account", "folder", "change", "to", "messages", "the first"),
        [
            (
                one.account_id,
                one.folder_alias,
                one.mutation.value,
                one.destination or "-",
                str(one.count),
                " ".join(map(str, one.first_ids)),
            )
            for one in found.groups
        ],
        right=(4,),
    )
    for refusal in found.refusals:
        say(f"Refused for {neutralise(refusal.account_id)}: {refusal.error.message} [{refusal.error.code}]")
    _say_left_out(found.left_out)
    say("Nothing was changed.")


def _show(asked: Asked, *, as_json: bool, waited: bool) -> None:
    if as_json:
        show_json(
            {
                "request_id": asked.request_id,
                "changes": [change_json(one) for one in asked.changes],
                "left_out": asked.left_out,
            }
        )
        return
    if len(asked.changes) <= SHOWN_CHANGES:
        show_change_table(asked.changes)
    else:
        counts = Counter(
            (one.record.account_id, one.folder_alias, one.record.terms.mutation.value, state_text(one))
            for one in asked.changes
        )
        table(
            ("account", "folder", "change", "state", "messages"),
            [(*key, str(count)) for key, count in counts.items()],
            right=(4,),
        )
    _say_left_out(asked.left_out)
    unfinished = sum(not one.record.stage.is_terminal for one in asked.changes)
    if unfinished and waited:
        say(f"{counted(unfinished, 'change')} still waiting. Is `mailkeep serve` running? See: mailkeep changes list")
    elif unfinished:
        say("`mailkeep serve` does it at once; without it, the next `mailkeep sync --once` does.")
    if asked.changes:
        say(f"Undo: mailkeep changes undo --request {neutralise(asked.request_id)}")


def _say_left_out(left_out: Sequence[LeftOut]) -> None:
    for reason, count in Counter(one.reason for one in left_out).items():
        say(f"{counted(count, 'message')} left out: they {_LEFT_OUT[reason]}.")


def show_change_table(changes: Sequence[Change]) -> None:
    """Recorded changes, one line each."""
    table(
        ("change", "what", "message", "from", "to", "state"),
        [
            (
                str(one.record.id),
                what_text(one),
                str(one.record.stored_email_id),
                f"{one.record.account_id}/{one.folder_alias}",
                one.record.terms.destination_folder_path or "-",
                state_text(one),
            )
            for one in changes
        ],
        whole=(0, 2),
    )


def what_text(change: Change) -> str:
    """The mutation with its parameters."""
    terms = change.record.terms
    values = [
        None if terms.desired_seen_state is None else ("yes" if terms.desired_seen_state else "no"),
        None if terms.desired_flagged_state is None else ("yes" if terms.desired_flagged_state else "no"),
        None if terms.keywords is None else (" ".join(terms.keywords) or "none"),
    ]
    return " ".join([terms.mutation.value, *(value for value in values if value is not None)])


def state_text(change: Change) -> str:
    """The lifecycle, with the code where there is one."""
    code = change.record.last_failure_code
    return change.record.lifecycle.value + ("" if code is None else f" [{code}]")


def change_json(change: Change) -> dict[str, object]:
    """A change as JSON prints it."""
    record = change.record
    return {
        "change": record.id,
        "message": record.stored_email_id,
        "account": record.account_id,
        "folder": change.folder_alias,
        "mutation": record.terms.mutation,
        "destination": record.terms.destination_folder_path,
        "seen": record.terms.desired_seen_state,
        "flagged": record.terms.desired_flagged_state,
        "keywords": record.terms.keywords,
        "state": record.lifecycle,
        "code": record.last_failure_code,
        "attempts": record.attempt_count,
        "recorded_at": record.recorded_at,
        "since": record.stage_changed_at,
        "request_id": record.requester.identity,
        "undoes": record.undoes_mutation_id,
    }
