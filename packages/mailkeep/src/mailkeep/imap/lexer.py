"""Tokens of an IMAP response, and the nested lists they make (RFC 9051 §9).

A response arrives as pieces that alternate between text and the literal that the text announced. Our own lexer rather
than IMAPClient's, because one unreadable LIST line must cost one line and not the listing, because quoted strings must
keep what their quotes end at, and because it is several times faster on large answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

MAX_NESTING = 32  # lists within lists; nothing we ask for nests deeper than two

# What follows a quoted string must be a blank or the end of a list: `"ab"cd"` is a broken name, not three tokens.
_TOKEN = re.compile(
    rb"""\s*(?:
        (?P<open>\() | (?P<close>\)) |
        "(?P<quoted>(?:[^"\\]|\\.)*)"(?=[\s()]|$) |
        (?P<atom>[^\s()"\[\]]*\[[^\]]*\](?:<\d+>)? | [^\s()"]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_LITERAL = re.compile(rb"~?\{(\d{1,19})\+?\}$")
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)

Value: TypeAlias = "bytes | list[Value] | None"


class Unreadable(ValueError):  # noqa: N818  -- names the fact, as all our failures do
    """A response that does not follow the grammar. Carries no octets of it: they may be mail."""


def announced_literal(text: bytes) -> int | None:
    """The length of the literal that follows this text, None when none does."""
    if not text.endswith(b"}"):
        return None
    match = _LITERAL.search(text)
    return int(match[1]) if match else None


def parse_values(pieces: Sequence[bytes], start: int = 0) -> list[Value]:
    """The values of a response whose first piece is read from octet `start` on.

    Atoms, quoted strings and literals are bytes, the atom NIL is None, lists are lists. Raises Unreadable.
    """
    root: list[Value] = []
    stack = [root]
    for index in range(0, len(pieces), 2):
        text = pieces[index]
        has_literal = index + 1 < len(pieces)
        if has_literal:
            text = _LITERAL.sub(b"", text)
        _scan(text, start if index == 0 else 0, stack)
        if has_literal:
            stack[-1].append(pieces[index + 1])
    if len(stack) != 1:
        raise Unreadable("a list is not closed")
    return root


def _scan(text: bytes, position: int, stack: list[list[Value]]) -> None:
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unreadable("no token can start here")
        position = match.end()
        kind = match.lastgroup
        if kind == "open":
            if len(stack) > MAX_NESTING:
                raise Unreadable("lists are nested too deeply")
            inner: list[Value] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif kind == "close":
            if len(stack) == 1:
                raise Unreadable("a list ends that never began")
            stack.pop()
        elif kind == "quoted":
            quoted = match["quoted"]
            stack[-1].append(_ESCAPE.sub(rb"\1", quoted) if b"\\" in quoted else quoted)
        else:
            atom = match["atom"]
            stack[-1].append(None if atom.upper() == b"NIL" else atom)
