"""The wiring: settings and database opened once, and the calls that every face makes.

Faces (command line, web pages, MCP) translate and decide nothing; whatever they need of a capability they get here or
from the capability's exported names, so that two faces never answer the same question differently.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from pydantic import SecretStr

from mailkeep.config import AccountKind, AccountSettings, MailSynchronizationSettings, Settings, load_settings
from mailkeep.db import Database, SchemaStatus, SqlResult, psql_environment, read_only
from mailkeep.db import status as schema_status
from mailkeep.db import upgrade as upgrade_schema
from mailkeep.errors import AccountNotAccessible, ConfigurationRefused
from mailkeep.imap import ReadOnlySession, Timeouts
from mailkeep.mailbox import AccountId, FolderStatus, QuarantinedMessage, folder_bindings, folder_status, quarantined
from mailkeep.mailbox.prepare import DEFAULT_LIMITS
from mailkeep.sync.queries import account_lease
from mailkeep.transfer import ImportOutcome, find_sources, import_sources
from mailkeep_message import Limits

PROBE_TIMEOUTS = Timeouts(connect=15.0, idle=20.0, command=60.0)
MAX_SQL_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True)
class ProbedFolder:
    """A folder of the server as a test of the account shows it; `messages` is None where the server did not say."""

    name: str
    roles: tuple[str, ...]
    messages: int | None


@dataclass(frozen=True, slots=True)
class FolderReport:
    """What a folder holds against its server, such that server = stored + quarantined + skipped + missing.

    `stored` has its octets; `skipped` is known by its header only, for the reasons named; `missing` is not here yet;
    `server` and `missing` are None for a folder nobody has asked the server about, and for local ones.
    """

    folder: str
    path: str
    role: str | None
    server: int | None
    stored: int
    quarantined: int
    skipped: int
    skipped_by_reason: dict[str, int]
    missing: int | None
    unreadable: int
    gone: int
    observed_at: datetime | None
    synchronized_at: datetime | None


@dataclass(frozen=True, slots=True)
class AccountReport:
    """An account with its folders; phase, next run and failures are known only inside `mailkeep serve` (SYNC-11)."""

    account: str
    name: str
    kind: str
    folders: tuple[FolderReport, ...]
    phase: str | None = None
    next_run_at: datetime | None = None
    failure_count: int = 0


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A message that could not be fetched or stored, and why."""

    account: str
    folder: str
    uid: int
    reason: str
    detail: str | None
    size: int | None
    attempts: int
    first_seen_at: datetime
    last_attempt_at: datetime


class App:
    """Settings and an open database; made by `App.open`."""

    def __init__(self, home: Path, settings: Settings, db: Database) -> None:
        self.home = home
        self.settings = settings
        self.db = db

    @classmethod
    @asynccontextmanager
    async def open(cls, home: Path) -> AsyncIterator[Self]:
        """Load the settings and open the database for the length of the block."""
        settings = load_settings(home)
        async with Database.open(settings, home) as db:
            yield cls(home, settings, db)

    def accounts(self, account_id: str | None = None) -> tuple[AccountSettings, ...]:
        """All accounts, or the one of that id or name. Raises AccountNotAccessible for an unknown one."""
        if account_id is None:
            return self.settings.mail_synchronization.accounts
        account = self.settings.account(account_id)
        if account is None:
            raise AccountNotAccessible("there is no account of that name; see: mailkeep account list")
        return (account,)

    async def status(self, account_id: str | None = None) -> tuple[AccountReport, ...]:
        """Every configured account with what its folders hold."""
        return tuple(
            [
                AccountReport(
                    account=account.account_id,
                    name=account.display_name,
                    kind=account.kind.value,
                    folders=tuple(
                        folder_report(status) for status in await folder_status(self.db, AccountId(account.account_id))
                    ),
                )
                for account in self.accounts(account_id)
            ]
        )

    async def quarantine(self, account_id: str | None = None) -> tuple[QuarantineEntry, ...]:
        """Every quarantined message of the configured accounts, by account, folder and UID."""
        found: list[QuarantineEntry] = []
        for account in self.accounts(account_id):
            for binding in await folder_bindings(self.db, AccountId(account.account_id)):
                found += [
                    quarantine_entry(account.account_id, binding.alias, message)
                    for message in await quarantined(self.db, binding.folder_id)
                ]
        return tuple(found)

    async def import_path(
        self,
        path: Path,
        account_id: str,
        *,
        alias: str | None,
        report: Callable[[ImportOutcome], None] | None = None,
    ) -> ImportOutcome:
        """Bring the mail below `path` into a local account. Raises TransferSourceRefused and ConfigurationRefused."""
        (account,) = self.accounts(account_id)
        if account.kind is not AccountKind.LOCAL:
            raise ConfigurationRefused("mail is imported into local accounts only; a mirrored one follows its server")
        bounds = self.settings.mail_synchronization
        async with account_lease(self.db, account.account_id):
            return await import_sources(
                self.db,
                AccountId(account.account_id),
                find_sources(path),
                alias=alias,
                max_octets=bounds.max_raw_mime_bytes,
                limits=reading_limits(bounds),
                now=lambda: datetime.now(UTC),
                report=report,
            )

    async def read_sql(self, statement: str) -> SqlResult:
        """Run one statement in a read-only transaction; at most MAX_SQL_ROWS rows."""
        return await read_only(self.db, statement, max_rows=MAX_SQL_ROWS)

    def psql_environment(self) -> dict[str, str]:
        """The variables that make psql connect to this database; they may hold a password."""
        return psql_environment(self.db.dsn)


