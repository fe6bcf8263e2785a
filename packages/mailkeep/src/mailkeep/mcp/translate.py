"""Between the wire's words and the service's values, both ways. Decides nothing but how much of a name is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from mailkeep import search
from mailkeep.attachments import AttachmentReading, AttachmentText
from mailkeep.errors import EmailIdMalformed, ThreadIdMalformed
from mailkeep.mailbox import BodyState, ContentFailure, Flags, Truncation
from mailkeep.mailbox import ContentAvailability as StoredAvailability
from mailkeep.mailbox import EmailContent as StoredContent
from mailkeep.mcp import arguments, results
from mailkeep_message import Address
from mailkeep_message import Attachment as StoredAttachment

MAX_SUBJECT_CHARACTERS: Final = 500
MAX_NAME_CHARACTERS: Final = 200
MAX_TO_ADDRESSES: Final = 20
MAX_PARTICIPANTS: Final = 200
MAX_REFERENCES: Final = 64
MAX_ATTACHMENTS: Final = 200
MAX_OTHER_MESSAGES: Final = 50
SNIPPET_CEILING_FACTOR: Final = 3
"""The face's own ceiling of a snippet is so many times the operator's bound, plus one for the ellipsis (FIND-44)."""

_AVAILABILITY: Final = {
    StoredAvailability.AVAILABLE: results.ContentAvailability.AVAILABLE,
    StoredAvailability.EXCEEDED_SIZE_LIMIT: results.ContentAvailability.EXCEEDED_SIZE_LIMIT,
    StoredAvailability.AWAITING_STORAGE_HEADROOM: results.ContentAvailability.AWAITING_STORAGE_HEADROOM,
}
_BODY: Final = {
    BodyState.READABLE: results.BodyAvailability.READABLE,
    BodyState.ENCRYPTED_NOT_READABLE_LOCALLY: results.BodyAvailability.ENCRYPTED_NOT_READABLE_LOCALLY,
    BodyState.NOT_STORED_EXCEEDED_SIZE_LIMIT: results.BodyAvailability.NOT_STORED_EXCEEDED_SIZE_LIMIT,
    BodyState.NOT_STORED_AWAITING_STORAGE_HEADROOM: results.BodyAvailability.NOT_STORED_AWAITING_STORAGE_HEADROOM,
}
_TRUNCATION: Final = {
    Truncation.NONE: results.TruncatedBy.NONE,
    Truncation.BODY_CHARACTER_LIMIT: results.TruncatedBy.BODY_CHARACTER_LIMIT,
    Truncation.READ_CHARACTER_BUDGET: results.TruncatedBy.READ_CHARACTER_BUDGET,
}
# Nothing judges senders or texts yet, and these say exactly that.
_UNVERIFIED: Final = results.SenderVerification(
    author_authentication=results.AuthorAuthentication.NOT_ESTABLISHED,
    deployment_trust=results.DeploymentTrust.UNKNOWN,
)
_UNASSESSED: Final = results.MachineAuthorship(state=results.AuthorshipState.NOT_ASSESSED, likelihood=0)
_NO_EVIDENCE: Final = results.AuthorshipEvidence(signals=[])
_UNAUTHENTICATED: Final = results.SenderAuthentication(
    authenticated_by="none", dmarc="notReported", verdict_source="receivingServer"
)


def filters_of(given: arguments.FilterArguments) -> search.Filters:
    """The structured filters."""
    return search.Filters(
        sender_address=given.sender_address,
        recipient_address=given.recipient_address,
        subject_fragment=given.subject_fragment,
        received_on_or_after=given.received_on_or_after,
        received_before=given.received_before,
        is_remotely_seen=given.is_remotely_seen,
        is_remotely_flagged=given.is_remotely_flagged,
        keyword=given.keyword,
        has_attachments=given.has_attachments,
        cc_address=given.cc_address,
        is_remotely_answered=given.is_remotely_answered,
        is_remotely_draft=given.is_remotely_draft,
        size_at_least=given.size_at_least,
        size_below=given.size_below,
        attachment_name=given.attachment_name,
        thread_id=None
        if given.thread_id is None
        else search.parse_id(given.thread_id, ThreadIdMalformed("thread_id is not a conversation id.")),
    )


def list_request(given: arguments.ListEmailsArguments) -> search.ListRequest:
    """A page of the timeline."""
    oldest = given.direction is arguments.ListDirection.OLDEST_FIRST
    return search.ListRequest(
        accounts=_names(given.accounts),
        folders=_names(given.folders),
        filters=filters_of(given),
        include_junk_mail=given.include_junk_mail,
        direction=search.Direction.OLDEST_FIRST if oldest else search.Direction.NEWEST_FIRST,
        page_size=given.page_size,
        cursor=given.cursor,
    )


def search_request(given: arguments.SearchEmailsArguments, query_text: str) -> search.SearchRequest:
    """A window of matches for the query, typed or saved."""
    return search.SearchRequest(
        query_text=query_text,
        like=None
        if given.like_email_id is None
        else search.parse_id(given.like_email_id, EmailIdMalformed("like_email_id is not an email id.")),
        grouping=search.Grouping(given.group_by.value),
        with_facets=given.include_facets,
        accounts=_names(given.accounts),
        folders=_names(given.folders),
        filters=filters_of(given),
        include_junk_mail=given.include_junk_mail,
        result_limit=given.result_limit,
    )


def read_request(given: arguments.GetEmailContentArguments) -> search.ReadRequest:
    """A content read."""
    return search.ReadRequest(
        stored_email_ids=_names(given.stored_email_ids),
        thread_id=given.thread_id,
        include_sanitized_html=given.include_sanitized_html,
        max_characters=given.max_characters,
        body_offset=given.body_offset,
        attachment_position=given.attachment_position,
        attachment_offset=given.attachment_offset,
    )


def _names(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


def accounts_result(
    accounts: Iterable[search.AccountOverview], *, synchronization_enabled: bool
) -> results.ListAccountsResult:
    """All accounts."""
    modes = results.SynchronizationMode
    return results.ListAccountsResult(
        accounts=[
            results.Account(
                account_id=account.account_id,
                display_name=account.display_name,
                synchronization_mode=modes.PUSH if account.is_pushed else modes.POLLING,
                folders=_freshness(account.folders),
            )
            for account in accounts
        ],
        synchronization_enabled=synchronization_enabled,
    )


def page_result(page: search.Page) -> results.ListEmailsResult:
    """A page."""
    return results.ListEmailsResult(
        emails=[_summary(summary) for summary in page.emails],
        next_cursor=page.next_cursor,
        included_junk_mail=page.included_junk_mail,
        folder_freshness=_freshness(page.folder_freshness),
    )


def search_result(
    found: search.SearchResult, *, limit: int, snippets: int, characters_per_snippet: int
) -> results.SearchEmailsResult:
    """A window, with its bounds applied once more: what leaves here is what the operator allowed (MCP-110)."""
    ceiling = SNIPPET_CEILING_FACTOR * characters_per_snippet + 1
    return results.SearchEmailsResult(
        matches=[
            results.SearchMatch(
                summary=_summary(match.summary),
                relevance_rank=match.relevance_rank,
                snippets=[snippet[:ceiling] for snippet in match.snippets[:snippets]],
                nearest_passage=None if match.nearest_passage is None else match.nearest_passage[:ceiling],
                attachment_hits=[
                    results.AttachmentHit(
                        position=hit.position,
                        file_name=hit.file_name,
                        media_type=hit.media_type,
                        snippets=[snippet[:ceiling] for snippet in hit.snippets[:snippets]],
                    )
                    for hit in match.found_in
                ],
                others=[str(other) for other in match.others],
            )
            for match in found.matches[:limit]
        ],
        match_count=found.match_count.count,
        match_count_is_exact=found.match_count.is_exact,
        ranked_among=found.ranked_among,
        asked_for_nothing=found.asked_for_nothing,
        facets=[results.Facet(kind=one.kind.value, value=one.value, count=one.count) for one in found.facets],
        retrieval_mode=found.retrieval_mode.value,
        semantic_search=found.semantic_search.value,
        included_junk_mail=found.included_junk_mail,
        folder_freshness=_freshness(found.folder_freshness),
    )


def saved_searches_result(kept: Iterable[search.SavedSearch]) -> results.ListSavedSearchesResult:
    """All kept queries."""
    return results.ListSavedSearchesResult(
        saved_searches=[results.SavedSearch(name=one.name, query_text=one.query_text) for one in kept]
    )


def content_result(read: search.ReadEmails, *, wants_links: bool) -> results.GetEmailContentResult:
    """The outcomes of a content read."""
    return results.GetEmailContentResult(
        emails=[
            results.ReadEmail(
                stored_email_id=str(outcome.stored_email_id),
                failure=results.ReadFailure(code=outcome.error.code, message=outcome.error.message),
            )
            if isinstance(outcome, ContentFailure)
            else results.ReadEmail(
                stored_email_id=str(outcome.stored_email_id),
                content=_content(read, outcome, wants_links=wants_links),
            )
            for outcome in read.result.outcomes
        ],
        unread_thread_messages=[str(one) for one in read.result.unread_ids],
    )


def _freshness(entries: Iterable[search.FolderFreshness]) -> list[results.FolderFreshness]:
    return [
        results.FolderFreshness(
            account_id=entry.account_id,
            account_display_name=entry.account_display_name,
            folder_alias=entry.folder_alias,
            was_synchronized=entry.was_synchronized,
            synchronized_at=entry.synchronized_at,
        )
        for entry in entries
    ]


def _summary(summary: search.Summary) -> results.EmailSummary:
    return results.EmailSummary(
        stored_email_id=str(summary.stored_email_id),
        account_id=summary.account_id,
        account_display_name=summary.account_display_name,
        folder_alias=summary.folder_alias,
        internet_message_id=summary.internet_message_id,
        thread_id=None if summary.thread_id is None else str(summary.thread_id),
        subject=_shown(summary.subject, MAX_SUBJECT_CHARACTERS),
        sender_address=summary.sender_address,
        sender_display_name=_shown(summary.sender_display_name, MAX_NAME_CHARACTERS),
        to_addresses=list(summary.to_addresses[:MAX_TO_ADDRESSES]),
        to_address_count=len(summary.to_addresses),
        sent_at=summary.sent_at,
        received_at=summary.received_at,
        size_bytes=summary.size_octets,
        sender_verification=_UNVERIFIED,
        machine_authorship=_UNASSESSED,
        attachments=results.AttachmentSummary(
            attachment_count=summary.attachments.attachment_count,
            total_size_bytes=summary.attachments.attachment_total_size_octets,
            inline_resource_count=summary.attachments.inline_resource_count,
            is_encrypted=summary.attachments.is_encrypted,
            carries_unverified_signature=summary.attachments.carries_unverified_signature,
            contains_unexpanded_tnef_part=summary.attachments.contains_unexpanded_tnef_part,
        ),
        remote_flags=_flags(summary.flags if summary.was_observed else None, summary),
        content_availability=_AVAILABILITY[summary.content_availability],
    )


def _flags(flags: Flags | None, observed: search.Summary | StoredContent) -> results.RemoteFlags:
    at = observed.observed_at if isinstance(observed, search.Summary) else observed.flags_observed_at
    shown = Flags() if flags is None else flags
    return results.RemoteFlags(
        seen=shown.seen,
        answered=shown.answered,
        flagged=shown.flagged,
        draft=shown.draft,
        deleted=shown.deleted,
        keywords=list(shown.keywords),
        was_observed=flags is not None,
        observed_at=at,
    )


def _shown(text: str | None, limit: int) -> str | None:
    return text if text is None or len(text) <= limit else text[:limit] + "…"


def _content(read: search.ReadEmails, content: StoredContent, *, wants_links: bool) -> results.EmailContent:
    conversation = None if content.thread_id is None else read.conversations.get(content.thread_id)
    readings = read.readings.get(content.stored_email_id, {})
    return results.EmailContent(
        account_id=content.account_id,
        folder_alias=content.folder,
        size_bytes=content.size_octets,
        sender_verification=_UNVERIFIED,
        machine_authorship=_UNASSESSED,
        authorship_evidence=_NO_EVIDENCE,
        headers=_headers(content),
        body=_body(content),
        attachments=[
            _attachment(one, readings.get(one.position), wants_links=wants_links)
            for one in (content.attachments or ())[:MAX_ATTACHMENTS]
        ],
        attachment_text=None if read.attachment_text is None else _attachment_text(read.attachment_text),
        attachment_counts=_attachment_counts(content),
        remote_flags=_flags(content.flags, content),
        thread=None if conversation is None else _thread(content.stored_email_id, conversation),
    )


def _headers(content: StoredContent) -> results.EmailHeaders:
    roles = results.ParticipantRole
    people: list[tuple[results.ParticipantRole, Address]] = [
        (role, person)
        for role, field in (
            (roles.SENDER, content.sender),
            (roles.FROM, content.from_),
            (roles.REPLY_TO, content.reply_to),
            (roles.TO, content.to),
            (roles.CC, content.cc),
            (roles.BCC, content.bcc),
        )
        for person in field
    ]
    return results.EmailHeaders(
        subject=_shown(content.subject, MAX_SUBJECT_CHARACTERS),
        sent_at=content.sent_at,
        received_at=content.received_at,
        message_id=content.internet_message_id,
        in_reply_to=content.in_reply_to[0] if content.in_reply_to else None,
        references=list(content.references[-MAX_REFERENCES:]),
        participants=[
            results.Participant(
                role=role,
                address=person.address,
                display_name=_shown(person.display_name, MAX_NAME_CHARACTERS),
            )
            for role, person in people[:MAX_PARTICIPANTS]
        ],
        participant_count=len(people),
        sender_authentication=_UNAUTHENTICATED,
        gmail_message_id=content.gmail_message_id,
        gmail_thread_id=content.gmail_thread_id,
    )


def _body(content: StoredContent) -> results.EmailBody:
    body = content.body
    html = None
    if body.html is not None:
        cut = results.TruncatedBy.READ_CHARACTER_BUDGET if body.is_html_truncated else results.TruncatedBy.NONE
        html = results.BodyText(text=body.html, original_character_count=len(body.html), truncated_by=cut)
    return results.EmailBody(
        availability=_BODY[body.state],
        plain_text=results.BodyText(
            text=body.text,
            original_character_count=body.original_character_count,
            truncated_by=_TRUNCATION[body.truncation],
        ),
        sanitized_html=html,
    )


def _attachment_text(text: AttachmentText) -> results.AttachmentText:
    is_cut = text.offset + len(text.text) < text.reading.character_count
    return results.AttachmentText(
        position=text.reading.position,
        offset=text.offset,
        text=text.text,
        original_character_count=text.reading.character_count,
        truncated_by=results.TruncatedBy.READ_CHARACTER_BUDGET if is_cut else results.TruncatedBy.NONE,
    )


def _attachment(
    attachment: StoredAttachment, reading: AttachmentReading | None, *, wants_links: bool
) -> results.Attachment:
    return results.Attachment(
        position=attachment.position,
        text_state=results.TextState.NOT_READ if reading is None else results.TextState[reading.outcome.name],
        is_text_partial=reading is not None and reading.is_partial,
        file_name=attachment.file_name,
        was_file_name_normalized=attachment.was_file_name_normalized,
        media_type=attachment.media_type,
        size_bytes=attachment.size_octets,
        download_state="unavailable" if wants_links else "notRequested",
    )


def _attachment_counts(content: StoredContent) -> results.AttachmentSummary | None:
    if content.attachments is None:
        return None
    return results.AttachmentSummary(
        attachment_count=len(content.attachments),
        total_size_bytes=sum(attachment.size_octets for attachment in content.attachments),
        inline_resource_count=len(content.inline_resources or ()),
        is_encrypted=content.is_encrypted,
        carries_unverified_signature=content.carries_unverified_signature,
        contains_unexpanded_tnef_part=content.contains_unexpanded_tnef_part,
    )


def _thread(stored_email_id: UUID, conversation: search.Conversation) -> results.EmailThread:
    own = next((entry for entry in conversation.entries if entry.stored_email_id == stored_email_id), None)
    others = [entry for entry in conversation.entries if entry is not own]
    return results.EmailThread(
        thread_id=str(conversation.thread_id),
        position=None if own is None else own.position,
        in_reply_to_stored_email_id=_text(None if own is None else own.parent_stored_email_id),
        message_count=len(conversation.entries),
        other_messages=[
            results.ThreadMessage(
                stored_email_id=str(entry.stored_email_id),
                position=entry.position,
                in_reply_to_stored_email_id=_text(entry.parent_stored_email_id),
                subject=_shown(entry.subject, MAX_SUBJECT_CHARACTERS),
                sent_at=entry.sent_at,
                sender_address=entry.sender_address,
                sender_display_name=_shown(entry.sender_display_name, MAX_NAME_CHARACTERS),
            )
            for entry in others[:MAX_OTHER_MESSAGES]
        ],
        more_messages_not_named=max(0, len(others) - MAX_OTHER_MESSAGES),
    )


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)
