"""Whose fault it is when a message does not come: its own, or the server's.

A message that the server does not give, although it gives others after it, is at fault and goes into quarantine. Where
none came after it, other mail is asked for as a witness: what is stored already, what came before, or what comes next.
A server that gives none of it is at fault, and the folder waits for it, however long. Where there is no witness,
attempts are counted in the checkpoint, so that a message which is all a folder has cannot hold it for ever either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice

from mailkeep.errors import CommandRefused, ContentUnavailable, IncompleteAnswer, MailServerUnavailable
from mailkeep.imap import AskedToComeBack, LiteralAbandoned, UidSet
from mailkeep.mailbox import QuarantineReason, Uid, count_blocked_attempt, recent_uids
from mailkeep.sync.contents import Verdict
from mailkeep.sync.work import FolderWork

MAX_BLOCKED_ATTEMPTS = 3  # of a message without witnesses, one in each run
WITNESSES = 3
MAX_WITNESS_OCTETS = 1024 * 1024


async def judge(work: FolderWork, following: Iterable[int], others: Sequence[int], broke: bool) -> Verdict:
    """Ask for stored mail, or for `others` and what is `following`, and see whether the server gives any of it.

    Where a connection `broke`, an orderly answer is enough: then it was the message that broke it.
    """
    known = await recent_uids(
        work.resources.db,
        work.binding.folder_id,
        uid_validity=work.uid_validity,
        max_octets=MAX_WITNESS_OCTETS,
        limit=WITNESSES,
    )
    verdict = Verdict.UNKNOWN
    for uid in known or islice(chain(others, following), WITNESSES):  # one by one: a witness may be poisonous itself
        match await _ask(work, uid, broke=broke):
            case Verdict.MESSAGE:
                return Verdict.MESSAGE
            case Verdict.SERVER:
                verdict = Verdict.SERVER
            case Verdict.UNKNOWN:
                pass
    return verdict


async def _ask(work: FolderWork, uid: int, *, broke: bool) -> Verdict:
    await work.link.ready()
    try:
        answer = await work.link.once(lambda session: session.fetch_bodies(UidSet.of([uid]), limit=MAX_WITNESS_OCTETS))
    except AskedToComeBack:
        raise
    except LiteralAbandoned:
        return Verdict.MESSAGE
    except (CommandRefused, IncompleteAnswer):
        return Verdict.MESSAGE if broke else Verdict.SERVER
    except MailServerUnavailable:
        return Verdict.SERVER
    if broke or answer.bodies or answer.oversized:
        return Verdict.MESSAGE
    return Verdict.SERVER if answer.refused else Verdict.UNKNOWN


async def after_attempts(work: FolderWork, suspects: Mapping[int, QuarantineReason]) -> dict[int, QuarantineReason]:
    """Of messages that nothing can be told of: the first one once it had its attempts, else none.

    Where others are left, `work.blocked` says that the run ends in front of them.
    """
    if not suspects:
        return {}
    uid = min(suspects)
    attempts = await count_blocked_attempt(
        work.resources.db, work.binding.folder_id, uid_validity=work.uid_validity, uid=Uid(uid)
    )
    at_fault = {uid: suspects[uid]} if attempts >= MAX_BLOCKED_ATTEMPTS else {}
    if len(at_fault) < len(suspects):
        work.blocked = ContentUnavailable("the mail server gives the content of no message of this folder")
    return at_fault
