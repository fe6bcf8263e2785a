"""One folder's turn: open, bring in what arrived, reconcile what is held, fill what waits, record where it stands."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace

from mailkeep.config import AccountSettings
from mailkeep.errors import ConcurrencyConflict, MailkeepError, MailServerUnavailable
from mailkeep.imap import FolderState, UidSet
from mailkeep.mailbox import (
    Checkpoint,
    Disposition,
    FolderBinding,
    UidValidity,
    advance_checkpoint,
    highest_uid,
    quarantined,
    retire_other_uid_validities,
)
from mailkeep.sync.forward import forward_pass
from mailkeep.sync.link import Link
from mailkeep.sync.model import FolderOutcome, Outcome
from mailkeep.sync.placements import join_placements, settle_placements
from mailkeep.sync.plan import (
    completed,
    fresh_checkpoint,
    merge_states,
    plan_folder,
    plan_over_stored,
    worth_asking_ahead,
)
from mailkeep.sync.progress import Meter
from mailkeep.sync.reconcile import explain, reconcile_flags, reconcile_removals
from mailkeep.sync.refill import refill
from mailkeep.sync.relink import relink_known
from mailkeep.sync.repair import repair
from mailkeep.sync.resources import Resources
from mailkeep.sync.volume import RunBudget
from mailkeep.sync.work import FolderWork

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderTurn:
    """What a folder run starts from. `status` is what STATUS said when the account's run began, if anything."""

    binding: FolderBinding
    checkpoint: Checkpoint | None
    status: FolderState | None


async def run_folder(
    resources: Resources, account: AccountSettings, link: Link, turn: FolderTurn, meter: Meter
) -> FolderOutcome:
    """One folder run. Failures become the outcome: one folder never takes another with it (SYNC-9, SYNC-11)."""
    alias = turn.binding.alias
    work: FolderWork | None = None
    try:
        work = await _open(resources, account, link, turn, meter)
        outcome = await _run(work)
    except ConcurrencyConflict as error:
        outcome = _ended(alias, work, Outcome.DEFERRED_AFTER_CONCURRENCY_CONFLICT, error.code)
    except MailServerUnavailable as error:
        outcome = _ended(alias, work, Outcome.DEFERRED_AFTER_MAIL_SERVER_UNAVAILABLE, error.code)
    except MailkeepError as error:
        outcome = _ended(alias, work, Outcome.UNEXPECTED_FAILURE, error.code)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # a defect or the database; the other folders still get their turn
        log.error(  # noqa: TRY400  -- a traceback can hold mail
            "folder run failed",
            extra={"account_id": account.account_id, "folder": alias, "error": type(error).__name__},
        )
        outcome = _ended(alias, work, Outcome.UNEXPECTED_FAILURE, 0)
    if not outcome.more_remains:
        meter.folder_done(alias)
    _log(account.account_id, outcome)
    return outcome


def _ended(alias: str, work: FolderWork | None, outcome: Outcome, code: int) -> FolderOutcome:
    """A failed run, with what it had done before."""
    if work is None:
        return FolderOutcome(alias, outcome, failure_code=code)
    return work.outcome(outcome, failure_code=code)


async def _run(work: FolderWork) -> FolderOutcome:
    resources = work.resources
    await resources.measure_storage()
    if not work.plan.discovers:
        await join_placements(work, UidSet())
    reached_end = await forward_pass(work, _narrow)
    await settle_placements(work, reached_end=reached_end)
    work.flags_changed = await reconcile_flags(work)
    work.gone = await reconcile_removals(work)
    work.refilled = await refill(work)
    work.repaired = await repair(work)
    asked_flags = work.plan.held_through > 0  # else nothing was held, and what arrived has newer flags than `state`
    await work.move_checkpoint(
        completed(
            work.checkpoint,
            work.state,
            flags_through=work.state.highest_modseq if asked_flags else None,
            is_at_end=reached_end,
            now=resources.now(),
        )
    )
    if reached_end:
        work.gone += await _retire_earlier_identities(work)
    stopped = resources.stopping.is_set() and not reached_end
    return work.outcome(
        Outcome.INTERRUPTED_BY_SHUTDOWN if stopped else Outcome.SYNCHRONIZED, more_remains=not reached_end
    )


