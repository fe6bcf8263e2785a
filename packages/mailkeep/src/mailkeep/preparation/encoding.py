"""Reading, judging and encoding a batch of arrivals. No message stops here: each has further forms (`Form`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from mailkeep.preparation import copyformat as cf
from mailkeep.preparation.document import SearchDocument, build_document
from mailkeep.preparation.model import DEFAULT_LIMITS, Arrival, Flags, Form, PreparedBatch, PreparedMessage
from mailkeep_message import Address, Limits, Message, read, read_headers

MAX_STORED_REFERENCES: Final = 64

ROW_COLUMNS: Final = (
    "uid",
    "internet_message_id",
    "subject",
    "sent_at",
    "received_at",
    "size_octets",
    "content_availability",
    "sender_display_name",
    "sender_address",
    "sender_normalized_address",
    "to_addresses",
    "cc_addresses",
    "reply_to_addresses",
    "in_reply_to",
    "thread_references",
    "attachment_count",
    "inline_resource_count",
    "attachment_total_size_octets",
    "is_encrypted",
    "carries_unverified_signature",
    "contains_unexpanded_tnef_part",
    "is_structurally_read",
    "is_remotely_seen",
    "is_remotely_answered",
    "is_remotely_flagged",
    "is_remotely_draft",
    "is_remotely_deleted",
    "remote_keywords",
    "remote_labels",
    "gmail_message_id",
    "gmail_thread_id",
)
"""The columns of `stored_emails` that the message and its fetch decide; the writer adds identity and placement."""


def prepare(arrivals: Sequence[Arrival], *, limits: Limits = DEFAULT_LIMITS) -> PreparedBatch:
    """Read and encode a batch. Never raises on account of a message; needs no database and no clock."""
    return PreparedBatch(tuple(prepare_one(arrival, limits=limits) for arrival in arrivals), limits)


def prepare_one(arrival: Arrival, *, limits: Limits, form: Form = Form.WHOLE) -> PreparedMessage:
    """The arrival in the given form, or in the next one that can be encoded at all."""
    for candidate in Form:
        if candidate < form:
            continue
        try:
            return _in_form(arrival, limits, candidate)
        except Exception:
            # The reader promises not to raise and to return storable text. A breach of that promise costs this one
            # message its details, never the batch; the form it was stored in tells that it happened.
            if candidate is Form.BARE:
                raise
    raise AssertionError("every form was tried")


def next_form(form: Form, *, is_too_long: bool) -> Form | None:
    """What to try after PostgreSQL refused `form`: less text when it was too long, else less of the message."""
    if form is Form.BARE:
        return None
    if not is_too_long and form < Form.HEADERS_ONLY:
        return Form.HEADERS_ONLY
    return Form(form + 1)


def _in_form(arrival: Arrival, limits: Limits, form: Form) -> PreparedMessage:
    message = _read(arrival, limits, form)
    received_at = message.received_at if message.received_at is not None else _utc(arrival.internaldate)
    document = _document(message, received_at, form)
    is_structurally_read = message.is_fully_read and form < Form.HEADERS_ONLY
    return PreparedMessage(
        arrival=arrival,
        form=form,
        sha256=hashlib.sha256(arrival.octets).digest() if arrival.octets is not None else None,
        message_id=message.message_id,
        in_reply_to=message.in_reply_to,
        references=message.references,
        also_known_as=message.original_message_ids,
        is_structurally_read=is_structurally_read,
        row=_row(arrival, message, received_at, is_structurally_read=is_structurally_read),
        document=_encoded_document(document),
    )


def _read(arrival: Arrival, limits: Limits, form: Form) -> Message:
    if form is Form.BARE:
        return read_headers(b"")
    if arrival.octets is None:
        return read_headers(arrival.header_octets or b"")
    if form is Form.HEADERS_ONLY:
        return read_headers(arrival.octets)
    return read(arrival.octets, limits=limits)


def _document(message: Message, received_at: datetime | None, form: Form) -> SearchDocument:
    document = build_document(message, received_at=received_at)
    if form is Form.PARTLY_INDEXED:
        return replace(document, body_terms=None, indexed_body_characters=document.indexed_body_characters // 4)
    if form is Form.BODY_NOT_INDEXED:
        return replace(document, body_terms=None, subject_terms=None, participant_terms=None, indexed_body_characters=0)
    return document


def _row(arrival: Arrival, message: Message, received_at: datetime | None, *, is_structurally_read: bool) -> bytes:
    author = message.author
    flags = arrival.flags if arrival.flags is not None else Flags()
    fields = (
        cf.bigint(arrival.uid),
        cf.text(message.message_id),
        cf.text(message.subject),
        cf.timestamptz(message.sent_at),
        cf.timestamptz(received_at),
        cf.bigint(arrival.size_octets),
        cf.text(arrival.availability.value),
        cf.text(author.display_name if author else None),
        cf.text(author.address if author else None),
        cf.text(author.normalized_address if author else None),
        cf.text_array(_comparison_forms(message.to)),
        cf.text_array(_comparison_forms(message.cc)),
        cf.text_array(_comparison_forms(message.reply_to)),
        cf.text(message.in_reply_to[0] if message.in_reply_to else None),
        cf.text_array(message.references[-MAX_STORED_REFERENCES:]),
        cf.integer(len(message.attachments)),
        cf.integer(len(message.inline_resources)),
        cf.bigint(sum(attachment.size_octets for attachment in message.attachments)),
        cf.boolean(message.is_encrypted),
        cf.boolean(message.carries_unverified_signature),
        cf.boolean(message.contains_unexpanded_tnef_part),
        cf.boolean(is_structurally_read),
        cf.boolean(flags.seen),
        cf.boolean(flags.answered),
        cf.boolean(flags.flagged),
        cf.boolean(flags.draft),
        cf.boolean(flags.deleted),
        cf.text_array(flags.keywords),
        cf.text_array(flags.labels),
        cf.text(arrival.gmail_message_id),
        cf.text(arrival.gmail_thread_id),
    )
    return b"".join(fields)


def _encoded_document(document: SearchDocument) -> bytes:
    fields = []
    for value in document.values():
        if isinstance(value, datetime):
            fields.append(cf.timestamptz(value))
        elif isinstance(value, int):
            fields.append(cf.integer(value))
        else:
            assert value is None or isinstance(value, str)
            fields.append(cf.text(value))
    return b"".join(fields)


def _comparison_forms(addresses: Sequence[Address]) -> list[str]:
    """In header order, each once (SYNC-94)."""
    return list(dict.fromkeys(address.normalized_address for address in addresses))


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
