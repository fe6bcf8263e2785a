"""`mailkeep account add`: ask for what is missing, log in to test it, show the folders, save."""

from __future__ import annotations

import getpass
import ipaddress
import itertools
import shlex
import sys
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr, ValidationError

from mailkeep.app import probe_account
from mailkeep.cli.configured import show_folders
from mailkeep.cli.consent import (
    UNSAVED,
    Application,
    AuthorizationEndpointOption,
    ClientIdOption,
    ClientSecretOption,
    DeviceEndpointOption,
    FlowOption,
    OAuthOption,
    OAuthOptions,
    ScopeOption,
    TenantOption,
    TokenEndpointOption,
    application,
    keep,
    reach_database,
    require_key,
    sign_in,
)
from mailkeep.cli.exits import ExitCode, report, run
from mailkeep.cli.terminal import say
from mailkeep.config import AccountKind, AccountSettings, home, load_settings, resolve_secret
from mailkeep.config.accounts import ConnectionSecurity
from mailkeep.config.edit import add_account, remove_account
from mailkeep.config.load import defects_of
from mailkeep.config.presets import PRESETS, Credential, Preset, preset_for_address, preset_named
from mailkeep.config.secrets import forget_secret, keep_in_file, keep_in_keyring
from mailkeep.config.values import printable
from mailkeep.display import neutralise
from mailkeep.errors import (
    CertificateRefused,
    ConfigurationRefused,
    LoginRejected,
    MailServerError,
    MailServerUnavailable,
    TransportPolicyRefused,
)

PASSWORD_ATTEMPTS = 3


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
    oauth: OAuthOption = False,
    client_id: ClientIdOption = None,
    client_secret_from: ClientSecretOption = None,
    flow: FlowOption = None,
    tenant: TenantOption = None,
    scope: ScopeOption = None,
    authorization_endpoint: AuthorizationEndpointOption = None,
    token_endpoint: TokenEndpointOption = None,
    device_endpoint: DeviceEndpointOption = None,
) -> None:
    """Add an account: log in to test it, show its folders, then save it.

    On a terminal it asks for whatever is missing. Without one, give --id, --host (or --preset), --user and
    --password-stdin. The password is never an argument and never written into the settings: it is kept by reference
    in an owner-only file or in the system keyring.

    With --oauth, and with providers that take nothing else, you sign in at the provider with a client id of your own
    application there; what comes of it is kept sealed in the database, for which `mailkeep keys create` makes the key.
    """
    by_oauth = OAuthOptions(
        oauth,
        client_id,
        client_secret_from,
        flow,
        tenant,
        scope,
        authorization_endpoint,
        token_endpoint,
        device_endpoint,
    )
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
    settings = load_settings(home())
    taken = {account.account_id for account in settings.mail_synchronization.accounts}
    _fill_blanks(answers, interactive=interactive, taken=taken)
    _refuse_unprotected(answers)
    if answers.ca is not None and not answers.ca.expanduser().is_file():
        raise ConfigurationRefused("the file given with --ca does not exist")
    assert answers.account_id is not None
    if settings.account(answers.account_id) is not None:
        raise ConfigurationRefused(
            f"there is an account {neutralise(answers.account_id)} already; choose another one with --id"
        )
    if local:
        add_account(home(), _document(answers, reference=None))
        say(f"Added the local account {neutralise(answers.account_id)}. Fill it with: mailkeep import PATH --account …")
        return
    if by_oauth.is_meant(chosen, password_given=password_stdin or password_from is not None):
        if password_stdin or password_from is not None or keyring:
            raise ConfigurationRefused("--oauth and --client-id exclude the options that are about a password")
        _add_by_oauth(answers, chosen, by_oauth, interactive=interactive, test=not no_test)
        return
    _check_password_options(password_stdin, password_from, keyring)
    secret = _password(answers, password_stdin=password_stdin, password_from=password_from, interactive=interactive)
    if not no_test:
        candidate = _candidate(_document(answers, reference=UNSAVED))
        secret = _proven(answers, secret, chosen, candidate, may_ask=interactive and password_from is None)
        if interactive and not typer.confirm("Save this account?", default=True, err=True):
            raise typer.Exit(ExitCode.FAILED)
    _save(answers, secret, password_from=password_from, keyring=keyring)


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
        say(
            "This provider asks for OAuth sign-in, for which you need a client id of your own; see docs/guide/oauth.md."
        )
    elif preset.credential is Credential.APP_PASSWORD:
        say("Use an app password made in the provider's security settings, not your ordinary one.")
    answers.host = preset.host
    answers.port = answers.port or preset.port
    if answers.security is None:
        answers.security = next(security for security, mode in _MODES.items() if mode is preset.security)


def _fill_blanks(answers: Answers, *, interactive: bool, taken: Collection[str]) -> None:
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
    if answers.host is not None:
        answers.host, told = split_port(answers.host)
        answers.port = answers.port or told
    answers.security = answers.security or Security.TLS
    answers.port = answers.port or _DEFAULT_PORTS[answers.security]
    if answers.account_id is None:
        answers.account_id = _ask_id(answers.user_name or "", taken)
    answers.account_id = (answers.account_id or "").strip()
    if not printable(answers.account_id):
        raise typer.BadParameter("should be printable and not blank", param_hint="--id")


def split_port(host: str) -> tuple[str, int | None]:
    """A server as people write it, with or without its port: `mail.example.org:993`. An IPv6 address stays whole."""
    name, separator, port = host.strip().rpartition(":")
    if separator and name and ":" not in name and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535:
        return name, int(port)
    return host.strip(), None


