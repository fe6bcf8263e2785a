"""Address lists (RFC 5322 §3.4, with the obsolete forms): syntax first, encoded words after (case 100).

Groups are flattened and leave their name on each member (case 115). What is ambiguous yields no address: a parser that
guesses hands out the attacker's other mailbox (case 116). Malformed addresses are dropped, never repaired (SYNC-95).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final

from .model import Address
from .words import decoded_words, raw_text

MAX_ADDRESS_OCTETS = 320
MAX_DISPLAY_NAME = 998
_MAX_FIELD = 1 << 17
_MAX_STRAY = 100  # unmatched quotes and brackets in one field; more is no address list, and costs time

_ATOM: Final = r"[^\s\"(),:;<>@\\\[\]\x00-\x20\x7f]"
_SIMPLE: Final = re.compile(
    rf"""(?:"([^"\\]*+)"[ \t]*+|([^"(),:;<>@\\]*+))<({_ATOM}++@{_ATOM}++)>[ \t]*+\Z|({_ATOM}++@{_ATOM}++)[ \t]*+\Z"""
)
_TOKEN: Final = re.compile(
    r"""(?P<word>=\?[^?\s]{1,80}\?[bBqQ]\?[^?\s]*+\?=)
    |(?P<quoted>"(?:[^"\\]|\\.)*+")
    |(?P<angle><(?:[^<>"]|"(?:[^"\\]|\\.)*+")*+>)
    |(?P<comment>\((?:[^()\\]|\\.)*+\))
    |(?P<nested>\()
    |(?P<literal>\[[^\[\]\s]*+\])
    |(?P<mark>[,;:])
    |(?P<blank>\s++)
    |(?P<atom>[^\s",;:<>()\[\]]++)
    |(?P<stray>.)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED_PAIR: Final = re.compile(r"\\(.)", re.DOTALL)
_AROUND_DOT: Final = re.compile(r"[ \t]{0,20}([.@])[ \t]{0,20}")
_MAX_PARENTHESES = 1000
_PARENTHESIS: Final = re.compile(r"\\.|[()]", re.DOTALL)
_COMMENTS: Final = re.compile(r"\([^()]*+\)")
_DOMAIN: Final = re.compile(rf"{_ATOM}++|\[[^\[\]\s\x00-\x20]++\]")
_LOCAL: Final = re.compile(rf"{_ATOM}++|\"(?:[^\"\\\x00-\x1f\x7f]|\\[^\x00-\x1f\x7f])*+\"")


def comparison_form(address: str) -> str:
    """Return the form in which two addresses are compared (SYNC-95).

    Each character is upper-cased to exactly one, and never a non-ASCII letter to an ASCII one: `str.upper` would turn
    "ß" into "SS" and "ı" into "I", merging strangers' mailboxes.
    """
    if address.isascii():
        return address.upper()
    return "".join(map(_upper, address))


def _upper(character: str) -> str:
    upper = character.upper()
    return upper if len(upper) == 1 and (character.isascii() or not upper.isascii()) else character


def address_list(values: Iterable[bytes], *, maximum: int, charset: str | None = None) -> tuple[Address, ...]:
    """Return the addresses of all fields of one role in header order, the first `maximum` of them."""
    found: list[Address] = []
    for value in values:
        if len(value) <= 256:
            found.extend(_parse_cached(value, charset))
        else:
            found.extend(_parse(value, charset, maximum - len(found)))
        if len(found) >= maximum:
            break
    return tuple(found[:maximum])


@lru_cache(maxsize=2048)
def _parse_cached(value: bytes, charset: str | None) -> tuple[Address, ...]:
    return tuple(_parse(value, charset, 256))


def _parse(value: bytes, charset: str | None, maximum: int) -> list[Address]:
    text = raw_text(value, charset, maximum=_MAX_FIELD)
    match = _SIMPLE.match(text)
    if match is not None:
        address = _address(match[3] or match[4], match[1] or match[2] or "", None)
        return [address] if address else []
    parser = _Parser(maximum)
    parser.feed(text, was_cut=len(value) > _MAX_FIELD)
    return parser.found


def _address(spec: str, name: str, group: str | None) -> Address | None:
    if len(spec) > MAX_ADDRESS_OCTETS or (
        not spec.isascii() and len(spec.encode("utf-8", "replace")) > MAX_ADDRESS_OCTETS
    ):
        return None
    name = decoded_words(name).strip()[:MAX_DISPLAY_NAME].rstrip() if name else ""
    clean = spec if spec.isascii() and spec.isprintable() else decoded_words(spec)
    if clean != spec:
        return None
    return Address(name or None, spec, comparison_form(spec), group)


def _valid_spec(raw: str) -> str | None:
    """Return the addr-spec in `raw` without comments and obsolete blanks, `None` when malformed."""
    raw = raw.strip()
    if "(" in raw and '"' not in raw:
        for _ in range(3):
            raw = _COMMENTS.sub("", raw)
        raw = raw.strip()
    if raw.startswith("@") and ":" in raw:  # an obsolete source route
        raw = raw.rpartition(":")[2].strip()
    if "[" not in raw and '"' not in raw and (" " in raw or "\t" in raw):
        raw = _AROUND_DOT.sub(r"\1", raw)
    local, at, domain = raw.rpartition("@")
    local, domain = local.rstrip(), domain.lstrip()
    if not at or not _LOCAL.fullmatch(local) or not _DOMAIN.fullmatch(domain):
        return None
    return f"{local}@{domain}"


class _Parser:
    """One left-to-right pass over a list; holds the mailbox under construction."""

    def __init__(self, maximum: int) -> None:
        self.found: list[Address] = []
        self._maximum = maximum
        self._group: str | None = None
        self._stray = 0
        self._reset()

    def _reset(self) -> None:
        self._name: list[str] = []  # the phrase, quotes resolved
        self._raw: list[str] = []  # the same as written: an addr-spec when no angle follows
        self._angle: str | None = None
        self._comment: str | None = None
        self._ambiguous = False
        self._has_at = False
        self._has_stray = False

    def feed(self, text: str, *, was_cut: bool) -> None:
        position, end = 0, len(text)
        last_semicolon = text.rfind(";")
        while position < end and len(self.found) < self._maximum and self._stray < _MAX_STRAY:
            match = _TOKEN.match(text, position)
            assert match is not None  # the last alternative takes any character
            kind, written, position = match.lastgroup, match[0], match.end()
            if kind == "nested":
                close = _closing(text, position)
                if close < 0:
                    self._ambiguous = True
                    self._stray += 1
                else:
                    self._comment = text[position : close - 1]
                    position = close
            elif kind == "mark":
                self._mark(written, opens_group=written == ":" and position <= last_semicolon)
            else:
                self._take(kind, written)
        if not was_cut and self._stray < _MAX_STRAY:
            self._emit()

    def _take(self, kind: str | None, written: str) -> None:
        if kind == "quoted":
            inner = written[1:-1]
            self._name.append(_QUOTED_PAIR.sub(r"\1", inner) if "\\" in inner else inner)
            self._raw.append(written)
        elif kind == "angle":
            self._ambiguous = self._ambiguous or self._angle is not None
            self._angle = written[1:-1]
        elif kind == "comment":
            self._comment = _QUOTED_PAIR.sub(r"\1", written[1:-1])
        elif kind == "stray":
            # A quote that never closes is decoration; a bracket that never opened makes two readings possible.
            self._ambiguous = self._ambiguous or written in "()<>"
            self._has_stray = True
            self._stray += 1
        else:
            self._has_at = self._has_at or "@" in written
            self._name.append(" " if kind == "blank" else written)
            self._raw.append(written)

    def _mark(self, mark: str, *, opens_group: bool) -> None:
        if mark == ":":
            if opens_group and self._angle is None and not self._has_at and self._group is None:
                name = decoded_words("".join(self._name)).strip()
                self._reset()
                self._group = name[:MAX_DISPLAY_NAME] or None
            else:
                self._name.append(mark)
                self._raw.append(mark)
            return
        self._emit()
        if mark == ";":
            self._group = None

    def _emit(self) -> None:
        if not self._ambiguous and len(self.found) < self._maximum:
            if self._angle is not None:
                spec, name = _valid_spec(self._angle), "".join(self._name)
            else:
                spec, name = None if self._has_stray else _valid_spec("".join(self._raw)), ""
            if spec is not None:
                address = _address(spec, name.strip() or self._comment or "", self._group)
                if address is not None:
                    self.found.append(address)
        self._reset()


def _closing(text: str, position: int) -> int:
    """Return the position after the parenthesis that closes the comment open at `position`, -1 without one."""
    depth = 1
    for match in islice(_PARENTHESIS.finditer(text, position), _MAX_PARENTHESES):
        if match[0] == "(":
            depth += 1
        elif match[0] == ")":
            depth -= 1
            if depth == 0:
                return match.end()
    return -1
