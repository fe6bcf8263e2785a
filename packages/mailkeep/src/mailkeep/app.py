"""The wiring: settings and database opened once, and the calls that every face makes.

Faces (command line, web pages, MCP) translate and decide nothing; whatever they need of a capability they get here or
from the capability's exported names, so that two faces never answer the same question differently.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final, Self
from uuid import UUID

from pydantic import SecretStr

from mailkeep.attachments import AttachmentText, attachment_readings, attachment_text, count_outcomes
from mailkeep.background import Background
from mailkeep.config import AccountKind, AccountSettings, Settings, load_settings
from mailkeep.db import Database, SchemaStatus, SqlResult, psql_environment, read_only
from mailkeep.db import status as schema_status
from mailkeep.db import upgrade as upgrade_schema
from mailkeep.derived import attachment_stage
from mailkeep.embeddings import Embeddings, EmbeddingStage, Outcome, Profile, Registration
from mailkeep.errors import (
    AccountNotAccessible,
    ConfigurationRefused,
    DatabaseUnavailable,
    EmailIdMalformed,
    EmailNotAccessible,
    MailkeepError,
    ReaderError,
)
from mailkeep.following import SettingsFollower, SettingsNotice
from mailkeep.imap import PauseReason, ReadOnlySession, Timeouts
from mailkeep.jobs import Worker, stopped_count
from mailkeep.languages import LanguageStage
from mailkeep.mailbox import (
    AccountId,
    ContentFailure,
    ReadOptions,
    Scope,
    attachment,
    erase_account,
    folder_bindings,
    folder_status,
    quarantined,
    raw_mime,
    read_contents,
    resolve_scope,
)
from mailkeep.mutations import ChangeCounts, change_counts
from mailkeep.oauth import forget_consent, keep_consent, tokens_by_key
from mailkeep.passages import PassageStage
from mailkeep.reports import AccountReport, FolderReport, QuarantineEntry, folder_report, quarantine_entry
from mailkeep.search import (
    ListRequest,
    Page,
    SavedSearch,
    SearchRequest,
    SearchResult,
    Summary,
    list_emails,
    list_saved_searches,
    matching_emails,
    remove_saved_search,
    save_search,
    saved_search,
    search_emails,
)
from mailkeep.shown import ShownAttachment, ShownMessage, shown_message
from mailkeep.stages import Stage, StageResult, StageRunner, StageStatus, drain, stage_statuses
from mailkeep.sync import (
    AccountOutcome,
    Progress,
    Resources,
    Supervisor,
    open_access,
    open_resources,
    read_pauses,
    reading_limits,
    retry_quarantined,
    run_account,
)
from mailkeep.sync import AccountReport as RunReport
from mailkeep.sync.queries import account_lease
from mailkeep.transfer import (
    EmlWriter,
    ExportedItem,
    ExportFormat,
    ExportOutcome,
    ImportOutcome,
    ItemFlags,
    MaildirWriter,
    MboxWriter,
    export_items,
    find_sources,
    import_sources,
)
from mailkeep_message import read_headers

__all__ = [
    "AccountReport",
    "App",
    "FolderReport",
    "ProbedFolder",
    "QuarantineEntry",
    "RunResult",
    "ShownAttachment",
    "ShownMessage",
    "database_status",
    "probe_account",
    "upgrade_database",
]

EXPORT_PAGE: Final = 100
PROGRESS_SECONDS: Final = 0.5
PROBE_SECONDS: Final = 5.0
UUID_CHARACTERS: Final = 36
PROBE_TIMEOUTS = Timeouts(connect=15.0, idle=20.0, command=60.0)
MAX_SQL_ROWS: Final = 1_000
MAX_STOPPED: Final = 1_000


@dataclass(frozen=True, slots=True)
class ProbedFolder:
    """A folder of the server as a test of the account shows it; `messages` is None where the server did not say."""

    name: str
    roles: tuple[str, ...]
    messages: int | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """What the run of one account came to, or why it could not run."""

    account_id: str
    outcome: AccountOutcome | MailkeepError


class App:
    """Settings and an open database; made by `App.open`."""

    def __init__(self, home: Path, settings: Settings, db: Database) -> None:
        self.home = home
        self.settings = settings
        self.db = db
        self.access = open_access(db, settings, home, now=utc_now)
        self.embeddings = Embeddings(settings, db, home, now=utc_now)
        self.stages = stages_of(settings, db, self.embeddings)
        self._stage_runner: StageRunner | None = None
        self._supervisor: Supervisor | None = None
        self.notice = SettingsNotice()

    @classmethod
    @asynccontextmanager
    async def open(cls, home: Path) -> AsyncIterator[Self]:
        """Load the settings and open the database for the length of the block."""
        settings = load_settings(home)
        async with Database.open(settings, home) as db:
            mailkeep = cls(home, settings, db)
            try:
                yield mailkeep
            finally:
                await mailkeep.access.close()
                await mailkeep.embeddings.close()

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
        running = {report.account_id: report for report in self._supervisor.report()} if self._supervisor else {}
        reports = []
        pauses = read_pauses(self.home, now=utc_now())
        changes = await change_counts(self.db, [account.account_id for account in self.accounts(account_id)])
        for account in self.accounts(account_id):
            statuses = await folder_status(self.db, AccountId(account.account_id))
            run = running.get(account.account_id)
            reports.append(
                AccountReport(
                    account=account.account_id,
                    name=account.display_name,
                    kind=account.kind.value,
                    folders=tuple(folder_report(status) for status in statuses),
                    phase=run.phase.value if run is not None else None,
                    next_run_at=_next_run_at(run, pauses.get(account.account_id)),
                    failure_count=run.failure_count if run is not None else 0,
                    pause_reason=None if (pause := pauses.get(account.account_id)) is None else pause[0].value,
                    push=run.push.mode.value if run is not None and run.push is not None else None,
                    watched_folders=run.push.waiting if run is not None and run.push is not None else 0,
                    breakers={kind.value: state.value for kind, state in self.access.breakers(account).items()},
                    changes=changes.get(account.account_id, ChangeCounts()),
                )
            )
        return tuple(reports)

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

    async def synchronize(
        self, accounts: Sequence[AccountSettings], *, progress: Callable[[Progress], None] | None = None
    ) -> list[RunResult]:
        """Mirror each account until everything is here; a failing account is in the results and delays no other."""
        slots = asyncio.Semaphore(self.settings.mail_synchronization.max_concurrent_accounts)

        async def run(account: AccountSettings) -> RunResult:
            async with slots:
                try:
                    outcome = await run_account(resources, account.account_id, progress=progress, until_complete=True)
                except MailkeepError as error:
                    return RunResult(account.account_id, error)
                return RunResult(account.account_id, outcome)

        async with (
            self._resources(self.settings) as resources,
            asyncio.TaskGroup() as group,
        ):
            tasks = [group.create_task(run(account)) for account in accounts]
        return [task.result() for task in tasks]

    async def supervise(
        self,
        stop: asyncio.Event,
        *,
        accounts: Sequence[AccountSettings] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Keep these accounts (None: all) mirrored until `stop`; what is under way then gets its drain time."""
        chosen = None if accounts is None else frozenset(account.account_id for account in accounts)
        settings = self._supervised(chosen)
        drain_time = settings.mail_synchronization.shutdown_drain_timeout
        async with (
            self._resources(settings) as resources,
            asyncio.TaskGroup() as group,
        ):
            stages = self._stage_runner = StageRunner(self.stages, self.db, now=utc_now, drain_time=drain_time)
            supervisor = self._supervisor = Supervisor(
                resources, settings=lambda: self._supervised(chosen), arrived=stages.wake
            )
            running, stopped = group.create_task(supervisor.run()), group.create_task(stop.wait())
            deriving = group.create_task(stages.run())
            try:
                while not stopped.done() and not running.done():
                    for report in supervisor.report() if progress is not None else ():
                        if report.progress is not None and progress is not None:
                            progress(report.progress)
                    await asyncio.wait(
                        [stopped, running], timeout=PROGRESS_SECONDS, return_when=asyncio.FIRST_COMPLETED
                    )
            finally:
                supervisor.stop()
                stages.stop()
                stopped.cancel()
                await running
                await deriving
                self._supervisor = self._stage_runner = None

    def _supervised(self, chosen: frozenset[str] | None) -> Settings:
        """The snapshot of this moment with the accounts that are kept mirrored: those chosen, else all if enabled."""
        section = self.settings.mail_synchronization
        if chosen is None:
            return self.settings if section.enabled else only_accounts(self.settings, ())
        return only_accounts(self.settings, [account for account in section.accounts if account.account_id in chosen])

    async def follow_settings(self, stop: asyncio.Event, tell: Callable[[SettingsNotice], None]) -> None:
        """Take up changes of the settings file until `stop`; `tell` is told of each, and of what is not taken up."""

        def noted(notice: SettingsNotice) -> None:
            self.notice = notice
            tell(notice)

        await SettingsFollower(self.home, self.settings, publish=self._follow, tell=noted).run(stop)

    def _follow(self, settings: Settings) -> None:
        self.settings = settings
        self.embeddings.follow(settings)
        for stage in self.stages:
            stage.follow(settings)
        if self._supervisor is not None:
            self._supervisor.settings_changed()
        self._wake_stages()

    async def activate_embeddings(self) -> tuple[Registration, Profile]:
        """Begin to make the declared model's vectors. Raises EmbeddingsNotDeclared and ReindexRefused."""
        begun = await self.embeddings.activate()
        self._wake_stages()
        return begun

    async def cancel_embeddings(self) -> Outcome:
        """End the making of new vectors; those in use stay."""
        outcome = await self.embeddings.cancel()
        self._wake_stages()
        return outcome

    def _wake_stages(self) -> None:
        if self._stage_runner is not None:
            self._stage_runner.wake()

    @property
    def background(self) -> Background:
        """The work that runs as jobs."""
        return Background(self.db, lambda: self.settings, self.home, utc_now, self.access)

    async def stopped_jobs(self) -> int:
        """How many jobs were given up and wait for a decision, counted up to a thousand."""
        return await stopped_count(self.db, bound=MAX_STOPPED)

    async def work(self, stop: asyncio.Event) -> None:
        """Work at jobs until `stop`; attempts under way are then given back."""
        background = self.background
        worker = Worker(self.db, self.settings.jobs, background.handlers(), schedules=background.schedules())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(worker.run())
            await stop.wait()
            worker.stop()
            await running

    async def derive(
        self, names: Sequence[str] = (), *, report: Callable[[StageResult], None] | None = None
    ) -> tuple[StageResult, ...]:
        """Run the stages of these names (none: all) to their end. Raises ConfigurationRefused for an unknown name."""
        known = {stage.name: stage for stage in self.stages}
        if unknown := [name for name in names if name not in known]:
            raise ConfigurationRefused(f"there is no stage {unknown[0]!r}; there are: {', '.join(known) or 'none'}")
        chosen = [stage for stage in self.stages if not names or stage.name in names]
        return await drain(chosen, self.db, now=utc_now, report=report)

    async def stage_statuses(self) -> tuple[StageStatus, ...]:
        """How far each stage is: done, outstanding, impossible."""
        return await stage_statuses(self.stages)

    async def retry_quarantined(self, accounts: Sequence[AccountSettings]) -> int:
        """Fetch and store again what waits in quarantine; how many messages left it, stored or gone."""
        settled = 0
        async with self._resources(self.settings) as resources:
            for account in accounts:
                for folder in await retry_quarantined(resources, account.account_id):
                    settled += folder.arrivals.stored + folder.gone
        return settled

    def _resources(self, settings: Settings) -> AbstractAsyncContextManager[Resources]:
        return open_resources(self.db, settings, self.home, access=self.access)

    async def erase_account(self, account_id: str) -> int:
        """Erase all that is stored of an account; the number of messages. Raises AccountHeldElsewhere."""
        async with account_lease(self.db, account_id):
            return await erase_account(self.db, AccountId(account_id))

    async def probe(self, account: AccountSettings) -> tuple[ProbedFolder, ...]:
        """As `probe_account`, with whatever the account signs in with, on a connection of the account's budget.

        Raises AskedToComeBack as well, while the server asked to be left alone.
        """
        async with self.access.visit(account, self.settings.data_encryption) as session:
            return await _probed(session)

    async def keep_consent(self, account_id: str, token: SecretStr) -> None:
        """Seal and store the refresh token of a fresh consent. Raises DataEncryptionKeyMissing."""
        ring = self.settings.data_encryption
        await keep_consent(self.db, ring, self.home, account_id=account_id, token=token, now=utc_now())

    async def forget_consent(self, account_id: str) -> bool:
        """Delete the stored refresh token of an account; whether there was one."""
        return await forget_consent(self.db, account_id)

    async def tokens_by_key(self) -> dict[str, int]:
        """How many refresh tokens each key of the ring seals."""
        return await tokens_by_key(self.db)

    async def probe_database(self) -> None:
        """Ask the database for nothing. Raises DatabaseUnavailable, also when no answer comes within PROBE_SECONDS."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await read_only(self.db, "SELECT 1", max_rows=1)
        except TimeoutError:
            raise DatabaseUnavailable("the database does not answer") from None

    async def list(self, request: ListRequest) -> Page:
        """One page of the timeline; raises the reader errors of `mailkeep.search.list_emails`."""
        return await list_emails(self.db, self.settings, request)

    async def search(self, request: SearchRequest) -> SearchResult:
        """The best matches, days beginning where this machine is; raises the reader errors of `search_emails`."""
        return await search_emails(
            self.db, self.settings, replace(request, zone=local_zone()), embeddings=self.embeddings
        )

    async def matching(self, request: SearchRequest, *, at_most: int) -> tuple[UUID, ...]:
        """All messages on a server that a query means; raises as `mailkeep.search.matching_emails`."""
        found = await matching_emails(self.db, self.settings, replace(request, zone=local_zone()), at_most=at_most)
        return tuple(found)

    async def saved_searches(self) -> tuple[SavedSearch, ...]:
        """Every kept query by name."""
        return await list_saved_searches(self.db)

    async def saved_search(self, name: str) -> SavedSearch:
        """The kept query of that name. Raises SavedSearchUnknown."""
        return await saved_search(self.db, name)

    async def save_search(self, name: str, query_text: str) -> bool:
        """Keep a query; True when it replaced one. Raises FilterRefused."""
        return await save_search(self.db, name, query_text, now=utc_now(), zone=local_zone())

    async def remove_saved_search(self, name: str) -> None:
        """Forget a query. Raises SavedSearchUnknown."""
        await remove_saved_search(self.db, name)

    async def show(self, email_id: str) -> ShownMessage:
        """One email as a person reads it, with its sanitized HTML. Raises EmailIdMalformed and reader errors."""
        options = ReadOptions(
            max_body_characters=self.settings.email_content.max_body_characters,
            max_characters_per_read=self.settings.email_content.max_characters_per_read,
            include_html=True,
        )
        result = await read_contents(
            self.db, scope=await self._scope(), now=utc_now(), ids=[parse_email_id(email_id)], options=options
        )
        (outcome,) = result.outcomes
        if isinstance(outcome, ContentFailure):
            raise outcome.error
        return shown_message(outcome, await attachment_readings(self.db, outcome.stored_email_id))

    async def attachment_text(self, email_id: str, position: int) -> AttachmentText:
        """The beginning of an attachment's text, as much as a body may have. Raises EmailNotAccessible and the like."""
        shown = await self.show(email_id)
        limit = self.settings.email_content.max_body_characters
        text = await attachment_text(self.db, shown.id, position, offset=0, limit=limit)
        if text is None:
            raise EmailNotAccessible("there is no such attachment, or it was not read yet")
        return text

    async def attachment_outcomes(self) -> dict[str, int]:
        """How many attachments came to what, over all accounts."""
        return {outcome.value: count for outcome, count in (await count_outcomes(self.db)).items()}

    async def raw(self, email_id: str) -> bytes:
        """The stored octets of one email, verified."""
        return await raw_mime(self.db, parse_email_id(email_id), scope=await self._scope(), now=utc_now())

    async def header_fields(self, email_id: str) -> tuple[tuple[str, str], ...]:
        """Every header field in order, unfolded, octets that are no UTF-8 replaced."""
        message = await asyncio.to_thread(read_headers, await self.raw(email_id))
        return tuple((field.name, unfolded(field.value)) for field in message.headers)

    async def attachment(self, email_id: UUID, position: int) -> bytes:
        """The decoded octets of one attachment."""
        payload = await attachment(self.db, email_id, position=position, scope=await self._scope(), now=utc_now())
        return payload.octets

    async def export(self, request: ListRequest, path: Path, form: ExportFormat) -> ExportOutcome:
        """Write everything the request lists, page after page, to files. Raises TransferTargetRefused."""
        writer = export_writer(form, path, by_account=len(self.accounts()) > 1)
        return await export_items(self._exported(request), writer)

    async def _exported(self, request: ListRequest) -> AsyncIterator[ExportedItem]:
        scope = await self._scope()
        cursor: str | None = None
        while True:
            page = await self.list(replace(request, page_size=EXPORT_PAGE, cursor=cursor))
            for summary in page.emails:
                octets, trouble = None, ""
                try:
                    octets = await raw_mime(self.db, summary.stored_email_id, scope=scope, now=utc_now())
                except ReaderError as error:
                    trouble = error.message
                yield exported_item(summary, octets, trouble)
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _scope(self) -> Scope:
        """Everything that may be read, junk included: whoever names a message by its id means that one."""
        return await resolve_scope(self.db, self.settings, include_junk=True)

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
                now=utc_now,
                report=report,
            )

    async def read_sql(self, statement: str) -> SqlResult:
        """Run one statement in a read-only transaction; at most MAX_SQL_ROWS rows."""
        return await read_only(self.db, statement, max_rows=MAX_SQL_ROWS)

    def psql_environment(self) -> dict[str, str]:
        """The variables that make psql connect to this database; they may hold a password."""
        return psql_environment(self.db.dsn)


