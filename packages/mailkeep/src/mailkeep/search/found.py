"""Where in a message's attachments a search found its words: the file, and an extract of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from mailkeep.attachments import Hit, Stemmed, find_hits
from mailkeep.config import MailboxSearchSettings, Settings
from mailkeep.db import Connection
from mailkeep.languages import STEMMED
from mailkeep.search.marks import language_mark
from mailkeep.search.model import AttachmentHit
from mailkeep.search.queries import Extract, compile_query
from mailkeep.search.snippets import AROUND_CHARACTERS, BEFORE_CHARACTERS, headline_options, snippets_of
from mailkeep.terms import AllOf, AnyOf, Not, QueryNode

HITS_PER_MESSAGE: Final = 2
"""Attachments named with one message: each costs a headline."""


async def find_in_attachments(
    connection: Connection,
    settings: Settings,
    node: QueryNode,
    ids: Sequence[UUID],
    *,
    needles: Sequence[tuple[str, bool]],
    languages: Sequence[str],
) -> dict[UUID, tuple[AttachmentHit, ...]]:
    """The attachments of these messages that hold what was asked for, the best first; messages without are absent."""
    wanted = positive(node)
    if wanted is None or not ids:
        return {}
    configuration = settings.persistence.text_search_configuration
    whole = await compile_query(connection, wanted, configuration=configuration, languages=languages)
    some = whole
    if isinstance(wanted, AllOf | AnyOf):
        any_word = AnyOf(tuple(_leaves(wanted)))
        some = await compile_query(connection, any_word, configuration=configuration, languages=languages)
    if whole is None or some is None:
        return {}
    hits = await find_hits(
        connection,
        ids,
        whole=whole.text,
        some=some.text,
        stemmed=[Stemmed(language_mark(one), STEMMED[one], query or "") for one, query in some.stemmed.items()],
        needles=[needle.lower() for needle, _ in needles],
        configuration=configuration,
        options=headline_options(settings.mailbox_search),
        per_message=HITS_PER_MESSAGE,
    )
    found: dict[UUID, list[AttachmentHit]] = {}
    for hit in hits:
        found.setdefault(hit.stored_email_id, []).append(_shown(hit, needles, settings.mailbox_search))
    return {stored_email_id: tuple(shown) for stored_email_id, shown in found.items()}


def positive(node: QueryNode) -> QueryNode | None:
    """What a query asks for, without what it excludes; None when it only excludes."""
    match node:
        case Not():
            return None
        case AllOf(nodes) | AnyOf(nodes):
            kept = tuple(part for child in nodes if (part := positive(child)) is not None)
            if len(kept) < 2:
                return kept[0] if kept else None
            return AllOf(kept) if isinstance(node, AllOf) else AnyOf(kept)
        case _:
            return node


def _leaves(node: QueryNode) -> Iterator[QueryNode]:
    if isinstance(node, AllOf | AnyOf):
        for child in node.nodes:
            yield from _leaves(child)
    else:
        yield node


def _shown(hit: Hit, needles: Sequence[tuple[str, bool]], settings: MailboxSearchSettings) -> AttachmentHit:
    around = tuple(_around(hit.text, [needle for needle, _ in needles]))
    return AttachmentHit(
        position=hit.position,
        file_name=hit.file_name,
        media_type=hit.media_type,
        snippets=snippets_of(Extract(hit.headline, around), needles, settings),
    )


def _around(text: str, needles: Sequence[str]) -> Iterator[str]:
    """What surrounds the first place of each word, for words that a headline does not know."""
    for needle in needles:
        if place := re.search(re.escape(needle), text, re.IGNORECASE):
            start = max(0, place.start() - BEFORE_CHARACTERS)
            yield text[start : start + AROUND_CHARACTERS]
