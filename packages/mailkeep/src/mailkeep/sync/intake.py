"""From described messages to arrivals: which this run can afford, for which there is room, and fetching them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mailkeep.imap import Metadata
from mailkeep.mailbox import Arrival, BatchOutcome, ContentAvailability, Flags, QuarantineReason, Uid, quarantine
from mailkeep.sync.contents import Judge, fetch_contents
from mailkeep.sync.volume import assumed_size
from mailkeep.sync.work import FolderWork

MAX_HEADER_OCTETS = 1024 * 1024  # of a message that is too large to fetch; a longer header is not kept


@dataclass(slots=True)
class Room:
    """Storage claimed for messages before they are fetched: `claimed` octets for `within`, none for `beyond`."""

    claimed: int = 0
    within: list[Metadata] = field(default_factory=list)
    beyond: list[Metadata] = field(default_factory=list)


def within_budget(work: FolderWork, found: Sequence[Metadata]) -> Sequence[Metadata]:
    """The messages from the front whose assumed cost this run can still bear; oversized ones cost nothing (SYNC-60)."""
    limit = work.resources.bounds.max_raw_mime_bytes
    for position, message in enumerate(found):
        is_oversized = message.size is not None and message.size > limit
        if not is_oversized and not work.budget.spend(assumed_size(message, limit)):
            return found[:position]
    return found


def claim_room(work: FolderWork, messages: Sequence[Metadata]) -> Room:
    """Claim storage for each message (SYNC-65). What finds no room gives back what it took of the run's budget."""
    room = Room()
    for message in messages:
        cost = assumed_size(message, work.resources.bounds.max_raw_mime_bytes)
        if work.resources.ceiling.claim(cost):
            room.claimed += cost
            room.within.append(message)
        else:
            work.budget.give_back(cost)
            room.beyond.append(message)
    return room


@dataclass(frozen=True, slots=True)
class Intake:
    """Arrivals in UID order, and the messages that could not be fetched. Gone messages are in neither (SYNC-67).

    With `suspects` nobody could tell whose fault it is; what lies beyond them was not asked for.
    """

    arrivals: tuple[Arrival, ...]
    faulty: dict[int, QuarantineReason]
    suspects: dict[int, QuarantineReason]


async def fetch_arrivals(
    work: FolderWork, room: Room, *, oversized: Iterable[Metadata] = (), judge: Judge | None = None
) -> Intake:
    """Fetch what there is room for whole, the rest and the `oversized` by their headers.

    `judge` tells whose fault it is when messages do not come. Raises ContentUnavailable when it is the server's.
    """
    limit = work.resources.bounds.max_raw_mime_bytes
    by_uid = {message.uid: message for message in room.within}
    contents = await fetch_contents(work.link, by_uid, limit=limit, judge=judge)
    spared = sum(
        assumed_size(message, limit) - len(contents.bodies.get(uid, b""))
        for uid, message in by_uid.items()
        if uid not in contents.oversized
    )
    work.budget.give_back(spared)
    arrivals = [_whole_arrival(by_uid[uid], octets) for uid, octets in contents.bodies.items()]
    work.octets_fetched += sum(map(len, contents.bodies.values()))

    oversized = list(oversized)
    reasons = {message.uid: ContentAvailability.EXCEEDED_SIZE_LIMIT for message in oversized}
    by_uid.update({message.uid: message for message in (*oversized, *room.beyond)})
    for uid, size in contents.oversized.items():
        # The server understated it: what it really sent is what people should read.
        reasons[uid] = ContentAvailability.EXCEEDED_SIZE_LIMIT
        by_uid[uid] = replace(by_uid[uid], size=size)
    reasons.update({message.uid: ContentAvailability.AWAITING_STORAGE_HEADROOM for message in room.beyond})
    faulty = dict(contents.faulty)
    if reasons:
        headers = await fetch_contents(work.link, reasons, limit=MAX_HEADER_OCTETS, headers_only=True)
        faulty.update(headers.faulty)
        for uid, availability in reasons.items():
            if uid in headers.bodies or uid in headers.oversized:
                arrivals.append(_header_arrival(by_uid[uid], headers.bodies.get(uid, b""), availability))
                work.octets_fetched += len(headers.bodies.get(uid, b""))
    return Intake(tuple(sorted(arrivals, key=lambda arrival: arrival.uid)), faulty, contents.suspects)


def _whole_arrival(message: Metadata, octets: bytes) -> Arrival:
    return Arrival(
        uid=Uid(message.uid),
        size_octets=message.size or len(octets),
        internaldate=message.internaldate,
        flags=None if message.flags is None else Flags.from_imap(message.flags),
        octets=octets,
        gmail_message_id=message.gmail_message_id,
        gmail_thread_id=message.gmail_thread_id,
    )


def _header_arrival(message: Metadata, header: bytes, availability: ContentAvailability) -> Arrival:
    return Arrival(
        uid=Uid(message.uid),
        size_octets=message.size or 0,
        internaldate=message.internaldate,
        flags=None if message.flags is None else Flags.from_imap(message.flags),
        octets=None,
        header_octets=header,
        gmail_message_id=message.gmail_message_id,
        gmail_thread_id=message.gmail_thread_id,
        availability=availability,
    )


async def quarantine_faulty(
    work: FolderWork, faulty: Mapping[int, QuarantineReason], sizes: Mapping[int, int | None]
) -> BatchOutcome:
    """Name the messages that could not be fetched; they are counted with what is stored."""
    for uid, reason in faulty.items():
        await quarantine(
            work.resources.db,
            work.binding.folder_id,
            uid_validity=work.uid_validity,
            uid=Uid(uid),
            reason=reason,
            detail=None,
            size_octets=sizes.get(uid),
            now=work.resources.now(),
        )
    return BatchOutcome(quarantined=tuple((Uid(uid), reason) for uid, reason in faulty.items()))
