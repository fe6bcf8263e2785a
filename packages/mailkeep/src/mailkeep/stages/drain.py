"""Stages run to their end, one after the other: what `derive`, `import` and `sync --once --derive` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mailkeep.db import Database
from mailkeep.errors import MailkeepError
from mailkeep.stages.lease import stage_lease
from mailkeep.stages.model import Stage, StageStatus


@dataclass(frozen=True, slots=True)
class StageResult:
    """What draining one stage came to.

    `held_elsewhere`: another process works at it, so nothing was done here. `next_due`: it stopped with work left until
    then. `error`: why it stopped before its end; the other stages ran all the same.
    """

    name: str
    done: int = 0
    failed: int = 0
    held_elsewhere: bool = False
    next_due: datetime | None = None
    error: MailkeepError | None = None


async def drain(
    stages: Sequence[Stage],
    db: Database,
    *,
    now: Callable[[], datetime],
    report: Callable[[StageResult], None] | None = None,
) -> tuple[StageResult, ...]:
    """Run every stage until it has nothing left to do, in the order given; `report` is told after every pass."""
    return tuple([await _drain_one(stage, db, now=now, report=report or _silent) for stage in stages])


async def stage_statuses(stages: Sequence[Stage]) -> tuple[StageStatus, ...]:
    """The counts of every stage, in their order."""
    found = []
    for stage in stages:
        counts = await stage.count()
        found.append(StageStatus(stage.name, counts.done, counts.outstanding, counts.failed))
    return tuple(found)


async def _drain_one(
    stage: Stage, db: Database, *, now: Callable[[], datetime], report: Callable[[StageResult], None]
) -> StageResult:
    result = StageResult(stage.name)
    try:
        async with stage_lease(db, stage.name) as is_owner:
            if not is_owner:
                return replace(result, held_elsewhere=True)
            while True:
                outcome = await stage.run_pass(now())
                result = replace(
                    result,
                    done=result.done + outcome.done,
                    failed=result.failed + outcome.failed,
                    next_due=outcome.next_due if outcome.has_more else None,
                )
                report(result)
                is_stuck = not (outcome.done or outcome.failed)
                if not outcome.has_more or outcome.next_due is not None or is_stuck:
                    return result
    except MailkeepError as error:
        return replace(result, error=error)


def _silent(result: StageResult) -> None:
    del result
