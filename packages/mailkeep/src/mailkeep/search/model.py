"""The values of listing and searching: what is asked, what is found, how fresh it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from uuid import UUID

from mailkeep.mailbox import AccountId, ContentAvailability, Flags


class Direction(StrEnum):
    """Which end of the timeline comes first."""

    NEWEST_FIRST = "newest_first"
    OLDEST_FIRST = "oldest_first"


class RetrievalMode(StrEnum):
    """How a search found its matches."""

    LEXICAL = "lexical"
    HYBRID = "hybrid"


class SemanticSearch(StrEnum):
    """Whether matches by meaning can take part: no vectors are kept, they are, or they are out of reach just now."""

    INACTIVE = "inactive"
    AVAILABLE = "available"
    DEGRADED = "degraded"


class Grouping(StrEnum):
    """What is shown as one match: every message, copies of a message in several folders, or a conversation."""

    NONE = "none"
    COPIES = "copies"
    CONVERSATIONS = "conversations"


@dataclass(frozen=True, slots=True)
class Filters:
    """The structured filters as asked for; None or blank text means unnamed (FIND-11).

    Instants are aware. `received_on_or_after` is inclusive, `received_before` exclusive; undated mail is in neither.
    Sizes are octets, the lower bound inclusive. A `..._text` names a person by words of the name or the address, whole
    ones unless a star ends it. Of each tuple in `any_of` one filter must hold, and none of `excluding`.
    """

    sender_address: str | None = None
    recipient_address: str | None = None
    subject_fragment: str | None = None
    received_on_or_after: datetime | None = None
    received_before: datetime | None = None
    is_remotely_seen: bool | None = None
    is_remotely_flagged: bool | None = None
    keyword: str | None = None
    has_attachments: bool | None = None
    cc_address: str | None = None
    sender_text: str | None = None
    recipient_text: str | None = None
    cc_text: str | None = None
    size_at_least: int | None = None
    size_below: int | None = None
    is_remotely_answered: bool | None = None
    is_remotely_draft: bool | None = None
    attachment_name: str | None = None
    thread_id: UUID | None = None
    any_of: tuple[tuple[Filters, ...], ...] = ()
    excluding: tuple[Filters, ...] = ()


@dataclass(frozen=True, slots=True)
class ListRequest:
    """One page of the timeline. `accounts` and `folders` name the scope; None is everything readable."""

    accounts: tuple[str, ...] | None = None
    folders: tuple[str, ...] | None = None
    filters: Filters = Filters()
    include_junk_mail: bool = False
    direction: Direction = Direction.NEWEST_FIRST
    page_size: int = 25
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One window of the best matches of `query_text` (its language: `mailkeep.search.language`).

    `filters`, `accounts` and `folders` narrow what the query itself asks for. `zone` is where its days begin. `like`
    asks for mail that resembles a message, beside the query or, with a blank one, by itself. `with_facets` counts the
    ranked messages by sender, folder and month. `skip` leaves out so many of the best, for a face that shows pages.
    """

    query_text: str
    accounts: tuple[str, ...] | None = None
    folders: tuple[str, ...] | None = None
    filters: Filters = Filters()
    include_junk_mail: bool = False
    result_limit: int = 20
    zone: tzinfo = UTC
    like: UUID | None = None
    grouping: Grouping = Grouping.NONE
    with_facets: bool = False
    skip: int = 0


@dataclass(frozen=True, slots=True)
class AttachmentSummary:
    """Counts of a message's parts; inline resources and signatures are no attachments (FIND-16)."""

    attachment_count: int
    attachment_total_size_octets: int
    inline_resource_count: int
    is_encrypted: bool
    carries_unverified_signature: bool
    contains_unexpanded_tnef_part: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """What a list shows of one message: no body, no Cc, no recipient names (FIND-28).

    `flags` are the last observed ones and all unset while `observed_at` is None.
    """

    stored_email_id: UUID
    account_id: AccountId
    account_display_name: str
    folder_alias: str
    internet_message_id: str | None
    thread_id: UUID | None
    subject: str | None
    sent_at: datetime | None
    received_at: datetime | None
    size_octets: int
    sender_address: str | None
    sender_display_name: str | None
    to_addresses: tuple[str, ...]
    attachments: AttachmentSummary
    content_availability: ContentAvailability
    flags: Flags
    observed_at: datetime | None

    @property
    def was_observed(self) -> bool:
        """Whether anybody has looked at the flags on the server yet (FIND-15)."""
        return self.observed_at is not None


