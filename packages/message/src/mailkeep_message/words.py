"""Encoded words (RFC 2047) in the forms mail really carries.

Neighbouring words of one charset are joined as octets before decoding, because senders split characters between words
(case 95). Words are decoded inside quotes, without white space around them, with blanks inside, with broken base64.
"""

from __future__ import annotations

import re
from binascii import a2b_qp
from typing import Final

from .charsets import decode
from .text import clean_line
from .transfer import decode_base64

_MAX_HEADER = 65_536  # octets of one field that are decoded; a subject keeps 2,000 characters of them
_WORD: Final = re.compile(r"=\?([^?\s]{1,80})\?([bBqQ])\?([^\n]{0,2000}?)\?=")
_GAP: Final = re.compile(r"[ \t]*")


def raw_text(value: bytes, charset: str | None = None, *, maximum: int = _MAX_HEADER) -> str:
    """Return an unfolded header value as text: UTF-8 when valid, else `charset`, else windows-1252. Not cleaned."""
    if len(value) > maximum:
        value = value[:maximum]
    if b"\n" in value:
        value = value.replace(b"\r\n", b"").replace(b"\n", b"")
    if value.isascii():
        return value.decode("ascii").strip()
    try:
        return value.decode("utf-8").strip()
    except UnicodeDecodeError:
        return decode(value, charset or "windows-1252")[0].strip()


def header_text(value: bytes, charset: str | None = None) -> str:
    """Return a decoded, cleaned, stripped unstructured header value, such as a subject."""
    return decoded_words(raw_text(value, charset)).strip()


def decoded_words(text: str) -> str:
    """Return `text` with its encoded words decoded and on one clean line. Time is linear in the text."""
    if "=?" not in text:
        return clean_line(text)
    pieces: list[str] = []
    pending = bytearray()
    pending_charset: str | None = None
    position = 0
    for match in _WORD.finditer(text):
        gap = text[position : match.start()]
        charset = match[1].partition("*")[0].lower()
        octets = _word_octets(match[2], match[3])
        joins = pending_charset is not None and _GAP.fullmatch(gap) is not None
        if not (joins and charset == pending_charset):
            if pending_charset is not None:
                pieces.append(decode(bytes(pending), pending_charset)[0])
                pending.clear()
            if not joins:
                pieces.append(gap)
            pending_charset = charset
        pending += octets
        position = match.end()
    if pending_charset is not None:
        pieces.append(decode(bytes(pending), pending_charset)[0])
    pieces.append(text[position:])
    return clean_line("".join(pieces))


def _word_octets(encoding: str, encoded: str) -> bytes:
    octets = encoded.encode("utf-8", "replace")
    if encoding in "bB":
        return decode_base64(octets)[0]
    return a2b_qp(octets, header=True)
