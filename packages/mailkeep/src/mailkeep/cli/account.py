"""`mailkeep account add | list | test | remove`: the accounts of this installation, edited for a person."""

from __future__ import annotations

import getpass
import ipaddress
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr, ValidationError

from mailkeep.app import App, ProbedFolder, probe_account
from mailkeep.cli.exits import ExitCode, run
from mailkeep.cli.terminal import say, show_json, table
from mailkeep.config import AccountKind, AccountSettings, home, load_settings, resolve_secret
from mailkeep.config.accounts import ConnectionSecurity
from mailkeep.config.edit import add_account, remove_account
from mailkeep.config.load import defects_of
from mailkeep.config.presets import PRESETS, Credential, Preset, preset_for_address, preset_named
from mailkeep.config.secrets import forget_secret, keep_in_file, keep_in_keyring
from mailkeep.config.values import printable
from mailkeep.display import counted, neutralise
from mailkeep.errors import ConfigurationRefused, LoginRejected, MailServerError, TransportPolicyRefused

app = typer.Typer(no_args_is_help=True, help="Add, list, test and remove the accounts that are mirrored.")


class Security(StrEnum):
    """How the command line spells the protection of a connection."""

    TLS = "tls"
    STARTTLS = "starttls"
    NONE = "none"


_MODES = {
    Security.TLS: ConnectionSecurity.TLS_ON_CONNECT,
    Security.STARTTLS: ConnectionSecurity.STARTTLS_REQUIRED,
    Security.NONE: ConnectionSecurity.NONE,
}
_DEFAULT_PORTS = {Security.TLS: 993, Security.STARTTLS: 143, Security.NONE: 143}


@dataclass(slots=True)
class Answers:
    """What is known of the account that is being added; the dialogue fills in the blanks."""

    account_id: str | None
    display_name: str | None
    host: str | None
    port: int | None
    user_name: str | None
    security: Security | None
    ca: Path | None
    allow_insecure: bool
    since: date | None
    folders: tuple[tuple[str, str], ...]
    local: bool


@app.command("add")
def add(
    account_id: Annotated[str | None, typer.Option("--id", help="Id of the account here, such as work.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name for people; the id when left out.")] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Your mail address; its domain may tell the provider.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="Provider: " + ", ".join(preset.name for preset in PRESETS) + "."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="IMAP server.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Its port; 993 with TLS, 143 otherwise.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Name to log in with.")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input (its first line).")
    ] = False,
    password_from: Annotated[
        str | None,
        typer.Option(
            "--password-from",
            help="Keep only a reference to a password that is stored elsewhere: file:PATH, env:VARIABLE or "
            "keyring:SERVICE/NAME.",
        ),
    ] = None,
    keyring: Annotated[
        bool, typer.Option("--keyring", help="Keep the password in the system keyring, not in an owner-only file.")
    ] = False,
    security: Annotated[
        Security | None, typer.Option("--security", help="Protection of the connection; tls when left out.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", help="PEM file of a private certificate authority to trust as well.")
    ] = None,
    allow_insecure: Annotated[
        bool,
        typer.Option("--allow-insecure", help="Let --security none send the password over a network unprotected."),
    ] = False,
    folder: Annotated[
        list[str] | None,
        typer.Option("--folder", help="ALIAS=PATH of a folder to mirror; repeatable. All folders when left out."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Mirror only mail that arrived on or after this day (YYYY-MM-DD).")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="An account without a server, filled by `mailkeep import`.")
    ] = False,
    no_test: Annotated[bool, typer.Option("--no-test", help="Save without logging in first.")] = False,
) -> None:
    """Add an account: log in to test it, show its folders, then save it.

    On a terminal it asks for whatever is missing. Without one, give --id, --host (or --preset), --user and
    --password-stdin. The password is never an argument and never written into the settings: it is kept by reference
    in an owner-only file or in the system keyring.
    """
    answers = Answers(
        account_id=account_id,
        display_name=name,
        host=host,
        port=port,
        user_name=user,
        security=security,
        ca=ca,
        allow_insecure=allow_insecure,
        since=_day(since),
        folders=tuple(_folder_option(text) for text in folder or ()),
        local=local,
    )
    interactive = sys.stdin.isatty() and sys.stderr.isatty() and not password_stdin
    chosen = _preset(preset, address or user)
    if not local:
        chosen = _ask_address(answers, chosen, address) if interactive else chosen
        _fill_from_preset(answers, chosen, address)
    _fill_blanks(answers, interactive=interactive)
    _refuse_unprotected(answers)
    if answers.ca is not None and not answers.ca.expanduser().is_file():
        raise ConfigurationRefused("the file given with --ca does not exist")
    settings = load_settings(home())
    assert answers.account_id is not None
    if settings.account(answers.account_id) is not None:
        raise ConfigurationRefused(f"there is an account {neutralise(answers.account_id)} already")
    if local:
        add_account(home(), _document(answers, reference=None))
        say(f"Added the local account {neutralise(answers.account_id)}. Fill it with: mailkeep import PATH --account …")
        return
    _check_password_options(password_stdin, password_from, keyring)
    secret = _password(answers, password_stdin=password_stdin, password_from=password_from, interactive=interactive)
    if not no_test:
        _test_before_saving(answers, secret, chosen)
        if interactive and not typer.confirm("Save this account?", default=True, err=True):
            raise typer.Exit(ExitCode.FAILED)
    _save(answers, secret, password_from=password_from, keyring=keyring)


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
    if account.kind is AccountKind.LOCAL or account.secrets.password is None:
        raise ConfigurationRefused(f"{account.account_id} is a local account: there is no server to test")
    folders = run(probe_account(account, resolve_secret(account.secrets.password, home())))
    if as_json:
        show_json({"account": account.account_id, "folders": folders})
        return
    _show_folders(folders)
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
    remove_account(home(), account.account_id)
    if account.secrets.password is not None:
        forget_secret(account.secrets.password, home())
    if erase_mail:
        say(f"Removed {shown} and erased {counted(erased, 'stored message')}.")
    else:
        say(
            f"Removed {shown}. Its stored mail is kept and stays unreadable until an account of that id is added again."
        )


