"""Changes asked for in tests of the record side: settings with mirrored accounts that nobody connects to, stored mail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from support.mail import message
from support.stored import NOW, folder, settings_for, store

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.mailbox import Flags, SpecialUse
from mailkeep.mutations import Act, Asked, Caller, Wish, ask

UNMARKED = Flags()
EVERYTHING = {"flags": True, "moves": True, "copies": True, "deletions": True}


def imap(account_id: str = "home", **more: Any) -> dict[str, Any]:
    """A mirrored account at a server that is never asked."""
    return {
        "account_id": account_id,
        "display_name": f"{account_id.title()} Mail",
        "kind": "imap",
        "host": "mail.example.org",
        "user_name": "robin",
        "secrets": {"password": "env:NEVER_READ"},
        **more,
    }


def settings_of(*accounts: dict[str, Any], **sections: Any) -> Settings:
    """Settings with these accounts, by default one mirrored account `home`."""
    return settings_for(*(accounts or (imap(),)), **sections)


async def fill(
    db: Database,
    count: int = 3,
    *,
    account_id: str = "home",
    alias: str = "INBOX",
    flags: Flags | None = UNMARKED,
    role: SpecialUse | None = None,
) -> list[UUID]:
    """Store so many messages in a folder; their ids by UID."""
    binding = await folder(db, account_id, alias, special_use=role)
    mails = [
        message(f"{account_id} {alias} {number}", message_id=f"{alias}{number}@{account_id}") for number in range(count)
    ]
    await store(db, binding, mails, flags=flags)
    async with db.connection() as connection:
        rows = await connection.execute(
            "SELECT id FROM stored_emails WHERE mail_folder_id = %s ORDER BY uid", [binding.folder_id]
        )
        return [row[0] for row in await rows.fetchall()]


async def asked(
    db: Database,
    settings: Settings,
    ids: Sequence[UUID | str],
    act: Act,
    *,
    request_id: str | None = None,
    caller: Caller = Caller.PERSON,
) -> Asked:
    """Record an act."""
    wish = Wish([str(one) for one in ids], act, request_id, caller)
    return await ask(db, settings, wish, now=NOW)


async def execute(db: Database, statement: str, *values: object) -> None:
    """Change a row behind everybody's back, as converging or observing would."""
    async with db.connection() as connection:
        await connection.execute(statement.encode(), values)


async def rows(db: Database, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """What a query answers."""
    async with db.connection() as connection:
        return await (await connection.execute(statement.encode(), values)).fetchall()
