"""Stored mail for tests of what reads it: settings with local accounts, and folders filled through the arrival path."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.mailbox import (
    AccountId,
    Arrival,
    Flags,
    FolderBinding,
    SpecialUse,
    Uid,
    UidValidity,
    bind_folder,
    store_batch,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def settings_for(*accounts: str | Mapping[str, Any], **sections: Mapping[str, Any]) -> Settings:
    """Settings with the given local accounts; a plain name is both id and, in title case, display name plus " Mail"."""
    tables = [
        {"account_id": given, "display_name": f"{given.title()} Mail", "kind": "local"}
        if isinstance(given, str)
        else {"kind": "local", **given}
        for given in accounts
    ]
    return Settings.model_validate({"mail_synchronization": {"accounts": tables}, **sections})


async def folder(
    db: Database,
    account_id: str,
    alias: str = "INBOX",
    *,
    special_use: SpecialUse | None = None,
    path: str | None = None,
) -> FolderBinding:
    """Bind an alias to a path of the same name, or to `path`."""
    return await bind_folder(
        db,
        AccountId(account_id),
        alias=alias,
        remote_path=path or alias,
        hierarchy_delimiter="/",
        special_use=special_use,
    )


async def store(
    db: Database,
    binding: FolderBinding,
    mails: Sequence[bytes],
    *,
    first_uid: int = 1,
    flags: Flags | None = None,
    internaldate: datetime | None = None,
) -> None:
    """Store messages under consecutive UIDs of UIDVALIDITY 1."""
    arrivals = [
        Arrival(uid=Uid(first_uid + at), size_octets=len(octets), internaldate=internaldate, flags=flags, octets=octets)
        for at, octets in enumerate(mails)
    ]
    outcome = await store_batch(db, binding, uid_validity=UidValidity(1), arrivals=arrivals, now=NOW)
    assert outcome.stored == len(mails), outcome
