"""Sets of UIDs as sorted ranges: what a sequence set is on the wire, and small however large the folder.

Servers were seen to refuse sets that descend, so a set is always written ascending and compressed (RFC 9051 §4.1.1).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

MAX_SET_OCTETS = 4_000  # of one command; some servers cut command lines at 8,192
_RANGE = re.compile(r"(\d{1,10})(?::(\d{1,10}))?")


@dataclass(frozen=True, slots=True)
class UidSet:
    """Disjoint ranges, ascending, both ends included. Iterates over UIDs in ascending order."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, uids: Iterable[int]) -> UidSet:
        """The set of any UIDs, in any order, with any repetition."""
        return cls.of_ranges((uid, uid) for uid in uids)

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[int, int]]) -> UidSet:
        """The set of ranges in any order, overlapping or not, each the right way round or not."""
        merged: list[tuple[int, int]] = []
        for low, high in sorted((min(pair), max(pair)) for pair in ranges):
            if merged and low <= merged[-1][1] + 1:
                if high > merged[-1][1]:
                    merged[-1] = (merged[-1][0], high)
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    @classmethod
    def parse(cls, text: str) -> UidSet:
        """A sequence set as a server writes it. Raises ValueError for anything else, `*` included."""
        ranges = []
        for item in text.split(","):
            match = _RANGE.fullmatch(item)
            if match is None:
                raise ValueError("not a sequence set")
            low = int(match[1])
            ranges.append((low, int(match[2]) if match[2] else low))
        return cls.of_ranges(ranges)

    def __iter__(self) -> Iterator[int]:
        for low, high in self.ranges:
            yield from range(low, high + 1)

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, uid: object) -> bool:
        if not isinstance(uid, int):
            return False
        position = bisect_right(self.ranges, (uid, 2**63)) - 1
        return position >= 0 and uid <= self.ranges[position][1]

    def __or__(self, other: UidSet) -> UidSet:
        return UidSet.of_ranges([*self.ranges, *other.ranges]) if self.ranges and other.ranges else self or other

    @property
    def highest(self) -> int | None:
        return self.ranges[-1][1] if self.ranges else None

    def between(self, low: int, high: int) -> UidSet:
        """The members within both bounds."""
        return UidSet(tuple((max(a, low), min(b, high)) for a, b in self.ranges if b >= low and a <= high))

    def after(self, uid: int) -> Iterator[int]:
        """The members beyond `uid`; nothing is worked out before the first is asked for."""
        yield from self.between(uid + 1, self.highest or 0)

    def absent(self, uids: Iterable[int]) -> list[int]:
        """Those of `uids`, which must ascend, that are not members. One pass over both."""
        missing = []
        ranges = iter(self.ranges)
        current = next(ranges, None)
        for uid in uids:
            while current is not None and current[1] < uid:
                current = next(ranges, None)
            if current is None or uid < current[0]:
                missing.append(uid)
        return missing

    def pages(self, size: int) -> Iterator[list[int]]:
        """The members in ascending lists of at most `size`."""
        members = iter(self)
        while page := list(islice(members, size)):
            yield page

    def wire(self) -> bytes:
        """The set as one argument of a command. Raises ValueError for the empty set, which has no spelling."""
        if not self.ranges:
            raise ValueError("an empty set cannot be sent")
        return ",".join(str(low) if low == high else f"{low}:{high}" for low, high in self.ranges).encode("ascii")

    def commands(self, limit: int = MAX_SET_OCTETS) -> Iterator[UidSet]:
        """The set cut into sets whose spelling has at most `limit` octets each."""
        part: list[tuple[int, int]] = []
        used = 0
        for low, high in self.ranges:
            cost = len(str(low)) + (len(str(high)) + 1 if high != low else 0) + 1
            if part and used + cost > limit:
                yield UidSet(tuple(part))
                part, used = [], 0
            part.append((low, high))
            used += cost
        if part:
            yield UidSet(tuple(part))