def configured_account(account_id: str) -> AccountSettings:
    """The configured account of that id or name. Raises ConfigurationRefused naming the ids that exist."""
    settings = load_settings(home())
    account = settings.account(account_id)
    if account is None:
        known = ", ".join(neutralise(known.account_id) for known in settings.mail_synchronization.accounts)
        hint = f"there are: {known}" if known else "there is none yet; add one with: mailkeep account add"
        raise ConfigurationRefused(f"there is no account {neutralise(account_id)}; {hint}")
    return account


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


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter("should be a day such as 2024-01-31", param_hint="--since") from None


def _folder_option(text: str) -> tuple[str, str]:
    alias, separator, path = text.partition("=")
    if not separator or not alias.strip() or not path:
        raise typer.BadParameter("should be ALIAS=PATH, such as sent=Sent Items", param_hint="--folder")
    return alias, path


def _preset(name: str | None, address: str | None) -> Preset | None:
    if name is not None:
        preset = preset_named(name)
        if preset is None:
            known = ", ".join(preset.name for preset in PRESETS)
            raise typer.BadParameter(f"is not a provider known here; known are: {known}", param_hint="--preset")
        return preset
    return preset_for_address(address) if address and "@" in address else None


def _ask_address(answers: Answers, chosen: Preset | None, address: str | None) -> Preset | None:
    """Ask for the mail address when neither a server nor a provider is known, since its domain may tell both."""
    if answers.host is not None or chosen is not None or answers.user_name is not None:
        return chosen
    given: str = address or typer.prompt("Mail address", err=True)
    preset = preset_for_address(given)
    answers.user_name = preset.user_name_for(given) if preset else given
    return preset


def _fill_from_preset(answers: Answers, preset: Preset | None, address: str | None) -> None:
    if address is not None and answers.user_name is None:
        answers.user_name = preset.user_name_for(address) if preset else address
    if preset is None or answers.host not in (None, preset.host):
        return
    say(f"{preset.title}: {preset.note}")
    if preset.credential is Credential.OAUTH:
        say("This provider asks for OAuth sign-in, which mailkeep does not offer yet; a password is usually refused.")
    elif preset.credential is Credential.APP_PASSWORD:
        say("Use an app password made in the provider's security settings, not your ordinary one.")
    answers.host = preset.host
    answers.port = answers.port or preset.port
    if answers.security is None:
        answers.security = next(security for security, mode in _MODES.items() if mode is preset.security)


def _fill_blanks(answers: Answers, *, interactive: bool) -> None:
    """Ask for what is missing, or refuse naming all of it at once where nobody can be asked."""
    if not interactive:
        wanted = {"--id": answers.account_id}
        if not answers.local:
            wanted |= {"--host": answers.host, "--user": answers.user_name}
        missing = [option for option, value in wanted.items() if not value]
        if missing:
            raise ConfigurationRefused(f"without a terminal these are needed: {', '.join(missing)}")
    elif not answers.local:
        answers.host = answers.host or typer.prompt("IMAP server", err=True)
        answers.user_name = answers.user_name or typer.prompt("User name", err=True)
    answers.security = answers.security or Security.TLS
    answers.port = answers.port or _DEFAULT_PORTS[answers.security]
    if answers.account_id is None:
        domain = (answers.user_name or "").rpartition("@")[2] or "mail"
        answers.account_id = typer.prompt("Id of the account here", default=domain.partition(".")[0], err=True)
    answers.account_id = (answers.account_id or "").strip()
    if not printable(answers.account_id):
        raise typer.BadParameter("should be printable and not blank", param_hint="--id")


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _refuse_unprotected(answers: Answers) -> None:
    if answers.security is Security.NONE and not answers.local and not is_loopback(answers.host or ""):
        if not answers.allow_insecure:
            raise TransportPolicyRefused(
                "--security none would send the password and all mail readable over the network; it is meant for a "
                "server on this machine. Use tls or starttls, or add --allow-insecure if you accept that"
            )
        say("Warning: password and mail will travel unprotected.")


