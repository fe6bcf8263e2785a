"""What a face may ask for and what it is told: an act over messages, what it came to, and what it would come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from mailkeep.errors import MailChangeImpossible, MailChangeInvalid, ReaderError
from mailkeep.mutations.model import MAX_KEYWORDS, Mutation, MutationRecord

MAX_MESSAGES: Final = 10_000
"""Of one act."""
MAX_MESSAGES_OF_TOOL: Final = 500
"""Of one call of a tool (MUT-B7)."""
MAX_OUTSTANDING_OF_TOOLS: Final = 2_000
"""Unfinished changes of one account; a tool's call that would pass them is refused (MUT-B7)."""
MAX_OUTSTANDING: Final = 50_000
"""The same for people: a queue has a bound."""
SHOWN_IDS: Final = 5
"""Messages that a preview names of each group."""


class Caller(StrEnum):
    """Who asks. People at the command line need no permission; tools need the account's (`tool_changes`)."""

    PERSON = "person"
    TOOL = "tool"


class KeywordChange(StrEnum):
    """What becomes of a message's keywords."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Mark:
    """Flags and keywords; None leaves as it is. `set_keywords` empty clears all of them."""

    seen: bool | None = None
    flagged: bool | None = None
    set_keywords: tuple[str, ...] | None = None
    remove_keywords: tuple[str, ...] | None = None
    add_keywords: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """Into the folder of that alias, or of that role as `role:<Role>`, of the message's own account."""

    to: str


@dataclass(frozen=True, slots=True)
class Archive:
    """Into the folder of role Archive; where the account has none, into that of role All, as Gmail archives."""


@dataclass(frozen=True, slots=True)
class Trash:
    """Into the folder of role Trash."""


@dataclass(frozen=True, slots=True)
class Copy:
    """As Move, and the message stays."""

    to: str


@dataclass(frozen=True, slots=True)
class Delete:
    """From the server, for good."""


Act = Mark | Move | Archive | Trash | Copy | Delete


def mark_of(
    *, seen: bool | None, flagged: bool | None, change: KeywordChange | None, keywords: Sequence[str] | None
) -> Mark:
    """A mark with its keywords named in a pair (MUT-58). Raises MailChangeInvalid for half a pair and for nothing."""
    if (change is None) != (keywords is None):
        raise MailChangeInvalid("keyword_change and keywords go together")
    if change is None and seen is None and flagged is None:
        raise MailChangeInvalid("name at least one change: seen, flagged or keyword_change")
    given = tuple(keywords or ())
    return Mark(
        seen=seen,
        flagged=flagged,
        set_keywords=given if change is KeywordChange.REPLACE else None,
        remove_keywords=given if change is KeywordChange.REMOVE else None,
        add_keywords=given if change is KeywordChange.ADD else None,
    )


def already_leaving() -> MailChangeImpossible:
    """What one message alone is answered that is on its way out of its folder."""
    return MailChangeImpossible("an unfinished change takes the email elsewhere; wait until it is done, or undo it")


def checked_mark(mark: Mark) -> Mark:
    """The mark with its keywords named once each. Raises MailChangeInvalid for too many, counted as they were sent."""
    lists = (mark.set_keywords, mark.remove_keywords, mark.add_keywords)
    if mark.seen is None and mark.flagged is None and all(one is None for one in lists):
        raise MailChangeInvalid("name at least one change")
    if any(one is not None and len(one) > MAX_KEYWORDS for one in lists):
        raise MailChangeInvalid(f"at most {MAX_KEYWORDS} keywords are changed at once")
    if mark.set_keywords is not None and (mark.remove_keywords is not None or mark.add_keywords is not None):
        raise MailChangeInvalid("setting all keywords leaves none to add or remove beside it")
    removed, added, all_of_them = (_once(one) for one in (mark.remove_keywords, mark.add_keywords, mark.set_keywords))
    if {one.casefold() for one in removed or ()} & {one.casefold() for one in added or ()}:
        raise MailChangeInvalid("a keyword is to be both added and removed")
    return Mark(mark.seen, mark.flagged, all_of_them, removed, added)


def _once(keywords: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if keywords is None:
        return None
    spelled: dict[str, str] = {}
    for keyword in keywords:
        spelled.setdefault(keyword.casefold(), keyword)
    return tuple(spelled.values())


@dataclass(frozen=True, slots=True)
class Wish:
    """One act over messages, named by their ids as text. One `request_id` asks once, however often it is sent."""

    stored_email_ids: Sequence[str]
    act: Act
    request_id: str | None = None
    caller: Caller = Caller.PERSON


class LeftOutReason(StrEnum):
    """Why a message took no part in an act that the others did."""

    ALREADY_THERE = "AlreadyThere"
    """It is in the folder that it was to be put into."""
    ALREADY_LEAVING = "AlreadyLeaving"
    """A change that takes it out of its folder is not finished, or has not been read back yet."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A message without a change."""

    stored_email_id: UUID
    reason: LeftOutReason


@dataclass(frozen=True, slots=True)
class Change:
    """A recorded change with the alias and path of the folder that it is about."""

    record: MutationRecord
    folder_alias: str
    folder_path: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What an act recorded, by message and in the order of MUT-57; `request_id` names all of it together."""

    request_id: str
    changes: tuple[Change, ...]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Changes of one kind in one folder that an act would record."""

    account_id: str
    folder_alias: str
    mutation: Mutation
    destination: str | None
    count: int
    first_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an act would be refused for: then nothing at all is recorded."""

    account_id: str
    count: int
    error: ReaderError


@dataclass(frozen=True, slots=True)
class Preview:
    """What an act would record, refuse and leave out. Nothing was recorded."""

    groups: tuple[Group, ...]
    refusals: tuple[Refusal, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
