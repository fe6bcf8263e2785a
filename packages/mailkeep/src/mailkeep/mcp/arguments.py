"""What each tool takes. The names are the wire contract (docs/spec/agents.md section 7).

Numbers and lengths carry no bounds here: the use cases refuse what is out of range with its own code, and a bound in
two places drifts. The bounds are told in the descriptions.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr


class Arguments(BaseModel):
    """Base: an argument that the tool does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ListDirection(StrEnum):
    """Which end of the timeline comes first."""

    NEWEST_FIRST = "newestFirst"
    OLDEST_FIRST = "oldestFirst"


class GroupBy(StrEnum):
    """What is shown as one match."""

    NONE = "none"
    COPIES = "copies"
    CONVERSATIONS = "conversations"


class NoArguments(Arguments):
    """Nothing."""


class ScopeArguments(Arguments):
    """Where to look."""

    accounts: list[StrictStr] | None = Field(
        default=None,
        description="Accounts by identifier (exact) or display name (any case), at most 64. Omitted: all of them.",
    )
    folders: list[StrictStr] | None = Field(
        default=None,
        description="Folders by alias, or role:<Role> with Inbox, Archive, Drafts, Sent, Junk, Trash, All, Flagged, "
        "Important or Outbox; at most 64. An alias that no account has selects nothing. Omitted: all readable folders.",
    )
    include_junk_mail: StrictBool = Field(
        default=False,
        description="Also look in the Junk folder. Mail there is often deceptive; ask for it only when it is wanted.",
    )


class FilterArguments(ScopeArguments):
    """Which messages. All given filters must hold."""

    sender_address: StrictStr | None = Field(
        default=None, description="The sender's whole address, any case, at most 320 characters."
    )
    recipient_address: StrictStr | None = Field(
        default=None, description="A whole address in To or Cc, any case, at most 320 characters."
    )
    subject_fragment: StrictStr | None = Field(
        default=None,
        description="Text that the subject contains, any case, at most 256 characters; % and _ mean themselves.",
    )
    received_on_or_after: Annotated[datetime, Field(strict=False)] | None = Field(
        default=None,
        description="Received at or after this instant, RFC 3339 with its offset, e.g. 2026-03-01T00:00:00Z.",
    )
    received_before: Annotated[datetime, Field(strict=False)] | None = Field(
        default=None, description="Received before this instant (exclusive), RFC 3339 with its offset."
    )
    is_remotely_seen: StrictBool | None = Field(
        default=None, description="Read (true) or unread (false) when last looked at."
    )
    is_remotely_flagged: StrictBool | None = Field(default=None, description="Flagged or not when last looked at.")
    keyword: StrictStr | None = Field(
        default=None, description="A whole IMAP keyword or Gmail label, any case, at most 255 characters."
    )
    has_attachments: StrictBool | None = Field(default=None, description="With (true) or without (false) attachments.")
    cc_address: StrictStr | None = Field(default=None, description="A whole address in Cc, any case.")
    is_remotely_answered: StrictBool | None = Field(default=None, description="Answered or not when last looked at.")
    is_remotely_draft: StrictBool | None = Field(default=None, description="A draft or not when last looked at.")
    size_at_least: StrictInt | None = Field(default=None, description="At least so many octets.")
    size_below: StrictInt | None = Field(default=None, description="Fewer octets than this.")
    attachment_name: StrictStr | None = Field(
        default=None, description="Text that the name of an attachment contains, any case, at most 200 characters."
    )
    thread_id: StrictStr | None = Field(default=None, description="Only messages of this conversation.")


class ListEmailsArguments(FilterArguments):
    """Arguments of list_emails."""

    direction: ListDirection = Field(
        default=ListDirection.NEWEST_FIRST,
        description="newestFirst: by received time descending, undated mail last. oldestFirst: the exact reversal.",
    )
    page_size: StrictInt = Field(default=25, description="Emails per page, 1 to 100; outside is refused, not clamped.")
    cursor: StrictStr | None = Field(
        default=None,
        description="next_cursor of the page before, under the same filters, scope and direction. Omitted: first page.",
    )


class SearchEmailsArguments(FilterArguments):
    """Arguments of search_emails."""

    query_text: StrictStr = Field(
        default="",
        description="What to find, 1 to 512 characters; needed without saved_search and like_email_id. All words "
        'must occur; "quoted words" in that order; OR between alternatives; -word excludes; word* finds beginnings; '
        "( ) group. Other forms of a word, accents or none, names, parts of addresses, and words of any length in "
        "scripts without blanks are found. Fields: from: to: cc: subject: in:folder account: has:attachment filename: "
        "is:unread is:read is:flagged is:answered is:draft keyword: before:2026-03-31 after:7d larger:5M smaller: "
        "lang:de; quote a value with blanks. A query that cannot be understood is refused with the place of the "
        "character. Nothing else is syntax.",
    )
    saved_search: StrictStr | None = Field(
        default=None, description="Run the search that is kept under this name, in the place of query_text."
    )
    like_email_id: StrictStr | None = Field(
        default=None,
        description="Find mail that resembles this message, by the words that make it what it is; a query narrows it.",
    )
    group_by: GroupBy = Field(
        default=GroupBy.NONE,
        description="copies: one match for a message that several folders hold. conversations: one for a conversation.",
    )
    include_facets: StrictBool = Field(
        default=False, description="Also count the ranked matches by sender, folder and month."
    )
    result_limit: StrictInt = Field(
        default=20, description="Matches at most, 1 to 50; outside is refused, not clamped."
    )


class GetEmailContentArguments(Arguments):
    """Arguments of get_email_content."""

    stored_email_ids: list[StrictStr] | None = Field(
        default=None, description="1 to 10 ids from list_emails or search_emails, none twice. Either this or thread_id."
    )
    thread_id: StrictStr | None = Field(
        default=None, description="A conversation's id; its first ten messages are read, in conversation order."
    )
    include_sanitized_html: StrictBool = Field(
        default=False, description="Also give the HTML body, cleaned: no scripts, styles, remote content or forms."
    )
    include_attachment_download_links: StrictBool = Field(
        default=False,
        description="Ask for download links. This server offers none yet: attachments are then marked unavailable.",
    )
    max_characters: StrictInt | None = Field(
        default=None,
        description="Characters of body text in the whole answer, 1000 up to the operator's limit (200000 unless "
        "configured). Omitted: 40000. Bodies cut by it say truncated_by readCharacterBudget.",
    )
    body_offset: StrictInt = Field(
        default=0,
        description="Skip so many characters of each body, to read on where an answer was cut. 0 to 10000000.",
    )
    attachment_position: StrictInt | None = Field(
        default=None,
        description="Also give the text of this attachment of the one email that is named, by its position in "
        "attachments. It takes its characters of max_characters before the body does. PDF, office documents, plain "
        "text, HTML, calendars and attached messages have text; text_state says so of each attachment.",
    )
    attachment_offset: StrictInt = Field(
        default=0, description="Skip so many characters of the attachment's text, to read on. 0 to 10000000."
    )
