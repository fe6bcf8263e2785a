"""Every failure mailkeep names, in one tree.

    MailkeepError
    ├── ConfigurationError            1xxxx: the operator's settings
    │   ├── TransportPolicyRefused        11001
    │   ├── ConfigurationRefused          12001
    │   ├── EnvironmentOnlySetting        12002
    │   └── SecretUnavailable             12003
    ├── AuthorizationError            13xxx: OAuth, and the keys that seal its tokens
    │   ├── AccessTokenUnavailable        13001  (retry helps when the server was merely out of reach)
    │   ├── MailboxAuthorizationNeeded    13002
    │   ├── SealedTokenUnreadable         13003
    │   └── DataEncryptionKeyMissing      13004
    ├── MailServerError               2xxxx: the IMAP server
    │   ├── MechanismRefused              21001
    │   ├── LoginRejected                 21002
    │   ├── CertificateRefused            21003
    │   ├── MailServerUnavailable         22001  (retry helps)
    │   │   └── ContentUnavailable            22002  (retry helps)
    │   ├── FolderRecreated               23001  (retry helps)
    │   ├── IncompleteAnswer              24001
    │   ├── CommandRefused                24002
    │   ├── TooManyFolders                24003
    │   ├── TooManyMessages               24004
    │   ├── MutationError                 25xxx: a change of the remote mailbox
    │   │   ├── MutationUnsupported           25001
    │   │   ├── MutationOutcomeUnknown        25002
    │   │   ├── MutationAttemptsExhausted     25003
    │   │   ├── MutationFailedUnexpectedly    25004  (retry helps)
    │   │   ├── DestinationMissing            25005
    │   │   ├── SourceMissing                 25006
    │   │   ├── SourceDiffers                 25007
    │   │   └── MutationWithdrawn             25008
    │   └── FolderCreationRefused         26001
    ├── StoreError                    3xxxx: PostgreSQL and what it holds
    │   ├── ConcurrencyConflict           31001  (retry helps)
    │   ├── AccountHeldElsewhere          31002  (retry helps)
    │   ├── MigrationMissing              32001
    │   ├── SchemaStateUnreadable         32002
    │   ├── TextSearchConfigurationMismatch 32003
    │   ├── JobPayloadTooLarge            34001
    │   ├── JobKeyRefused                 34002
    │   ├── JobQueueFull                  34003  (retry helps)
    │   ├── VectorIndexRefused            33001
    │   ├── DatabaseUnavailable           35001  (retry helps)
    │   ├── StatementRefused              36001
    │   └── AttachmentReaderUnavailable   37001  (retry helps)
    ├── PipelineRejected              41001  (retry helps): patience with others has its bounds
    ├── ReaderError                   5xxxx: the only ones a tool's caller is told
    │   ├── PageSizeRefused 51001, FilterRefused 51002, ResultLimitRefused 51003,
    │   │   EmailIdMalformed 51004, ContentCountRefused 51005, ContentRepeated 51006,
    │   │   ContentSelectionRefused 51007, ThreadIdMalformed 51008, MailChangeInvalid 51012
    │   ├── CursorForeign 52001, CursorForOtherFilters 52002
    │   ├── AccountNotAccessible 53001, EmailNotAccessible 53002, RoleUnmapped 53003,
    │   │   SavedSearchUnknown 53011, DestinationRefused 53012, MailChangeUnknown 53013
    │   ├── UndescribedFailure 54001
    │   ├── StoredContentUnreadable 55001, ContentNotStored 55002
    │   └── MailChangeNotPermitted 56004, MailChangeCeilingReached 57003 (retry helps), MailChangeImpossible 58002
    ├── EmbeddingError                6xxxx: vectors, their providers, their cost
    │   ├── EmbeddingProviderFailed       61001  (retry helps for some classes)
    │   ├── EmbeddingCeilingReached       62001  (retry helps)
    │   ├── ReindexRefused                63001
    │   └── EmbeddingsNotDeclared         63002
    └── TransferError                 9xxxx: import and export
        ├── TransferSourceRefused         91001
        └── TransferTargetRefused         91002

A code has five digits (category, subcategory, number), belongs to one class and is never reused (MCP-130).
The message is written for operators: it never holds mail text, an address or a secret. `docs/reference/errors.md`
is generated from the docstrings below, and a test fails when a class is missing there.
"""

