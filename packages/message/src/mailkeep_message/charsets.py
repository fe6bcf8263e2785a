"""Charset labels and the decoding of octets: never raises, never needs a correct label.

Labels follow the WHATWG table (through `webencodings`), so that `iso-8859-1` means windows-1252 and `gb2312` means
GB 18030, as senders mean it. Before it stands a table of labels seen in mail that the web forgot or never had. An
unknown label, or ASCII that is not, is read as UTF-8 when it is valid UTF-8, else as windows-1252.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from webencodings import LABELS

_MAX_LABEL = 64
_MAX_ESCAPES = 100_000

# Python's name per label. Left: lower case, quotes and spaces removed, underscores turned into hyphens.
_ALIASES: Final[dict[str, str]] = {
    "7bit": "ascii",
    "8bit": "ascii",
    "default": "ascii",
    "default-charset": "ascii",
    "unknown": "ascii",
    "unknown-8bit": "ascii",
    "unknown-7bit": "ascii",
    "x-unknown": "ascii",
    "none": "ascii",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "usascii": "ascii",
    "ansi-x3.4-1968": "ascii",
    "iso646-us": "ascii",
    "646": "ascii",
    "utf8mb4": "utf-8",
    "utf-8n": "utf-8",
    "utf": "utf-8",
    "utf-8-mac": "utf-8",
    "unicode-1-1-utf-7": "utf-7",
    "utf-7": "utf-7",
    "utf7": "utf-7",
    "x-unicode-2-0-utf-7": "utf-7",
    "utf-16": "utf-16",
    "utf16": "utf-16",
    "utf-32": "utf-32",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
    "ucs-2": "utf-16",
    "ansi": "cp1252",
    "win-1252": "cp1252",
    "iso8859": "cp1252",
    "iso-8859": "cp1252",
    "iso-8859-1-windows-3.1-latin-1": "cp1252",
    "iso-8859-8-e": "iso8859_8",
    "dos-720": "cp720",
    "x-cp850": "cp850",
    "iso-2022-jp": "iso-2022-jp",
    "iso-2022-jp-1": "iso-2022-jp",
    "iso-2022-jp-2": "iso-2022-jp",
    "iso-2022-jp-3": "iso-2022-jp",
    "iso-2022-jp-2004": "iso-2022-jp",
    "iso-2022-jp-ms": "iso-2022-jp",
    "iso-2022-jp$esc": "iso-2022-jp",
    "iso-2022-jp$sio": "iso-2022-jp",
    "csiso2022jp": "iso-2022-jp",
    "csiso2022jp$esc": "iso-2022-jp",
    "csiso2022jp$sio": "iso-2022-jp",
    "jis": "iso-2022-jp",
    "cp50220": "iso-2022-jp",
    "cp50221": "iso-2022-jp",
    "cp50222": "iso-2022-jp",
    "x-sjis-jp": "cp932",
    "cp932": "cp932",
    "windows-932": "cp932",
    "windows-936": "gb18030",
    "cp936": "gb18030",
    "gb": "gb18030",
    "gb-2312": "gb18030",
    "gb18030-2000": "gb18030",
    "hz-gb-2312": "hz",
    "hz": "hz",
    "iso-2022-kr": "iso2022_kr",
    "csiso2022kr": "iso2022_kr",
    "iso-2022-cn": "gb18030",
    "windows-949": "cp949",
    "cp949": "cp949",
    "ks-c-5601": "cp949",
    "euckr": "cp949",
    "ksc5601-1987": "cp949",
    "johab": "johab",
    "ms949": "cp949",
    "windows-950": "big5hkscs",
    "cp950": "big5hkscs",
    "windows-874": "cp874",
    "cp874": "cp874",
    "cp-874": "cp874",
    "tis620": "cp874",
    "viscii": "cp1258",
    "windows-1258": "cp1258",
    "iso-8859-12": "cp1252",
    "koi8": "koi8_r",
    "koi-8": "koi8_r",
    "x-mac-ce": "mac_latin2",
    "x-mac-roman": "mac_roman",
    "x-mac-greek": "mac_greek",
    "x-mac-turkish": "mac_turkish",
    "x-mac-icelandic": "mac_iceland",
}

# WHATWG encoding name to the Python codec that decodes it best.
_CODECS: Final[dict[str, str]] = {
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "euc-jp": "euc_jis_2004",
    "shift_jis": "cp932",
    "iso-2022-jp": "iso-2022-jp",
    "iso-8859-8-i": "iso8859_8",
    "x-mac-cyrillic": "mac_cyrillic",
    "macintosh": "mac_roman",
    "windows-874": "cp874",
    "koi8-u": "koi8_u",
    "x-user-defined": "cp1252",
    "replacement": "ascii",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}

# Only these families of Python's codecs: its other names (zlib, punycode, unicode_escape) are no charsets.
_PYTHON_FAMILY: Final = re.compile(r"(?:cp|ibm|iso|koi|mac|windows|latin|kz|ptcp|hp|tis|gb|big|euc|shift)[-_]?\w")
PLAIN_LABELS: Final = frozenset(("us-ascii", "ascii", "utf-8", "iso-8859-1", "iso-8859-15", "windows-1252"))
_JUNK: Final = re.compile(r"[\s\"'<>()\[\]{}=;,*?]+")
_DASHED_NUMBER: Final = re.compile(r"^(?:cp|ibm|windows|win|microsoft-cp|ms-cp|x-cp|dos|oem)-?(\d{3,5})$")
_HIGH_BIT: Final = bytes(b | 0x80 for b in range(256))
_VENDOR_ROW: Final = re.compile(rb"^(?:[!-~]{2})*?[\x79-\x7c][!-~]")
_ESCAPE: Final = re.compile(rb"\x1b(\([A-Z]|\$[@A-Z]|\$\([A-Z])")


@lru_cache(maxsize=512)
def codec_name(label: str) -> str | None:
    """Return Python's codec for a charset label of any quality, `None` when nobody knows it."""
    name = label[:_MAX_LABEL].strip().strip("\"'=;,.<>").lower().removeprefix("charset=")
    words = _JUNK.split(name)  # "utf-8  euao6y69zh2w": junk after the name (case 106)
    name = next((word for word in words if word), "")
    hyphened = name.replace("_", "-").strip("-")
    for candidate in (name, hyphened, hyphened.removeprefix("x-"), hyphened.removeprefix("cs")):
        found = _lookup(candidate)
        if found is not None:
            return found
    return None


