"""The stage `passages`: cut messages, a bounded number at a time, each in a transaction of its own (FIND-60)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from mailkeep.config import Settings
from mailkeep.db import Connection, Database
from mailkeep.passages.cutting import cut
from mailkeep.passages.folders import embedding_folders
from mailkeep.passages.queries import (
    CutText,
    Outstanding,
    lock_reading,
    note_cut,
    read_counts,
    read_outstanding,
    read_texts,
    replace_passages,
)
from mailkeep.stages import PassOutcome, StageCounts

PASS_EMAILS: Final = 200
SWEEP_INTERVAL: Final = timedelta(minutes=15)
"""How often all mail is looked at again: what was read anew, what came back into a folder that takes part."""
NOT_EXTRACTED: Final = "BodyNotExtracted"
_START: Final = UUID(int=0)
_LOSSY: Final = "DerivedFromHtmlBodyPart"
_WITHOUT_TEXT: Final = frozenset({"EncryptedBody", "NoTextualBodyPart"})


class PassageStage:
    """Cuts what is not cut yet; see `mailkeep.stages.Stage`.

    Which messages those are is always asked of the database. `_position` only spares walking over what was seen to be
    done: new mail has the highest ids, and every SWEEP_INTERVAL all of it is walked again.
    """

    name: Final = "passages"

    def __init__(self, db: Database, settings: Settings, *, pass_emails: int = PASS_EMAILS) -> None:
        self._db = db
        self._settings = settings
        self._pass_emails = pass_emails
        self._position = _START
        self._swept_at: datetime | None = None

    def follow(self, settings: Settings) -> None:
        """Go by this snapshot from the next pass on; messages of other folders may be wanted now."""
        self._settings = settings
        self._position, self._swept_at = _START, None

    async def run_pass(self, now: datetime) -> PassOutcome:
        """Cut the next messages in order of their ids."""
        if self._swept_at is not None and now - self._swept_at >= SWEEP_INTERVAL:
            self._position, self._swept_at = _START, None
        ceiling = self._settings.embeddings.max_characters_per_email
        folder_ids = await embedding_folders(self._db, self._settings)
        async with self._db.connection() as connection:
            found = await read_outstanding(
                connection, after=self._position, folder_ids=folder_ids, ceiling=ceiling, limit=self._pass_emails
            )
            texts = await read_texts(connection, [one.id for one in found])
        # Milliseconds for each long text, which must not hold up who answers beside it.
        cuts = await asyncio.to_thread(_cut_all, found, texts, ceiling)
        for message in found:
            await self._db.redo(
                partial(_store, message=message, cut_text=cuts.get(message.id), ceiling=ceiling, now=now)
            )
            self._position = message.id
        failed = len(found) - len(cuts)
        has_more = len(found) == self._pass_emails
        if not has_more and self._swept_at is None:
            self._swept_at = now
        return PassOutcome(done=len(found) - failed, failed=failed, has_more=has_more)

    async def count(self) -> StageCounts:
        """Messages of the folders that take part."""
        return await read_counts(self._db, await embedding_folders(self._db, self._settings))


def _cut_all(messages: Sequence[Outstanding], texts: Mapping[UUID, str], ceiling: int) -> dict[UUID, CutText]:
    """The passages of each message; none of one whose body could not be read."""
    return {
        message.id: _cut(message, texts.get(message.id, ""), ceiling)
        for message in messages
        if message.text_source != NOT_EXTRACTED
    }


def _cut(message: Outstanding, text: str, ceiling: int) -> CutText:
    is_lossy = message.text_source == _LOSSY
    source = "" if message.text_source in _WITHOUT_TEXT else text
    return CutText(
        passages=tuple(cut(source[:ceiling], is_lossy=is_lossy)),
        is_lossy=is_lossy,
        truncated_from=len(source) if len(source) > ceiling else None,
    )


async def _store(
    connection: Connection, *, message: Outstanding, cut_text: CutText | None, ceiling: int, now: datetime
) -> None:
    """One message's passages; of a body that could not be read, what was cut of it before stays."""
    if not await lock_reading(connection, message):
        return  # read anew or erased since: the next pass asks again
    if cut_text is not None:
        await replace_passages(connection, message, cut_text, now=now)
    await note_cut(connection, message, failure=None if cut_text else NOT_EXTRACTED, ceiling=ceiling, now=now)