def _ask_id(user_name: str, taken: Collection[str]) -> str:
    """Ask until an id is given that no account has; a free one is proposed, so a second account needs no thought."""
    wished = (user_name.rpartition("@")[2] or "mail").partition(".")[0]
    numbered = (f"{wished}-{number}" for number in itertools.count(2))
    proposed = next(name for name in itertools.chain([wished], numbered) if name not in taken)
    while True:
        given: str = typer.prompt("Id of the account here", default=proposed, err=True)
        if given.strip() not in taken:
            return given
        say(f"There is an account {neutralise(given.strip())} already.")


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
    for _ in range(PASSWORD_ATTEMPTS):
        try:
            # Not the prompt of the other questions: it would be printed before the terminal's echo is off.
            text = getpass.getpass(f"Password for {neutralise(answers.user_name or '')}: ", stream=sys.stderr)
        except EOFError:
            raise typer.Abort from None
        except KeyboardInterrupt:
            say("")  # the line of the question is still open
            raise
        if text:
            return SecretStr(text)
        say("Nothing was typed. (It is not shown while you type it.)")
    raise ConfigurationRefused("the password is empty")


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
    if reference is not None:
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


def _candidate(document: dict[str, Any]) -> AccountSettings:
    """The account as settings, for the test before it is saved; a reference to an unsaved secret is a placeholder."""
    try:
        return AccountSettings.model_validate(document)
    except ValidationError as error:
        defects = defects_of(error)
        raise ConfigurationRefused("the account cannot be saved: " + "; ".join(defects), defects=defects) from None


def _proven(
    answers: Answers, secret: SecretStr, preset: Preset | None, candidate: AccountSettings, *, may_ask: bool
) -> SecretStr:
    """The password that the server took: a mistyped one may be typed again where somebody can be asked."""
    attempts_left = PASSWORD_ATTEMPTS if may_ask else 1
    while True:
        try:
            _test_before_saving(answers, secret, preset, candidate, None)
        except LoginRejected as error:
            attempts_left -= 1
            if not attempts_left:
                say("Nothing was saved.")
                raise
            report(error)
        else:
            return secret
        secret = _password(answers, password_stdin=False, password_from=None, interactive=True)


def _test_before_saving(
    answers: Answers,
    secret: SecretStr | None,
    preset: Preset | None,
    candidate: AccountSettings,
    token: SecretStr | None,
) -> None:
    say(f"Logging in to {neutralise(answers.host or '')}:{answers.port} …")
    try:
        folders = run(probe_account(candidate, secret, token=token))
    except LoginRejected:
        if token is None and preset is not None and preset.credential is not Credential.PASSWORD:
            say(f"{preset.title} expects: {preset.credential.value}. {preset.note}")
        raise
    except MailServerError as error:
        if (advice := _advice(error, answers)) is not None:
            say(advice)
        say("Nothing was saved. Use --no-test to save the account without logging in.")
        raise
    show_folders(folders, to_stderr=True)
    listed = {folder.name for folder in folders}
    for _, path in answers.folders:
        if path not in listed and path.upper() != "INBOX":
            say(f"Warning: the server lists no folder {neutralise(path)}; it will be reported as AliasUnresolved.")


def _advice(error: MailServerError, answers: Answers) -> str | None:
    """What people usually got wrong when a first connection fails so; None when there is nothing to add."""
    implicit_tls = answers.security is Security.TLS
    if isinstance(error, CertificateRefused):
        certificate = "its certificate is for another name or from an authority unknown here (give that with --ca FILE)"
        if not implicit_tls:
            return f"Port {answers.port}: {certificate}."
        return (
            f"Port {answers.port}: either it does not speak TLS from the start, as 143 does not (then use --security "
            f"starttls), or {certificate}."
        )
    if isinstance(error, MailServerUnavailable):
        advice = "Check the name of the server and the port."
        return advice if implicit_tls else f"{advice} A port that speaks TLS from the start wants --security tls."
    return None


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
    shown = shlex.quote(neutralise(answers.account_id))
    say(f"Saved. Mirror it now with: mailkeep sync --once --account {shown}")


def _add_by_oauth(
    answers: Answers, preset: Preset | None, options: OAuthOptions, *, interactive: bool, test: bool
) -> None:
    """Sign in at the provider, try what came of it, then save the account and the sealed token together."""
    assert answers.account_id is not None
    require_key(load_settings(home()))
    ca = None if answers.ca is None else str(answers.ca.expanduser().resolve())
    app_there = application(options, preset, ca=ca, interactive=interactive)
    document = _document(answers, reference=None)
    document["oauth"] = app_there.block
    document["transport_security"]["permitted_authentication_mechanisms"] = ["OAUTHBEARER", "XOAUTH2"]
    candidate = _candidate(document)
    run(reach_database())
    tokens = sign_in(app_there.settings, app_there.secret, flow=options.flow, user_name=answers.user_name)
    assert tokens.refresh_token is not None
    if test:
        _test_before_saving(answers, None, preset, candidate, tokens.access_token)
        if interactive and not typer.confirm("Save this account?", default=True, err=True):
            raise typer.Exit(ExitCode.FAILED)
    _save_with_consent(answers.account_id, document, app_there, tokens.refresh_token)


def _save_with_consent(account_id: str, document: dict[str, Any], app_there: Application, token: SecretStr) -> None:
    reference = None
    if app_there.is_secret_typed and app_there.secret is not None:
        reference = keep_in_file(account_id, app_there.secret, home(), kind="client-secret")
        document["oauth"]["client_secret"] = reference
    try:
        add_account(home(), document)
        try:
            run(keep(account_id, token))
        except BaseException:
            remove_account(home(), account_id)
            raise
    except BaseException:
        if reference is not None:
            forget_secret(reference, home())
        raise
    say(f"Saved. Mirror it now with: mailkeep sync --once --account {shlex.quote(neutralise(account_id))}")
