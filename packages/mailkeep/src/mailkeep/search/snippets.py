"""Snippets: short extracts of a matching body, its words in `**` (FIND-41..45). Pure.

PostgreSQL cuts them and marks the words with control characters, which no stored text holds; printable marks could be
forged by mail. Both become `**` only here, after the marks were recognized.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from mailkeep.config import MailboxSearchSettings
from mailkeep.search.queries import Extract
from mailkeep.terms import plain_spellings

START: Final = "\x02"
STOP: Final = "\x03"
DELIMITER: Final = "\x1f"
CHARACTERS_PER_WORD: Final = 64
ELLIPSIS: Final = "…"
HEADLINE_PART_CHARACTERS: Final = 4_000
"""How much of a body one headline reads, from the first word found on; a headline takes 0.3 ms per 1,000."""
BEFORE_CHARACTERS: Final = 60
AROUND_CHARACTERS: Final = 200

_BLANKS: Final = re.compile(r"\s+")


def headline_options(settings: MailboxSearchSettings) -> str:
    """The options of `ts_headline` for the operator's bounds (FIND-42)."""
    words = settings.words_per_snippet
    return (
        f'StartSel="{START}", StopSel="{STOP}", FragmentDelimiter="{DELIMITER}",'
        f" MaxFragments={settings.snippets_per_email}, MaxWords={words}, MinWords={max(1, words // 3)}"
    )


def snippets_of(
    extract: Extract, needles: Sequence[tuple[str, bool]], settings: MailboxSearchSettings
) -> tuple[str, ...]:
    """The snippets of one message: PostgreSQL's where it marked a word, else what surrounds the words' first places.

    PostgreSQL's headline knows neither CJK pairs nor the parts of addresses and links, although both are found. A
    fragment without a marked word is the opening of a body that did not match, and is left out (FIND-43).
    """
    fragments = [fragment for fragment in extract.headline.split(DELIMITER) if START in fragment]
    if not fragments:
        fragments = [marked for text in extract.around if START in (marked := _mark(text, needles))]
    limit = settings.words_per_snippet * CHARACTERS_PER_WORD
    shown = (_bounded(_BLANKS.sub(" ", fragment).strip(), limit) for fragment in fragments)
    return tuple(dict.fromkeys(shown))[: settings.snippets_per_email]


def passage_beginning(text: str, settings: MailboxSearchSettings) -> str:
    """The beginning of a passage on one line, twice as many words as a snippet has, bounded like one; no marks."""
    words = text.split(maxsplit=2 * settings.words_per_snippet)
    shown = " ".join(words[: 2 * settings.words_per_snippet])
    limit = settings.words_per_snippet * CHARACTERS_PER_WORD
    is_cut = len(words) > 2 * settings.words_per_snippet or len(shown) > limit
    return shown[:limit] + (ELLIPSIS if is_cut else "")


def accented_needles(needles: Sequence[tuple[str, bool]], words: Iterable[str]) -> list[tuple[str, bool]]:
    """Those of the words that are a needle but for their accents, whole words only."""
    wanted = {spelling for needle, _ in needles for spelling in (needle.lower(), *plain_spellings(needle))}
    return [(word, False) for word in words if word.isalnum() and not wanted.isdisjoint(plain_spellings(word))]


def _mark(text: str, needles: Sequence[tuple[str, bool]]) -> str:
    """Put marks around every place of every needle; places that touch become one."""
    spans: list[tuple[int, int]] = []
    for needle, is_beginning in needles:
        pattern = re.escape(needle) + (r"\w*" if is_beginning and needle.isascii() else "")
        spans.extend(match.span() for match in re.finditer(pattern, text, re.IGNORECASE))
    marked, position = [], 0
    for start, stop in _merged(spans):
        marked.append(text[position:start] + START + text[start:stop] + STOP)
        position = stop
    return "".join(marked) + text[position:]


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def _bounded(fragment: str, limit: int) -> str:
    """At most `limit` characters of mail, marks not counted; then the marks become `**`."""
    shown: list[str] = []
    count, is_open = 0, False
    for character in fragment:
        if character in (START, STOP):
            if is_open != (character == START):
                is_open = character == START
                shown.append("**")
            continue
        if count == limit:
            shown.append("**" + ELLIPSIS if is_open else ELLIPSIS)
            return "".join(shown)
        shown.append(character)
        count += 1
    return "".join(shown) + ("**" if is_open else "")