@dataclass(frozen=True, slots=True)
class FolderFreshness:
    """When one readable folder was last synchronized; None when never (FIND-29)."""

    account_id: AccountId
    account_display_name: str
    folder_alias: str
    synchronized_at: datetime | None

    @property
    def was_synchronized(self) -> bool:
        """Whether a synchronization of the folder has ever been committed."""
        return self.synchronized_at is not None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the timeline; `next_cursor` None means the end."""

    emails: tuple[Summary, ...]
    next_cursor: str | None
    included_junk_mail: bool
    folder_freshness: tuple[FolderFreshness, ...]


@dataclass(frozen=True, slots=True)
class AttachmentHit:
    """An attachment in which the words were found, by its place among the message's attachments.

    `snippets` is empty where only the name holds them.
    """

    position: int
    file_name: str | None
    media_type: str
    snippets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """One found message. `relevance_rank` is comparable inside one result only; matched words in `**`.

    `snippets` are of the body; `found_in` names the attachments in which the words stand, with theirs. `others` are the
    further messages of its group among those that were looked at, best first, when grouping was asked for.
    `nearest_passage` is the beginning of the passage that is nearest in meaning, of a match without snippets.
    """

    summary: Summary
    relevance_rank: float
    snippets: tuple[str, ...]
    found_in: tuple[AttachmentHit, ...] = ()
    others: tuple[UUID, ...] = ()
    nearest_passage: str | None = None


@dataclass(frozen=True, slots=True)
class MatchCount:
    """How many messages of the scope match: exact, or an estimate from a sample of the mail."""

    count: int
    is_exact: bool


class FacetKind(StrEnum):
    """By what matches are counted."""

    SENDER = "sender"
    FOLDER = "folder"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Facet:
    """One value and its count among the ranked messages: an address, `account/FOLDER`, or `2026-03` in UTC."""

    kind: FacetKind
    value: str
    count: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best matches. When `ranked_among` is less than the count, only that many of the newest were ranked.

    `asked_for_nothing` says that the query held neither a word nor a field. `facets` come by kind, then by count.
    """

    matches: tuple[Match, ...]
    match_count: MatchCount
    ranked_among: int
    retrieval_mode: RetrievalMode
    semantic_search: SemanticSearch
    included_junk_mail: bool
    folder_freshness: tuple[FolderFreshness, ...]
    asked_for_nothing: bool = False
    facets: tuple[Facet, ...] = ()

    @property
    def mail_as_of(self) -> datetime | None:
        """How old the oldest part of the searched mail is; None when no folder was ever synchronized."""
        instants = [one.synchronized_at for one in self.folder_freshness if one.synchronized_at is not None]
        return min(instants, default=None)


@dataclass(frozen=True, slots=True)
class AccountOverview:
    """One served account and how fresh each of its readable folders is, the Junk folder included."""

    account_id: AccountId
    display_name: str
    is_pushed: bool
    folders: tuple[FolderFreshness, ...]


@dataclass(frozen=True, slots=True)
class ConversationEntry:
    """One readable message of a conversation. `position` counts from 0 in reading order."""

    stored_email_id: UUID
    parent_stored_email_id: UUID | None
    position: int
    subject: str | None
    sent_at: datetime | None
    sender_address: str | None
    sender_display_name: str | None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as this reader sees it, in reading order; empty when unknown. `thread_id` is the surviving one."""

    thread_id: UUID
    entries: tuple[ConversationEntry, ...]