# ruff: noqa: N818  -- each name states the fact that stops the work; "Error" marks the families only
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar


class MailkeepError(Exception):
    """Root of everything mailkeep raises on purpose.

    `message` is safe to show and to log; `code` is the class's number, 0 only for the families themselves;
    `retryable` says whether the same call may succeed later without anybody changing anything.
    """

    code: ClassVar[int] = 0
    retryable: bool = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class ConfigurationError(MailkeepError):
    """The settings, the environment or a secret they refer to is not usable as it stands.

    `defects` lists everything found at once as "path: what is wrong", never with a value (OPS-5).
    """

    def __init__(self, message: str, *, defects: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.defects = tuple(defects)


class TransportPolicyRefused(ConfigurationError):
    """The connection settings allow less protection than mailkeep accepts without an explicit opt-in (SYNC-33)."""

    code = 11001


class ConfigurationRefused(ConfigurationError):
    """The configuration has one or more defects: unknown keys, wrong types, values out of bounds, contradictions."""

    code = 12001


class EnvironmentOnlySetting(ConfigurationError):
    """A setting that only the environment may carry was found in the configuration file (OPS-6)."""

    code = 12002


class SecretUnavailable(ConfigurationError):
    """A secret reference does not lead to a usable secret: missing, empty, unreadable or of an unknown scheme."""

    code = 12003


class AuthorizationError(MailkeepError):
    """Signing in by OAuth failed before any mail server was asked."""


class AccessTokenUnavailable(AuthorizationError):
    """The authorization server gave no access token. Its error code is told, never its text or a token (SYNC-44).

    `reason` is the code of RFC 6749 §5.2 such as `invalid_grant`, None when the answer had none; `retryable` is true
    when the server could not be reached or asked to come back.
    """

    code = 13001

    def __init__(self, message: str, *, reason: str | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.retryable = retryable


class MailboxAuthorizationNeeded(AuthorizationError):
    """Nobody has consented yet, the consent was refused or ran out: run `mailkeep account authorize`."""

    code = 13002


class SealedTokenUnreadable(AuthorizationError):
    """A sealed token does not open: wrong key, moved row or altered value, which cannot be told apart (SYNC-47)."""

    code = 13003


class DataEncryptionKeyMissing(AuthorizationError):
    """The key that sealed a token is not in the key ring, or none is active to seal one with (SYNC-48)."""

    code = 13004


class MailServerError(MailkeepError):
    """The mail server refused, failed or answered with less than was asked."""


class MechanismRefused(MailServerError):
    """The server offers no authentication mechanism that the account permits (SYNC-32)."""

    code = 21001


class LoginRejected(MailServerError):
    """The server rejected the user name, the password or the access token. A password is never tried again, since
    repeating locks accounts (SYNC-36); a token is replaced once (SYNC-43).

    `by_token` says that a token was rejected.
    """

    code = 21002

    def __init__(self, message: str, *, by_token: bool = False) -> None:
        super().__init__(message)
        self.by_token = by_token


class CertificateRefused(MailServerError):
    """The TLS handshake failed, usually because the server's certificate is not trusted or names another host."""

    code = 21003


class MailServerUnavailable(MailServerError):
    """The server could not be reached or stopped answering, also after repeating (SYNC-38)."""

    code = 22001
    retryable = True


class ContentUnavailable(MailServerUnavailable):
    """The server answers, and yet gives the content of no message of a folder; the folder waits until it does."""

    code = 22002


class FolderRecreated(MailServerError):
    """The folder's UIDVALIDITY changed while it was being read (SYNC-30); the next run starts it afresh."""

    code = 23001
    retryable = True


class IncompleteAnswer(MailServerError):
    """The server left out something it was asked for, so its answer must not pass for a deletion (SYNC-73)."""

    code = 24001


class CommandRefused(MailServerError):
    """The server answered NO or BAD to a command that should have worked (SYNC-36). Its text is never repeated."""

    code = 24002


class TooManyFolders(MailServerError):
    """The account lists more folders than are read in one discovery (SYNC-17)."""

    code = 24003


class TooManyMessages(MailServerError):
    """A search named more messages than any folder holds; following such an answer would never end."""

    code = 24004


class MutationError(MailServerError):
    """A change of the remote mailbox could not be made; the code is kept with its record."""


class MutationUnsupported(MutationError):
    """The server or the folder has no safe way for this change: no UIDPLUS, or keywords that would not be kept
    (MUT-4, MUT-27)."""

    code = 25001


class MutationOutcomeUnknown(MutationError):
    """A move or copy went out and its answer never came; it is not repeated, since that could make a second message
    (MUT-35)."""

    code = 25002


class MutationAttemptsExhausted(MutationError):
    """All attempts at a change were spent, and nothing says more precisely why (MUT-32)."""

    code = 25003


class MutationFailedUnexpectedly(MutationError):
    """An attempt at a change failed for a reason without a code of its own; another attempt may succeed."""

    code = 25004
    retryable = True


class DestinationMissing(MutationError):
    """The folder that mail was to be put into is not on the server (MUT-30)."""

    code = 25005


class SourceMissing(MutationError):
    """The message was no longer in its folder when the change was to be made, so nothing was done (MUT-B3)."""

    code = 25006


class SourceDiffers(MutationError):
    """The message under that UID is not the one the change was recorded for, so nothing was done (case 5)."""

    code = 25007


class MutationWithdrawn(MutationError):
    """The change was taken back before anything was sent, so nothing was done."""

    code = 25008


class FolderCreationRefused(MailServerError):
    """The server refused to create a folder that a change needed and its mapping allowed to create (MUT-61)."""

    code = 26001


class StoreError(MailkeepError):
    """PostgreSQL, its schema, or a write that somebody else overtook."""


class ConcurrencyConflict(StoreError):
    """Another process changed the same row first (SYNC-39, SYNC-57); the work is redone from a fresh read."""

    code = 31001
    retryable = True


class AccountHeldElsewhere(StoreError):
    """Another mailkeep process is synchronizing this account at this moment."""

    code = 31002
    retryable = True


class MigrationMissing(StoreError):
    """The database lacks migrations of this build: run `mailkeep db upgrade` (DATA-44)."""

    code = 32001


class SchemaStateUnreadable(StoreError):
    """The database's migration ledger cannot be read, or an applied migration differs from this build's."""

    code = 32002


class TextSearchConfigurationMismatch(StoreError):
    """The search documents were built with another text search configuration than the configured one (SYNC-112)."""

    code = 32003


class JobPayloadTooLarge(StoreError):
    """A job's payload is larger than references ever are (JOB-11): content must not be copied into it."""

    code = 34001


class JobKeyRefused(StoreError):
    """A job's key is blank, too long or not on one line (JOB-10)."""

    code = 34002


class JobQueueFull(StoreError):
    """Too many jobs of that type wait already (JOB-17, JOB-19); nothing was written."""

    code = 34003
    retryable = True


class VectorIndexRefused(StoreError):
    """The index of a profile's vectors could not be made or dropped; search compares vectors one by one until then."""

    code = 33001


class DatabaseUnavailable(StoreError):
    """The database server cannot be reached, started or logged in to."""

    code = 35001
    retryable = True


class StatementRefused(StoreError):
    """A statement typed into `mailkeep db sql` is not valid, or would change something."""

    code = 36001


class AttachmentReaderUnavailable(StoreError):
    """The process that reads attachments does not start, so none is read; everything else works."""

    code = 37001
    retryable = True


class PipelineRejected(MailkeepError):
    """A call was not made: too many of its kind are under way, or the other side failed too often lately (SYNC-38)."""

    code = 41001
    retryable = True


class ReaderError(MailkeepError):
    """A reading or searching request cannot be answered as asked. These codes are published to tool callers."""


class PageSizeRefused(ReaderError):
    """The page size is out of range."""

    code = 51001


class FilterRefused(ReaderError):
    """A filter's value, count or length is not accepted."""

    code = 51002


class ResultLimitRefused(ReaderError):
    """The limit of results is out of range."""

    code = 51003


class EmailIdMalformed(ReaderError):
    """That is not an email id."""

    code = 51004


class ContentCountRefused(ReaderError):
    """A content read names between 1 and 10 emails."""

    code = 51005


class ContentRepeated(ReaderError):
    """A content read names the same email twice."""

    code = 51006


class ContentSelectionRefused(ReaderError):
    """A content read names either emails or one conversation, not both and not neither."""

    code = 51007


class ThreadIdMalformed(ReaderError):
    """That is not a conversation id."""

    code = 51008


class MailChangeInvalid(ReaderError):
    """The change that was asked for is none, is incomplete or contradicts itself, or reuses the `request_id` of another
    one (MUT-16)."""

    code = 51012


class CursorForeign(ReaderError):
    """The cursor was not issued by this listing."""

    code = 52001


class CursorForOtherFilters(ReaderError):
    """The cursor belongs to a request with other filters."""

    code = 52002


class AccountNotAccessible(ReaderError):
    """There is no readable account of that name."""

    code = 53001


class EmailNotAccessible(ReaderError):
    """There is no readable email or conversation with that id: unknown, hidden, unmapped or gone (SYNC-130)."""

    code = 53002


class RoleUnmapped(ReaderError):
    """No folder carries that role (SYNC-22)."""

    code = 53003


class SavedSearchUnknown(ReaderError):
    """There is no saved search of that name."""

    code = 53011


class DestinationRefused(ReaderError):
    """There is no folder of that name to put mail into; the sentence names the reason (MUT-60)."""

    code = 53012


class MailChangeUnknown(ReaderError):
    """There is no such change of readable mail."""

    code = 53013


class UndescribedFailure(ReaderError):
    """The request failed for a reason that is not described to its caller; the operator's log has it."""

    code = 54001


class StoredContentUnreadable(ReaderError):
    """The stored octets are missing or damaged; a repair has been recorded (SYNC-120)."""

    code = 55001


class ContentNotStored(ReaderError):
    """The email is here without its octets: it exceeds the size limit, or waits for storage room."""

    code = 55002


class MailChangeNotPermitted(ReaderError):
    """Tools may not change the mail of that account in this way: its owner has not switched it on (MUT-B7)."""

    code = 56004


class MailChangeCeilingReached(ReaderError):
    """Too many changes wait to be carried out; nothing was recorded. Wait until they are done (MUT-B7)."""

    code = 57003
    retryable = True


class MailChangeImpossible(ReaderError):
    """The change cannot be undone, or its message is not where it could be changed; the sentence says why."""

    code = 58002


class EmbeddingError(MailkeepError):
    """Making vectors of passages and queries."""


class EmbeddingProviderFailed(EmbeddingError):
    """A provider gave no usable vectors; `failure_class` says how it failed."""

    code = 61001

    def __init__(self, message: str, *, failure_class: str, retryable: bool, may_be_billed: bool = False) -> None:
        super().__init__(message)
        self.failure_class = failure_class
        self.retryable = retryable
        self.may_be_billed = may_be_billed


class EmbeddingCeilingReached(EmbeddingError):
    """The period's ceiling is reached; work goes on when the next one begins."""

    code = 62001
    retryable = True


class ReindexRefused(EmbeddingError):
    """A new set of vectors was not begun: another one is being built, or the estimate is above the ceiling."""

    code = 63001


class EmbeddingsNotDeclared(EmbeddingError):
    """No model is declared: install `mailkeep[local-embeddings]` or name an endpoint in the settings."""

    code = 63002


class TransferError(MailkeepError):
    """An import or an export cannot be carried out as asked. One unreadable item never raises this."""


class TransferSourceRefused(TransferError):
    """The path to import from does not exist, cannot be read or holds nothing that looks like mail."""

    code = 91001


class TransferTargetRefused(TransferError):
    """The place to write to is not usable: it exists already, is not a folder, or cannot be written."""

    code = 91002


def all_error_classes() -> tuple[type[MailkeepError], ...]:
    """Every class of this module that carries a code, ordered by code.

    A capability may refine a class for its own use; such a refinement keeps the code of its parent.
    """

    def walk(cls: type[MailkeepError]) -> Iterator[type[MailkeepError]]:
        for child in cls.__subclasses__():
            yield child
            yield from walk(child)

    named = (cls for cls in walk(MailkeepError) if cls.code and cls.__module__ == __name__)
    return tuple(sorted(named, key=lambda cls: cls.code))
