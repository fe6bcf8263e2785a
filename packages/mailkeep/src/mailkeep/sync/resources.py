"""What all accounts of one process share: the database, the settings, and the bounds on memory and storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from mailkeep.config import MailSynchronizationSettings, Settings
from mailkeep.db import Database
from mailkeep.imap import Timeouts
from mailkeep.oauth import AccessTokens
from mailkeep.preparation import DEFAULT_LIMITS
from mailkeep.resilience import Pipelines
from mailkeep.sync.access import Access, timeouts_of
from mailkeep.sync.gate import Gates
from mailkeep.sync.preparer import Preparer
from mailkeep.sync.queries import content_size
from mailkeep.sync.volume import InFlight, StorageCeiling
from mailkeep_message import Limits


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Resources:
    """One per process; made by `open_resources`. `stopping` set means: begin nothing new."""

    db: Database
    settings: Settings
    home: Path
    preparer: Preparer
    in_flight: InFlight
    ceiling: StorageCeiling
    access: Access
    stopping: asyncio.Event
    now: Callable[[], datetime]

    @property
    def bounds(self) -> MailSynchronizationSettings:
        return self.settings.mail_synchronization

    @property
    def limits(self) -> Limits:
        """How much of a message is read."""
        return reading_limits(self.bounds)

    async def measure_storage(self) -> None:
        """Bring the storage level up to date; nothing without a ceiling (SYNC-65)."""
        if self.ceiling.is_limited:
            begun = self.ceiling.measurement_begins()
            self.ceiling.measured(begun, await content_size(self.db))


@asynccontextmanager
async def open_resources(
    db: Database,
    settings: Settings,
    home: Path,
    *,
    access: Access | None = None,
    now: Callable[[], datetime] = utc_now,
) -> AsyncIterator[Resources]:
    """Resources on an open database, until the end of the block. `access` is the process's own, where it has one."""
    bounds = settings.mail_synchronization
    way = access or open_access(db, settings, home, now=now)
    async with AsyncExitStack() as stack:
        preparer = await stack.enter_async_context(Preparer())
        if access is None:
            stack.push_async_callback(way.close)
        yield Resources(
            db=db,
            settings=settings,
            home=home,
            preparer=preparer,
            in_flight=InFlight(bounds.max_in_flight_raw_mime_bytes),
            ceiling=StorageCeiling(bounds.max_stored_content_bytes),
            access=way,
            stopping=asyncio.Event(),
            now=now,
        )


def open_access(
    db: Database,
    settings: Settings,
    home: Path,
    *,
    timeouts: Timeouts | None = None,
    now: Callable[[], datetime] = utc_now,
) -> Access:
    """The way to the mail servers on an open database."""
    pipelines = Pipelines(settings.resilience)
    return Access(
        tokens=AccessTokens(db, home, pipelines, now=now),
        gates=Gates(home, now),
        pipelines=pipelines,
        home=home,
        timeouts=timeouts or timeouts_of(settings.resilience),
    )


def reading_limits(bounds: MailSynchronizationSettings) -> Limits:
    """How much of a message is read, as configured."""
    return replace(
        DEFAULT_LIMITS,
        max_part_count=bounds.max_mime_part_count,
        max_nesting_depth=bounds.max_mime_nesting_depth,
        max_text_characters=bounds.max_extracted_text_characters,
    )
