"""All messages that a query means, to act on them: exact filters and words, never what is merely near in meaning."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from mailkeep.config import AccountKind, Settings
from mailkeep.db import Database
from mailkeep.errors import FilterRefused
from mailkeep.languages import stemmed_languages
from mailkeep.search import filters as bounds
from mailkeep.search import queries
from mailkeep.search.language import conjunction, read_query
from mailkeep.search.model import SearchRequest
from mailkeep.search.places import resolve_typed_scope
from mailkeep.search.run import selection_of


async def matching_emails(db: Database, settings: Settings, request: SearchRequest, *, at_most: int) -> list[UUID]:
    """The messages on a server that match, newest first. Junk takes part where the query names it.

    Raises what `search_emails` raises, and FilterRefused for more than `at_most` and for a query that asks for nothing:
    that would mean all mail, which nobody says by leaving something out.
    """
    bounds.check_query_text(request.query_text)
    typed = read_query(request.query_text, now=datetime.now(UTC), zone=request.zone)
    if typed.is_empty:
        raise FilterRefused("the query asks for nothing: name a word or a field")
    filters = bounds.normalized(conjunction([request.filters, typed.filters]))
    scope = await resolve_typed_scope(db, settings, request, typed)
    mirrored = {one.account_id for one in settings.mail_synchronization.accounts if one.kind is AccountKind.IMAP}
    scope = replace(scope, folders=tuple(folder for folder in scope.folders if folder.account_id in mirrored))
    async with db.connection() as connection:
        query = await queries.compile_query(
            connection,
            typed.words,
            narrowing=typed.narrowing,
            configuration=settings.persistence.text_search_configuration,
            languages=await stemmed_languages(connection),
        )
        if query is None and typed.words is not None:
            raise FilterRefused("the query asks for nothing that mail could hold: name another word or a field")
        selection = selection_of(settings, scope, filters)
        found = await queries.matching_on_server(connection, selection, query, limit=at_most + 1)
    if len(found) > at_most:
        raise FilterRefused(f"more than {at_most} messages match; narrow the query")
    return found
