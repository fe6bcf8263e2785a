"""Cleaning of decoded text: what PostgreSQL, JSON and a terminal must never see is gone (SYNC-107).

A NUL or a lone surrogate makes the database refuse the whole row; control characters forge log lines and terminals.
"""

from __future__ import annotations

import re
from typing import Final

_LINE_END: Final = re.compile(r"\r+\n?")
_LINE_END_OCTETS: Final = re.compile(rb"\r+\n?")
_BODY_REFUSED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]+")
_LINE_REFUSED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_BREAKS: Final = re.compile("[\t\r\n\u2028\u2029]+")
_CONTROL_OCTETS: Final = bytes((*range(9), *range(11, 32), 127))


def clean_body(text: str) -> str:
    """Return `text` with CR, CRLF and CRCRLF as LF and without control characters (LF, TAB stay) or surrogates."""
    if text.isascii():
        return clean_ascii_body(text.encode("ascii"))
    if "\r" in text:
        text = _LINE_END.sub("\n", text.replace("\r\n", "\n"))
    return _BODY_REFUSED.sub("", text)


def clean_ascii_body(octets: bytes) -> str:
    """The same for octets known to be ASCII, several times faster."""
    if b"\r" in octets:
        octets = octets.replace(b"\r\n", b"\n")
        if b"\r" in octets:
            octets = _LINE_END_OCTETS.sub(b"\n", octets)
    return octets.translate(None, _CONTROL_OCTETS).decode("ascii")


def clean_line(text: str) -> str:
    """Return header text on one line: breaks and TAB become a space, other control characters vanish (case 98)."""
    if text.isascii() and text.isprintable():
        return text
    return _LINE_REFUSED.sub("", _BREAKS.sub(" ", text))
