"""Another attempt at quarantined messages, when a person asks for it."""

from __future__ import annotations

from dataclasses import replace

from mailkeep.errors import ConfigurationRefused
from mailkeep.imap import FolderState
from mailkeep.mailbox import (
    AccountId,
    BatchOutcome,
    FolderBinding,
    Uid,
    folder_bindings,
    load_checkpoint,
    quarantined,
    release_quarantine,
    store_batch,
)
from mailkeep.sync.contents import fetch_metadata
from mailkeep.sync.forward import FolderWork, fetch_arrivals, quarantine_faulty
from mailkeep.sync.link import Link
from mailkeep.sync.model import FolderOutcome, Outcome
from mailkeep.sync.plan import plan_folder
from mailkeep.sync.progress import Meter
from mailkeep.sync.queries import account_lease
from mailkeep.sync.resources import Resources
from mailkeep.sync.run import account_link, mirrored_account
from mailkeep.sync.volume import RunBudget, chunks


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
                outcome = await _retry_folder(resources, link, binding)
                outcomes += [outcome] if outcome is not None else []
        finally:
            await link.close()
    return tuple(outcomes)


async def _retry_folder(resources: Resources, link: Link, binding: FolderBinding) -> FolderOutcome | None:
    checkpoint = await load_checkpoint(resources.db, binding.folder_id)
    waiting = [
        item
        for item in await quarantined(resources.db, binding.folder_id)
        if checkpoint is not None and item.uid_validity == checkpoint.uid_validity
    ]
    if checkpoint is None or not waiting:
        return None
    selected = await link.open_folder(binding.remote_path)
    if selected.uid_validity != checkpoint.uid_validity:
        return FolderOutcome(binding.alias, Outcome.SYNCHRONIZED, more_remains=True)
    state = FolderState(selected.exists, selected.uid_next, selected.uid_validity, selected.highest_modseq)
    account = mirrored_account(resources, binding.account_id)
    work = FolderWork(
        resources=resources,
        account=account,
        link=link,
        binding=binding,
        state=state,
        plan=plan_folder(checkpoint, state),
        checkpoint=checkpoint,
        meter=Meter(binding.account_id, None),
        budget=RunBudget(resources.bounds.max_content_bytes_per_run),
    )
    total = BatchOutcome()
    found = await fetch_metadata(link, [item.uid for item in waiting])
    for chunk in chunks(found, limit=resources.bounds.max_raw_mime_bytes):
        async with resources.in_flight.holding(chunk.octets):
            arrivals, faulty = await fetch_arrivals(work, chunk.messages, oversized=chunk.oversized)
            now = resources.now()
            outcome = await store_batch(
                resources.db, binding, uid_validity=checkpoint.uid_validity, arrivals=arrivals, now=now
            )
        sizes = {message.uid: message.size for message in (*chunk.messages, *chunk.oversized)}
        await quarantine_faulty(work, faulty, sizes, now)
        total += outcome + BatchOutcome(quarantined=tuple((Uid(uid), reason) for uid, reason in faulty.items()))
    settled = {uid for uid, _ in total.quarantined}
    stored = {message.uid for message in found} - settled
    gone = [item.uid for item in waiting if item.uid not in settled and item.uid not in stored]
    if gone:
        await release_quarantine(resources.db, binding.folder_id, uid_validity=checkpoint.uid_validity, uids=gone)
    return replace(
        FolderOutcome(binding.alias, Outcome.SYNCHRONIZED),
        arrivals=total,
        octets_fetched=work.octets_fetched,
        gone=len(gone),
    )