def stages_of(settings: Settings, db: Database, embeddings: Embeddings) -> tuple[Stage, ...]:
    """All work after arrival, in the order in which one stage may use what another left."""
    stages: list[Stage] = [LanguageStage(db)]
    if settings.attachment_text.enabled:
        stages.append(attachment_stage(db, settings, limits=reading_limits(settings.mail_synchronization)))
    if embeddings.declared is not None:  # without a model, passages would be of no use
        stages.append(PassageStage(db, settings))
    stages.append(EmbeddingStage(db, settings, embeddings))  # without a model, it removes what is no longer wanted
    return tuple(stages)


def _next_run_at(run: RunReport | None, pause: tuple[PauseReason, datetime] | None) -> datetime | None:
    """When an account runs next: what the supervisor says, not before a pause ends; a pause binds every process."""
    planned = run.next_run_at if run is not None else None
    return planned if pause is None else max(pause[1], planned or pause[1])


def parse_email_id(text: str) -> UUID:
    """An email id as people and links write it. Raises EmailIdMalformed."""
    try:
        return UUID(text) if len(text) == UUID_CHARACTERS else UUID("")
    except ValueError:
        raise EmailIdMalformed("that is not an email id") from None


def unfolded(value: bytes) -> str:
    """A header field's value on one line (RFC 5322 §2.2.3)."""
    return " ".join(value.decode("utf-8", "replace").split())