def _lookup(name: str) -> str | None:
    if not name:
        return None
    if name in _ALIASES:
        return _ALIASES[name]
    whatwg: str | None = LABELS.get(name)
    if whatwg is not None:
        return _CODECS.get(whatwg, whatwg)
    if match := _DASHED_NUMBER.match(name):
        number = match[1]
        if (mapped := _ALIASES.get("cp" + number) or LABELS.get("windows-" + number)) is not None:
            return _CODECS.get(mapped, mapped)
        name = "cp" + number
    if not name.isascii() or not _PYTHON_FAMILY.match(name):
        return None
    try:
        " ".encode(name)
    except (LookupError, ValueError):
        return None
    return name


def has_jis_escape(octets: bytes) -> bool:
    """True when ASCII octets switch to Japanese: senders forget to say ISO-2022-JP."""
    return b"\x1b$B" in octets or b"\x1b$@" in octets


def decode(octets: bytes, label: str | None) -> tuple[str, str | None]:
    """Decode `octets` by `label` and return the text with the defect met, if any.

    The text may hold control characters and lone surrogates; callers clean it.
    """
    if octets.isascii() and (label is None or label.lower() in PLAIN_LABELS) and not has_jis_escape(octets):
        return octets.decode("ascii"), None
    codec = "ascii" if label is None else codec_name(label)
    if codec is None:
        return _guess(octets), "unknown_charset"
    if codec == "ascii":
        if octets.isascii():
            return _decode_jis(octets) if has_jis_escape(octets) else (octets.decode("ascii"), None)
        return _guess(octets), "undecodable_characters" if label is not None else None
    if codec == "iso-2022-jp":
        return _decode_jis(octets)
    try:
        return octets.decode(codec), None
    except (UnicodeError, ValueError):
        return _decode_damaged(octets, codec), "undecodable_characters"


