"""How far each change of a pass has got: every step is a commit, and none is open while a command is under way.

A step is taken only by rows that stand where this pass last saw them; one that somebody else moved meanwhile counts as
that row's failure alone (MUT-41). A row that is gone was erased together with its message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, Final
from uuid import UUID

from psycopg.rows import dict_row

from mailkeep.config import SpecialUse
from mailkeep.db import Connection, Database, load_queries
from mailkeep.errors import (
    ConcurrencyConflict,
    MutationAttemptsExhausted,
    MutationFailedUnexpectedly,
    MutationOutcomeUnknown,
)
from mailkeep.mailbox import AccountId, Uid, UidValidity
from mailkeep.mutations.auditing import Ended, append_entries
from mailkeep.mutations.model import ORDER_IN_MESSAGE, AuditOutcome, Placement, Stage
from mailkeep.mutations.plan import Due
from mailkeep.mutations.rows import record_of

_SQL: Final = load_queries("mailkeep.mutations")


class Ending(StrEnum):
    """What became of a row in one pass."""

    COMPLETED = "completed"
    ABANDONED = "abandoned"
    FAILED = "failed"
    LEFT = "left"


class Ledger:
    """The rows of one pass: their stages as committed, and what became of them."""

    def __init__(self, db: Database, account_id: AccountId, *, attempts: int, now: Callable[[], datetime]) -> None:
        self._db = db
        self._account_id = account_id
        self._attempts = attempts
        self._now = now
        self._stages: dict[UUID, Stage] = {}
        self._placements: dict[UUID, Placement] = {}
        self.endings: dict[UUID, Ending] = {}
        self.failure_code: int | None = None

    async def load(self, limit: int) -> list[Due]:
        """Unfinished rows, oldest first; one that means nothing is given up and left out (MUT-10)."""
        values = {
            "account_id": self._account_id,
            "order": [mutation.value for mutation in ORDER_IN_MESSAGE],
            "limit": limit,
        }
        async with self._db.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(_SQL["due_changes"], values)
            found = await cursor.fetchall()
        rows = []
        for row in found:
            try:
                rows.append(due_of(row))
            except MutationFailedUnexpectedly as error:
                await self._write("abandon_unreadable", id=row["id"], code=error.code)
                self.endings[row["id"]] = Ending.ABANDONED
        self._stages.update((row.record.id, row.record.stage) for row in rows)
        return rows

    def unfinished(self, rows: Sequence[Due]) -> list[Due]:
        """Those that have not ended in this pass."""
        return [row for row in rows if row.record.id not in self.endings]

    async def begin(self, rows: Sequence[Due]) -> list[Due]:
        """Count an attempt at each, before it is made (MUT-32)."""
        answer = await self._write(
            "count_attempts",
            ids=_ids(rows),
            stages=[self._stages[row.record.id].value for row in rows],
            attempts=[row.record.attempt_count for row in rows],
        )
        return await self._those(rows, answer)

    async def issue(self, rows: Sequence[Due]) -> list[Due]:
        """Note that a command of theirs goes out now (MUT-B5)."""
        answer = await self._write("stamp_issued", ids=_ids(rows), stage=self._stage(rows))
        return await self._those(rows, answer)

    async def advance(self, rows: Sequence[Due], to: Stage, *, removal: bool | None = None) -> list[Due]:
        """A step forward that does not end them."""
        return await self._step(rows, to, removal=removal)

    async def confirm(self, rows: Sequence[Due], *, uid_validity: int | None, uids: Mapping[int, int]) -> list[Due]:
        """Placements that were acknowledged; `uids` has those that were named."""
        answer = await self._write(
            "confirm_placements", ids=_ids(rows), uids=[uids.get(row.uid) for row in rows], uid_validity=uid_validity
        )
        moved = await self._those(rows, answer)
        for row in moved:
            self._stages[row.record.id] = Stage.PLACEMENT_CONFIRMED
            if uid_validity is not None and row.uid in uids:
                self._placements[row.record.id] = Placement(UidValidity(uid_validity), Uid(uids[row.uid]))
        return moved

    async def complete(self, rows: Sequence[Due]) -> None:
        """Done; repeating would send nothing."""
        now = self._now()
        placed = await self._step(rows, Stage.COMPLETED, now=now)
        erased = [row for row in rows if self.endings.get(row.record.id) is Ending.LEFT]
        self._end([*placed, *erased], Ending.COMPLETED)
        await self._audit([*placed, *erased], AuditOutcome.PERFORMED, None, now)

    async def abandon(self, rows: Sequence[Due], code: int, *, from_stage: Stage | None = None) -> None:
        """Nothing will attempt these again; `from_stage` is what is known to have been reached, if not the stage."""
        now = self._now()
        for stage in {self._stages[row.record.id] for row in rows}:
            of_stage = [row for row in rows if self._stages[row.record.id] is stage]
            origin = from_stage or stage
            ended = await self._step(of_stage, Stage.ABANDONED, code=code, abandoned_from=origin, now=now)
            self._end(ended, Ending.ABANDONED)
            await self._audit(ended, AuditOutcome.ABANDONED, code, now)

    async def refuse(self, rows: Sequence[Due], code: int) -> None:
        """The server said no to a copy or move: they are as before (and given up after the last attempt)."""
        now = self._now()
        answer = await self._write("refuse_placements", ids=_ids(rows), code=code, bound=self._attempts, now=now)
        await self._failed(rows, answer, code, now)

    async def fail(self, rows: Sequence[Due], code: int) -> None:
        """An attempt failed; at the bound it was the last. One whose placement is unanswered now waits (MUT-35)."""
        now = self._now()
        values = {"code": code, "bound": self._attempts, "unknown": MutationOutcomeUnknown.code, "now": now}
        await self._failed(rows, await self._write("fail_attempts", ids=_ids(rows), **values), code, now)

    async def exhaust(self, rows: Sequence[Due]) -> None:
        """Abandon rows whose attempts were spent by processes that died in them."""
        code, now = MutationAttemptsExhausted.code, self._now()
        answer = await self._write("abandon_exhausted", ids=_ids(rows), code=code, now=now)
        ended = await self._those(rows, answer)
        self._end(ended, Ending.ABANDONED)
        for row in ended:
            await self._audit([row], AuditOutcome.ABANDONED, row.record.last_failure_code or code, now)

    async def leave_unknown(self, rows: Sequence[Due]) -> None:
        """They wait for an outcome; said once (MUT-17)."""
        await self._write("stamp_unknown", ids=_ids(rows), code=MutationOutcomeUnknown.code)
        self._end(rows, Ending.LEFT)

    def leave(self, rows: Sequence[Due]) -> None:
        """They wait for a later pass."""
        self._end(rows, Ending.LEFT)

    async def _step(
        self,
        rows: Sequence[Due],
        to: Stage,
        *,
        removal: bool | None = None,
        code: int | None = None,
        abandoned_from: Stage | None = None,
        now: datetime | None = None,
    ) -> list[Due]:
        if not rows:
            return []
        stage = Stage(self._stage(rows))
        if not stage.may_become(to):
            raise ConcurrencyConflict("a change cannot go back")
        answer = await self._write(
            "advance",
            ids=_ids(rows),
            stage=stage.value,
            to=to.value,
            removal=removal,
            code=code,
            abandoned_from=None if abandoned_from is None else abandoned_from.value,
            now=now or self._now(),
        )
        moved = await self._those(rows, answer)
        self._stages.update((row.record.id, to) for row in moved)
        return moved

    def _stage(self, rows: Sequence[Due]) -> str:
        stages = {self._stages[row.record.id] for row in rows}
        if len(stages) > 1:
            raise ValueError("rows of one step stand at one stage")
        return next(iter(stages), Stage.RECORDED).value

    async def _write(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        if not values.get("ids", True):
            return []
        return await self._db.redo(partial(_execute, name=name, values={"now": self._now(), **values}))

    async def _those(self, rows: Sequence[Due], answer: Sequence[tuple[Any, ...]]) -> list[Due]:
        """The rows that took the step. The others were moved by somebody else, or erased with their message."""
        moved = {item[0] for item in answer}
        missed = [row for row in rows if row.record.id not in moved]
        if missed:
            existing = {item[0] for item in await self._write("existing_changes", ids=_ids(missed))}
            self._end([row for row in missed if row.record.id not in existing], Ending.LEFT)
            self._note([row for row in missed if row.record.id in existing], ConcurrencyConflict.code)
        return [row for row in rows if row.record.id in moved]

    async def _failed(self, rows: Sequence[Due], answer: Sequence[tuple[Any, ...]], code: int, now: datetime) -> None:
        self._note(await self._those(rows, answer), code)
        given_up = {item[0] for item in answer if item[1] == Stage.ABANDONED.value}
        await self._audit([row for row in rows if row.record.id in given_up], AuditOutcome.ABANDONED, code, now)

    def _note(self, rows: Sequence[Due], code: int) -> None:
        if rows and self.failure_code is None:
            self.failure_code = code
        self._end(rows, Ending.FAILED)

    def _end(self, rows: Sequence[Due], ending: Ending) -> None:
        self.endings.update((row.record.id, ending) for row in rows)

    async def _audit(self, rows: Sequence[Due], outcome: AuditOutcome, code: int | None, now: datetime) -> None:
        """After the terminal commit, from what this pass knows: the row may be erased by now (MUT-62, MUT-64)."""
        ended = [
            Ended(row, self._placements.get(row.record.id, row.record.placement), outcome, code, now)
            for row in rows
            if row.record.audit_trail_enabled
        ]
        if ended:
            await append_entries(self._db, ended)


async def _execute(connection: Connection, *, name: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(_SQL[name], values)
    return [] if cursor.description is None else await cursor.fetchall()


def due_of(row: Mapping[str, Any]) -> Due:
    """Raises MutationFailedUnexpectedly for a row that means nothing."""
    role = row["folder_role"]
    return Due(
        record=record_of(row),
        folder_alias=row["folder_alias"],
        folder_path=row["folder_path"],
        folder_delimiter=row["folder_delimiter"],
        folder_role=None if role is None else SpecialUse(role),
        is_bound=row["is_bound"],
        size_octets=row["size_octets"],
        message_id=row["internet_message_id"],
    )


def _ids(rows: Sequence[Due]) -> list[UUID]:
    return [row.record.id for row in rows]
