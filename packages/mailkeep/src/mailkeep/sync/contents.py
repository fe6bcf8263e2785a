"""Fetching content so that one bad message costs itself and nothing else.

A server may refuse a whole range for one message (case 26), answer without saying for which message (case 14), or
break the connection in the middle of it (case 44), or pass over a message in silence although the folder holds it. Each
time the set is halved until the one message stands alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from mailkeep.errors import CommandRefused, ContentUnavailable, IncompleteAnswer, MailServerUnavailable
from mailkeep.imap import (
    AskedToComeBack,
    ContentAnswer,
    LiteralAbandoned,
    Metadata,
    MetadataAnswer,
    ReadOnlySession,
    UidSet,
)
from mailkeep.mailbox import QuarantineReason
from mailkeep.sync.link import Link

ATTEMPTS_WHEN_BROKEN = 2  # of one set, each on a new connection, before the set is halved
MAX_FAULTS_IN_A_ROW = 20  # without one message between them: then it may be the server, not the messages


class Verdict(Enum):
    """Whose fault it is that a message did not come."""

    MESSAGE = "the server gives other messages"
    SERVER = "the server does not give other messages either"
    UNKNOWN = "there is no other message to tell by"


Judge = Callable[[Sequence[int], bool], Awaitable[Verdict]]
"""Asks for other messages to tell by: given UIDs not asked for yet, and whether a connection broke."""


@dataclass(slots=True)
class Contents:
    """What became of each UID asked for. A UID in none of these is gone from the server.

    `faulty` are at fault themselves. With `suspects` it could not be told; what lies beyond them was not asked for.
    """

    bodies: dict[int, bytes] = field(default_factory=dict)
    oversized: dict[int, int] = field(default_factory=dict)
    faulty: dict[int, QuarantineReason] = field(default_factory=dict)
    suspects: dict[int, QuarantineReason] = field(default_factory=dict)

    @property
    def given(self) -> int:
        """How many messages the server gave."""
        return len(self.bodies) + len(self.oversized)

    def unsettled(self, uids: UidSet) -> UidSet:
        settled: tuple[Mapping[int, object], ...] = (self.bodies, self.oversized, self.faulty, self.suspects)
        return UidSet.of(uid for uid in uids if not any(uid in among for among in settled))

    def blame(self) -> None:
        """The suspects are at fault themselves."""
        self.faulty.update(self.suspects)
        self.suspects.clear()


async def fetch_metadata(link: Link, uids: Iterable[int]) -> list[Metadata]:
    """The metadata of what is still there, by UID. What the server will not describe is unknown, not gone."""
    asked = UidSet.of(uids)
    try:
        answer = await link.call(lambda session: session.fetch_metadata(asked))
    except AskedToComeBack:
        raise
    except MailServerUnavailable:
        await link.ready()  # unreachable is another matter than breaking on this question
        return [Metadata(uid, None, None, None) for uid in asked]
    return await settle_metadata(link, asked, answer)


async def settle_metadata(link: Link, asked: UidSet, answer: MetadataAnswer) -> list[Metadata]:
    """What `fetch_metadata` gives for an answer that is here already."""
    left_out = UidSet.of(uid for uid in asked if uid not in answer.messages)
    is_doubtful = answer.refused or answer.unattributed > 0
    kept = left_out if is_doubtful else await _still_there(link, left_out)
    found = [
        answer.messages.get(uid) or Metadata(uid, None, None, None)
        for uid in asked
        if uid in answer.messages or uid in kept
    ]
    return await _with_flags(link, found)


async def _still_there(link: Link, left_out: UidSet) -> UidSet:
    """Those of an answer's gaps that the folder holds nevertheless: silence alone never makes a message gone."""
    if not left_out:
        return left_out
    try:
        return await link.call(lambda session: session.present(left_out))
    except CommandRefused:
        return left_out


async def _with_flags(link: Link, found: list[Metadata]) -> list[Metadata]:
    """Ask once more for flags that were left out: where flags come by mod-sequence nobody would ask for them again."""
    lacking = UidSet.of(message.uid for message in found if message.flags is None)
    if not lacking:
        return found
    try:
        flags = await link.call(lambda session: session.fetch_flags(lacking))
    except (CommandRefused, IncompleteAnswer):
        return found
    return [replace(message, flags=flags.get(message.uid, message.flags)) for message in found]


