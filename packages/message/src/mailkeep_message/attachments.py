"""The one walk that sorts every part: body, inline resource, attachment, or nothing (SYNC-98 to SYNC-103).

The order of the five steps is the rule: encryption and signature first, cryptographic leaves, then the body branch,
then resources an HTML body refers to, then the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from .body import BodyParts
from .model import Attachment
from .structure import Entity, Structure
from .text import clean_line
from .transfer import decode_transfer, decoded_size
from .words import header_text

MAX_FILE_NAME = 200
_CRYPTOGRAPHIC: Final = frozenset(
    f"application/{prefix}{name}"
    for prefix in ("", "x-")
    for name in ("pkcs7-signature", "pgp-signature", "pkcs7-mime", "pgp-encrypted")
)
_ENVELOPED: Final = ("enveloped-data", "authenveloped-data")
_TNEF_TYPES: Final = frozenset(("application/ms-tnef", "application/vnd.ms-tnef", "application/x-tnef"))
_UNSAFE_IN_NAMES: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]+"
)


@dataclass(slots=True)
class Sorted:
    """The outcome of the walk."""

    body: BodyParts = field(default_factory=BodyParts)
    files: list[Entity] = field(default_factory=list)
    calendars: list[Entity] = field(default_factory=list)
    is_encrypted: bool = False
    is_signed: bool = False
    has_tnef: bool = False


def sort_parts(structure: Structure) -> Sorted:
    """Walk the message's own parts once; `files` still holds inline resources (the HTML decides which they are)."""
    outcome = Sorted()
    _walk(structure.root, outcome, on_branch=True, in_alternative=False)
    if not (outcome.body.plain or outcome.body.html or outcome.body.other or outcome.body.is_encrypted):
        _adopt_text(outcome)
    return outcome


def _walk(entity: Entity, outcome: Sorted, *, on_branch: bool, in_alternative: bool) -> None:
    if not entity.is_multipart:
        _sort_leaf(entity, outcome, on_branch=on_branch, in_alternative=in_alternative)
        return
    media_type, children = entity.media_type, entity.children
    if media_type == "multipart/encrypted" and entity.parameters.get("protocol"):
        outcome.is_encrypted = True
        outcome.body.is_encrypted = outcome.body.is_encrypted or on_branch
        return
    body_child: Entity | None = children[0] if children else None
    skipped: Entity | None = None
    if media_type == "multipart/signed" and entity.parameters.get("protocol"):
        outcome.is_signed = True
        skipped = children[1] if len(children) > 1 else None
    elif media_type == "multipart/related":
        body_child = _related_root(entity)
    is_alternative = media_type == "multipart/alternative"
    for child in children:
        if child is not skipped:
            is_body = on_branch and (is_alternative or child is body_child)
            _walk(child, outcome, on_branch=is_body, in_alternative=is_body and (is_alternative or in_alternative))


def _related_root(entity: Entity) -> Entity | None:
    start = entity.parameters.get("start", "").strip("<> ")
    if start:
        for child in entity.children:
            if content_id(child) == start:
                return child
    return entity.children[0] if entity.children else None


def _sort_leaf(entity: Entity, outcome: Sorted, *, on_branch: bool, in_alternative: bool) -> None:
    media_type = entity.media_type
    if media_type in _CRYPTOGRAPHIC:
        kind = entity.parameters.get("smime-type", "").lower()
        if media_type.endswith("pkcs7-mime"):
            if kind in _ENVELOPED:
                outcome.is_encrypted = True
                outcome.body.is_encrypted = outcome.body.is_encrypted or on_branch
            elif kind == "signed-data":
                outcome.is_signed = True
        return
    if is_calendar(entity):
        outcome.calendars.append(entity)
    if media_type in _TNEF_TYPES or _has_tnef_name(entity):
        outcome.has_tnef = True
    if on_branch and _is_body_text(entity, in_alternative=in_alternative):
        if media_type == "text/plain":
            outcome.body.plain.append(entity)
        elif media_type == "text/html":
            outcome.body.html.append(entity)
        elif media_type != "text/calendar":
            outcome.body.other.append(entity)
        return
    outcome.files.append(entity)


