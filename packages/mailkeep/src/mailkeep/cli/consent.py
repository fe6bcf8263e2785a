"""Signing in by OAuth at the command line: what the account's block holds, and the flows as a person meets them."""

from __future__ import annotations

import getpass
import os
import sys
import threading
import webbrowser
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from pydantic import SecretStr, ValidationError

from mailkeep.app import App
from mailkeep.cli.exits import run
from mailkeep.cli.terminal import say
from mailkeep.config import OAuthSettings, Settings, resolve_secret
from mailkeep.config.home import home
from mailkeep.config.load import defects_of
from mailkeep.config.presets import Credential, OAuthEndpoints, Preset
from mailkeep.display import neutralise
from mailkeep.errors import ConfigurationRefused, DataEncryptionKeyMissing
from mailkeep.oauth import (
    DeviceCode,
    Flow,
    TokenAnswer,
    authorize_in_browser,
    authorize_on_another_device,
    begin_pasting,
    finish_pasting,
)

UNSAVED = "env:UNSAVED"

OAuthOption = Annotated[bool, typer.Option("--oauth", help="Sign in by OAuth with your own client id.")]
ClientIdOption = Annotated[
    str | None, typer.Option("--client-id", help="Id of your own application at the provider, for OAuth.")
]
ClientSecretOption = Annotated[
    str | None,
    typer.Option(
        "--client-secret-from",
        help="Where the application's secret is kept, if it has one: file:PATH, env:VARIABLE or keyring:SERVICE/NAME.",
    ),
]
FlowOption = Annotated[
    Flow | None,
    typer.Option(
        "--flow",
        help="How to sign in: browser on this machine, paste the address from a browser anywhere, or a code for "
        "another device. Google offers no device flow for mail.",
    ),
]
TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="Directory of your organization at Microsoft; for OAuth.")
]
ScopeOption = Annotated[str | None, typer.Option("--scope", help="Scopes to ask for, in the place of the provider's.")]
AuthorizationEndpointOption = Annotated[
    str | None, typer.Option("--authorization-endpoint", help="Address of the consent page, for other providers.")
]
TokenEndpointOption = Annotated[
    str | None, typer.Option("--token-endpoint", help="Address that gives tokens, for other providers.")
]
DeviceEndpointOption = Annotated[
    str | None, typer.Option("--device-endpoint", help="Address where the device flow begins, for other providers.")
]


@dataclass(frozen=True, slots=True)
class OAuthOptions:
    """What the command line says about signing in by OAuth."""

    asked: bool
    client_id: str | None
    client_secret_from: str | None
    flow: Flow | None
    tenant: str | None
    scope: str | None
    authorization_endpoint: str | None
    token_endpoint: str | None
    device_endpoint: str | None

    def is_meant(self, preset: Preset | None, *, password_given: bool) -> bool:
        """Whether the account signs in by OAuth: asked for, or all that the provider takes."""
        if self.asked or self.client_id is not None:
            return True
        return preset is not None and preset.credential is Credential.OAUTH and not password_given


@dataclass(frozen=True, slots=True)
class Application:
    """The `oauth` block of an account to be, and the application's secret if it was typed and is not kept yet."""

    block: dict[str, Any]
    settings: OAuthSettings
    secret: SecretStr | None
    is_secret_typed: bool


def require_key(settings: Settings) -> None:
    """Refuse to sign in while nothing could keep what comes of it."""
    if settings.data_encryption.active_key_id is None:
        raise DataEncryptionKeyMissing(
            "a sign-in is kept sealed in the database, and there is no key to seal it with yet. Make one with: "
            "mailkeep keys create. It lies in an owner-only file in your secrets folder; back it up apart from the "
            "database. Then run this command again"
        )


