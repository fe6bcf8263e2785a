"""`mailkeep account list | test | remove`; `add` and `authorize` have files of their own."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from mailkeep.app import App, ProbedFolder, probe_account
from mailkeep.cli.adding import add
from mailkeep.cli.authorize import authorize
from mailkeep.cli.configured import configured_account, show_folders
from mailkeep.cli.consent import forget
from mailkeep.cli.exits import run
from mailkeep.cli.terminal import say, show_json, table
from mailkeep.config import AccountKind, AccountSettings, home, load_settings, resolve_secret
from mailkeep.config.edit import remove_account
from mailkeep.config.secrets import forget_secret
from mailkeep.display import counted, neutralise
from mailkeep.errors import ConfigurationRefused

app = typer.Typer(no_args_is_help=True, help="Add, list, test and remove the accounts that are mirrored.")
app.command("add")(add)
app.command("authorize")(authorize)


@app.command("list")
def list_accounts(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the configured accounts."""
    accounts = load_settings(home()).mail_synchronization.accounts
    if as_json:
        show_json({"accounts": [_described(account) for account in accounts]})
        return
    if not accounts:
        say("No account yet. Add one with: mailkeep account add")
        return
    table(
        ("id", "name", "kind", "server", "protection", "folders"),
        [
            (
                account.account_id,
                account.display_name,
                account.kind.value,
                f"{account.host}:{account.port}" if account.host else "-",
                account.transport_security.connection_security.value if account.host else "-",
                "all" if account.folders is None else str(len(account.folders)),
            )
            for account in accounts
        ],
    )


@app.command("test")
def try_account(
    account_id: Annotated[str, typer.Argument(metavar="ID", help="The account.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Log in to an account's server and list its folders; nothing is fetched or changed."""
    account = configured_account(account_id)
    if account.kind is AccountKind.LOCAL:
        raise ConfigurationRefused(f"{account.account_id} is a local account: there is no server to test")
    if account.oauth is None and account.secrets.password is not None:
        folders = run(probe_account(account, resolve_secret(account.secrets.password, home())))
    else:
        folders = run(_probe_by_token(account))
    if as_json:
        show_json({"account": account.account_id, "folders": folders})
        return
    show_folders(folders)
    say("Logged in; the account works.")


@app.command("remove")
def remove(
    account_id: Annotated[str, typer.Argument(metavar="ID", help="The account.")],
    erase_mail: Annotated[
        bool, typer.Option("--erase-mail", help="Erase its stored mail as well; this cannot be undone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before erasing.")] = False,
) -> None:
    """Remove an account from the settings. Its stored mail stays, unreadable, unless --erase-mail is given.

    Adding an account of the same id again makes the mail readable once more.
    """
    account = configured_account(account_id)
    shown = neutralise(account.account_id)
    if erase_mail and not yes:
        if not sys.stdin.isatty():
            raise ConfigurationRefused("--erase-mail needs --yes where nobody can be asked")
        typer.confirm(f"Erase all stored mail of {shown}?", abort=True, err=True)
    erased = run(_erase(account.account_id)) if erase_mail else 0
    if account.oauth is not None and not erase_mail:
        run(forget(account.account_id))
    remove_account(home(), account.account_id)
    for reference in _references(account):
        forget_secret(reference, home())
    if erase_mail:
        say(f"Removed {shown} and erased {counted(erased, 'stored message')}.")
    else:
        say(
            f"Removed {shown}. Its stored mail is kept and stays unreadable until an account of that id is added again."
        )


def _references(account: AccountSettings) -> list[str]:
    """The secrets that belong to this account alone."""
    found = [account.secrets.password]
    if account.oauth is not None:
        found += [account.oauth.client_secret, account.oauth.refresh_token]
    return [reference for reference in found if reference is not None]


async def _probe_by_token(account: AccountSettings) -> tuple[ProbedFolder, ...]:
    async with App.open(home()) as mailkeep:
        return await mailkeep.probe(account)


async def _erase(account_id: str) -> int:
    async with App.open(home()) as mailkeep:
        return await mailkeep.erase_account(account_id)


def _described(account: AccountSettings) -> dict[str, Any]:
    """What a listing tells of an account; the user name is personal and stays out."""
    return {
        "id": account.account_id,
        "name": account.display_name,
        "kind": account.kind,
        "host": account.host,
        "port": account.port if account.host else None,
        "security": account.transport_security.connection_security if account.host else None,
        "folders": None if account.folders is None else [mapping.alias for mapping in account.folders],
    }
