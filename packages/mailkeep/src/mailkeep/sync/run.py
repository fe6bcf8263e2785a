"""One account's run: connect, discover, decide folder by folder whether anything can have changed, and do the work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mailkeep.config import AccountKind, AccountSettings
from mailkeep.errors import ConcurrencyConflict, ConfigurationRefused
from mailkeep.imap import FolderState, Listing, ReadOnlySession
from mailkeep.mailbox import (
    AccountId,
    Disposition,
    FolderBinding,
    SpecialUse,
    bind_folder,
    folder_bindings,
    folders_awaiting_content,
    folders_to_mend,
    load_checkpoint,
    load_checkpoints,
    recommit_checkpoints,
)
from mailkeep.mutations.placements import expectations, release_waiting
from mailkeep.sync.changes import carry_out_changes, tidy_changes
from mailkeep.sync.folder_run import FolderTurn, run_folder
from mailkeep.sync.folders import Target, names_too_long, resolve_folders
from mailkeep.sync.link import Link
from mailkeep.sync.model import AccountOutcome, FolderOutcome, LimitReached, Outcome, Progress
from mailkeep.sync.plan import is_proven_unchanged
from mailkeep.sync.progress import Meter
from mailkeep.sync.queries import account_lease
from mailkeep.sync.refill import has_room_for
from mailkeep.sync.resources import Resources

log = logging.getLogger(__name__)


async def run_account(
    resources: Resources,
    account_id: str,
    *,
    progress: Callable[[Progress], None] | None = None,
    until_complete: bool = False,
) -> AccountOutcome:
    """One run of one account; with `until_complete` as many rounds over its folders as there is more to fetch.

    Folder failures are in the outcome. What stops the whole account is raised: AccountHeldElsewhere, a rejected login,
    a server that cannot be reached, a discovery that fails. Cancelling closes the connection; everything stored and
    every checkpoint stays, and the next run continues at the next message.
    """
    account = mirrored_account(resources, account_id)
    async with account_lease(resources.db, account_id):
        changes = await carry_out_changes(resources, account)
        await tidy_changes(resources, account)
        run = _AccountRun(resources, account, Meter(account_id, progress))
        try:
            outcome = await run.rounds(until_complete=until_complete)
        finally:
            await run.close()
        return replace(outcome, failure_code=outcome.failure_code or changes.failure_code)


@dataclass(frozen=True, slots=True)
class _Discovery:
    """What the server has, and what we remember of it."""

    listing: Listing
    turns: tuple[FolderTurn, ...]
    settled: tuple[FolderOutcome, ...]
    resolved: tuple[FolderBinding, ...]


class _AccountRun:
    """The connections and the counts of one run."""

    def __init__(self, resources: Resources, account: AccountSettings, meter: Meter) -> None:
        self._resources = resources
        self._account = account
        self._meter = meter
        self._links = [self._new_link()]

    async def rounds(self, *, until_complete: bool) -> AccountOutcome:
        started_at = self._resources.now()
        discovery = await self._discover()
        waiting = list(discovery.turns)
        done: dict[str, FolderOutcome] = {outcome.alias: outcome for outcome in discovery.settled}
        while waiting:
            for turn, outcome in await self._round(waiting):
                done[turn.binding.alias] = _together(done.get(turn.binding.alias), outcome)
            if not until_complete or self._resources.stopping.is_set():
                break
            waiting = [
                await self._next_turn(turn)
                for turn in waiting
                if done[turn.binding.alias].more_remains and not done[turn.binding.alias].outcome.is_failure
            ]
        return AccountOutcome(
            account_id=self._account.account_id,
            folders=tuple(done.values()),
            started_at=started_at,
            finished_at=self._resources.now(),
            commands_sent=sum(link.commands_sent for link in self._links),
            octets_received=sum(link.octets_received for link in self._links),
            unreadable_folder_lines=discovery.listing.unreadable + names_too_long(discovery.listing.folders),
            resolved=discovery.resolved,
        )

    async def close(self) -> None:
        for link in self._links:
            await link.close()

    async def _discover(self) -> _Discovery:
        """LIST, the folders' states and our checkpoints; outcomes for every folder that needs no turn."""
        link, db = self._links[0], self._resources.db
        listing, folders_are_labels = await link.call(_list)
        known = {binding.alias: binding for binding in await folder_bindings(db, AccountId(self._account.account_id))}
        resolution = resolve_folders(
            self._account.folders,
            listing.folders,
            bound={alias: binding.remote_path for alias, binding in known.items()},
            folders_are_labels=folders_are_labels,
        )
        bindings = [await self._bind(target, known.get(target.alias)) for target in resolution.targets]
        states = dict(listing.states)
        unasked = [binding.remote_path for binding in bindings if binding.remote_path not in states]
        if unasked:
            states.update(await link.call(lambda session: session.status_all(unasked)))
        await self._resources.measure_storage()
        settled = [FolderOutcome(alias, outcome) for alias, outcome in resolution.unresolved]
        idle, turns = await self._sort(bindings, states)
        settled += await self._recommit(idle)
        self._meter.expect(folders=len(bindings), messages=_expected_messages(turns))
        for outcome in settled:
            self._meter.folder_done(outcome.alias)
        return _Discovery(listing, tuple(turns), tuple(settled), tuple(bindings))

    async def _sort(
        self, bindings: Sequence[FolderBinding], states: Mapping[str, FolderState]
    ) -> tuple[list[FolderTurn], list[FolderTurn]]:
        """The folders in which nothing can have changed and nothing waits, and those that need a turn."""
        resources, account_id = self._resources, AccountId(self._account.account_id)
        checkpoints = await load_checkpoints(resources.db, account_id)
        awaiting = await folders_awaiting_content(resources.db, account_id)
        to_mend = await folders_to_mend(resources.db, account_id)
        expected = await self._expected()
        idle: list[FolderTurn] = []
        busy: list[FolderTurn] = []
        for binding in bindings:
            turn = FolderTurn(binding, checkpoints.get(binding.folder_id), states.get(binding.remote_path))
            can_refill = binding.folder_id in awaiting and has_room_for(resources, awaiting[binding.folder_id])
            has_work = can_refill or binding.folder_id in to_mend or binding.remote_path in expected
            is_idle = is_proven_unchanged(turn.checkpoint, turn.status) and not has_work
            (idle if is_idle else busy).append(turn)
        return idle, busy

    async def _expected(self) -> frozenset[str]:
        """The paths of folders into which we moved or copied what was not met there yet (MUT-44)."""
        db, account_id = self._resources.db, AccountId(self._account.account_id)
        expected = await expectations(db, account_id)
        if expected.waits_in_vain:
            disposition = Disposition(self._account.remotely_deleted_email_disposition.value)
            await release_waiting(db, account_id, disposition=disposition, now=self._resources.now())
        return expected.paths

    async def _bind(self, target: Target, known: FolderBinding | None) -> FolderBinding:
        """The binding of an alias, committed before anything is stored under it (SYNC-18, SYNC-19, SYNC-21)."""
        if (
            known is not None
            and known.remote_path == target.folder.path
            and (known.special_use is None) == (target.role is None)
            and (known.special_use is None or target.role is None or known.special_use.value == target.role.value)
        ):
            return known
        return await _bind_target(self._resources, self._account, target, known)

    async def _recommit(self, idle: Sequence[FolderTurn]) -> list[FolderOutcome]:
        """Idle folders commit their places again, so that the freshness which readers see moves (SYNC-53)."""
        unchanged = {turn.binding.folder_id: turn.checkpoint for turn in idle if turn.checkpoint is not None}
        recommitted = await recommit_checkpoints(self._resources.db, unchanged, now=self._resources.now())
        return [
            FolderOutcome(turn.binding.alias, Outcome.SYNCHRONIZED, was_proven_unchanged=True)
            if turn.binding.folder_id in recommitted
            else FolderOutcome(
                turn.binding.alias,
                Outcome.DEFERRED_AFTER_CONCURRENCY_CONFLICT,
                failure_code=ConcurrencyConflict.code,
            )
            for turn in idle
        ]

    async def _round(self, turns: Sequence[FolderTurn]) -> list[tuple[FolderTurn, FolderOutcome]]:
        """Every folder's turn, at most so many at once, each worker on a connection of its own (SYNC-7)."""
        width = min(self._resources.bounds.max_concurrent_folders_per_account, len(turns), self._most_links())
        while len(self._links) < width:
            self._links.append(self._new_link())
        queue = list(reversed(turns))
        outcomes: list[tuple[FolderTurn, FolderOutcome]] = []

        async def work(link: Link) -> None:
            while queue:
                turn = queue.pop()
                if self._resources.stopping.is_set():
                    outcome = FolderOutcome(turn.binding.alias, Outcome.INTERRUPTED_BY_SHUTDOWN, more_remains=True)
                else:
                    outcome = await run_folder(self._resources, self._account, link, turn, self._meter)
                outcomes.append((turn, outcome))

        async with asyncio.TaskGroup() as group:
            for link in self._links[:width]:
                group.create_task(work(link))
        return outcomes

    def _most_links(self) -> int:
        """How many connections may work at once: more would only be rejected."""
        patience = self._resources.access.pipelines.settings
        return min(
            self._resources.access.gates.of(self._account).capacity,
            patience.mailbox_session_establishment.concurrency_limit,
            patience.mailbox_data_retrieval.concurrency_limit,
        )

    async def _next_turn(self, turn: FolderTurn) -> FolderTurn:
        return replace(turn, checkpoint=await load_checkpoint(self._resources.db, turn.binding.folder_id), status=None)

    def _new_link(self) -> Link:
        return account_link(self._resources, self._account)


