"""`mailkeep import` and `mailkeep export`: mail in files, in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mailkeep.app import App
from mailkeep.cli.deriving import derive_all, told
from mailkeep.cli.exits import ExitCode, run
from mailkeep.cli.read import (
    AccountsOption,
    FoldersOption,
    FromOption,
    SinceOption,
    SubjectOption,
    ToOption,
    UntilOption,
    parse_instant,
)
from mailkeep.cli.terminal import err, say, show_json
from mailkeep.config import home, load_settings
from mailkeep.config.edit import add_account
from mailkeep.config.values import printable
from mailkeep.display import neutralise, size
from mailkeep.errors import TransferSourceRefused
from mailkeep.search import Filters, ListRequest
from mailkeep.transfer import ExportFormat, ImportOutcome, Unreadable

DEFAULT_ACCOUNT = "local"
MAX_SHOWN = 20


def import_mail(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="An mbox, a Maildir, an .eml file, or a folder of any of them.")
    ],
    account: Annotated[
        str, typer.Option("--account", "-a", help="Local account to fill; made when there is none of that id.")
    ] = DEFAULT_ACCOUNT,
    folder: Annotated[
        str | None, typer.Option("--folder", help="Put everything into this folder; else the source's own names.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Import mail from files into a local account, octet for octet.

    Importing the same mail twice changes nothing: a message that a folder holds already is counted and left out. What
    cannot be read is named on stderr and never stops the rest.
    """
    if folder is not None and (not printable(folder) or len(folder) > 128):
        raise typer.BadParameter("should be 1 to 128 printable characters", param_hint="--folder")
    try:
        path.lstat()  # before an account is made for mail that is not there
    except OSError as error:
        raise TransferSourceRefused(f"{path} cannot be read: {error.strerror or type(error).__name__}") from error
    if load_settings(home()).account(account) is None:
        add_account(home(), {"account_id": account, "display_name": account, "kind": "local"})
        say(f"Made the local account {neutralise(account)}.")
    outcome = run(_import(path, account, folder))
    if as_json:
        show_json(outcome)
    else:
        say(
            f"{outcome.imported} imported ({size(outcome.octets)}), {outcome.already_present} already here, "
            f"{outcome.unreadable_count} unreadable, {outcome.quarantined} quarantined."
        )
    _name_unreadable(outcome.unreadable, outcome.unreadable_count)
    if outcome.unreadable_count and not outcome.imported and not outcome.already_present:
        raise typer.Exit(ExitCode.FAILED)


async def _import(path: Path, account: str, folder: str | None) -> ImportOutcome:
    async with App.open(home()) as mailkeep:
        if not err.is_terminal:
            outcome = await mailkeep.import_path(path, account, alias=folder)
        else:
            with err.status("Importing…") as status:
                outcome = await mailkeep.import_path(
                    path,
                    account,
                    alias=folder,
                    report=lambda so_far: status.update(
                        f"{so_far.imported} imported, {so_far.already_present} already here, {size(so_far.octets)}"
                    ),
                )
        told(await derive_all(mailkeep))
        return outcome


def export_mail(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="File (mbox) or new folder (maildir, eml) to write.")],
    form: Annotated[ExportFormat, typer.Option("--format", help="What to write.")] = ExportFormat.MBOX,
    account: AccountsOption = None,
    folder: FoldersOption = None,
    sender: FromOption = None,
    recipient: ToOption = None,
    subject: SubjectOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Export stored mail as an mbox, a Maildir or .eml files, octet for octet, newest first.

    Nothing that exists is overwritten. Messages without stored octets are named on stderr.
    """
    request = ListRequest(
        accounts=tuple(account) if account else None,
        folders=tuple(folder) if folder else None,
        filters=Filters(
            sender_address=sender,
            recipient_address=recipient,
            subject_fragment=subject,
            received_on_or_after=parse_instant(since, "--since"),
            received_before=parse_instant(until, "--until"),
        ),
        include_junk_mail=True,
    )

    async def work() -> None:
        async with App.open(home()) as mailkeep:
            outcome = await mailkeep.export(request, path, form)
        if as_json:
            show_json(outcome)
        else:
            say(f"{outcome.exported} exported ({size(outcome.octets)}), {len(outcome.unreadable)} without octets.")
        _name_unreadable(outcome.unreadable, len(outcome.unreadable))

    run(work())


def _name_unreadable(items: tuple[Unreadable, ...], count: int) -> None:
    for item in items[:MAX_SHOWN]:
        say(f"  {neutralise(item.place)}: {neutralise(item.reason)}")
    if count > MAX_SHOWN:
        say(f"  … and {count - MAX_SHOWN} more")
