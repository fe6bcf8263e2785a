"""What bounds the octets under way and at rest (SYNC-60 to SYNC-66).

`InFlight` is one for the process and first come, first served; `RunBudget` one for a folder run; `StorageCeiling` one
for the process. `chunks` cuts a batch so that one fetch and one transaction stay small.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mailkeep.imap import Metadata

CHUNK_OCTETS = 4 * 1024 * 1024  # of content in one fetch and one transaction, unless one message alone is larger


class InFlight:
    """Octets held in memory across fetch, parsing and commit. Waiters are served in order; cancelled ones skipped."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, octets: int) -> None:
        """Wait until `octets` fit. More than the limit counts as the limit, so that nothing waits for ever."""
        wanted = min(octets, self.limit)
        if not self._waiting and self.held + wanted <= self.limit:
            self.held += wanted
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(octets)
            else:
                self._serve()
            raise

    def release(self, octets: int) -> None:
        self.held -= min(octets, self.limit)
        self._serve()

    @asynccontextmanager
    async def holding(self, octets: int) -> AsyncIterator[None]:
        await self.acquire(octets)
        try:
            yield
        finally:
            self.release(octets)

    def _serve(self) -> None:
        while self._waiting:
            wanted, turn = self._waiting[0]
            if turn.done():
                self._waiting.popleft()
            elif self.held + wanted <= self.limit:
                self._waiting.popleft()
                self.held += wanted
                turn.set_result(None)
            else:
                return


class RunBudget:
    """Content octets one folder run may still fetch."""

    def __init__(self, octets: int) -> None:
        self.left = octets

    def spend(self, octets: int) -> bool:
        """Take `octets` if they fit; False leaves everything as it was (SYNC-63)."""
        if octets > self.left:
            return False
        self.left -= octets
        return True

    def give_back(self, octets: int) -> None:
        self.left += octets


class StorageCeiling:
    """How many octets of content may be stored in all; one level for the whole process (SYNC-65).

    The level is the last measurement of the content table, plus what was committed since that measurement began, plus
    what is claimed and not yet settled.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._measured = 0
        self._committed = 0
        self._outstanding = 0
        self._latest = 0

    @property
    def is_limited(self) -> bool:
        return self.limit is not None

    @property
    def occupied(self) -> int:
        return self._measured + self._committed + self._outstanding

    def has_room(self, octets: int) -> bool:
        return self.limit is None or self.occupied + octets <= self.limit

    def claim(self, octets: int) -> bool:
        """Reserve room before a fetch; False when there is none."""
        if not self.has_room(octets):
            return False
        self._outstanding += octets
        return True

    def settle(self, claimed: int, stored: int) -> None:
        """End a claim: `stored` octets were committed, 0 for a fetch or a transaction that came to nothing."""
        self._outstanding -= claimed
        self._committed += stored

    def measurement_begins(self) -> tuple[int, int]:
        """A token for `measured`, taken before the measuring query is sent."""
        self._latest += 1
        return self._latest, self._committed

    def measured(self, begun: tuple[int, int], octets: int) -> None:
        """Replace the level. A measurement overtaken by a later one is discarded."""
        number, committed_before = begun
        if number == self._latest:
            self._measured = octets
            self._committed -= committed_before


@dataclass(frozen=True, slots=True)
class Chunk:
    """Messages fetched and stored together. `octets` is their assumed size; `oversized` come by their headers."""

    messages: tuple[Metadata, ...]
    oversized: tuple[Metadata, ...]
    octets: int


def assumed_size(message: Metadata, limit: int) -> int:
    """What a message is taken to cost before it is fetched. An unreported size counts as the limit (SYNC-62)."""
    return min(message.size, limit) if message.size else limit


def chunks(batch: Sequence[Metadata], *, limit: int, target: int = CHUNK_OCTETS) -> Iterator[Chunk]:
    """Cut a batch, in its order, so that each chunk stays within `target` octets or holds one message."""
    whole: list[Metadata] = []
    oversized: list[Metadata] = []
    octets = 0
    for message in batch:
        if message.size is not None and message.size > limit:
            oversized.append(message)
            continue
        cost = assumed_size(message, limit)
        if whole and octets + cost > target:
            yield Chunk(tuple(whole), tuple(oversized), octets)
            whole, oversized, octets = [], [], 0
        whole.append(message)
        octets += cost
    if whole or oversized:
        yield Chunk(tuple(whole), tuple(oversized), octets)
