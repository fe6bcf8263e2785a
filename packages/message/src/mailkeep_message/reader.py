"""From octets to a `Message`. The only module that knows all the others; every function here is pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from . import attachments as files
from .addresses import address_list
from .body import NOT_EXTRACTED, part_text, read_body
from .calendar import MAX_CALENDAR_CHARACTERS, MAX_CALENDARS, distinct, read_invitations
from .dates import parse_date, received_date
from .fields import Fields, read_fields
from .html import referenced_content_ids
from .identifiers import identifier, identifiers
from .model import (
    Address,
    AttachedFile,
    Attachment,
    AutomationClaim,
    Body,
    Invitation,
    Limits,
    Message,
    PartInfo,
)
from .params import parse_value, without_comments
from .structure import Entity, Structure, message_start, normalized, scan
from .text import clean_line
from .transfer import decoded_size
from .words import header_text, raw_text

_LIST_HEADERS: Final = frozenset(
    ("list-id", "list-unsubscribe", "list-post", "list-help", "list-subscribe", "list-owner", "list-archive")
)
_DEFAULT: Final = Limits()
_NO_CLAIM: Final = AutomationClaim(list_headers=False, auto_submitted=None, precedence=None)


def read(octets: bytes, *, limits: Limits = _DEFAULT) -> Message:
    """Read a message of any quality. Never raises: what cannot be read is told in `defects` and `is_fully_read`."""
    try:
        return read_strictly(octets, limits=limits)
    except Exception:
        message = read_headers(octets)
        return replace(message, defects=message.defects | {"reader_failure"}, is_fully_read=False)


def read_strictly(octets: bytes, *, limits: Limits = _DEFAULT) -> Message:
    """`read` without its last resort, for tests that look for errors of ours."""
    structure = scan(normalized(octets), limits)
    fields = structure.root.fields
    if not structure.is_complete:
        defects = structure.defects | {"structure_limit_crossed"}
        return _message(fields, NOT_EXTRACTED, limits, defects=defects, is_fully_read=False)
    outcome = files.sort_parts(structure)
    texts: dict[Entity, str] = {}
    sizes: dict[Entity, int] = {}
    for entity in (*outcome.body.plain, *outcome.body.html, *outcome.body.other):
        texts[entity], sizes[entity] = part_text(structure, entity, limits)
    body = read_body(outcome.body, texts, limits)
    attached, inline = _files(structure, outcome, texts, sizes)
    return _message(
        fields,
        body,
        limits,
        defects=structure.defects,
        is_fully_read=True,
        attached=attached,
        inline=inline,
        outcome=outcome,
        parts=tuple([_part_info(structure, entity, sizes) for entity in structure.entities]),
        invitations=_invitations(structure, outcome, texts, limits) if outcome.calendars else (),
    )


def read_headers(octets: bytes) -> Message:
    """Read the header section alone, as `BODY[HEADER]` gives it. Never raises; there are no parts and no body."""
    try:
        octets = normalized(octets)
        start = message_start(octets)
        fields = read_fields(_section(octets, start), is_unterminated=False)
        return _message(fields, NOT_EXTRACTED, _DEFAULT, defects=set(fields.defects), is_fully_read=True)
    except Exception:
        return _message(_no_fields(), NOT_EXTRACTED, _DEFAULT, defects={"reader_failure"}, is_fully_read=False)


def attachment_payload(octets: bytes, position: int, *, limits: Limits = _DEFAULT) -> bytes:
    """Return the decoded octets of the file at `position` in the walk of `read`.

    Raises `LookupError` when there is none.
    """
    structure = scan(normalized(octets), limits)
    if structure.is_complete and position >= 0:
        outcome = files.sort_parts(structure)
        texts = {entity: part_text(structure, entity, limits)[0] for entity in outcome.body.html}
        attached, inline = files.split_files(outcome.files, _references(outcome, texts))
        walk = attached + inline
        if position < len(walk):
            entity = walk[position]
            structure.octets = octets  # the original octets, also where line ends were bare CR
            return files.payload(structure, entity)
    raise LookupError(f"the message has no attachment at position {position}")


def attached_files(octets: bytes, *, limits: Limits = _DEFAULT) -> Iterator[AttachedFile]:
    """Give the attachments of `read` with their octets, in order, each decoded only when it is asked for.

    Nothing for a message that crosses the limits. Unlike `read` it raises what its last resort would hide.
    """
    structure = scan(normalized(octets), limits)
    if not structure.is_complete:
        return
    outcome = files.sort_parts(structure)
    texts = {entity: part_text(structure, entity, limits)[0] for entity in outcome.body.html}
    attached, _ = files.split_files(outcome.files, _references(outcome, texts))
    described = [files.describe(structure, entity, position) for position, entity in enumerate(attached)]
    hint = next((e.parameters["charset"] for e in structure.entities if "charset" in e.parameters), None)
    structure.octets = octets  # the original octets, also where line ends were bare CR
    for entity, about in zip(attached, described, strict=True):
        yield AttachedFile(about, entity.parameters.get("charset"), hint, files.payload(structure, entity))


def _section(octets: bytes, start: int) -> bytes:
    end = octets.find(b"\n\n", start)
    other = octets.find(b"\n\r\n", start)
    ends = [position for position in (end, other) if position >= 0]
    return octets[start : min(ends) + 1] if ends else octets[start:]


def _no_fields() -> Fields:
    return Fields([], None, frozenset())


def _references(outcome: files.Sorted, texts: dict[Entity, str]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    if outcome.files and any(entity.fields.first("content-id") for entity in outcome.files):
        for entity in outcome.body.html:
            found |= referenced_content_ids(texts[entity])
    return found


def _files(
    structure: Structure, outcome: files.Sorted, texts: dict[Entity, str], sizes: dict[Entity, int]
) -> tuple[tuple[Attachment, ...], tuple[Attachment, ...]]:
    if not outcome.files:
        return (), ()
    attached, inline = files.split_files(outcome.files, _references(outcome, texts))
    described = [files.describe(structure, entity, position) for position, entity in enumerate(attached + inline)]
    for entity, about in zip(attached + inline, described, strict=True):
        sizes[entity] = about.size_octets
    return tuple(described[: len(attached)]), tuple(described[len(attached) :])


def _part_info(structure: Structure, entity: Entity, sizes: dict[Entity, int]) -> PartInfo:
    raw_size = entity.end - entity.body_start
    if entity.is_multipart:
        decoded = raw_size
    elif entity in sizes:
        decoded = sizes[entity]
    else:
        decoded = decoded_size(structure.octets, entity.body_start, entity.end, entity.encoding)
    has_names = entity.disposition.parameters or entity.parameters
    return PartInfo(
        entity.media_type,
        entity.parameters.get("charset"),
        entity.encoding or "7bit",
        entity.disposition.value or None,
        files.file_name(entity)[0] if has_names else None,
        files.content_id(entity),
        entity.depth,
        entity.header_start,
        entity.body_start,
        entity.end,
        raw_size,
        decoded,
        entity.is_multipart,
    )


def _invitations(
    structure: Structure, outcome: files.Sorted, texts: dict[Entity, str], limits: Limits
) -> tuple[Invitation, ...]:
    found: list[Invitation] = []
    for entity in outcome.calendars[:MAX_CALENDARS]:
        if entity.end - entity.body_start <= MAX_CALENDAR_CHARACTERS * 4:
            text = texts[entity] if entity in texts else part_text(structure, entity, limits)[0]
            found.extend(read_invitations(text, entity.parameters.get("method")))
    return distinct(found)


def _message(
    fields: Fields,
    body: Body,
    limits: Limits,
    *,
    defects: set[str],
    is_fully_read: bool,
    attached: tuple[Attachment, ...] = (),
    inline: tuple[Attachment, ...] = (),
    outcome: files.Sorted | None = None,
    parts: tuple[PartInfo, ...] = (),
    invitations: tuple[Invitation, ...] = (),
) -> Message:
    charset = next((part.charset for part in parts if part.charset is not None), None)
    if charset is None and not parts and (content_type := fields.last("content-type")) is not None:
        charset = parse_value(content_type).parameters.get("charset")
    maximum = limits.max_addresses_per_role
    roles = [
        address_list(fields.all(name), maximum=maximum, charset=charset) if name in fields else ()
        for name in ("from", "sender", "reply-to", "to", "cc", "bcc")
    ]
    message_id = fields.first("message-id")
    subject = fields.first("subject")
    return Message(
        headers=fields.as_model(),
        message_id=identifier(message_id) if message_id is not None else None,
        original_message_ids=_original_ids(fields),
        in_reply_to=identifiers(fields.all("in-reply-to"), maximum=limits.max_references)
        if "in-reply-to" in fields
        else (),
        references=identifiers(fields.all("references"), maximum=limits.max_references)
        if "references" in fields
        else (),
        subject=(header_text(subject, charset) or None) if subject is not None else None,
        sent_at=_date(fields),
        received_at=_received(fields),
        from_=roles[0],
        sender=roles[1],
        reply_to=roles[2],
        to=roles[3],
        cc=roles[4],
        bcc=roles[5],
        author=_author(roles[0], roles[1]),
        body=body,
        attachments=attached,
        inline_resources=inline,
        is_encrypted=outcome is not None and outcome.is_encrypted,
        carries_unverified_signature=outcome is not None and outcome.is_signed,
        contains_unexpanded_tnef_part=outcome is not None and outcome.has_tnef,
        invitations=invitations,
        automation=_automation(fields),
        parts=parts,
        defects=frozenset(defects),
        is_fully_read=is_fully_read,
    )


def _author(from_: tuple[Address, ...], sender: tuple[Address, ...]) -> Address | None:
    """The first usable From, else the Sender (SYNC-94)."""
    if from_:
        return from_[0]
    return sender[0] if sender else None


def _original_ids(fields: Fields) -> tuple[str, ...]:
    """Identifiers a relay replaced and kept in a field of its own (cases 91, 94)."""
    found: list[str] = []
    for name in ("x-microsoft-original-message-id", "x-ms-exchange-parent-message-id"):
        for value in fields.all(name)[:8]:
            name_found = identifier(value)
            if name_found is not None and name_found not in found:
                found.append(name_found)
    return tuple(found)


def _date(fields: Fields) -> datetime | None:
    value = fields.first("date")
    return parse_date(value) if value is not None else None


def _received(fields: Fields) -> datetime | None:
    value = fields.first("received")
    return received_date(value) if value is not None else None


def _automation(fields: Fields) -> AutomationClaim:
    list_headers = fields.has_any(_LIST_HEADERS)
    submitted = fields.first("auto-submitted")
    precedence = fields.first("precedence")
    if submitted is None and precedence is None and not list_headers:
        return _NO_CLAIM
    return AutomationClaim(list_headers, _token(submitted), _token(precedence))


def _token(value: bytes | None) -> str | None:
    if value is None:
        return None
    text = clean_line(without_comments(raw_text(value))).partition(";")[0]
    return text.strip().lower()[:100] or None
