"""Carrying out an account's recorded changes: at the start of each of its runs, and as soon as one is recorded."""

from __future__ import annotations

from mailkeep.config import AccountSettings
from mailkeep.mailbox import AccountId
from mailkeep.mutations.auditing import tidy
from mailkeep.mutations.converge import Converged, converge_account
from mailkeep.sync.resources import Resources


async def carry_out_changes(resources: Resources, account: AccountSettings) -> Converged:
    """A convergence pass over an account on its write connection, and another while that helps (MUT-37 to 40).

    Rows that failed are in the answer, and make the account's run a failed one; its folders are read all the same. What
    keeps the account from being reached is raised: nothing else of the run would fare better.
    """
    bounds, account_id = resources.bounds, AccountId(account.account_id)
    writer = resources.access.writer(
        account, resources.settings.data_encryption, idle_period=bounds.write_connection_idle_period
    )
    async with writer.turn() as connect:
        total = Converged(more_waits=True)
        while total.more_waits and not resources.stopping.is_set():
            total += await converge_account(resources.db, account_id, connect, bounds=bounds, now=resources.now)
        if total.plea is not None:
            resources.access.gates.of(account).heed(total.plea)
        return total


async def tidy_changes(resources: Resources, account: AccountSettings) -> None:
    """The records of an account's changes in order, once a run; never a failure of it (MUT-65)."""
    await tidy(
        resources.db,
        AccountId(account.account_id),
        now=resources.now(),
        retention=account.audit_trail.retention,
        record_retention=resources.bounds.completed_mutation_retention,
    )
