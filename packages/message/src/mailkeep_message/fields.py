"""A header section split into fields: octets in, names and raw values out, for headers of any quality."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from .model import HeaderField

_MAX_SECTION = 1 << 20
_MAX_FIELDS = 20_000
_FIELD: Final = re.compile(rb"([!-9;-~]++)[ \t]*+:([^\n]*+(?:\n[ \t][^\n]*+)*+)\n?|([^\n]*+)\n?")
_KNOWN: Final = re.compile(
    rb"^(?:from|to|cc|subject|date|message-id|mime-version|content-[a-z-]+|received|reply-to|sender|x-[a-z-]+)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)

_BROKEN_NAME: Final = re.compile(rb"[^\s:]{1,76}[ \t]*:")


class _Names(dict[bytes, tuple[str, str]]):
    """Field name octets to the name as written and in lower case; a bounded memory of a small vocabulary."""

    def __missing__(self, octets: bytes) -> tuple[str, str]:
        name = octets.decode("ascii")
        pair = (name, name.lower())
        if len(octets) <= 64:
            if len(self) >= 4096:
                self.clear()
            self[octets] = pair
        return pair


_NAMES: Final = _Names()


class Fields:
    """The fields of one header section, in order, with access by lower-case name."""

    __slots__ = ("_by_name", "body_offset", "defects", "pairs")

    def __init__(self, pairs: list[tuple[bytes, bytes]], body_offset: int | None, defects: frozenset[str]) -> None:
        self.pairs = pairs
        self.body_offset = body_offset
        self.defects = defects
        by_name: dict[str, list[bytes]] = {}
        for name, value in pairs:
            lower = _NAMES[name][1]
            if lower in by_name:
                by_name[lower].append(value)
            else:
                by_name[lower] = [value]
        self._by_name = by_name

    def first(self, name: str) -> bytes | None:
        """Return the value of the topmost field of that name."""
        found = self._by_name.get(name)
        return found[0] if found else None

    def last(self, name: str) -> bytes | None:
        """Return the value of the last field of that name."""
        found = self._by_name.get(name)
        return found[-1] if found else None

    def all(self, name: str) -> list[bytes]:
        """Return the values of all fields of that name, topmost first."""
        return self._by_name.get(name, [])

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def has_any(self, names: frozenset[str]) -> bool:
        """True when one of the fields is present."""
        return not names.isdisjoint(self._by_name)

    def as_model(self) -> tuple[HeaderField, ...]:
        """Return the fields as the contract shows them."""
        new = tuple.__new__  # half the price of the generated constructor, thirty times a message
        return tuple([new(HeaderField, (_NAMES[name][0], value.strip())) for name, value in self.pairs])


_NO_DEFECTS: Final[frozenset[str]] = frozenset()


def read_fields(section: bytes, *, is_unterminated: bool) -> Fields:
    """Split a header section (its last line end included, the empty line not).

    `is_unterminated` says that no empty line follows. `body_offset` is then set where the first line stands that is no
    field: the sender forgot the empty line. Other broken lines are skipped. At most 20,000 fields in 1 MiB are read.
    """
    if len(section) > _MAX_SECTION:
        section = section[:_MAX_SECTION]
    if len(section) > 65_536:
        found = list(islice((match.groups(b"") for match in _FIELD.finditer(section)), _MAX_FIELDS))
    else:
        found = _FIELD.findall(section)
    pairs = [(name, value) for name, value, _broken in found if name]
    if len(found) - len(pairs) <= 1 and (len(found) == len(pairs) or not found[-1][2]):
        return Fields(pairs, None, _NO_DEFECTS)
    return _read_broken(section, pairs, is_unterminated)


def _read_broken(section: bytes, pairs: list[tuple[bytes, bytes]], is_unterminated: bool) -> Fields:
    """Decide at the first broken line: a broken field (more header follows), or the first line of the body."""
    for match in _FIELD.finditer(section):
        if match[1] is None and match[3].strip():
            start = match.start()
            looks_like_field = _BROKEN_NAME.match(match[3]) is not None
            if match[3].startswith(b"--") or is_unterminated or not (looks_like_field or _KNOWN.search(section, start)):
                before = [(found[1], found[2]) for found in _FIELD.finditer(section, 0, start) if found[1]]
                return Fields(before, start, frozenset(("missing_header_end",)))
            break
    return Fields(pairs, None, frozenset(("broken_header_line",)))
