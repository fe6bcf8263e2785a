"""Content transfer encodings, decoded leniently: what can be decoded is, and damage is named, never raised.

Base64 is decoded group by group between paddings, since list software appends a second block to a finished one
(case 121; Python stops at the first padding). Quoted-printable keeps what is no escape (case 125).
"""

from __future__ import annotations

import re
from binascii import Error as BinasciiError
from binascii import a2b_base64, a2b_qp, a2b_uu
from typing import Final

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOT_BASE64: Final = bytes(set(range(256)) - set(_ALPHABET) - {ord("=")})
_NOT_ALPHABET: Final = bytes(set(range(256)) - set(_ALPHABET))
_PADDING: Final = re.compile(rb"=+")
_LOSSY_QP: Final = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]{0,200}\r?\n)")
_WINDOW = 1 << 20
_MAX_BLOCKS = 10_000
_FOREIGN: Final = re.compile(rb"[^A-Za-z0-9+/=\s]")
_BEHIND_PADDING: Final = re.compile(rb"(={1,2})[ \t]([^\r\n]*+)")
_PADDED_BREAK: Final = re.compile(rb"=[ \t]{1,200}(?=\r?\n)")
IDENTITY: Final = frozenset(("7bit", "8bit", "binary", ""))


def decode_transfer(octets: bytes, encoding: str) -> tuple[bytes, str | None]:
    """Return the decoded octets and the defect met, if any. `encoding` is a lower-case token, "" for none."""
    if encoding in IDENTITY:
        return octets, None
    if encoding == "quoted-printable":
        return decode_quoted_printable(octets)
    if encoding == "base64":
        return decode_base64(octets)
    if encoding in ("x-uuencode", "uuencode", "x-uue", "uue"):
        return decode_uuencode(octets), None
    return octets, "broken_transfer_encoding"


def decode_quoted_printable(octets: bytes) -> tuple[bytes, str | None]:
    """Decode quoted-printable (RFC 2045 §6.7)."""
    if b"=" not in octets:
        return octets, None
    if b"= " in octets or b"=\t" in octets:
        octets = _PADDED_BREAK.sub(b"=", octets)  # transport added blanks behind a soft break
    return a2b_qp(octets), "lossy_quoted_printable" if _LOSSY_QP.search(octets) else None


def decode_base64(octets: bytes) -> tuple[bytes, str | None]:
    """Decode one or several base64 blocks; a group cut short yields the octets it still determines."""
    if b"= " in octets or b"=\t" in octets:
        octets = _BEHIND_PADDING.sub(_kept_block, octets)
    if (foreign := _FOREIGN.search(octets)) is not None:
        start = octets.rfind(b"\n", 0, foreign.start()) + 1
        if start and _is_footer(octets, start):
            decoded, defect = decode_base64(octets[:start])
            return decoded + b"\n" + octets[start:], defect
    packed = octets.translate(None, _NOT_BASE64)
    body = packed.rstrip(b"=")
    if b"=" not in body:
        if len(body) == len(packed) and len(body) % 4 and _is_plain(octets, len(packed)):
            return octets, "broken_transfer_encoding"
        return _decode_block(body)
    if body.count(b"=") > _MAX_BLOCKS:  # no archive, an attack: one piece per octet would cost gigabytes
        return _decode_block(body.replace(b"=", b""))[0], "truncated_base64"
    pieces: list[bytes] = []
    defect = None
    for block in _PADDING.split(body):
        piece, damage = _decode_block(block)
        pieces.append(piece)
        defect = defect or damage
    return b"".join(pieces), defect


def _kept_block(match: re.Match[bytes]) -> bytes:
    """What stands behind a padding on its line is a block when its length is one; else a remark somebody added."""
    rest = match[2].translate(None, _NOT_BASE64)
    return match[0] if len(rest) % 4 == 0 else match[1]


def _is_footer(octets: bytes, start: int) -> bool:
    """True when a complete block ends before `start` and plain text follows: list software appends it (case 121)."""
    block = octets[:start].translate(None, _NOT_BASE64)
    if not block or (len(block) % 4 and not block.endswith(b"=")):
        return False
    rest = octets[start:].strip()
    if b" " not in rest and b"___" not in rest:
        return False
    return (len(rest) - len(rest.translate(None, _NOT_ALPHABET))) * 8 > len(rest)


def _is_plain(octets: bytes, alphabet_count: int) -> bool:
    """True for text under a false base64 label: no padding, no whole groups, and more than 2% other characters."""
    visible = len(octets.translate(None, b" \t\r\n"))
    return (visible - alphabet_count) * 50 > visible


def _decode_block(block: bytes) -> tuple[bytes, str | None]:
    rest = len(block) % 4
    if rest == 0:
        return a2b_base64(block), None
    if rest == 1:  # six bits alone determine nothing
        return a2b_base64(block[:-1]), "truncated_base64"
    return a2b_base64(block + b"=" * (4 - rest)), None


def decode_uuencode(octets: bytes) -> bytes:
    """Decode the first `begin`/`end` block of uuencoded text; damaged lines are skipped."""
    pieces: list[bytes] = []
    started = False
    for line in octets.splitlines():
        if not started:
            started = line.startswith(b"begin ")
        elif line.strip() == b"end":
            break
        else:
            try:
                pieces.append(a2b_uu(line))
            except BinasciiError:
                # Trailing garbage: the length octet says how much is meant.
                wanted = (((line[0] - 32) & 63) * 4 + 5) // 3 if line else 0
                try:
                    pieces.append(a2b_uu(line[:wanted]))
                except BinasciiError:
                    continue
    return b"".join(pieces)


def decoded_size(octets: bytes, start: int, end: int, encoding: str) -> int:
    """Return how many octets `octets[start:end]` decodes to, in windows of 1 MiB (SYNC-102: streamed)."""
    if encoding in IDENTITY:
        return end - start
    if encoding != "base64" or end - start <= _WINDOW:
        return len(decode_transfer(octets[start:end], encoding)[0])
    count = 0
    for position in range(start, end, _WINDOW):
        window = octets[position : min(position + _WINDOW, end)]
        if b"=" in window and position + _WINDOW < end:
            return len(decode_base64(octets[start:end])[0])  # several blocks: only decoding tells
        count += len(window.translate(None, _NOT_ALPHABET))
    return count * 3 // 4
