"""The stage `languages`: detect, stem, fold, a bounded number of documents at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.config import Settings
from mailkeep.db import Connection, Database
from mailkeep.languages.detect import detect_language
from mailkeep.languages.folds import folded_vector
from mailkeep.languages.queries import (
    Findings,
    Outstanding,
    Terms,
    Texts,
    UnwritableError,
    give_up,
    read_counts,
    read_outstanding,
    read_texts,
    write,
)
from mailkeep.stages import PassOutcome, StageCounts
from mailkeep.terms import address_terms, has_cjk, index_terms

RULES: Final = 1
"""Raised whenever detection, folding or terms change: all mail is then done again."""
PASS_DOCUMENTS: Final = 200
PASS_CHARACTERS: Final = 4_000_000
"""Text held at once, a single longer document apart."""
TOO_MANY_WORDS: Final = "TooManyWords"
REFUSED_BY_DATABASE: Final = "RefusedByDatabase"


class LanguageStage:
    """Finds each document's language, and the spellings that its words have besides; see `mailkeep.stages.Stage`."""

    name: Final = "languages"

    def __init__(self, db: Database, *, pass_documents: int = PASS_DOCUMENTS) -> None:
        self._db = db
        self._pass_documents = pass_documents

    def follow(self, settings: Settings) -> None:
        """Nothing of it is configured."""

    async def run_pass(self, now: datetime) -> PassOutcome:
        """One transaction over some outstanding documents; if it is refused, one for each of them."""
        async with self._db.connection() as connection:
            found = await read_outstanding(connection, rules=RULES, limit=self._pass_documents)
            chosen = _within_bounds(found)
            texts = await read_texts(connection, [one.id for one in chosen])
        excessive = [one.id for one in chosen if one.has_too_many_words]
        readable = {one.id: one for one in chosen if not one.has_too_many_words}
        # Work of a few hundred microseconds for each document, which must not hold up who answers beside it.
        findings, terms = await asyncio.to_thread(_examine, [text for text in texts if text.id in readable], readable)

        async def store(connection: Connection) -> None:
            await write(connection, findings, terms, rules=RULES, now=now)
            await give_up(connection, excessive, reason=TOO_MANY_WORDS, rules=RULES, now=now)

        refused = 0
        try:
            await self._db.redo(store)
        except UnwritableError:
            refused = sum([not await self._alone(finding, terms, now) for finding in findings])
            await self._pass_by(excessive, TOO_MANY_WORDS, now)
        return PassOutcome(
            done=len(findings) - refused,
            failed=len(excessive) + refused,
            has_more=len(chosen) < len(found) or len(found) == self._pass_documents,
        )

    async def count(self) -> StageCounts:
        return await read_counts(self._db, rules=RULES)

    async def _alone(self, finding: Findings, terms: Sequence[Terms], now: datetime) -> bool:
        """Write one document's findings; False when the database refuses them, which is then recorded."""

        async def store(connection: Connection) -> None:
            await write(connection, [finding], [one for one in terms if one.id == finding.id], rules=RULES, now=now)

        try:
            await self._db.redo(store)
        except UnwritableError:
            await self._pass_by([finding.id], REFUSED_BY_DATABASE, now)
            return False
        return True

    async def _pass_by(self, ids: Sequence[UUID], reason: str, now: datetime) -> None:
        async def store(connection: Connection) -> None:
            await give_up(connection, ids, reason=reason, rules=RULES, now=now)

        await self._db.redo(store)


def _within_bounds(found: Sequence[Outstanding]) -> list[Outstanding]:
    """As many from the beginning as the bound of characters admits, at least one."""
    chosen: list[Outstanding] = []
    characters = 0
    for one in found:
        characters += one.characters
        if chosen and characters > PASS_CHARACTERS:
            break
        chosen.append(one)
    return chosen


def _examine(texts: Sequence[Texts], chosen: Mapping[UUID, Outstanding]) -> tuple[list[Findings], list[Terms]]:
    findings, terms = [], []
    for text in texts:
        document = chosen[text.id]
        detected = detect_language(f"{text.subject}\n{text.body}")
        findings.append(
            Findings(
                id=text.id,
                extracted_at=document.extracted_at,
                language=None if detected is None else detected.language,
                confidence=None if detected is None else detected.confidence,
                folded=folded_vector(subject=text.subject, names=text.names, body=text.body),
            )
        )
        if document.rules < 0 and has_cjk(text.subject + text.names + text.body):
            terms.append(_terms_of(text))
    return findings, terms


def _terms_of(text: Texts) -> Terms:
    people = (address_terms(text.addresses.split()), index_terms(text.names))
    return Terms(
        id=text.id,
        subject=index_terms(text.subject),
        participants=" ".join(part for part in people if part) or None,
        body=index_terms(text.body),
    )