def quarantine_entry(account_id: str, alias: str, message: QuarantinedMessage) -> QuarantineEntry:
    """A quarantined message with the names people know its folder by."""
    return QuarantineEntry(
        account=account_id,
        folder=alias,
        uid=message.uid,
        reason=message.reason.value,
        detail=message.detail,
        size=message.size_octets,
        attempts=message.attempt_count,
        first_seen_at=message.first_seen_at,
        last_attempt_at=message.last_attempt_at,
    )


def reading_limits(bounds: MailSynchronizationSettings) -> Limits:
    """How much of a message is read, as configured."""
    return replace(
        DEFAULT_LIMITS,
        max_part_count=bounds.max_mime_part_count,
        max_nesting_depth=bounds.max_mime_nesting_depth,
        max_text_characters=bounds.max_extracted_text_characters,
    )


def folder_report(status: FolderStatus) -> FolderReport:
    """The counts of the store as a person adds them up."""
    skipped = sum(status.skipped_by_reason.values())
    missing = None if status.server is None else max(0, status.server - status.stored - status.quarantined)
    return FolderReport(
        folder=status.alias,
        path=status.remote_path,
        role=status.special_use.value if status.special_use is not None else None,
        server=status.server,
        stored=status.stored - skipped,
        quarantined=status.quarantined,
        skipped=skipped,
        skipped_by_reason={reason.value: count for reason, count in status.skipped_by_reason.items()},
        missing=missing,
        unreadable=status.unreadable,
        gone=status.tombstoned,
        observed_at=status.observed_at,
        synchronized_at=status.synchronized_at,
    )


async def upgrade_database(home: Path) -> tuple[str, ...]:
    """Apply missing migrations to whatever database the settings name."""
    return await upgrade_schema(load_settings(home), home)


async def database_status(home: Path) -> SchemaStatus:
    """Which migrations the database has and lacks."""
    return await schema_status(load_settings(home), home)


async def probe_account(account: AccountSettings, secret: SecretStr) -> tuple[ProbedFolder, ...]:
    """Log in, list the selectable folders with their counts, log out; nothing is selected or changed.

    Raises MechanismRefused, LoginRejected, CertificateRefused, MailServerUnavailable or TransportPolicyRefused.
    """
    session = await ReadOnlySession.connect(account, secret, timeouts=PROBE_TIMEOUTS)
    try:
        listing = await session.list_folders(with_states=True)
        folders = [folder for folder in listing.folders if folder.is_selectable]
        states = listing.states or await session.status_all([folder.path for folder in folders])
        return tuple(
            ProbedFolder(
                name=folder.name,
                roles=tuple(sorted(role.value for role in folder.roles)),
                messages=state.messages if (state := states.get(folder.path)) else None,
            )
            for folder in folders
        )
    finally:
        await session.close()