def _is_body_text(entity: Entity, *, in_alternative: bool) -> bool:
    if not entity.media_type.startswith("text/"):
        return False
    if entity.disposition.value == "attachment":
        # A lone text marked as attachment without a name is still what the sender wrote.
        return entity.parent is None and raw_file_name(entity) is None
    if entity.media_type in ("text/plain", "text/html"):
        return True
    return in_alternative or (entity.media_type != "text/calendar" and raw_file_name(entity) is None)


def _adopt_text(outcome: Sorted) -> None:
    """Without any text on the body branch (a picture came first) the first unnamed inline text is the body."""
    for entity in outcome.files:
        if (
            entity.media_type in ("text/plain", "text/html")
            and entity.disposition.value != "attachment"
            and raw_file_name(entity) is None
            and entity.parent is not None
            and entity.parent.media_type in ("multipart/mixed", "multipart/related", "multipart/report")
        ):
            (outcome.body.plain if entity.media_type == "text/plain" else outcome.body.html).append(entity)
            outcome.files.remove(entity)
            return


def is_calendar(entity: Entity) -> bool:
    """True for a part that holds iCalendar data, however it is labelled (case 136)."""
    if entity.media_type in ("text/calendar", "application/ics", "text/ics", "application/icalendar"):
        return True
    name = raw_file_name(entity)
    return name is not None and name.lower().endswith(".ics")


def _has_tnef_name(entity: Entity) -> bool:
    name = raw_file_name(entity)
    return name is not None and name.lower() == "winmail.dat"


def split_files(files: list[Entity], referenced: frozenset[str]) -> tuple[list[Entity], list[Entity]]:
    """Return attachments and inline resources; a referenced part marked `attachment` stays an attachment."""
    attachments: list[Entity] = []
    inline: list[Entity] = []
    for entity in files:
        name = content_id(entity) if referenced else None
        is_inline = name is not None and name in referenced and entity.disposition.value != "attachment"
        (inline if is_inline else attachments).append(entity)
    return attachments, inline


def describe(structure: Structure, entity: Entity, position: int) -> Attachment:
    """Return what is told about a file; its size is that of the decoded octets."""
    name, was_normalized = file_name(entity)
    size = decoded_size(structure.octets, entity.body_start, entity.end, entity.encoding)
    return Attachment(position, name, was_normalized, entity.media_type, size, content_id(entity))


def payload(structure: Structure, entity: Entity) -> bytes:
    """Return the decoded octets of a file."""
    return decode_transfer(structure.octets[entity.body_start : entity.end], entity.encoding)[0]


def raw_file_name(entity: Entity) -> str | None:
    """Return the declared name: `filename` of the disposition, else `name` of the type."""
    return entity.disposition.parameters.get("filename") or entity.parameters.get("name") or None


def file_name(entity: Entity) -> tuple[str | None, bool]:
    """Return the name made safe and whether that altered it (SYNC-103)."""
    raw = raw_file_name(entity)
    if raw is None:
        return None, False
    name = normalized_file_name(raw)
    return name, name != raw


def normalized_file_name(raw: str) -> str | None:
    """Return the part after the last "/", "\\" or ":", without control and format characters, at most 200 long."""
    name = _UNSAFE_IN_NAMES.sub("", raw)
    name = name[max(name.rfind("/"), name.rfind("\\"), name.rfind(":")) + 1 :]
    name = name.strip().rstrip(". \t")
    if len(name) > MAX_FILE_NAME:
        stem, dot, extension = name.rpartition(".")
        if dot and 0 < len(extension) <= 20:
            name = stem[: MAX_FILE_NAME - len(extension) - 1].rstrip(". ") + dot + extension
        else:
            name = name[:MAX_FILE_NAME].rstrip(". ")
    return name or None


def content_id(entity: Entity) -> str | None:
    """Return the Content-ID without brackets."""
    value = entity.fields.first("content-id")
    if value is None:
        return None
    return clean_line(header_text(value)).strip("<> ")[:998] or None