def export_writer(form: ExportFormat, path: Path, *, by_account: bool) -> MboxWriter | MaildirWriter | EmlWriter:
    """The writer of a format. Raises TransferTargetRefused when something is in its way."""
    if form is ExportFormat.MBOX:
        return MboxWriter(path)
    if form is ExportFormat.MAILDIR:
        return MaildirWriter(path, by_account=by_account)
    return EmlWriter(path, by_account=by_account)


def exported_item(summary: Summary, octets: bytes | None, trouble: str) -> ExportedItem:
    """A listed message on its way into a file."""
    flags = summary.flags
    return ExportedItem(
        id=str(summary.stored_email_id),
        account_id=summary.account_id,
        folder=summary.folder_alias,
        sender=summary.sender_address,
        received_at=summary.received_at,
        flags=ItemFlags(
            seen=flags.seen, answered=flags.answered, flagged=flags.flagged, draft=flags.draft, deleted=flags.deleted
        ),
        octets=octets,
        trouble=trouble,
    )


def utc_now() -> datetime:
    """The clock of the faces."""
    return datetime.now(UTC)


def local_zone() -> tzinfo:
    """Where days begin for the people at this machine."""
    return datetime.now().astimezone().tzinfo or UTC


def only_accounts(settings: Settings, accounts: Sequence[AccountSettings]) -> Settings:
    """The settings as if these accounts were all there are."""
    section = settings.mail_synchronization.model_copy(update={"accounts": tuple(accounts)})
    return settings.model_copy(update={"mail_synchronization": section})


async def upgrade_database(home: Path) -> tuple[str, ...]:
    """Apply missing migrations to whatever database the settings name."""
    return await upgrade_schema(load_settings(home), home)


async def database_status(home: Path) -> SchemaStatus:
    """Which migrations the database has and lacks."""
    return await schema_status(load_settings(home), home)


async def probe_account(
    account: AccountSettings, secret: SecretStr | None, *, token: SecretStr | None = None
) -> tuple[ProbedFolder, ...]:
    """Log in, list the selectable folders with their counts, log out; nothing is selected or changed.

    Raises MechanismRefused, LoginRejected, CertificateRefused, MailServerUnavailable or TransportPolicyRefused.
    """
    session = await ReadOnlySession.connect(account, secret, token=token, timeouts=PROBE_TIMEOUTS)
    try:
        return await _probed(session)
    finally:
        await session.close()


async def _probed(session: ReadOnlySession) -> tuple[ProbedFolder, ...]:
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
