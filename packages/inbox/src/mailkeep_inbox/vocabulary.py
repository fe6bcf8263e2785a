"""The host's triage words: an ordered list of priorities, a set of statuses (INBOX-4, INBOX-5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mailkeep_inbox.checks import require_text, require_triage
from mailkeep_inbox.errors import MailboxRangeError


@dataclass(frozen=True, slots=True)
class MailboxVocabulary:
    """`priorities` most urgent first: their order is the rank of `sort=priority`."""

    priorities: Sequence[str]
    statuses: Collection[str]


def assert_mailbox_vocabulary(vocabulary: MailboxVocabulary) -> None:
    """Raise MailboxRangeError for a list that is empty, holds an empty text or holds one twice (INBOX-5)."""
    assert_mailbox_priorities(vocabulary.priorities)
    _assert_words("statuses", vocabulary.statuses)


def assert_mailbox_priorities(priorities: Sequence[str]) -> None:
    """The same for the priorities alone, which every list needs."""
    _assert_words("priorities", priorities)


def _assert_words(name: str, words: Collection[str]) -> None:
    if isinstance(words, str):
        raise MailboxRangeError(f"{name} must be a list of words, not one text")
    if not words:
        raise MailboxRangeError(f"{name} must not be empty")
    for word in words:
        require_triage(name, require_text(name, word))
        if not word:
            raise MailboxRangeError(f"{name} must not hold an empty text")
    if len(set(words)) != len(words):
        raise MailboxRangeError(f"{name} must not hold a word twice")
