"""`mailkeep mail rederive | rewind | erase`: what operators ask of mail that is stored already."""

from __future__ import annotations

from typing import Annotated

import typer

from mailkeep.app import App, utc_now
from mailkeep.cli.exits import ExitCode, run
from mailkeep.cli.sync import AccountOption
from mailkeep.cli.terminal import consent, say, show_json, table
from mailkeep.config import home
from mailkeep.display import moment, neutralise
from mailkeep.mailbox import AccountId, RederivationRun, stored_count
from mailkeep.sync import reading_limits
from mailkeep.upkeep import (
    check_erasable,
    erasable_account,
    erase,
    folder_alias,
    rederivations,
    rederive,
    rewind_all,
    rewindable,
    scope_of,
)

app = typer.Typer(no_args_is_help=True, help="Stored mail: read it again, walk folders again, erase a folder.")

FolderOption = Annotated[str | None, typer.Option("--folder", "-f", help="Only the folder of this alias.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("rederive")
def rederive_mail(
    account: AccountOption = None,
    folder: FolderOption = None,
    status: Annotated[bool, typer.Option("--status", help="Only show what was asked for and how it went.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Read stored mail again, for what a newer version understands better; no server is asked.

    Columns, search documents and conversations are written from the stored octets; ids, flags and octets stay. It
    works in small steps: interrupted at any moment, the same command goes on where it stopped.
    """
    try:
        run(_rederive(account, folder_alias(folder), only_status=status, as_json=as_json))
    except KeyboardInterrupt:
        say("Stopped. What was read is kept; the same command goes on from there.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


async def _rederive(account: str | None, alias: str | None, *, only_status: bool, as_json: bool) -> None:
    async with App.open(home()) as mailkeep:
        account_ids = await scope_of(mailkeep.db, mailkeep.accounts(account), alias)
        if only_status:
            runs = await rederivations(mailkeep.db, account_ids)
            runs = [one for one in runs if alias is None or one.alias == alias]
        else:
            runs = await rederive(
                mailkeep.db,
                account_ids,
                alias=alias,
                limits=reading_limits(mailkeep.settings.mail_synchronization),
                now=utc_now,
                report=_tell,
            )
    if as_json:
        show_json({"runs": [_as_json(one) for one in runs]})
        return
    if not runs:
        say("Nothing was asked for yet.")
        return
    table(
        ("account", "folder", "requested", "passes", "read again", "unreadable", "no content", "ended"),
        [
            (
                one.account_id,
                one.alias or "(all)",
                moment(one.requested_at),
                *(str(count) for count in (one.passes, one.rederived, one.unreadable, one.missing_content)),
                "outstanding" if one.ended_at is None else moment(one.ended_at),
            )
            for one in runs
        ],
        right=(3, 4, 5, 6),
    )


def _tell(progress: RederivationRun) -> None:
    done = progress.rederived + progress.unreadable + progress.missing_content
    state = "going on" if progress.ended_at is None else "done"
    say(f"{neutralise(progress.account_id)} {neutralise(progress.alias)}: {done} messages, {state}")


def _as_json(one: RederivationRun) -> dict[str, object]:
    return {
        "account": one.account_id,
        "folder": one.alias or None,
        "run": one.run_id,
        "requested_at": one.requested_at,
        "passes": one.passes,
        "rederived": one.rederived,
        "unreadable": one.unreadable,
        "missing_content": one.missing_content,
        "ended_at": one.ended_at,
    }


@app.command("rewind")
def rewind_folders(
    account: AccountOption = None,
    folder: FolderOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let the next run walk folders from their first message again; nothing is erased and nothing is stored twice.

    For a mirror that somebody no longer trusts: everything is fetched once more, what is here already is compared, and
    damaged content is replaced. `mailkeep verify` is cheaper where only the proof is wanted.
    """
    alias = folder_alias(folder)
    stored = run(_rewindable(account, alias))
    for account_id, count in stored.items():
        say(f"{neutralise(account_id)}: {count} stored messages will be fetched and compared again.")
    consent(yes, "Rewind?")
    say(f"Rewound {run(_rewind(list(stored), alias))} folders; now run: mailkeep sync --once")


async def _rewindable(account: str | None, alias: str | None) -> dict[AccountId, int]:
    async with App.open(home()) as mailkeep:
        return await rewindable(mailkeep.db, mailkeep.accounts(account), alias)


async def _rewind(account_ids: list[AccountId], alias: str | None) -> int:
    async with App.open(home()) as mailkeep:
        return await rewind_all(mailkeep.db, account_ids, alias=alias)


@app.command("erase")
def erase_mail(
    account: Annotated[str, typer.Option("--account", "-a", help="The account, by id or name.")],
    folder: Annotated[str, typer.Option("--folder", "-f", help="The alias; one that is not mapped any more, too.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Erase what is stored of one folder that is not mirrored any more; this cannot be undone.

    Nothing on a server changes. A folder that is mirrored is refused, since the next run would bring it back.
    Interrupted, the same command goes on.
    """
    alias = folder_alias(folder)
    assert alias is not None
    count = run(_erasable(account, alias))
    say(f"{count} stored messages will be erased.")
    consent(yes, "Erase them?")
    say(f"Erased {run(_erase(account, alias))} messages.")


async def _erasable(account: str, alias: str) -> int:
    async with App.open(home()) as mailkeep:
        account_id = erasable_account(mailkeep.settings, account)
        check_erasable(mailkeep.settings, account_id, alias)
        return await stored_count(mailkeep.db, account_id, alias=alias)


async def _erase(account: str, alias: str) -> int:
    async with App.open(home()) as mailkeep:
        return await erase(mailkeep.db, mailkeep.settings, erasable_account(mailkeep.settings, account), alias=alias)
