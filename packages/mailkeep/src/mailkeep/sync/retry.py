"""Another attempt at quarantined messages, when a person asks for it."""

from __future__ import annotations

from mailkeep.config import AccountSettings
from mailkeep.errors import ConfigurationRefused
from mailkeep.mailbox import AccountId, FolderBinding, folder_bindings, load_checkpoint, quarantined
from mailkeep.sync.link import Link
from mailkeep.sync.model import FolderOutcome, Outcome
from mailkeep.sync.queries import account_lease
from mailkeep.sync.refetch import refetch_quarantined
from mailkeep.sync.resources import Resources
from mailkeep.sync.run import account_link, mirrored_account
from mailkeep.sync.work import errand


async def retry_quarantined(
    resources: Resources, account_id: str, *, alias: str | None = None
) -> tuple[FolderOutcome, ...]:
    """Fetch and store what waits in quarantine, of one folder or of all; one outcome per folder that had any.

    A message that is gone from the server leaves the quarantine; one that fails again stays, with one more attempt
    counted. Raises AccountHeldElsewhere while the account is being synchronized, and what stops a whole account.
    """
    account = mirrored_account(resources, account_id)
    outcomes = []
    async with account_lease(resources.db, account_id):
        bindings = await folder_bindings(resources.db, AccountId(account_id))
        chosen = [binding for binding in bindings if alias is None or binding.alias == alias]
        if alias is not None and not chosen:
            raise ConfigurationRefused("there is no folder of that alias")
        link = account_link(resources, account)
        try:
            for binding in chosen:
                outcome = await _retry_folder(resources, account, link, binding)
                outcomes += [outcome] if outcome is not None else []
        finally:
            await link.close()
    return tuple(outcomes)


async def _retry_folder(
    resources: Resources, account: AccountSettings, link: Link, binding: FolderBinding
) -> FolderOutcome | None:
    checkpoint = await load_checkpoint(resources.db, binding.folder_id)
    waiting = {
        item.uid: item.size_octets
        for item in await quarantined(resources.db, binding.folder_id)
        if checkpoint is not None and item.uid_validity == checkpoint.uid_validity
    }
    if checkpoint is None or not waiting:
        return None
    selected = await link.open_folder(binding.remote_path)
    if selected.uid_validity != checkpoint.uid_validity:
        return FolderOutcome(binding.alias, Outcome.SYNCHRONIZED, more_remains=True)
    octets = resources.bounds.max_content_bytes_per_run
    work = errand(resources, account, link, binding, selected, checkpoint=checkpoint, octets=octets)
    work.gone = len((await refetch_quarantined(work, waiting)).gone)
    return work.outcome(Outcome.SYNCHRONIZED)