def application(options: OAuthOptions, preset: Preset | None, *, ca: str | None, interactive: bool) -> Application:
    """The block out of the provider's addresses, the options and, on a terminal, questions.

    Raises ConfigurationRefused naming all options that are missing, or what of the block is not valid.
    """
    known = preset.oauth if preset is not None else None
    block = _addresses(options, known)
    if options.client_id is None and interactive:
        block["client_id"] = typer.prompt("Client id of your own application at the provider", err=True).strip()
    elif options.client_id is not None:
        block["client_id"] = options.client_id
    names = {"client_id": "--client-id", "token_endpoint": "--token-endpoint", "scope": "--scope"}
    missing = [option for key, option in names.items() if not block.get(key)]
    if missing:
        raise ConfigurationRefused(f"to sign in by OAuth these are needed: {', '.join(missing)}")
    secret, is_typed = _client_secret(options, known, interactive=interactive)
    if secret is None:
        block["public_client"] = True
    else:
        block["client_secret"] = options.client_secret_from or UNSAVED
    if ca is not None and options.token_endpoint is not None:  # no provider that is known needs a private authority
        block["trusted_certificate_authority"] = ca
    try:
        return Application(block, OAuthSettings.model_validate(block), secret, is_typed)
    except ValidationError as error:
        defects = defects_of(error)
        raise ConfigurationRefused("OAuth cannot be set up like this: " + "; ".join(defects), defects=defects) from None


def sign_in(oauth: OAuthSettings, secret: SecretStr | None, *, flow: Flow | None, user_name: str | None) -> TokenAnswer:
    """Lead a person through a flow. Raises MailboxAuthorizationNeeded and AccessTokenUnavailable."""
    chosen = flow or (Flow.BROWSER if _has_browser() else Flow.PASTE)
    if chosen is Flow.DEVICE:
        if oauth.device_authorization_endpoint is None:
            raise ConfigurationRefused(
                "this provider offers no device flow for mail (Google does not); use --flow browser or --flow paste"
            )
        return run(authorize_on_another_device(oauth, secret, show=_show_device))
    if chosen is Flow.BROWSER:
        return run(authorize_in_browser(oauth, secret, user_name=user_name, open_browser=_open_browser))
    consent = begin_pasting(oauth, user_name=user_name)
    say("Open this address in a browser on any machine and sign in:")
    say(consent.address)
    say("The browser then ends at a page that cannot be shown. Paste the whole address of that page here:")
    pasted = sys.stdin.readline()
    if not pasted.strip():
        raise typer.Abort
    return run(finish_pasting(oauth, secret, consent, pasted))


async def keep(account_id: str, token: SecretStr) -> None:
    """Store the refresh token of a consent, sealed."""
    async with App.open(home()) as mailkeep:
        await mailkeep.keep_consent(account_id, token)


async def forget(account_id: str) -> None:
    """Delete the stored refresh token of an account."""
    async with App.open(home()) as mailkeep:
        await mailkeep.forget_consent(account_id)


async def reach_database() -> None:
    """Open the database and close it again, so that nobody consents to what then cannot be kept."""
    async with App.open(home()):
        pass


def _addresses(options: OAuthOptions, known: OAuthEndpoints | None) -> dict[str, Any]:
    tenant = options.tenant or (known.tenant if known is not None else "")
    if not all(letter.isalnum() or letter in ".-" for letter in tenant):
        raise typer.BadParameter("should be a directory's name or id", param_hint="--tenant")
    found = {
        "token_endpoint": options.token_endpoint or (known and known.token),
        "authorization_endpoint": options.authorization_endpoint or (known and known.authorization),
        "device_authorization_endpoint": options.device_endpoint or (known and known.device),
    }
    addresses = {key: address.replace("{tenant}", tenant) for key, address in found.items() if address}
    scope = options.scope or (known.scope if known is not None else None)
    return {"grant": "refresh_token", **addresses, **({"scope": scope} if scope else {})}


def _client_secret(
    options: OAuthOptions, known: OAuthEndpoints | None, *, interactive: bool
) -> tuple[SecretStr | None, bool]:
    if options.client_secret_from is not None:
        return resolve_secret(options.client_secret_from, home()), False
    if not interactive or (known is not None and not known.keeps_secret):
        return None, False
    try:
        text = getpass.getpass("Client secret of that application (empty if it has none): ", stream=sys.stderr)
    except EOFError:
        raise typer.Abort from None
    return (SecretStr(text), True) if text else (None, False)


def _has_browser() -> bool:
    """Whether a browser that can show a consent page is likely to open: a text browser is of no use there."""
    if sys.platform.startswith("linux") and not any(
        os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    ):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _open_browser(address: str) -> None:
    say("Sign in in the browser that opens. If none does, open this address on this machine:")
    say(address)
    # Some browsers return only when they are closed.
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _show_device(device: DeviceCode) -> None:
    minutes = max(1, round(device.lifetime.total_seconds() / 60))
    say(f"On any device, open {neutralise(device.verification_address)}")
    say(f"and enter the code {neutralise(device.user_code)} within {minutes} minutes. Waiting …")