async def fetch_contents(
    link: Link, uids: Iterable[int], *, limit: int, headers_only: bool = False, judge: Judge | None = None
) -> Contents:
    """Whole messages, or their header sections.

    A message that does not come is at fault when another one comes after it; otherwise `judge` tells, without whom it
    is at fault unless too many are. Raises ContentUnavailable when the server is at fault.
    """
    contents = Contents()
    pending = [UidSet.of(uids)]
    broke = False
    while pending:
        asked = pending.pop()
        if not asked:
            continue
        before = contents.given
        failure = await _ask(link, asked, contents, limit=limit, headers_only=headers_only)
        if contents.given > before:
            contents.blame()
            broke = False
        if failure is None:
            continue
        left = contents.unsettled(asked)
        if len(asked) == 1 and left:
            contents.suspects[next(iter(asked))] = failure.reason
            broke |= failure.broke
            if len(contents.suspects) >= MAX_FAULTS_IN_A_ROW:
                others = [uid for part in pending for uid in part][:MAX_FAULTS_IN_A_ROW]
                await _settle_suspects(contents, judge, others, broke=True)
                if contents.suspects:
                    return contents
        else:
            members = list(left)
            middle = (len(members) + 1) // 2
            # The lower half is asked first, so that content keeps arriving in the order of UIDs.
            pending += [UidSet.of(members[middle:]), UidSet.of(members[:middle])]
    if contents.suspects:
        if judge is None or (contents.given and not broke):
            contents.blame()
        else:
            came = [*contents.bodies, *contents.oversized][:1]
            await _settle_suspects(contents, judge, came, broke=broke)
    return contents


async def _settle_suspects(contents: Contents, judge: Judge | None, others: Sequence[int], *, broke: bool) -> None:
    verdict = Verdict.SERVER if judge is None else await judge(others, broke)
    if verdict is Verdict.SERVER:
        raise ContentUnavailable("the mail server refuses one message after another")
    if verdict is Verdict.MESSAGE:
        contents.blame()


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why some of what was asked for did not come; `broke`: the connection did not survive the question."""

    reason: QuarantineReason
    broke: bool = False


async def _ask(link: Link, asked: UidSet, contents: Contents, *, limit: int, headers_only: bool) -> _Failure | None:
    """Ask once, or again on a new connection; why some of it is unsettled, None when nothing more can be learned."""
    broken = 0
    while broken < ATTEMPTS_WHEN_BROKEN:
        wanted = contents.unsettled(asked)
        if not wanted:
            return None
        await link.ready()
        question = ReadOnlySession.fetch_headers if headers_only else ReadOnlySession.fetch_bodies
        try:
            answer = await link.once(partial(question, uids=wanted, limit=limit))
        except AskedToComeBack:
            raise
        except LiteralAbandoned as error:
            uid = next(iter(wanted)) if error.uid is None and len(wanted) == 1 else error.uid
            if uid is None:
                return _Failure(QuarantineReason.FETCH_INCOMPLETE, broke=True)
            if uid in wanted:
                contents.oversized[uid] = error.size  # and ask for the rest
            else:
                broken += 1  # a message nobody asked for brings nothing nearer, and may come for ever
            continue
        except (MailServerUnavailable, IncompleteAnswer):
            broken += 1
            continue
        except CommandRefused:
            return _Failure(QuarantineReason.FETCH_REFUSED)
        reason = _settle(contents, wanted, answer)
        if reason is None and await _still_there(link, contents.unsettled(wanted)):
            reason = QuarantineReason.FETCH_INCOMPLETE  # NIL, nothing, or content under another UID
        return None if reason is None else _Failure(reason)
    return _Failure(QuarantineReason.FETCH_INCOMPLETE, broke=True)


def _settle(contents: Contents, wanted: UidSet, answer: ContentAnswer) -> QuarantineReason | None:
    contents.bodies.update(answer.bodies)
    contents.oversized.update(answer.oversized)
    if not contents.unsettled(wanted):
        return None
    if answer.refused:
        return QuarantineReason.FETCH_REFUSED
    return QuarantineReason.FETCH_INCOMPLETE if answer.unattributed else None
