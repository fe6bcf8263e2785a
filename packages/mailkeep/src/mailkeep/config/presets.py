"""What is known of mail providers: host, port, protection, kind of credential (spec SYNC section 17, dated 2026-08-12).

A preset fills in blanks of `mailkeep account add`, and the number of connections where an account names none; no code
path depends on a provider (SYNC-140).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mailkeep.config.accounts import ConnectionSecurity

DEFAULT_CONNECTIONS = 10  # what a Dovecot permits one user from one address, unless told otherwise


class Credential(StrEnum):
    """What a provider accepts in the place of a password."""

    PASSWORD = "password"  # noqa: S105
    APP_PASSWORD = "app password"  # noqa: S105
    BRIDGE_PASSWORD = "bridge password"  # noqa: S105
    OAUTH = "OAuth"


@dataclass(frozen=True, slots=True)
class OAuthEndpoints:
    """Where a provider's sign-in lives. `{tenant}` in an address stands for a directory, `tenant` is the usual one.

    `device` is None where the provider offers no device flow for mail, `keeps_secret` says that it gives installed
    applications a client secret and asks for it.
    """

    authorization: str
    token: str
    device: str | None
    scope: str
    tenant: str = ""
    keeps_secret: bool = False


# Written from general knowledge of both providers and not tried against them: docs/guide/oauth.md says so too.
GOOGLE = OAuthEndpoints(
    # Without these switches Google gives no refresh token, or none the second time.
    authorization="https://accounts.google.com/o/oauth2/v2/auth?access_type=offline&prompt=consent",
    token="https://oauth2.googleapis.com/token",  # noqa: S106
    device=None,
    scope="https://mail.google.com/",
    keeps_secret=True,
)
_MICROSOFT = "https://login.microsoftonline.com/{tenant}/oauth2/v2.0"
_MICROSOFT_SCOPE = "https://outlook.office.com/IMAP.AccessAsUser.All offline_access"
MICROSOFT_PERSONAL = OAuthEndpoints(
    authorization=f"{_MICROSOFT}/authorize?prompt=select_account",
    token=f"{_MICROSOFT}/token",
    device=f"{_MICROSOFT}/devicecode",
    scope=_MICROSOFT_SCOPE,
    tenant="consumers",
)
MICROSOFT_WORK = OAuthEndpoints(
    authorization=f"{_MICROSOFT}/authorize?prompt=select_account",
    token=f"{_MICROSOFT}/token",
    device=f"{_MICROSOFT}/devicecode",
    scope=_MICROSOFT_SCOPE,
    tenant="organizations",
)


@dataclass(frozen=True, slots=True)
class Preset:
    """One provider. `domains` are the address domains it is known for; `local_part_login` drops "@…" of the address."""

    name: str
    title: str
    host: str
    domains: tuple[str, ...]
    credential: Credential
    note: str
    port: int = 993
    security: ConnectionSecurity = ConnectionSecurity.TLS_ON_CONNECT
    local_part_login: bool = False
    oauth: OAuthEndpoints | None = None
    max_connections: int | None = None

    def user_name_for(self, address: str) -> str:
        """The login name that usually belongs to `address`."""
        return address.partition("@")[0] if self.local_part_login else address


PRESETS: tuple[Preset, ...] = (
    Preset(
        name="gmail",
        title="Gmail",
        host="imap.gmail.com",
        domains=("gmail.com", "googlemail.com"),
        credential=Credential.APP_PASSWORD,
        max_connections=15,
        note="Needs two-step verification and an app password. Labels appear as folders; at most 2500 MB a day.",
        oauth=GOOGLE,
    ),
    Preset(
        name="workspace",
        title="Google Workspace",
        host="imap.gmail.com",
        domains=(),
        credential=Credential.OAUTH,
        max_connections=15,
        note="An administrator enables IMAP; sign-in is by OAuth, app passwords work only where they are allowed.",
        oauth=GOOGLE,
    ),
    Preset(
        name="outlook",
        title="Outlook.com",
        host="outlook.office365.com",
        domains=("outlook.com", "hotmail.com", "live.com", "msn.com"),
        credential=Credential.OAUTH,
        note="IMAP is off until it is enabled in the mailbox's settings.",
        oauth=MICROSOFT_PERSONAL,
    ),
    Preset(
        name="exchange",
        title="Exchange Online",
        host="outlook.office365.com",
        domains=(),
        credential=Credential.OAUTH,
        note="An administrator registers the application.",
        oauth=MICROSOFT_WORK,
    ),
    Preset(
        name="yahoo",
        title="Yahoo Mail",
        host="imap.mail.yahoo.com",
        domains=("yahoo.com", "yahoo.de", "yahoo.fr", "yahoo.co.uk", "ymail.com", "rocketmail.com"),
        credential=Credential.APP_PASSWORD,
        note="Create an app password in the account's security settings.",
    ),
    Preset(
        name="icloud",
        title="iCloud Mail",
        host="imap.mail.me.com",
        domains=("icloud.com", "me.com", "mac.com"),
        credential=Credential.APP_PASSWORD,
        note="The user name is usually the part before the @.",
        local_part_login=True,
    ),
    Preset(
        name="fastmail",
        title="Fastmail",
        host="imap.fastmail.com",
        domains=("fastmail.com", "fastmail.fm"),
        credential=Credential.APP_PASSWORD,
        note="Log in with the primary address.",
    ),
    Preset(
        name="zoho",
        title="Zoho Mail",
        host="imap.zoho.com",
        domains=("zoho.com", "zohomail.com"),
        credential=Credential.APP_PASSWORD,
        note="IMAP must be enabled; organisations use imappro.zoho.com.",
    ),
    Preset(
        name="proton",
        title="Proton Mail Bridge",
        host="127.0.0.1",
        port=1143,
        domains=("proton.me", "protonmail.com", "pm.me"),
        credential=Credential.BRIDGE_PASSWORD,
        note="The bridge must be running; give its exported certificate with --ca.",
        security=ConnectionSecurity.STARTTLS_REQUIRED,
    ),
)


def preset_named(name: str) -> Preset | None:
    """The preset of that name, without regard to case."""
    wanted = name.strip().casefold()
    return next((preset for preset in PRESETS if preset.name == wanted), None)


def preset_for_address(address: str) -> Preset | None:
    """The preset whose domains include the one of `address`; None for a domain nobody here knows."""
    domain = address.rpartition("@")[2].strip().casefold()
    return next((preset for preset in PRESETS if domain in preset.domains), None)


def connections_allowed(host: str | None) -> int:
    """How many connections one account may hold at this server, as far as its provider says."""
    known = (preset.max_connections for preset in PRESETS if preset.host == host and preset.max_connections is not None)
    return next(known, DEFAULT_CONNECTIONS)
