"""The proof of completeness: the server's UIDs of each folder against what is stored, quarantined or skipped.

An operator's act. It asks the server which messages a folder holds, fetches nothing, and names every UID that is held
on one side only. With `fill` the holes are fetched through the ordinary arrival path and the folder is compared again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mailkeep.config import AccountSettings
from mailkeep.errors import ConfigurationRefused, MailkeepError
from mailkeep.imap import Listing, ReadOnlySession, Selected, UidSet
from mailkeep.mailbox import (
    AccountId,
    Checkpoint,
    ContentAvailability,
    FolderBinding,
    ProofCounts,
    SpecialUse,
    Uid,
    UidValidity,
    bind_folder,
    buried_uids,
    folder_bindings,
    header_only_uids,
    load_checkpoint,
    local_uids,
    quarantined,
    record_proof,
    unbury,
)
from mailkeep.sync.folders import Target, resolve_folders
from mailkeep.sync.intake import quarantine_faulty
from mailkeep.sync.link import Link
from mailkeep.sync.placements import join_placements
from mailkeep.sync.plan import fresh_checkpoint
from mailkeep.sync.queries import account_lease
from mailkeep.sync.refetch import refetch
from mailkeep.sync.resources import Resources
from mailkeep.sync.run import account_link, mirrored_account
from mailkeep.sync.work import errand, state_of

WITHOUT_BOUND = 1 << 62  # octets: filling a hole is what was asked for


@dataclass(frozen=True, slots=True)
class FolderProof:
    """One folder compared. `holes` and `surplus` are sequence sets as IMAP writes them, empty for none.

    Holes are on the server and in none of stored, skipped and quarantined. `not_reached` of them lie beyond the
    checkpoint, where the next run looks by itself; `hidden` of them are stored and taken for gone. Surplus is held as
    if it were on the server, and is not.
    """

    alias: str
    proved_at: datetime
    counts: ProofCounts
    skipped_by_reason: dict[str, int]
    holes: str
    surplus: str
    not_reached: int
    hidden: int


@dataclass(frozen=True, slots=True)
class UnprovenFolder:
    """A folder that could not be compared: `outcome` as a run would report it, `code` of the error if there was one."""

    alias: str
    outcome: str
    code: int | None = None


@dataclass(frozen=True, slots=True)
class AccountProof:
    """Every mirrored folder of an account, compared or not."""

    account_id: str
    folders: tuple[FolderProof, ...]
    unproven: tuple[UnprovenFolder, ...]

    @property
    def is_complete(self) -> bool:
        return not self.unproven and not any(folder.counts.holes for folder in self.folders)


@dataclass(frozen=True, slots=True)
class Held:
    """What the store holds of a folder under one UIDVALIDITY. `visible` includes what is here by its header only."""

    visible: UidSet
    header_only: Mapping[Uid, ContentAvailability]
    quarantined: UidSet
    buried: UidSet


@dataclass(frozen=True, slots=True)
class Difference:
    """The comparison of two sets of UIDs; see FolderProof."""

    holes: UidSet
    surplus: UidSet
    excluded_by_date: int


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder open on the server; `binding` is None for one that no run has met yet."""

    resources: Resources
    account: AccountSettings
    link: Link
    target: Target
    binding: FolderBinding | None
    checkpoint: Checkpoint | None
    selected: Selected

    @property
    def uid_validity(self) -> UidValidity:
        return UidValidity(self.selected.uid_validity)


def compare(remote: UidSet, since: UidSet, held: Held) -> Difference:
    """Pure. `since` are those of `remote` that the account's earliest date leaves in; all of them without one."""
    missing = held.quarantined.absent(held.visible.absent(remote))
    excluded = UidSet.of(since.absent(missing))
    return Difference(
        holes=UidSet.of(uid for uid in missing if uid not in excluded),
        surplus=UidSet.of((*remote.absent(held.visible), *remote.absent(held.quarantined))),
        excluded_by_date=len(excluded),
    )


async def verify_account(
    resources: Resources, account_id: str, *, alias: str | None = None, fill: bool = False
) -> AccountProof:
    """Compare every mirrored folder of an account, or the one of this alias, and keep the result for status.

    Raises AccountHeldElsewhere while the account is being synchronized, ConfigurationRefused for an alias that is not
    mirrored, and what stops a whole account.
    """
    account = mirrored_account(resources, account_id)
    async with account_lease(resources.db, account_id):
        link = account_link(resources, account)
        try:
            return await _verify(resources, account, link, alias=alias, fill=fill)
        finally:
            await link.close()


async def _verify(
    resources: Resources, account: AccountSettings, link: Link, *, alias: str | None, fill: bool
) -> AccountProof:
    listing, folders_are_labels = await link.call(_list)
    known = {one.alias: one for one in await folder_bindings(resources.db, AccountId(account.account_id))}
    resolution = resolve_folders(
        account.folders,
        listing.folders,
        bound={name: binding.remote_path for name, binding in known.items()},
        folders_are_labels=folders_are_labels,
    )
    targets = [target for target in resolution.targets if alias in (None, target.alias)]
    unproven = [UnprovenFolder(name, outcome.value) for name, outcome in resolution.unresolved if alias in (None, name)]
    if alias is not None and not targets and not unproven:
        raise ConfigurationRefused("there is no mirrored folder of that alias; see: mailkeep status")
    await resources.measure_storage()
    proofs: list[FolderProof] = []
    for target in targets:
        try:
            folder = await _open(resources, account, link, target, known.get(target.alias))
            proofs.append(await _prove(folder, fill=fill))
        except MailkeepError as error:
            if link.failure is not None:
                raise
            unproven.append(UnprovenFolder(target.alias, "UnexpectedFailure", error.code))
    return AccountProof(account.account_id, tuple(proofs), tuple(unproven))


