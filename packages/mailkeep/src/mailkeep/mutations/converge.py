"""The convergence pass: the one place from which commands of changes go out (MUT-13, spec MUT section 7).

Every unfinished row is taken once and moved or left; nothing here waits for another try. One process does this for an
account at a time, and what could not be done fails the pass, so that its account's run backs off (MUT-40).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mailkeep.config import MailSynchronizationSettings
from mailkeep.db import Database, load_queries
from mailkeep.errors import (
    DatabaseUnavailable,
    FolderRecreated,
    MailkeepError,
    MutationFailedUnexpectedly,
    MutationOutcomeUnknown,
)
from mailkeep.imap import AskedToComeBack
from mailkeep.imap.writing import WritingSession
from mailkeep.mailbox import AccountId
from mailkeep.mutations.changing import (
    Work,
    open_folder,
    refuse_unsupported,
    remove_sources,
    store_flag,
    store_keywords,
    verify_sources,
)
from mailkeep.mutations.ledger import Ending, Ledger
from mailkeep.mutations.model import Stage, convergence_lease
from mailkeep.mutations.placing import place
from mailkeep.mutations.plan import Batch, Due, batches, settle
from mailkeep.mutations.signals import OUTSTANDING, Stopwatch, grouped

_SQL: Final = load_queries("mailkeep.mutations")
MOST_BROKEN_CONNECTIONS: Final = 3
"""After so many connections that broke in one pass, the server and not a message is in the way."""
log = logging.getLogger(__name__)

Connect = Callable[[], Awaitable[WritingSession]]


@dataclass(frozen=True, slots=True)
class Converged:
    """What one pass came to. `failure_code` is there when a row failed; refusals that abandon a row are no failure."""

    completed: int = 0
    abandoned: int = 0
    failed: int = 0
    left: int = 0
    failure_code: int | None = None
    is_held_elsewhere: bool = False
    plea: AskedToComeBack | None = None
    """The server asked to be left alone, and the pass ended."""
    more_waits: bool = False
    """Whether rows are left that another pass would take up with profit: this one was full, and nothing failed."""

    def __add__(self, later: Converged) -> Converged:
        return Converged(
            completed=self.completed + later.completed,
            abandoned=self.abandoned + later.abandoned,
            failed=self.failed + later.failed,
            left=later.left,
            failure_code=self.failure_code or later.failure_code,
            is_held_elsewhere=later.is_held_elsewhere,
            plea=later.plea,
            more_waits=later.more_waits,
        )

    @property
    def changed_something(self) -> bool:
        """Whether the server may look different now, so that reading it back is worth while."""
        return bool(self.completed or self.failed)


async def converge_account(
    db: Database,
    account_id: AccountId,
    connect: Connect,
    *,
    bounds: MailSynchronizationSettings,
    now: Callable[[], datetime],
) -> Converged:
    """One pass over an account's unfinished changes. With none of them it costs one query (MUT-42).

    `connect` gives a signed-in session that is usable, the same one while it is; it is not called when nothing has to
    be sent. What it raises is raised, and then no attempt was counted. Cancelling leaves every stage as committed.
    """
    if not await _publish(db, account_id, now()):
        return Converged()
    async with db.lease(convergence_lease(account_id)) as is_owner:
        if not is_owner:
            return Converged(is_held_elsewhere=True)
        run = _Pass(db, account_id, connect, bounds, now)
        try:
            await run.run()
        finally:
            converged = run.converged()
            await _publish(db, account_id, now())
    log.info(
        "changes converged",
        extra={
            "account_id": account_id,
            "completed": converged.completed,
            "abandoned": converged.abandoned,
            "failed": converged.failed,
            "left": converged.left,
            "failure_code": converged.failure_code,
        },
    )
    return converged


async def _publish(db: Database, account_id: AccountId, now: datetime) -> bool:
    """Tell the gauges what is outstanding; whether any of it is unfinished."""
    async with db.connection() as connection:
        cursor = await connection.execute(_SQL["outstanding_counts"], {"account_id": account_id})
        rows = await cursor.fetchall()
    OUTSTANDING.replace(account_id, grouped(rows), now=now)
    return any(row[1] != Stage.ABANDONED.value for row in rows)


class _Pass:
    """One pass over one account."""

    def __init__(
        self,
        db: Database,
        account_id: AccountId,
        connect: Connect,
        bounds: MailSynchronizationSettings,
        now: Callable[[], datetime],
    ) -> None:
        self._account_id = account_id
        self._connect = connect
        self._bounds = bounds
        self._now = now
        self._ledger = Ledger(db, account_id, attempts=bounds.max_mutation_attempts, now=now)
        self._broken = 0
        self._is_full = False
        self._plea: AskedToComeBack | None = None

    def converged(self) -> Converged:
        counts = Counter(self._ledger.endings.values())
        return Converged(
            completed=counts[Ending.COMPLETED],
            abandoned=counts[Ending.ABANDONED],
            failed=counts[Ending.FAILED],
            left=counts[Ending.LEFT],
            failure_code=self._ledger.failure_code,
            plea=self._plea,
            more_waits=self._is_full
            and not counts[Ending.FAILED]
            and bool(counts[Ending.COMPLETED] + counts[Ending.ABANDONED]),
        )

    async def run(self) -> None:
        limit = self._bounds.max_mutations_per_convergence_pass
        rows = await self._ledger.load(limit)
        self._is_full = len(rows) >= limit
        owed = await self._settle(rows)
        for batch in batches(owed):
            if self._plea is not None or self._broken >= MOST_BROKEN_CONNECTIONS:
                self._ledger.leave(self._ledger.unfinished(batch.rows))
                continue
            if due := self._next_of_their_messages(batch, owed):
                await self._attempt(batch, due)

    async def _settle(self, rows: Sequence[Due]) -> list[Due]:
        """What needs no command, before any login; the rows that owe one are returned."""
        found = settle(
            rows,
            now=self._now(),
            grace=self._bounds.unknown_mutation_outcome_grace,
            attempts=self._bounds.max_mutation_attempts,
        )
        for stage in (Stage.PLACEMENT_ISSUED, Stage.PLACEMENT_CONFIRMED):
            await self._ledger.complete([row for row in found.completed if row.record.stage is stage])
        await self._ledger.abandon(found.expired, MutationOutcomeUnknown.code)
        await self._ledger.exhaust(found.exhausted)
        await self._ledger.abandon(found.unbound, FolderRecreated.code)
        await self._ledger.leave_unknown(found.unknown)
        return found.owed

    def _next_of_their_messages(self, batch: Batch, owed: Sequence[Due]) -> list[Due]:
        """The rows of a batch that no failed change of the same message is in front of (MUT-57)."""
        failed = {
            row.record.source for row in owed if self._ledger.endings.get(row.record.id) in (Ending.FAILED, Ending.LEFT)
        }
        self._ledger.leave([row for row in batch.rows if row.record.source in failed])
        return self._ledger.unfinished(batch.rows)

    async def _attempt(self, batch: Batch, rows: list[Due]) -> None:
        """One attempt at the rows of a batch. Their failure stops no other batch, a plea for patience stops all."""
        session = await self._connect()
        watch = Stopwatch.start(self._account_id, batch.key.mutation, rows[0].folder_alias)
        attempted = rows
        try:
            rows = await self._ledger.begin(rows)
            if rows:
                await carry_out(Work(self._ledger, session, batch.key), rows)
        except asyncio.CancelledError:
            watch.end({"cancelled": len(self._ledger.unfinished(attempted))})
            raise
        except DatabaseUnavailable:
            raise
        except MailkeepError as error:
            self._broken += not session.is_usable
            await self._ledger.fail(self._ledger.unfinished(rows), error.code or MutationFailedUnexpectedly.code)
            if isinstance(error, AskedToComeBack):
                self._plea = error
        except Exception as error:  # a defect; the other batches still get their turn
            log.error(  # noqa: TRY400  -- a traceback can hold mail
                "change failed",
                extra={"account_id": self._account_id, "error": type(error).__name__},
            )
            await self._ledger.fail(self._ledger.unfinished(rows), MutationFailedUnexpectedly.code)
        ended = Counter(self._ledger.endings.get(row.record.id) for row in attempted)
        succeeded = ended[Ending.COMPLETED]
        watch.end({"succeeded": succeeded, "failed": len(attempted) - succeeded})


async def carry_out(work: Work, rows: list[Due]) -> None:
    """The commands of one batch, from where its rows stand."""
    rows = await refuse_unsupported(work, rows)
    opened = await open_folder(work, rows) if rows else None
    if opened is None:
        return
    rows, found = await verify_sources(work, rows)
    if not rows:
        return
    if work.key.mutation.places and work.key.stage is Stage.RECORDED:
        await place(work, rows)
    elif work.key.mutation.removes_source:
        await remove_sources(work, rows, work.key.stage)
    elif work.key.mutation.is_about_keywords:
        await store_keywords(work, rows, opened, found)
    else:
        await store_flag(work, rows, opened)
