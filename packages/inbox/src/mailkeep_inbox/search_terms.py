"""Words for the search of an inbox: what is indexed of a message, and what a query asks. Pure.

Every run of Chinese, Japanese or Korean letters is taken letter by letter, on both sides, since the parser of
PostgreSQL sees one word in it; a query keeps the letters together as a phrase.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mailkeep_inbox.bounds import MAX_QUERY_CHARACTERS, MAX_QUERY_TERMS, MAX_SEARCH_TEXT_CHARACTERS
from mailkeep_inbox.checks import require_text, storable
from mailkeep_inbox.errors import MailboxRangeError

_IDEOGRAPHS: Final = (
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U0002fa1f"
)
_ONE: Final = re.compile(f"([{_IDEOGRAPHS}])")
_TERM: Final = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_WORD: Final = re.compile(r"[^\W_]+")
_SUBJECT_CHARACTERS: Final = 10_000
_SENDER_CHARACTERS: Final = 2_000
_LONGEST_WORD: Final = re.compile(r"\S{256,}")
"""No word anybody searches for; PostgreSQL would warn about each of two kilobytes, and base64 left in text has many."""


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A word or a phrase. A prefix is one word that ended in `*`."""

    text: str
    is_negative: bool = False
    is_prefix: bool = False


def indexed_text(*, subject: str | None, from_address: str | None, body: str) -> str:
    """What of a message is searched, bounded so that any message's words fit."""
    parts = (
        (subject or "")[:_SUBJECT_CHARACTERS],
        (from_address or "")[:_SENDER_CHARACTERS],
        body[:MAX_SEARCH_TEXT_CHARACTERS],
    )
    return _spaced(_LONGEST_WORD.sub(" ", "\n".join(parts)))[:MAX_SEARCH_TEXT_CHARACTERS]


def parse_query(query: str) -> tuple[QueryTerm, ...]:
    """The terms, all of which must hold: words, "phrases", prefix*, -without. MailboxRangeError for one without words.

    A query of negative terms alone is refused too: it would list nearly everything.
    """
    if not 0 < len(require_text("query", query)) <= MAX_QUERY_CHARACTERS:
        raise MailboxRangeError(f"a search needs 1 to {MAX_QUERY_CHARACTERS} characters")
    terms = []
    for found in _TERM.finditer(query):
        is_phrase = found[2] is not None
        text = found[2] if is_phrase else found[3]
        if _WORD.search(text):
            is_prefix = not is_phrase and text.endswith("*")
            terms.append(QueryTerm(text.rstrip("*") if is_prefix else text, bool(found[1]), is_prefix))
    if not any(not term.is_negative for term in terms):
        raise MailboxRangeError("a search needs a word to look for")
    if len(terms) > MAX_QUERY_TERMS:
        raise MailboxRangeError(f"a search takes at most {MAX_QUERY_TERMS} words and phrases")
    return tuple(terms)


def term_arrays(terms: tuple[QueryTerm, ...]) -> dict[str, list[str]]:
    """The terms as the statement takes them: phrases to hold, phrases to lack, and prefixes."""
    return {
        "phrases": [_spaced(term.text) for term in terms if not term.is_negative and not term.is_prefix],
        "absent": [_spaced(term.text) for term in terms if term.is_negative],
        "prefixes": [_prefix(term.text) for term in terms if term.is_prefix and not term.is_negative],
    }


def highlight_pattern(terms: tuple[QueryTerm, ...]) -> re.Pattern[str]:
    """What the positive terms look like in a text, case ignored, words whole but for prefixes."""
    patterns = []
    for term in terms:
        words = _WORD.findall(term.text)
        if not term.is_negative and words:
            body = r"[\W_]{1,8}".join(re.escape(word) for word in words)
            starts = "" if _ONE.match(words[0]) else r"(?<![^\W_])"
            ends = "" if term.is_prefix or _ONE.match(words[-1][-1]) else r"(?![^\W_])"
            rest = r"[^\W_]*" if term.is_prefix else ""
            patterns.append(f"{starts}{body}{rest}{ends}")
    return re.compile("|".join(patterns), re.IGNORECASE)


def _spaced(text: str) -> str:
    return _ONE.sub(r" \1 ", storable(text))


def _prefix(text: str) -> str:
    """`'word':*`, with the words before the last one as a phrase."""
    words = _WORD.findall(_spaced(text).lower())
    quoted = [f"'{word}'" for word in words]
    return " <-> ".join([*quoted[:-1], f"{quoted[-1]}:*"])
