"""What a folder's run recognized of our own changes, in counts: for its log line, its outcome and the metrics.

The changes that the mailbox's owner made are what rules and spam classification will hear of, once they exist; our own
are withheld from them (MUT-52). Until then nobody listens, and these counts are all that comes of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from mailkeep.mutations.attribution import AttributedChange
from mailkeep.mutations.metrics import RECOGNIZED


@dataclass(frozen=True, slots=True)
class Recognized:
    """Counts of one folder run.

    relocated      rows that were carried over to where we had moved their messages; nothing was fetched
    own_arrivals   messages that are copies of ours, withheld from what hears of arrivals
    own_removals   messages gone by deletions and relocations of ours
    own_flags      values of flags that stores of ours explain, withheld; by value
    owner_flags    values that the mailbox's owner changed; by value
    """

    relocated: int = 0
    own_arrivals: int = 0
    own_removals: int = 0
    own_flags: Counter[str] = field(default_factory=Counter)
    owner_flags: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Recognized) -> Recognized:
        return Recognized(
            relocated=self.relocated + other.relocated,
            own_arrivals=self.own_arrivals + other.own_arrivals,
            own_removals=self.own_removals + other.own_removals,
            own_flags=self.own_flags + other.own_flags,
            owner_flags=self.owner_flags + other.owner_flags,
        )


def recognized(
    *,
    relocated: int = 0,
    own_arrivals: int = 0,
    own_removals: int = 0,
    flags: Iterable[AttributedChange] = (),
) -> Recognized:
    """The counts of one observation, which the metrics count too."""
    flags = list(flags)
    counts = Recognized(
        relocated=relocated,
        own_arrivals=own_arrivals,
        own_removals=own_removals,
        own_flags=Counter(one.value.value for one in flags if one.is_own),
        owner_flags=Counter(one.value.value for one in flags if not one.is_own),
    )
    for kind, count in (("relocation", relocated), ("arrival", own_arrivals), ("removal", own_removals)):
        RECOGNIZED.labels(kind, "own").inc(count)
    for author, values in (("own", counts.own_flags), ("owner", counts.owner_flags)):
        for value, count in values.items():
            RECOGNIZED.labels(value, author).inc(count)
    return counts
