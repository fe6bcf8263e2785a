"""The SQL of passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.db import Connection, Database, load_queries
from mailkeep.db.ids import uuid7s
from mailkeep.mailbox import FolderId
from mailkeep.passages.cutting import RULES, VERSION, Passage
from mailkeep.stages import StageCounts

_SQL: Final = load_queries("mailkeep.passages")


@dataclass(frozen=True, slots=True)
class Outstanding:
    """A message to be cut, by the reading of it that the text is from."""

    id: UUID
    extracted_at: datetime
    text_source: str


@dataclass(frozen=True, slots=True)
class CutText:
    """The passages of one reading; `truncated_from` is the length of a text that was cut only in part."""

    passages: tuple[Passage, ...]
    is_lossy: bool
    truncated_from: int | None


@dataclass(frozen=True, slots=True)
class UncutMail:
    """What there is to cut yet. Passages and characters are foretold, since cuts fall where the text has breaks."""

    emails: int
    passages: int
    characters: int


async def read_outstanding(
    connection: Connection, *, after: UUID, folder_ids: Sequence[FolderId], ceiling: int, limit: int
) -> list[Outstanding]:
    """The next messages to be cut, by id."""
    cursor = await connection.execute(
        _SQL["outstanding"],
        {"after": after, "folder_ids": list(folder_ids), "version": VERSION, "ceiling": ceiling, "limit": limit},
    )
    return [Outstanding(*row) for row in await cursor.fetchall()]


async def read_texts(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, str]:
    """The texts of messages."""
    cursor = await connection.execute(_SQL["texts"], {"ids": list(ids)})
    return dict(await cursor.fetchall())


async def lock_reading(connection: Connection, message: Outstanding) -> bool:
    """Hold the reading that was cut until the transaction ends; False when it is not the present one any more."""
    values = {"id": message.id, "extracted_at": message.extracted_at}
    return await (await connection.execute(_SQL["lock_document"], values)).fetchone() is not None


async def replace_passages(connection: Connection, message: Outstanding, found: CutText, *, now: datetime) -> bool:
    """Replace the passages of a message unless they are the same already; whether they were not (FIND-58)."""
    former = await (await connection.execute(_SQL["passages"], {"id": message.id})).fetchall()
    changed = former != [(one.ordinal, one.content_hash, one.start_offset) for one in found.passages]
    if changed:
        await connection.execute(_SQL["clear"], {"id": message.id})
        await connection.execute(
            _SQL["write"],
            {
                "email_id": message.id,
                "ids": uuid7s(now, len(found.passages)),
                "ordinals": [one.ordinal for one in found.passages],
                "offsets": [one.start_offset for one in found.passages],
                "texts": [one.text for one in found.passages],
                "hashes": [one.content_hash for one in found.passages],
                "version": VERSION,
                "is_lossy": found.is_lossy,
                "now": now,
            },
        )
    await connection.execute(_SQL["note_truncation"], {"id": message.id, "full_length": found.truncated_from})
    return changed


async def note_cut(
    connection: Connection, message: Outstanding, *, failure: str | None, ceiling: int, now: datetime
) -> None:
    """Remember that this reading was cut, or why it could not be."""
    await connection.execute(
        _SQL["note_cut"],
        {
            "id": message.id,
            "extracted_at": message.extracted_at,
            "version": VERSION,
            "ceiling": ceiling,
            "failure": failure,
            "now": now,
        },
    )


async def read_counts(db: Database, folder_ids: Sequence[FolderId]) -> StageCounts:
    """How far the stage is."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["counts"], {"version": VERSION, "folder_ids": list(folder_ids)})
        row = await cursor.fetchone()
    done, everything, failed = row if row is not None else (0, 0, 0)
    return StageCounts(done=done, outstanding=everything - done - failed, failed=failed)


async def uncut_mail(connection: Connection, folder_ids: Sequence[FolderId], *, ceiling: int) -> UncutMail:
    """What cutting is outstanding, for an honest estimate."""
    cursor = await connection.execute(
        _SQL["uncut"],
        {
            "version": VERSION,
            "folder_ids": list(folder_ids),
            "ceiling": ceiling,
            "overlap": RULES.overlap,
            "target": RULES.target,
        },
    )
    row = await cursor.fetchone()
    return UncutMail(*row) if row is not None else UncutMail(0, 0, 0)
