"""Content-Type and Content-Disposition: a value and its parameters, with RFC 2231 in the broken forms of the field.

Sections of one parameter are joined as octets before the charset is applied once, because senders cut characters
between sections (case 128). Encoded words inside parameters, forbidden and everywhere, are decoded last (case 130).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from .charsets import decode
from .text import clean_line
from .words import decoded_words, raw_text

_MAX_PARAMETERS = 200
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_VALUE: Final = re.compile(r"\s*([^;\s]*)")
_PARAMETER: Final = re.compile(r"""([^=;\s"]{1,100}+)\s*+=\s*+("(?:[^"\\]++|\\.)*+"|"[^"]*+$|[^;]*+)""", re.DOTALL)
_RUN_ON: Final = re.compile(r"\s(?=[A-Za-z][A-Za-z0-9*-]{0,40}=)")
_SECTION: Final = re.compile(r"^([^*]+)\*(?:(\d{1,4})(\*?))?$")
_ESCAPED: Final = re.compile(r'\\(["\\])')
_COMMENT: Final = re.compile(r"\([^()]*\)")


class Value(NamedTuple):
    """A header value with parameters: lower-case value, lower-case names."""

    value: str
    parameters: dict[str, str]


def parse_value(octets: bytes) -> Value:
    """Parse `value; name=value ...`; keeps the first of repeated parameters, skips what it cannot read."""
    return _parse_cached(octets) if len(octets) <= 512 else _parse(octets)


@lru_cache(maxsize=1024)
def _parse_cached(octets: bytes) -> Value:
    return _parse(octets)


def _parse(octets: bytes) -> Value:
    text = raw_text(octets)
    match = _VALUE.match(text)
    value = match[1] if match else ""
    rest = text[match.end() :] if match else ""
    plain: dict[str, str] = {}
    sections: dict[str, dict[int, tuple[str, bool]]] = {}
    position = 0
    for _ in range(_MAX_PARAMETERS):
        found = _PARAMETER.search(rest, position) if "=" in rest else None
        if found is None:
            break
        raw, position = found[2], found.end()
        if "=" in raw and not raw.startswith('"') and (run_on := _RUN_ON.search(raw)):
            raw, position = raw[: run_on.start()], found.start(2) + run_on.start()  # the semicolon is missing
        _take(found[1].lower(), _unquote(raw), plain, sections)
    for name, parts in sections.items():
        joined = _join(parts)
        if joined or name not in plain:
            plain[name] = joined
    return Value(clean_line(value).lower(), {name: decoded_words(text) for name, text in plain.items()})


def _take(name: str, value: str, plain: dict[str, str], sections: dict[str, dict[int, tuple[str, bool]]]) -> None:
    match = _SECTION.match(name) if "*" in name else None
    if match is None:
        plain.setdefault(name, value)
    else:
        # "name*" is one encoded section; "name*0*" and "name*0" are numbered ones.
        number = int(match[2]) if match[2] else 0
        sections.setdefault(match[1], {}).setdefault(number, (value, match[2] is None or bool(match[3])))


def _unquote(raw: str) -> str:
    raw = raw.strip()
    if raw.startswith('"'):
        raw = raw[1:-1] if len(raw) > 1 and raw.endswith('"') else raw[1:]
        return _ESCAPED.sub(r"\1", raw) if "\\" in raw else raw
    return raw


def _join(parts: dict[int, tuple[str, bool]]) -> str:
    charset: str | None = None
    octets = bytearray()
    anything_encoded = False
    for index, number in enumerate(sorted(parts)):
        value, encoded = parts[number]
        if encoded and index == 0 and value.count("'") >= 2:
            label, _, rest = value.partition("'")
            _language, _, value = rest.partition("'")
            charset = label.strip() or None
        anything_encoded = anything_encoded or encoded
        octets += unquote_to_bytes(value) if encoded else value.encode("utf-8", "replace")
    if anything_encoded:
        return decode(bytes(octets), charset)[0]
    return octets.decode("utf-8", "replace")


def without_comments(text: str) -> str:
    """Return `text` without parenthesised comments, three levels deep."""
    for _ in range(3):
        if "(" not in text:
            break
        text = _COMMENT.sub("", text)
    return text.strip()


def is_media_type(value: str) -> bool:
    """True for a well-formed lower-case `type/subtype`."""
    return _MEDIA_TYPE.fullmatch(value) is not None
