"""What is known of mail providers: host, port, protection, kind of credential (spec SYNC section 17, dated 2026-08-12).

A preset only fills in blanks of `mailkeep account add`; no other code depends on a provider (SYNC-140).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mailkeep.config.accounts import ConnectionSecurity


class Credential(StrEnum):
    """What a provider accepts in the place of a password."""

    PASSWORD = "password"  # noqa: S105
    APP_PASSWORD = "app password"  # noqa: S105
    BRIDGE_PASSWORD = "bridge password"  # noqa: S105
    OAUTH = "OAuth"


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
        note="Needs two-step verification and an app password. Labels appear as folders; at most 2500 MB a day.",
    ),
    Preset(
        name="workspace",
        title="Google Workspace",
        host="imap.gmail.com",
        domains=(),
        credential=Credential.OAUTH,
        note="An administrator enables IMAP; sign-in is by OAuth, app passwords work only where they are allowed.",
    ),
    Preset(
        name="outlook",
        title="Outlook.com",
        host="outlook.office365.com",
        domains=("outlook.com", "hotmail.com", "live.com", "msn.com"),
        credential=Credential.OAUTH,
        note="IMAP is off until it is enabled in the mailbox's settings.",
    ),
    Preset(
        name="exchange",
        title="Exchange Online",
        host="outlook.office365.com",
        domains=(),
        credential=Credential.OAUTH,
        note="An administrator registers the application.",
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
