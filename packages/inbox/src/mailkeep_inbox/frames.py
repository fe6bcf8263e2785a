"""Frames: built for messages that the host writes, decoded for every read of a detail (INBOX-48 to INBOX-51).

The header section is read here, by the rules of this library's contract. The body is read by mailkeep_message, which
knows MIME, charsets, HTML and broken mail; it never raises, so that no stored frame can break a read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mailkeep_inbox.bounds import (
    HEADER_FOLD_COLUMNS,
    MAX_FRAME_BYTES,
    MAX_KEY_BYTES,
    MIME_DEPTH,
    SNIPPET_CHARACTERS,
)
from mailkeep_inbox.checks import storable
from mailkeep_inbox.model import Attachment
from mailkeep_message import Limits, Message, read
from mailkeep_message.dates import parse_date
from mailkeep_message.words import header_text

_BREAKS: Final = re.compile(r"[\r\n]+")
_FIELD: Final = re.compile(rb"([!-9;-~]+)[ \t]*:(.*)", re.DOTALL)
_TOKEN: Final = re.compile(r"<[^<>]+>")
_NAMED: Final = re.compile(r'"?([^"<>]*)"?\s*(<[^<>]*>)')
_LIMITS: Final = Limits(max_nesting_depth=MIME_DEPTH, max_text_characters=MAX_FRAME_BYTES)
_HEADER_END: Final = b"\r\n\r\n"
_NO_BOUNDARY: Final = frozenset(("missing_boundary", "missing_boundary_start"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameHeaders:
    """The fields of a frame that are cached or shown; `None` is an absent field, `""` a present empty one.

    `message_id`, `in_reply_to` and `references` hold `<…>` tokens only. `sent_at` is aware, in UTC.
    """

    from_: str | None
    to: str | None
    subject: str | None
    sent_at: datetime | None
    written_message_id: str | None
    message_id: str | None
    in_reply_to: str | None
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameBody:
    """The readable text, `""` when there is none, and the files, attachments first, then inline resources."""

    text: str
    attachments: tuple[Attachment, ...]

    @property
    def snippet(self) -> str | None:
        """The first 160 characters; `None` of an empty body (INBOX-56)."""
        return self.text[:SNIPPET_CHARACTERS] or None


@dataclass(frozen=True, slots=True)
class DecodedFrame:
    """A frame with a header section and a body."""

    headers: FrameHeaders
    body: FrameBody


def build_mail_frame(
    *,
    from_address: str,
    to: str,
    subject: str,
    body: str,
    message_id: str,
    date: datetime,
    in_reply_to: str | None = None,
    references: Sequence[str] = (),
) -> bytes:
    """A complete text message. No value can open another field: line breaks in it become spaces (INBOX-48)."""
    fields = [
        ("From", _flat(from_address)),
        ("To", _flat(to)),
        ("Subject", _flat(subject)),
        ("Date", date.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")),
        ("Message-ID", _flat(message_id)),
    ]
    if in_reply_to is not None:
        fields.append(("In-Reply-To", _flat(in_reply_to)))
    if references:
        fields.append(("References", _folded(len("References: "), [_flat(token) for token in references])))
    fields += [
        ("MIME-Version", "1.0"),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Transfer-Encoding", "8bit"),
    ]
    header = "".join(f"{name}: {value}\r\n" for name, value in fields)
    text = body.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    return f"{header}\r\n{text}\r\n".encode()


def decode_mail_frame(raw: bytes) -> DecodedFrame | None:
    """Header and body of a frame; `None` when no empty line ends the header (INBOX-49). Never raises."""
    headers = decode_headers(raw)
    return None if headers is None else DecodedFrame(headers, decode_body(raw))


def decode_headers(raw: bytes) -> FrameHeaders | None:
    """The header alone: all that the transport wrapper needs before it knows who receives the frame."""
    section = _header_section(raw)
    if section is None:
        return None
    fields = _fields(section, is_crlf=_HEADER_END in raw)
    written = fields.get("message-id")
    sent = fields.get("date")
    return FrameHeaders(
        from_=_from_text(fields),
        to=_text(fields, "to"),
        subject=_subject_text(fields),
        sent_at=None if sent is None else parse_date(sent),
        written_message_id=_text(fields, "message-id") or None,
        message_id=None if written is None or b"\0" in written else bounded_id(first_token(_unfolded(written))),
        in_reply_to=first_token(_text(fields, "in-reply-to")),
        references=tokens(_text(fields, "references")),
    )


def decode_body(raw: bytes) -> FrameBody:
    """The text by the better part, transfer and charset decoded, HTML turned into text when nothing else is there."""
    message = read(raw, limits=_LIMITS)
    readable = message.is_fully_read and not message.defects & _NO_BOUNDARY
    return FrameBody(
        text=storable(message.body.text_before_trimming).rstrip() if readable else "",
        attachments=_attachments(message),
    )


def first_token(value: str | None) -> str | None:
    """The first `<…>` of a value."""
    found = _TOKEN.search(value) if value else None
    return found.group() if found else None


def tokens(value: str | None) -> tuple[str, ...]:
    """Every `<…>` of a value, in order."""
    return tuple(_TOKEN.findall(value)) if value else ()


def bounded_id(token: str | None) -> str | None:
    """A msg-id that an index can hold (INBOX-16)."""
    return token if token is not None and len(token.encode()) <= MAX_KEY_BYTES else None


def _flat(value: str) -> str:
    return _BREAKS.sub(" ", value).strip()


def _folded(column: int, words: Sequence[str]) -> str:
    """Words on lines of at most 78 columns; a word that alone is longer stands alone."""
    lines, line = [], words[0]
    column += len(line)
    for word in words[1:]:
        if column + 1 + len(word) > HEADER_FOLD_COLUMNS:
            lines.append(line)
            line, column = word, 1 + len(word)
        else:
            line, column = f"{line} {word}", column + 1 + len(word)
    return "\r\n ".join([*lines, line])


def _header_section(raw: bytes) -> bytes | None:
    for end in (_HEADER_END, b"\n\n"):
        position = raw.find(end)
        if position >= 0:
            return raw[:position]
    return None


def _fields(section: bytes, *, is_crlf: bool) -> Mapping[str, bytes]:
    """The first value of each field by lower-case name, still undecoded, continuation lines joined by one space.

    In a section written with CRLF a bare CR or LF is no line end: it becomes a space, so that no sender can hide a
    field in another one's value.
    """
    lines: list[bytes] = []
    for line in section.split(b"\r\n" if is_crlf else b"\n"):
        flat = re.sub(rb"[\r\n]+", b" ", line)
        if flat[:1] in (b" ", b"\t") and lines:
            lines[-1] += b" " + flat.strip()
        else:
            lines.append(flat)
    fields: dict[str, bytes] = {}
    for line in lines:
        if found := _FIELD.match(line):
            fields.setdefault(found[1].decode("ascii").lower(), found[2].strip())
    return fields


def _unfolded(value: bytes) -> str:
    return storable(value.decode("utf-8", "replace")).strip()


def _text(fields: Mapping[str, bytes], name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else _unfolded(value)


def _subject_text(fields: Mapping[str, bytes]) -> str | None:
    value = fields.get("subject")
    return header_text(value) if value is not None and b"=?" in value else _text(fields, "subject")


def _from_text(fields: Mapping[str, bytes]) -> str | None:
    """The From field; encoded words are decoded in a display name only, so that none can pose as an address."""
    text = _text(fields, "from")
    if text is None or "=?" not in text or (named := _NAMED.fullmatch(text)) is None:
        return text
    name = header_text(named[1].encode()).translate(dict.fromkeys(map(ord, '<>"')))
    return f"{name.strip()} {named[2]}".strip()


def _attachments(message: Message) -> tuple[Attachment, ...]:
    files = (*message.attachments, *message.inline_resources)
    return tuple(Attachment(file.position, file.file_name, file.media_type, file.size_octets) for file in files)
