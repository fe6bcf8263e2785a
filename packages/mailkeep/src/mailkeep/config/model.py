"""The whole of the settings as frozen sections; `docs/reference/settings.md` is generated from these fields."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from mailkeep.config.accounts import AccountSettings
from mailkeep.config.embeddings import EmbeddingBackfillSettings, EmbeddingsSettings
from mailkeep.config.jobs import JobsSettings
from mailkeep.config.oauth import DataEncryptionSettings
from mailkeep.config.resilience import ResilienceSettings
from mailkeep.config.values import Duration, SecretReference, Section, refuse

ENVIRONMENT_PREFIX = "MAILKEEP_"
MEBIBYTE = 1 << 20
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

_DAY = timedelta(days=1)
_TEN_SECONDS = timedelta(seconds=10)
# A password inside a DSN, in either of libpq's two spellings.
_DSN_PASSWORD = re.compile(r"(?i)(?:^|\s|[?&])password\s*=|://[^/@\s]*:[^/@\s]+@")


def _loopback(host: str) -> str:
    if host not in LOOPBACK_HOSTS:
        raise PydanticCustomError(
            "loopback", "should be 127.0.0.1, ::1 or localhost: there are no credentials yet to protect other listeners"
        )
    return host


def _stock_configuration(name: str) -> str:
    if not re.fullmatch(r"[a-z_]{1,63}", name):
        raise PydanticCustomError("text_search_configuration", "should be the name of a PostgreSQL stock configuration")
    return name


LoopbackHost = Annotated[str, AfterValidator(_loopback)]


class PersistenceSettings(Section):
    """Where mail is kept."""

    dsn: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="Connection string of your own PostgreSQL (16 or later). Left out, an embedded server is used.",
    )
    password: SecretReference | None = Field(
        default=None, repr=False, description="Where the password for `dsn` is kept."
    )
    text_search_configuration: Annotated[str, AfterValidator(_stock_configuration)] = Field(
        default="simple", description="PostgreSQL text search configuration of the search documents."
    )
    maximum_concurrency_commit_attempts: int = Field(
        default=2,
        ge=1,
        le=10,
        description="How often a write that lost a race is redone before it is reported (31001).",
    )
    command_timeout_seconds: int = Field(
        default=30, ge=1, le=600, description="Longest time one statement may take, in seconds."
    )

    @property
    def dsn_holds_password(self) -> bool:
        """Whether the connection string itself carries a password; it then deserves a warning (OPS-33)."""
        return self.dsn is not None and _DSN_PASSWORD.search(self.dsn) is not None

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        defects: list[tuple[str, str]] = []
        if self.password is not None and self.dsn is None:
            defects.append(("password", "means nothing without dsn"))
        if self.password is not None and self.dsn_holds_password:
            defects.append(("password", "is given here and inside dsn"))
        refuse(defects)
        return self


class MailSynchronizationSettings(Section):
    """What is mirrored, how often, and within which bounds (spec SYNC section 1)."""

    enabled: bool = Field(default=False, description="Whether `mailkeep serve` keeps mirroring; true needs an account.")
    interval: Duration = Field(
        default=timedelta(minutes=5), ge=_TEN_SECONDS, le=_DAY, description="Wait between two runs."
    )
    max_failure_backoff: Duration = Field(
        default=timedelta(minutes=30),
        ge=_TEN_SECONDS,
        le=_DAY,
        description="Longest wait after failed runs; not below `interval`.",
    )
    max_concurrent_accounts: int = Field(default=4, ge=1, le=100, description="Accounts that run at the same time.")
    max_concurrent_folders_per_account: int = Field(
        default=1, ge=1, le=20, description="Folders of one account at the same time."
    )
    shutdown_drain_timeout: Duration = Field(
        default=_TEN_SECONDS,
        ge=timedelta(0),
        le=timedelta(minutes=2),
        description="How long running folders may finish at the end.",
    )
    max_metadata_batch_size: int = Field(default=250, ge=1, le=1000, description="Messages per discovery batch.")
    max_metadata_batches_per_run: int = Field(
        default=40, ge=1, le=1000, description="Discovery batches per folder and run."
    )
    max_raw_mime_bytes: int = Field(
        default=25 * MEBIBYTE,
        ge=1024,
        le=100 * MEBIBYTE,
        description="Largest message whose content is stored, in bytes.",
    )
    max_content_bytes_per_run: int = Field(
        default=1 << 30,
        ge=1024,
        le=1 << 40,
        description="Content fetched per folder run, in bytes; not below `max_raw_mime_bytes`.",
    )
    max_stored_content_bytes: int | None = Field(
        default=None,
        ge=1024,
        le=(1 << 63) - 1,
        description="Ceiling of all stored content, in bytes; none when left out.",
    )
    max_in_flight_raw_mime_bytes: int = Field(
        default=128 * MEBIBYTE, ge=1024, le=1 << 32, description="Message octets held in memory at once, in bytes."
    )
    max_reconciled_emails_per_run: int = Field(
        default=500, ge=1, le=10_000, description="Stored emails re-examined per folder run."
    )
    max_mime_part_count: int = Field(
        default=1000, ge=1, le=100_000, description="Parts of a message before it counts as unreadable."
    )
    max_mime_nesting_depth: int = Field(
        default=30, ge=1, le=1000, description="Nesting of a message before it counts as unreadable."
    )
    max_extracted_text_characters: int = Field(
        default=100_000, ge=1000, le=200_000, description="Characters of text taken from one message."
    )
    push_renewal_interval: Duration = Field(
        default=timedelta(minutes=20),
        ge=timedelta(minutes=1),
        le=timedelta(minutes=29),
        description="How often a wait for push (IDLE) is renewed.",
    )
    max_consecutive_push_failures: int = Field(
        default=3, ge=1, le=100, description="Push failures in a row after which it is only polled for a while."
    )
    push_degradation_period: Duration = Field(
        default=timedelta(minutes=15),
        ge=_TEN_SECONDS,
        le=_DAY,
        description="How long it is polled only before push is tried again.",
    )
    max_subscribed_folders: int = Field(
        default=20, ge=1, le=100, description="Folders watched by push, the first of the account; the rest are polled."
    )
    write_connection_idle_period: Duration = Field(
        default=timedelta(minutes=2),
        ge=timedelta(seconds=5),
        le=timedelta(minutes=30),
        description="How long the connection for changes is kept after the last one.",
    )
    max_mutation_attempts: int = Field(
        default=5, ge=1, le=100, description="Attempts at one change before it is given up."
    )
    max_mutations_per_convergence_pass: int = Field(
        default=1000, ge=1, le=10_000, description="Changes that one pass over an account takes up."
    )
    unknown_mutation_outcome_grace: Duration = Field(
        default=timedelta(hours=6),
        ge=timedelta(minutes=1),
        le=timedelta(days=7),
        description="How long a move or copy whose answer was lost may still turn out to have happened.",
    )
    completed_mutation_retention: Duration = Field(
        default=timedelta(days=90),
        ge=timedelta(days=7),
        le=timedelta(days=3650),
        description="How long the record of a finished change is kept.",
    )
    accounts: tuple[AccountSettings, ...] = Field(default=(), description="The mailboxes.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        defects: list[tuple[str, str]] = []
        if self.enabled and not self.accounts:
            defects.append(("enabled", "true needs at least one account"))
        if self.max_failure_backoff < self.interval:
            defects.append(("max_failure_backoff", "is below interval"))
        # A bound smaller than one message would stop a folder in front of that message for ever.
        for key in ("max_content_bytes_per_run", "max_stored_content_bytes", "max_in_flight_raw_mime_bytes"):
            bound = getattr(self, key)
            if bound is not None and bound < self.max_raw_mime_bytes:
                defects.append((key, "is below max_raw_mime_bytes"))
        defects.extend(_name_clashes(self.accounts))
        refuse(defects)
        return self


def _name_clashes(accounts: tuple[AccountSettings, ...]) -> list[tuple[str, str]]:
    """Ids and display names of different accounts that are equal without regard to case (SYNC-4)."""
    defects: list[tuple[str, str]] = []
    owners: dict[str, int] = {}
    for position, account in enumerate(accounts):
        for key in ("account_id", "display_name"):
            owner = owners.setdefault(str(getattr(account, key)).casefold(), position)
            if owner != position:
                defects.append((f"accounts[{position}].{key}", f"is already a name of accounts[{owner}]"))
    return defects


class MailboxSearchSettings(Section):
    """How search results are shown."""

    snippets_per_email: int = Field(default=3, ge=1, le=10, description="Snippets shown per result.")
    words_per_snippet: int = Field(default=24, ge=4, le=100, description="Words in one snippet.")


class AttachmentTextSettings(Section):
    """Searching inside attached files: what reading one of them may cost."""

    enabled: bool = Field(default=True, description="Whether attachments are read and searched.")
    max_attachment_bytes: int = Field(
        default=25 * MEBIBYTE, ge=1024, le=100 * MEBIBYTE, description="Largest attachment that is read, in bytes."
    )
    max_characters_per_attachment: int = Field(
        default=200_000, ge=1000, le=1_000_000, description="Characters of text kept of one attachment."
    )
    max_pages: int = Field(default=200, ge=1, le=10_000, description="Pages, slides or sheets read of one attachment.")
    max_nesting_depth: int = Field(
        default=3, ge=0, le=20, description="How deep messages within attached messages are read."
    )
    max_expanded_bytes: int = Field(
        default=128 * MEBIBYTE,
        ge=MEBIBYTE,
        le=1 << 32,
        description="What the parts of a compressed file may unpack to, in bytes.",
    )
    max_cpu_time: Duration = Field(
        default=timedelta(seconds=20),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=10),
        description="Processor time for one attachment, in whole seconds.",
    )
    max_wall_time: Duration = Field(
        default=timedelta(minutes=1),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=30),
        description="Longest time for one attachment, whatever the machine does meanwhile.",
    )
    max_worker_memory_bytes: int = Field(
        default=384 * MEBIBYTE,
        ge=64 * MEBIBYTE,
        le=1 << 34,
        description="Memory of the process that reads attachments, beyond what it starts with, in bytes.",
    )


class EmailContentSettings(Section):
    """Bounds of reading stored emails."""

    max_body_characters: int = Field(
        default=100_000, ge=1000, le=1_000_000, description="Characters of one body in one answer."
    )
    max_characters_per_read: int = Field(
        default=200_000,
        ge=2000,
        le=2_000_000,
        description="Characters of one whole answer; at least twice `max_body_characters`.",
    )

    @model_validator(mode="after")
    def _room_for_two(self) -> Self:
        if self.max_characters_per_read < 2 * self.max_body_characters:
            refuse([("max_characters_per_read", "is below twice max_body_characters")])
        return self


class McpEndpointSettings(Section):
    """The Model Context Protocol endpoint, served at `/mcp` of the HTTP listener."""

    enabled: bool = Field(default=True, description="Whether `mailkeep serve` answers at `/mcp`.")
    deleting_enabled: bool = Field(
        default=False,
        description="Whether tools may delete mail for good in accounts whose `tool_changes.deletions` allows it.",
    )


class HttpSettings(Section):
    """The listener of `mailkeep serve`: status page, search page, probes and MCP."""

    host: LoopbackHost = Field(default="127.0.0.1", description="Address to listen on; loopback only.")
    port: int = Field(
        default=8025, ge=0, le=65535, description="Port to listen on; 0 lets the system choose a free one."
    )


class Settings(BaseSettings):
    """The root. Sources, strongest first: environment `MAILKEEP_<SECTION>__<KEY>`, then `mailkeep.toml`."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
    )

    persistence: PersistenceSettings = Field(default=PersistenceSettings(), description="Where mail is kept.")
    mail_synchronization: MailSynchronizationSettings = Field(
        default=MailSynchronizationSettings(), description="What is mirrored, how often, and within which bounds."
    )
    data_encryption: DataEncryptionSettings = Field(
        default=DataEncryptionSettings(), description="The keys that seal what the store must not hold in the clear."
    )
    mailbox_search: MailboxSearchSettings = Field(
        default=MailboxSearchSettings(), description="How search results are shown."
    )
    attachment_text: AttachmentTextSettings = Field(
        default=AttachmentTextSettings(), description="Searching inside attached files."
    )
    embeddings: EmbeddingsSettings = Field(
        default=EmbeddingsSettings(), description="Search by meaning: the model, and what it may cost."
    )
    embedding_backfill: EmbeddingBackfillSettings = Field(
        default=EmbeddingBackfillSettings(), description="How stored mail gets its vectors in the background."
    )
    email_content: EmailContentSettings = Field(
        default=EmailContentSettings(), description="Bounds of reading stored emails."
    )
    mcp_endpoint: McpEndpointSettings = Field(default=McpEndpointSettings(), description="The MCP endpoint.")
    resilience: ResilienceSettings = Field(
        default=ResilienceSettings(),
        description="Attempts, waits, timeouts, circuit breakers and concurrency limits of calls to others.",
    )
    jobs: JobsSettings = Field(
        default=JobsSettings(), description="Work in the background: how much of it runs, and what recurs."
    )
    http: HttpSettings = Field(default=HttpSettings(), description="The listener of `mailkeep serve`.")

    @model_validator(mode="after")
    def _refresh_tokens_have_a_place(self) -> Self:
        """A first refresh token comes from the settings or is sealed by signing in, which takes a key (SYNC-40)."""
        if self.data_encryption.active_key_id is None:
            refuse(
                [
                    (
                        f"mail_synchronization.accounts[{position}].oauth.refresh_token",
                        "is required while data_encryption has no active key",
                    )
                    for position, account in enumerate(self.mail_synchronization.accounts)
                    if account.oauth is not None and account.oauth.needs_refresh_token
                ]
            )
        return self

    @model_validator(mode="after")
    def _schedules_name_accounts(self) -> Self:
        """A schedule for an account that does not exist would never do anything (JOB-46)."""
        known = {account.account_id for account in self.mail_synchronization.accounts}
        refuse(
            [
                (f"jobs.schedules[{position}].account", "is not the id of an account")
                for position, schedule in enumerate(self.jobs.schedules)
                if schedule.account is not None and schedule.account not in known
            ]
        )
        return self

    def account(self, account_id: str) -> AccountSettings | None:
        """The account of that id or display name, without regard to case; None when there is none."""
        wanted = account_id.strip().casefold()
        for account in self.mail_synchronization.accounts:
            if wanted in (account.account_id.casefold(), account.display_name.casefold()):
                return account
        return None
