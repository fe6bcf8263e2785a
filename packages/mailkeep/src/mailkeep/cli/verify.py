"""`mailkeep verify`: compare every folder with its server, message by message, and fill the holes."""

from __future__ import annotations

from typing import Annotated

import typer

from mailkeep.app import App
from mailkeep.cli.exits import ExitCode, report, run
from mailkeep.cli.sync import AccountOption
from mailkeep.cli.terminal import say, show_json, table
from mailkeep.config import check_references, home
from mailkeep.display import neutralise
from mailkeep.errors import MailkeepError
from mailkeep.sync.verify import AccountProof, FolderProof
from mailkeep.upkeep import Verified, folder_alias
from mailkeep.upkeep import verify as verify_accounts

SHOWN_CHARACTERS = 200  # of a list of UIDs; --json has all of it


def verify(
    account: AccountOption = None,
    folder: Annotated[str | None, typer.Option("--folder", "-f", help="Only the folder of this alias.")] = None,
    fill: Annotated[bool, typer.Option("--fill", help="Fetch what is missing, then compare again.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every UID.")] = False,
) -> None:
    """Prove that every message of the server is here: ask it for all UIDs and compare them one by one.

    Holes are on the server and neither stored, skipped (header only, or before the account's earliest date) nor
    quarantined. Surplus is stored as if it were on the server, and is not; the next run that sees the folder change
    settles it. The result is kept for `mailkeep status`. Exit code 1 when holes remain or a folder could not be
    compared.
    """
    raise typer.Exit(run(_verify(account, folder_alias(folder), fill=fill, as_json=as_json)))


async def _verify(account: str | None, alias: str | None, *, fill: bool, as_json: bool) -> int:
    async with App.open(home()) as mailkeep:
        check_references(mailkeep.settings, mailkeep.home)
        chosen = mailkeep.accounts(account)
        results = await verify_accounts(mailkeep.db, mailkeep.settings, mailkeep.home, chosen, alias=alias, fill=fill)
    if as_json:
        show_json({"accounts": [_as_json(result) for result in results]})
    else:
        _show([result.proof for result in results if isinstance(result.proof, AccountProof)])
    return max((_told(result) for result in results), default=ExitCode.OK)


def _show(proofs: list[AccountProof]) -> None:
    rows = [_row(proof.account_id, folder) for proof in proofs for folder in proof.folders]
    table(
        ("account", "folder", "server", "stored", "skipped", "quarantined", "holes", "surplus", "filled"),
        rows,
        right=(2, 3, 4, 5, 6, 7, 8),
    )
    for proof in proofs:
        for folder in proof.folders:
            for name, uids in (("holes", folder.holes), ("surplus", folder.surplus)):
                if uids:
                    say(f"{_named(proof, folder.alias)}: {name} at UID {_cut(uids)}")
            if folder.not_reached:
                say(f"{_named(proof, folder.alias)}: {folder.not_reached} of them come with the next run")


def _row(account_id: str, folder: FolderProof) -> tuple[str, ...]:
    counts = folder.counts
    skipped = " ".join(
        [
            str(counts.skipped + counts.excluded_by_date),
            *(f"{reason}={count}" for reason, count in folder.skipped_by_reason.items()),
        ]
    )
    numbers = (counts.quarantined, counts.holes, counts.surplus, counts.filled)
    return (account_id, folder.alias, str(counts.server), str(counts.stored), skipped, *map(str, numbers))


def _named(proof: AccountProof, alias: str) -> str:
    return f"{neutralise(proof.account_id)} {neutralise(alias)}"


def _cut(uids: str) -> str:
    return uids if len(uids) <= SHOWN_CHARACTERS else f"{uids[:SHOWN_CHARACTERS]}… (all of them: --json)"


def _told(result: Verified) -> int:
    """Say what could not be compared and whether holes remain; the account's exit code."""
    if isinstance(result.proof, MailkeepError):
        say(f"{neutralise(result.account_id)}:")
        return report(result.proof)
    for folder in result.proof.unproven:
        code = "" if folder.code is None else f" [{folder.code}]"
        say(f"{_named(result.proof, folder.alias)}: could not be compared: {folder.outcome}{code}")
    if any(folder.counts.holes for folder in result.proof.folders):
        say("Fill the holes with: mailkeep verify --fill")
    return ExitCode.OK if result.proof.is_complete else ExitCode.FAILED


def _as_json(result: Verified) -> dict[str, object]:
    if isinstance(result.proof, MailkeepError):
        return {"account": result.account_id, "complete": False, "code": result.proof.code, "folders": []}
    return {
        "account": result.account_id,
        "complete": result.proof.is_complete,
        "code": None,
        "folders": [_folder_as_json(folder) for folder in result.proof.folders],
        "unproven": [
            {"folder": folder.alias, "outcome": folder.outcome, "code": folder.code} for folder in result.proof.unproven
        ],
    }


def _folder_as_json(folder: FolderProof) -> dict[str, object]:
    counts = folder.counts
    return {
        "folder": folder.alias,
        "proved_at": folder.proved_at,
        "server": counts.server,
        "stored": counts.stored,
        "skipped": counts.skipped + counts.excluded_by_date,
        "skipped_by_reason": folder.skipped_by_reason,
        "quarantined": counts.quarantined,
        "holes": counts.holes,
        "hole_uids": folder.holes,
        "not_reached": folder.not_reached,
        "hidden": folder.hidden,
        "surplus": counts.surplus,
        "surplus_uids": folder.surplus,
        "filled": counts.filled,
    }
