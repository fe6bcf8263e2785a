"""What operators ask of mail that is stored already: read it again, rewind, erase a folder, prove that all is here.

Each act names its scope as people do (account, alias) and refuses what would harm: a rewind of an account that imports
fill, erasing a folder that is mirrored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mailkeep.config import AccountKind, AccountSettings, Settings
from mailkeep.db import Database
from mailkeep.errors import ConfigurationRefused, MailkeepError
from mailkeep.mailbox import (
    AccountId,
    RederivationRun,
    erase_folder,
    folder_bindings,
    rederivation_runs,
    rederive_pass,
    request_rederivation,
    rewind,
    stored_count,
)
from mailkeep.sync import Access, open_resources
from mailkeep.sync.queries import account_lease
from mailkeep.sync.verify import AccountProof, verify_account
from mailkeep_message import Limits


@dataclass(frozen=True, slots=True)
class Verified:
    """The proof of one account, or why it could not be made."""

    account_id: str
    proof: AccountProof | MailkeepError


def folder_alias(text: str | None) -> str | None:
    """An alias as it is stored: trimmed, upper-cased. Raises ConfigurationRefused for a blank one."""
    if text is None:
        return None
    if not text.strip():
        raise ConfigurationRefused("a folder is named by its alias; see: mailkeep status")
    return text.strip().upper()


async def scope_of(db: Database, accounts: Sequence[AccountSettings], alias: str | None) -> list[AccountId]:
    """Those of the accounts that have a folder of this alias; all of them without one.

    Raises ConfigurationRefused when none has.
    """
    ids = [AccountId(account.account_id) for account in accounts]
    if alias is not None:
        ids = [one for one in ids if any(binding.alias == alias for binding in await folder_bindings(db, one))]
        if not ids:
            raise ConfigurationRefused("there is no folder of that alias; see: mailkeep status")
    return ids


async def rederive(
    db: Database,
    account_ids: Sequence[AccountId],
    *,
    alias: str | None,
    limits: Limits,
    now: Callable[[], datetime],
    report: Callable[[RederivationRun], None],
) -> list[RederivationRun]:
    """Ask for each scope and walk it to its end, or an outstanding run of it from where it stands (SYNC-126).

    `report` is told when a run begins or goes on, and after every pass.
    """
    finished = []
    for account_id in account_ids:
        run = await request_rederivation(db, account_id, alias=alias, now=now())
        report(run)
        while run.ended_at is None:
            run = await rederive_pass(db, run, limits=limits, now=now)
            report(run)
        finished.append(run)
    return finished


async def rederivations(db: Database, account_ids: Sequence[AccountId]) -> list[RederivationRun]:
    """The last run of every scope of these accounts."""
    return [run for account_id in account_ids for run in await rederivation_runs(db, account_id)]


async def rewindable(db: Database, accounts: Sequence[AccountSettings], alias: str | None) -> dict[AccountId, int]:
    """How many messages are stored in each scope that a rewind would walk again.

    Raises ConfigurationRefused where there is none: a local account has no server to walk.
    """
    mirrored = [account for account in accounts if account.kind is AccountKind.IMAP]
    if not mirrored:
        raise ConfigurationRefused("only an account that is mirrored from a server can be rewound")
    return {one: await stored_count(db, one, alias=alias) for one in await scope_of(db, mirrored, alias)}


async def rewind_all(db: Database, account_ids: Sequence[AccountId], *, alias: str | None) -> int:
    """Delete the checkpoints of these scopes; how many folders begin anew (SYNC-128)."""
    return sum([await rewind(db, account_id, alias=alias) for account_id in account_ids])


def check_erasable(settings: Settings, account_id: str, alias: str) -> None:
    """Raises ConfigurationRefused for a folder that is mirrored (SYNC-28).

    It would come back with the next run. Where the settings list no folders every folder is mirrored.
    """
    account = settings.account(account_id)
    if account is None or account.kind is not AccountKind.IMAP:
        return
    if account.folders is None:
        raise ConfigurationRefused(
            "that account mirrors every folder; list the folders to mirror in its settings, without this one, first"
        )
    if any(mapping.alias == alias and mapping.synchronize for mapping in account.folders):
        raise ConfigurationRefused(
            "that folder is mirrored; take it from the settings or set synchronize = false first"
        )


def erasable_account(settings: Settings, name: str) -> AccountId:
    """The id of a configured account of that id or name, else the text itself: its mail may outlive its settings."""
    account = settings.account(name)
    return AccountId(name if account is None else account.account_id)


async def erase(db: Database, settings: Settings, account_id: AccountId, *, alias: str) -> int:
    """Erase what is stored under an alias; the number of messages. Raises AccountHeldElsewhere as well."""
    check_erasable(settings, account_id, alias)
    passes_of = settings.mail_synchronization.max_reconciled_emails_per_run
    async with account_lease(db, account_id):
        return await erase_folder(db, account_id, alias=alias, emails_per_pass=passes_of)


async def verify(
    db: Database,
    settings: Settings,
    home: Path,
    accounts: Sequence[AccountSettings],
    *,
    alias: str | None,
    fill: bool,
    access: Access | None = None,
) -> list[Verified]:
    """Compare each account's folders with its server; a failing account is in the results and stops no other.

    Raises ConfigurationRefused when none of the accounts has a server, or when none mirrors that alias.
    """
    mirrored = [account for account in accounts if account.kind is AccountKind.IMAP]
    if not mirrored:
        raise ConfigurationRefused("only an account that is mirrored from a server can be compared with it")
    results: list[Verified] = []
    unknown: ConfigurationRefused | None = None
    async with open_resources(db, settings, home, access=access) as resources:
        for account in mirrored:
            try:
                proof = await verify_account(resources, account.account_id, alias=alias, fill=fill)
            except ConfigurationRefused as error:
                if alias is None:
                    raise
                unknown = error  # another account may have it
            except MailkeepError as error:
                results.append(Verified(account.account_id, error))
            else:
                results.append(Verified(account.account_id, proof))
    if unknown is not None and not results:
        raise unknown
    return results