def mirrored_account(resources: Resources, account_id: str) -> AccountSettings:
    """The account's settings. Raises ConfigurationRefused for an unknown account and for one filled by imports."""
    account = resources.settings.account(account_id)
    if account is None or account.kind is not AccountKind.IMAP:
        raise ConfigurationRefused("there is no account of that id that is mirrored from a server")
    return account


def account_link(resources: Resources, account: AccountSettings) -> Link:
    """A link that resolves the account's credentials anew whenever it connects."""
    access, ring = resources.access, resources.settings.data_encryption
    return Link(
        partial(access.session, account, ring), gate=access.gates.of(account), pipeline=access.retrieval(account)
    )


async def _list(session: ReadOnlySession) -> tuple[Listing, bool]:
    return await session.list_folders(with_states=True), session.offers("X-GM-EXT-1")


async def _bind_target(
    resources: Resources, account: AccountSettings, target: Target, known: FolderBinding | None
) -> FolderBinding:
    binding = await bind_folder(
        resources.db,
        AccountId(account.account_id),
        alias=target.alias,
        remote_path=target.folder.path,
        hierarchy_delimiter=target.folder.delimiter,
        special_use=None if target.role is None else SpecialUse(target.role.value),
    )
    fields = {"account_id": account.account_id, "folder": binding.alias, "generation": binding.generation}
    if known is None:
        log.info("folder bound", extra={**fields, "remote_path": binding.remote_path})
    elif known.remote_path != binding.remote_path:
        log.warning("folder repointed", extra={**fields, "remote_path": binding.remote_path})
    return binding


