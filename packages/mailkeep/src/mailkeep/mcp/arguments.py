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
        default=None, description="A whole IMAP keyword, any case, at most 64 characters."
    )
    has_attachments: StrictBool | None = Field(default=None, description="With (true) or without (false) attachments.")


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
        description='Words to find, 1 to 512 characters. All words must occur; "quoted words" in that order; OR '
        "between alternatives; -word excludes; word* finds beginnings. Names, parts of addresses, and Chinese, "
        "Japanese and Korean words of any length are found. Nothing else is syntax."
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
