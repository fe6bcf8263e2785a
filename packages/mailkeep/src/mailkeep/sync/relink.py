"""After a UIDVALIDITY change: recognize known mail by Message-ID and size, without fetching its content again.

Only where the pair is unmistakable, that is, one row and one message of the folder have it; everything else is fetched
and recognized by its digest (mailbox.store_prepared). UIDs are never compared with those of before (cases 1, 2, 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from uuid import UUID

from mailkeep.errors import CommandRefused
from mailkeep.imap import Identity, ReadOnlySession, UidSet
from mailkeep.mailbox import (
    AccountId,
    BatchOutcome,
    Flags,
    NewIdentity,
    Uid,
    filter_unknown,
    has_earlier_identities,
    relink,
    unmistakable_identities,
)
from mailkeep.sync.work import FolderWork
from mailkeep_message import read_headers

IDENTITIES_AT_ONCE = 1_000  # messages of one question

Key = tuple[str, int]


async def relink_known(work: FolderWork, hits: UidSet) -> UidSet:
    """Those of `hits` that have to be fetched. The others are linked to rows of the folder's earlier identity."""
    db, folder_id, validity = work.resources.db, work.binding.folder_id, work.uid_validity
    if not hits or not await has_earlier_identities(db, folder_id, uid_validity=validity):
        return hits
    known = await unmistakable_identities(db, folder_id, uid_validity=validity)
    unknown = UidSet.of(await filter_unknown(db, folder_id, uid_validity=validity, uids=[Uid(uid) for uid in hits]))
    if not known or not unknown:
        return unknown
    try:
        found = await _find(work, unknown, known)
    except CommandRefused:
        return unknown  # then all of it is fetched
    linked = [
        NewIdentity(known[key], Uid(one.uid), key[1], None if one.flags is None else Flags.from_imap(one.flags))
        for key, one in found.items()
        if one is not None
    ]
    await relink(
        db, AccountId(work.account.account_id), uid_validity=validity, identities=linked, now=work.resources.now()
    )
    work.arrivals += BatchOutcome(stored=len(linked), relinked=len(linked))
    work.meter.stored(work.binding.alias, messages=len(linked), octets=0)
    settled = UidSet.of(one.uid for one in linked)
    return UidSet.of(settled.absent(iter(unknown)))


async def _find(work: FolderWork, unknown: UidSet, known: Mapping[Key, UUID]) -> dict[Key, Identity | None]:
    """The message that has each known pair; None where several have it."""
    found: dict[Key, Identity | None] = {}
    for page in unknown.pages(IDENTITIES_AT_ONCE):
        answer = await work.link.call(partial(ReadOnlySession.fetch_identities, uids=UidSet.of(page)))
        for key, one in (await asyncio.to_thread(_keyed, answer, known)).items():
            found[key] = None if key in found else one
    return found


def _keyed(answer: Mapping[int, Identity], known: Mapping[Key, UUID]) -> dict[Key, Identity | None]:
    keyed: dict[Key, Identity | None] = {}
    for one in answer.values():
        message_id = read_headers(one.header).message_id
        if message_id is None or one.size is None:
            continue
        key = (message_id, one.size)
        if key in known:
            keyed[key] = None if key in keyed else one
    return keyed