def _expected_messages(turns: Sequence[FolderTurn]) -> int | None:
    """How many messages the server holds beyond the checkpoints, as far as its counts tell; for the progress bar."""
    total = 0
    for turn in turns:
        if turn.status is None or turn.status.messages is None:
            return None
        if turn.checkpoint is None or turn.checkpoint.last_seen_uid is None:
            total += turn.status.messages
        elif turn.status.uid_next is not None:
            total += min(max(turn.status.uid_next - 1 - turn.checkpoint.last_seen_uid, 0), turn.status.messages)
    return total


def _together(earlier: FolderOutcome | None, later: FolderOutcome) -> FolderOutcome:
    """Two rounds of one folder as one outcome."""
    if earlier is None:
        return later
    return replace(
        later,
        arrivals=earlier.arrivals + later.arrivals,
        octets_fetched=earlier.octets_fetched + later.octets_fetched,
        flags_changed=earlier.flags_changed + later.flags_changed,
        gone=earlier.gone + later.gone,
        refilled=earlier.refilled + later.refilled,
        repaired=earlier.repaired + later.repaired,
        recognized=earlier.recognized + later.recognized,
        # A bound of one round is no news once later rounds went on; what the ceiling kept out still waits.
        limits_reached=later.limits_reached | (earlier.limits_reached & {LimitReached.STORED_CONTENT_BYTES}),
    )
