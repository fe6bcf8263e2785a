"""COPYUID: where messages went, as the server names it (RFC 4315 §3, RFC 6851 §4.3). Octets in, values out.

It may come in the tagged OK or in an untagged one, name all messages or some, or be missing. One that contradicts
itself is as good as none: where a message went is never guessed (MUT-31).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from mailkeep.imap.model import MAX_UID
from mailkeep.imap.responses import response_code

_RANGE = re.compile(rb"(\d{1,10})(?::(\d{1,10}))?")
_ANSWER = re.compile(rb"(\d{1,10}) ([\d:,]+) ([\d:,]+)")


@dataclass(frozen=True, slots=True)
class Placements:
    """The UIDs that messages got, by the UIDs they had, and the UIDVALIDITY of the folder they went to."""

    uid_validity: int | None = None
    uids: Mapping[int, int] = field(default_factory=dict)


def parse_copyuid(text: bytes, *, at_most: int) -> Placements | None:
    """What the text of an OK says of placements; None when it says nothing, or nothing that can be meant.

    `at_most` messages were named in the command: a set of more is none that could be an answer to it.
    """
    code, argument = response_code(text)
    if code != b"COPYUID" or (match := _ANSWER.fullmatch(argument.strip())) is None:
        return None
    before, after = _in_order(match[2], at_most), _in_order(match[3], at_most)
    if before is None or after is None or len(before) != len(after) or not 0 < int(match[1]) <= MAX_UID:
        return None
    if len(set(before)) != len(before) or len(set(after)) != len(after):
        return None
    return Placements(int(match[1]), dict(zip(before, after, strict=True)))


def merged(first: Placements, second: Placements | None) -> Placements:
    """Two answers to one command. A server may name its messages in several; of two folders it means neither."""
    if second is None:
        return first
    if first.uid_validity not in (None, second.uid_validity):
        return Placements()
    return Placements(second.uid_validity, {**first.uids, **second.uids})


def _in_order(octets: bytes, at_most: int) -> list[int] | None:
    """The members of a set in the order in which they are written: the two sets correspond one to one."""
    members: list[int] = []
    for item in octets.split(b","):
        match = _RANGE.fullmatch(item)
        if match is None:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        members += islice(range(min(low, high), max(low, high) + 1), at_most + 1)
        if len(members) > at_most or not 0 < min(low, high) <= max(low, high) <= MAX_UID:
            return None
    return members