def _check_password_options(password_stdin: bool, password_from: str | None, keyring: bool) -> None:
    if password_from is not None and (password_stdin or keyring):
        raise ConfigurationRefused("--password-from excludes --password-stdin and --keyring")


def _password(answers: Answers, *, password_stdin: bool, password_from: str | None, interactive: bool) -> SecretStr:
    if password_from is not None:
        return resolve_secret(password_from, home())
    if password_stdin:
        line = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
        if not line:
            raise ConfigurationRefused("standard input holds no password")
        return SecretStr(line)
    if not interactive:
        raise ConfigurationRefused("without a terminal the password is read with --password-stdin or --password-from")
    try:
        # Not the prompt of the other questions: it would be printed before the terminal's echo is off.
        text = getpass.getpass(f"Password for {neutralise(answers.user_name or '')}: ", stream=sys.stderr)
    except EOFError:
        raise typer.Abort from None
    if not text:
        raise ConfigurationRefused("the password is empty")
    return SecretStr(text)


def _document(answers: Answers, *, reference: str | None) -> dict[str, Any]:
    """The account as it stands in the settings file; what equals the default is left out."""
    assert answers.account_id is not None
    document: dict[str, Any] = {
        "account_id": answers.account_id,
        "display_name": answers.display_name or answers.account_id,
    }
    if answers.local:
        return document | {"kind": AccountKind.LOCAL.value}
    assert answers.security is not None
    document |= {"host": answers.host, "port": answers.port, "user_name": answers.user_name}
    if answers.since is not None:
        document["earliest_email_received_date"] = answers.since
    document["secrets"] = {"password": reference}
    transport: dict[str, Any] = {"connection_security": _MODES[answers.security].value}
    if answers.security is Security.NONE:
        transport["allow_insecure_connection"] = True
        transport["allow_clear_text_authentication_over_unencrypted_connection"] = True
    if answers.ca is not None:
        transport["trusted_certificate_authority"] = str(answers.ca.expanduser().resolve())
    document["transport_security"] = transport
    if answers.folders:
        document["folders"] = [{"alias": alias, "remote_path": path} for alias, path in answers.folders]
    return document


def _candidate(answers: Answers) -> AccountSettings:
    """The account as settings, for the test before it is saved; its secret reference is a placeholder."""
    try:
        return AccountSettings.model_validate(_document(answers, reference="env:UNSAVED"))
    except ValidationError as error:
        defects = defects_of(error)
        raise ConfigurationRefused("the account cannot be saved: " + "; ".join(defects), defects=defects) from None


def _test_before_saving(answers: Answers, secret: SecretStr, preset: Preset | None) -> None:
    say(f"Logging in to {neutralise(answers.host or '')}:{answers.port} …")
    try:
        folders = run(probe_account(_candidate(answers), secret))
    except LoginRejected:
        if preset is not None and preset.credential is not Credential.PASSWORD:
            say(f"{preset.title} expects: {preset.credential.value}. {preset.note}")
        raise
    except MailServerError:
        say("Nothing was saved. Use --no-test to save the account without logging in.")
        raise
    _show_folders(folders, to_stderr=True)
    listed = {folder.name for folder in folders}
    for _, path in answers.folders:
        if path not in listed and path.upper() != "INBOX":
            say(f"Warning: the server lists no folder {neutralise(path)}; it will be reported as AliasUnresolved.")


def _save(answers: Answers, secret: SecretStr, *, password_from: str | None, keyring: bool) -> None:
    assert answers.account_id is not None
    if password_from is not None:
        reference = password_from
    elif keyring:
        reference = keep_in_keyring(answers.account_id, secret)
    else:
        reference = keep_in_file(answers.account_id, secret, home())
    try:
        add_account(home(), _document(answers, reference=reference))
    except BaseException:
        if password_from is None:
            forget_secret(reference, home())
        raise
    shown = neutralise(answers.account_id)
    say(f"Saved. Mirror it now with: mailkeep sync --once --account {shown}")


def _show_folders(folders: Sequence[ProbedFolder], *, to_stderr: bool = False) -> None:
    if to_stderr:
        say(f"{counted(len(folders), 'folder')}:")
        for folder in folders:
            count = "" if folder.messages is None else f"  {counted(folder.messages, 'message')}"
            say(f"  {neutralise(folder.name)}{count}")
        return
    table(
        ("folder", "role", "messages"),
        [
            (folder.name, ", ".join(folder.roles), "-" if folder.messages is None else str(folder.messages))
            for folder in folders
        ],
        right=(2,),
    )