async def _list(session: ReadOnlySession) -> tuple[Listing, bool]:
    return await session.list_folders(), session.offers("X-GM-EXT-1")


async def _open(
    resources: Resources, account: AccountSettings, link: Link, target: Target, known: FolderBinding | None
) -> _Folder:
    selected = await link.open_folder(target.folder.path)
    binding = known if known is not None and known.remote_path == target.folder.path else None
    checkpoint = None if binding is None else await load_checkpoint(resources.db, binding.folder_id)
    if checkpoint is not None and checkpoint.uid_validity != selected.uid_validity:
        checkpoint = None  # of another folder that had this name
    return _Folder(resources, account, link, target, binding, checkpoint, selected)


async def _prove(folder: _Folder, *, fill: bool) -> FolderProof:
    remote, held, difference = await _compare(folder)
    filled = 0
    if fill and difference.holes:
        before = held
        folder = await _bound(folder)
        await _fill(folder, difference.holes, held)
        remote, held, difference = await _compare(folder)
        filled = len(before.visible.absent(held.visible))
    proved_at = folder.resources.now()
    skipped = [reason for uid, reason in held.header_only.items() if uid in remote]
    counts = ProofCounts(
        server=len(remote),
        stored=sum(uid in remote for uid in held.visible) - len(skipped),
        skipped=len(skipped),
        excluded_by_date=difference.excluded_by_date,
        quarantined=sum(uid in remote for uid in held.visible.absent(held.quarantined)),
        holes=len(difference.holes),
        surplus=len(difference.surplus),
        filled=filled,
    )
    if folder.binding is not None:
        await record_proof(
            folder.resources.db,
            folder.binding.folder_id,
            uid_validity=folder.uid_validity,
            counts=counts,
            proved_at=proved_at,
        )
    return _proof(folder, held, difference, counts, skipped, proved_at)


def _proof(
    folder: _Folder,
    held: Held,
    difference: Difference,
    counts: ProofCounts,
    reasons: Sequence[ContentAvailability],
    proved_at: datetime,
) -> FolderProof:
    skipped = {reason.value: reasons.count(reason) for reason in dict.fromkeys(reasons)}
    if difference.excluded_by_date:
        skipped["BeforeEarliestDate"] = difference.excluded_by_date
    reached = 0 if folder.checkpoint is None else folder.checkpoint.last_seen_uid or 0
    return FolderProof(
        alias=folder.target.alias,
        proved_at=proved_at,
        counts=counts,
        skipped_by_reason=skipped,
        holes=_spelled(difference.holes),
        surplus=_spelled(difference.surplus),
        not_reached=sum(uid > reached for uid in difference.holes),
        hidden=sum(uid in held.buried for uid in difference.holes),
    )


def _spelled(uids: UidSet) -> str:
    return uids.wire().decode("ascii") if uids else ""


async def _compare(folder: _Folder) -> tuple[UidSet, Held, Difference]:
    """The server is asked first: what is stored meanwhile can then only be surplus of a moment, never a hidden hole."""
    link, earliest = folder.link, folder.account.earliest_email_received_date
    remote = await link.call(lambda session: session.search(1, None))
    since = remote if earliest is None else await link.call(lambda s: s.search(1, None, since=earliest))
    held = await _held(folder)
    return remote, held, compare(remote, since, held)


async def _held(folder: _Folder) -> Held:
    if folder.binding is None:
        return Held(UidSet(), {}, UidSet(), UidSet())
    db, folder_id, uid_validity = folder.resources.db, folder.binding.folder_id, folder.uid_validity
    return Held(
        visible=UidSet.of(await local_uids(db, folder_id, uid_validity=uid_validity)),
        header_only=await header_only_uids(db, folder_id, uid_validity=uid_validity),
        quarantined=UidSet.of(one.uid for one in await quarantined(db, folder_id) if one.uid_validity == uid_validity),
        buried=UidSet.of(await buried_uids(db, folder_id, uid_validity=uid_validity)),
    )


async def _bound(folder: _Folder) -> _Folder:
    """The folder with a binding to store under, as a run would make it."""
    if folder.binding is not None:
        return folder
    target = folder.target
    binding = await bind_folder(
        folder.resources.db,
        AccountId(folder.account.account_id),
        alias=target.alias,
        remote_path=target.folder.path,
        hierarchy_delimiter=target.folder.delimiter,
        special_use=None if target.role is None else SpecialUse(target.role.value),
    )
    return _Folder(folder.resources, folder.account, folder.link, target, binding, None, folder.selected)


async def _fill(folder: _Folder, holes: UidSet, held: Held) -> None:
    """Show what was hidden, fetch what was never here. The checkpoint stays where it is."""
    assert folder.binding is not None
    resources, selected = folder.resources, folder.selected
    hidden = [Uid(uid) for uid in holes if uid in held.buried]
    if hidden:
        await unbury(resources.db, folder.binding.folder_id, uid_validity=folder.uid_validity, uids=hidden)
    work = errand(
        resources,
        folder.account,
        folder.link,
        folder.binding,
        selected,
        checkpoint=folder.checkpoint or fresh_checkpoint(state_of(selected)),
        octets=WITHOUT_BOUND,
    )
    wanting = UidSet.of(uid for uid in holes if uid not in held.buried)
    result = await refetch(work, list(await join_placements(work, wanting)))
    await quarantine_faulty(work, result.faulty, {})
