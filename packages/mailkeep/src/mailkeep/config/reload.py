"""What of changed settings a running process can take up, and what waits for its next start (SYNC-2). Reads only."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from mailkeep.config.load import load_settings
from mailkeep.config.model import MailSynchronizationSettings, Settings
from mailkeep.config.secrets import check_references
from mailkeep.errors import ConfigurationRefused

TAKEN_UP: Final = ("mail_synchronization", "data_encryption", "mailbox_search", "email_content")
"""Sections whose values are read anew for every run or request. All others are read once, at the start."""

AT_START: Final = (
    "max_concurrent_accounts",
    "shutdown_drain_timeout",
    "max_stored_content_bytes",
    "max_in_flight_raw_mime_bytes",
)
"""Keys of `mail_synchronization` that are read once: what they bound is shared by all runs."""


def load_candidate(home: Path) -> Settings:
    """The settings as they are on disk, with every secret reference and trust anchor in them resolved once.

    Blocking. Raises what `load_settings` and `check_references` raise, and ConfigurationRefused for an authority file.
    """
    settings = load_settings(home)
    check_references(settings, home)
    defects = []
    for position, account in enumerate(settings.mail_synchronization.accounts):
        authorities = {"transport_security": account.transport_security.trusted_certificate_authority}
        if account.oauth is not None:
            authorities["oauth"] = account.oauth.trusted_certificate_authority
        for section, authority in authorities.items():
            if authority is not None and not _holds_certificates(authority):
                path = f"mail_synchronization.accounts[{position}].{section}.trusted_certificate_authority"
                defects.append(f"{path}: names no usable file")
    if defects:
        listed = "\n".join(f"  {defect}" for defect in defects)
        raise ConfigurationRefused(f"certificate authorities that cannot be read:\n{listed}", defects=defects)
    return settings


def take_up(current: Settings, candidate: Settings) -> tuple[Settings, tuple[str, ...]]:
    """The snapshot from now on: the candidate, save what is read at the start only; and the paths that differ in that.

    Raises ConfigurationRefused where the two do not go together: everything then waits for the start.
    """
    waiting = [
        name
        for name in type(current).model_fields
        if name not in TAKEN_UP and getattr(current, name) != getattr(candidate, name)
    ]
    kept = {name: getattr(current, name) for name in type(current).model_fields if name not in TAKEN_UP}
    ours, theirs = current.mail_synchronization, candidate.mail_synchronization
    differing = [key for key in AT_START if getattr(ours, key) != getattr(theirs, key)]
    section = theirs
    if differing:
        values = {key: getattr(theirs, key) for key in MailSynchronizationSettings.model_fields}
        values |= {key: getattr(ours, key) for key in AT_START}
        try:
            section = MailSynchronizationSettings.model_validate(values)
        except ValueError:
            raise ConfigurationRefused(
                "the changed settings go together only with values that are read at the start: "
                + ", ".join(f"mail_synchronization.{key}" for key in differing)
            ) from None
    snapshot = candidate.model_copy(update={**kept, "mail_synchronization": section})
    return snapshot, (*waiting, *(f"mail_synchronization.{key}" for key in differing))


def _holds_certificates(authority: Path) -> bool:
    try:
        ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError):
        return False
    return True