async def _narrow(work: FolderWork, hits: UidSet) -> UidSet:
    """What has to be fetched of what was found: neither what we moved here nor what we know under another identity."""
    return await relink_known(work, await join_placements(work, hits))


async def _open(
    resources: Resources, account: AccountSettings, link: Link, turn: FolderTurn, meter: Meter
) -> FolderWork:
    """Examine, plan, and start the checkpoint over where the folder's identity is new."""
    path = turn.binding.remote_path
    status = turn.status
    ahead = None
    if account.earliest_email_received_date is None:
        ahead = worth_asking_ahead(turn.checkpoint, status, at_most=resources.bounds.max_metadata_batch_size)
    selected = await link.open_folder(path, ahead=ahead)
    if selected.uid_next is None and (status is None or status.uid_next is None):
        # Some servers tell UIDNEXT only when asked by STATUS (case 8).
        status = (await link.call(lambda session: session.status_all([path]))).get(path, status)
    state = merge_states(selected, status)
    plan = plan_folder(turn.checkpoint, state)
    stored_through = 0
    if turn.checkpoint is None or turn.checkpoint.remote_uid_next is None:
        uid_validity = UidValidity(selected.uid_validity)
        stored_through = await highest_uid(resources.db, turn.binding.folder_id, uid_validity=uid_validity)
        plan = plan_over_stored(plan, stored_through)
    checkpoint = turn.checkpoint
    if checkpoint is None or plan.starts_over:
        fresh = fresh_checkpoint(state)
        if stored_through:  # what is held has not been reconciled through this moment
            fresh = replace(fresh, reconciled_through_modseq=None)
        await advance_checkpoint(resources.db, turn.binding.folder_id, expected=checkpoint, new=fresh)
        checkpoint = fresh
    return FolderWork(
        resources=resources,
        account=account,
        link=link,
        binding=turn.binding,
        state=state,
        plan=plan,
        ahead=selected.ahead,
        checkpoint=checkpoint,
        meter=meter,
        budget=RunBudget(resources.bounds.max_content_bytes_per_run),
    )


async def _retire_earlier_identities(work: FolderWork) -> int:
    """After a UIDVALIDITY change and a pass that enumerated everything: what was found nowhere is gone.

    Not while a message waits in quarantine, which may be one of them; and not where an earliest date left older mail
    out of the enumeration, since narrowing deletes nothing (SYNC-54).
    """
    if work.account.earliest_email_received_date is not None:
        return 0
    if any(
        item.uid_validity == work.uid_validity for item in await quarantined(work.resources.db, work.binding.folder_id)
    ):
        return 0
    return await retire_other_uid_validities(
        work.resources.db,
        work.binding.folder_id,
        uid_validity=work.uid_validity,
        disposition=Disposition(work.account.remotely_deleted_email_disposition.value),
        observed_at=work.resources.now(),
        explain=explain(work),
    )


def _log(account_id: str, outcome: FolderOutcome) -> None:
    log.info(
        "folder run",
        extra={
            "account_id": account_id,
            "folder": outcome.alias,
            "outcome": outcome.outcome.value,
            "failure_code": outcome.failure_code,
            "stored": outcome.arrivals.stored,
            "relinked": outcome.arrivals.relinked,
            "unreadable": outcome.arrivals.unreadable,
            "oversized": outcome.arrivals.oversized,
            "quarantined": len(outcome.arrivals.quarantined),
            "refilled": outcome.refilled,
            "repaired": outcome.repaired,
            "flags_changed": outcome.flags_changed,
            "gone": outcome.gone,
            "relocated": outcome.recognized.relocated,
            "own_arrivals": outcome.recognized.own_arrivals,
            "own_removals": outcome.recognized.own_removals,
            "own_flags": dict(outcome.recognized.own_flags),
            "owner_flags": dict(outcome.recognized.owner_flags),
            "octets_fetched": outcome.octets_fetched,
            "octets_stored": outcome.arrivals.octets_stored,
            "limits_reached": sorted(limit.value for limit in outcome.limits_reached),
        },
    )