def _guess(octets: bytes) -> str:
    """UTF-8 when it is valid UTF-8, else windows-1252."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError as error:
        # A message cut in the middle of its last character is still UTF-8.
        if error.reason == "unexpected end of data" and not octets[: error.start].isascii():
            return octets.decode("utf-8", "replace")
        return octets.decode("cp1252", "replace")


def _decode_damaged(octets: bytes, codec: str) -> str:
    if codec != "utf-8":
        try:
            return octets.decode("utf-8")  # a wrong label over valid UTF-8: believe the octets
        except UnicodeDecodeError:
            return octets.decode(codec, "replace")
    kept = octets.decode("utf-8", "ignore")
    if kept.isascii() and len(octets) - len(kept) > 3:  # not one valid character: 8-bit text under a UTF-8 label
        return octets.decode("cp1252", "replace")
    return octets.decode("utf-8", "replace")


def _decode_jis(octets: bytes) -> tuple[str, str | None]:
    """Decode ISO-2022-JP with the vendor rows that Japanese senders use (circled digits, half-width kana)."""
    if b"\x1b" not in octets:
        return (
            (octets.decode("ascii"), None) if octets.isascii() else (_guess_japanese(octets), "undecodable_characters")
        )
    if octets.count(b"\x1b") > _MAX_ESCAPES:
        return octets.decode("iso2022_jp_3", "replace"), "undecodable_characters"
    pieces: list[str] = []
    mode = b"(B"
    damaged = False
    for index, piece in enumerate(_ESCAPE.split(octets)):
        if index % 2:
            mode = piece
        elif piece:
            text = _decode_jis_segment(piece, mode)
            damaged = damaged or "�" in text
            pieces.append(text)
    return "".join(pieces), "undecodable_characters" if damaged else None


def _decode_jis_segment(piece: bytes, mode: bytes) -> str:
    if mode in (b"$B", b"$@"):
        if _VENDOR_ROW.search(piece):
            return _decode_vendor_jis(piece)
        lines = piece.split(b"\n")  # a line end closes a shift that the sender forgot to close
        return "\n".join(line.rstrip(b"\r").translate(_HIGH_BIT).decode("euc_jis_2004", "replace") for line in lines)
    if mode == b"(I":
        return piece.translate(_HIGH_BIT).decode("cp932", "replace")
    if mode in (b"(B", b"(J", b"(H"):
        return piece.decode("ascii") if piece.isascii() else _guess_japanese(piece)
    return (b"\x1b" + mode + piece).decode("iso2022_jp_2", "replace")


def _decode_vendor_jis(piece: bytes) -> str:
    """Rows 89 to 92 are IBM's and NEC's characters in mail, not those of JIS X 0213: go by way of Shift JIS."""
    shifted = bytearray()
    for first, second in zip(piece[::2], piece[1::2], strict=False):
        if not (0x21 <= first <= 0x7E and 0x21 <= second <= 0x7E):
            shifted += b"?"
            continue
        shifted.append((first + 1) // 2 + (0x70 if first < 0x5F else 0xB0))
        shifted.append(second + (0x7E if first % 2 == 0 else 0x1F if second < 0x60 else 0x20))
    return shifted.decode("cp932", "replace")


def _guess_japanese(octets: bytes) -> str:
    for codec in ("utf-8", "cp932", "euc_jis_2004"):
        try:
            return octets.decode(codec)
        except UnicodeDecodeError:
            continue
    return octets.decode("cp932", "replace")
