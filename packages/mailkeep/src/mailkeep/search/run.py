"""The two reads that locate mail: a page of the timeline, and the best matches of a query.

Each validates everything before it reads, resolves its scope once, and re-applies the whole selection wherever it reads
rows again: statements see separate snapshots, and a message that left the selection between them is left out (FIND-39).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from mailkeep.config import Settings
from mailkeep.db import Connection, Database
from mailkeep.languages import stemmed_languages
from mailkeep.mailbox import AccountId, FolderId, Scope, resolve_scope
from mailkeep.search import filters as bounds
from mailkeep.search import lexical, queries, timeline
from mailkeep.search.cursor import Boundary, decode_cursor, encode_cursor, fingerprint_of
from mailkeep.search.found import find_in_attachments
from mailkeep.search.model import (
    Filters,
    FolderFreshness,
    ListRequest,
    Match,
    MatchCount,
    Page,
    RetrievalMode,
    SearchRequest,
    SearchResult,
    SemanticSearch,
)
from mailkeep.search.queries import CompiledQuery, FolderNames, Selection
from mailkeep.search.snippets import (
    AROUND_CHARACTERS,
    BEFORE_CHARACTERS,
    HEADLINE_PART_CHARACTERS,
    accented_needles,
    headline_options,
    snippets_of,
)
from mailkeep.terms import QueryNode, build_query, positive_needles

MAX_NEEDLES: Final = 8
"""Words of a query that are looked for when an extract is cut: the longest ones."""


async def list_emails(db: Database, settings: Settings, request: ListRequest) -> Page:
    """One page of the timeline.

    Raises PageSizeRefused, FilterRefused, AccountNotAccessible, RoleUnmapped, CursorForeign, CursorForOtherFilters.
    """
    bounds.check_page_size(request.page_size)
    filters = bounds.normalized(request.filters)
    scope = await resolve_scope(
        db, settings, accounts=request.accounts, folders=request.folders, include_junk=request.include_junk_mail
    )
    fingerprint = fingerprint_of(
        filters,
        direction=request.direction,
        include_junk_mail=request.include_junk_mail,
        folders=(*scope.pairs, *scope.unbound) if request.folders else None,
        accounts=scope.account_ids,
    )
    boundary = None
    if request.cursor is not None and request.cursor.strip():
        boundary = decode_cursor(request.cursor.strip(), fingerprint=fingerprint)
    selection = selection_of(settings, scope, filters)
    async with db.connection() as connection:
        found = await timeline.read_page(
            connection,
            selection,
            direction=request.direction,
            boundary=boundary,
            limit=request.page_size + 1,
            names_folders=bool(request.folders),
        )
        freshness = await freshness_of(connection, settings, scope)
    emails = tuple(found[: request.page_size])
    following = None
    if len(found) > request.page_size:
        following = encode_cursor(Boundary(emails[-1].received_at, emails[-1].stored_email_id), fingerprint)
    return Page(
        emails=emails,
        next_cursor=following,
        included_junk_mail=request.include_junk_mail,
        folder_freshness=freshness,
    )


async def search_emails(db: Database, settings: Settings, request: SearchRequest) -> SearchResult:
    """The best matches of the query, best first.

    Raises ResultLimitRefused, FilterRefused, AccountNotAccessible, RoleUnmapped.
    """
    bounds.check_result_limit(request.result_limit)
    bounds.check_query_text(request.query_text)
    filters = bounds.normalized(request.filters)
    scope = await resolve_scope(
        db, settings, accounts=request.accounts, folders=request.folders, include_junk=request.include_junk_mail
    )
    selection = selection_of(settings, scope, filters)
    node = build_query(request.query_text)
    matches: tuple[Match, ...] = ()
    window = lexical.NOTHING
    async with db.connection() as connection:
        if node is not None:
            configuration = settings.persistence.text_search_configuration
            languages = await stemmed_languages(connection)
            query = await queries.compile_query(connection, node, configuration=configuration, languages=languages)
            if query is not None:
                window = await lexical.find(
                    connection,
                    selection,
                    query,
                    limit=request.result_limit,
                    names_scope=bool(request.accounts or request.folders),
                )
                matches = await _matches(connection, settings, selection, query, node, window.ranked.best)
        freshness = await freshness_of(connection, settings, scope)
    return SearchResult(
        matches=matches,
        match_count=MatchCount(window.match_count.count, is_exact=window.match_count.is_exact),
        ranked_among=window.ranked.ranked,
        retrieval_mode=RetrievalMode.LEXICAL,
        semantic_search=SemanticSearch.INACTIVE,
        included_junk_mail=request.include_junk_mail,
        folder_freshness=freshness,
    )


def selection_of(settings: Settings, scope: Scope, filters: Filters) -> Selection:
    """The rows that the scope and the normalized filters leave."""
    names = _display_names(settings)
    return Selection(
        folders={
            folder.folder_id: FolderNames(folder.account_id, names[folder.account_id], folder.alias)
            for folder in scope.folders
        },
        filters=filters,
    )


def _display_names(settings: Settings) -> dict[AccountId, str]:
    accounts = settings.mail_synchronization.accounts
    return {AccountId(account.account_id): account.display_name for account in accounts}


async def _matches(
    connection: Connection,
    settings: Settings,
    selection: Selection,
    query: CompiledQuery,
    node: QueryNode,
    best: Sequence[tuple[UUID, float]],
) -> tuple[Match, ...]:
    """Summaries and snippets of the ranked window, in its order."""
    ids = [stored_email_id for stored_email_id, _ in best]
    if not ids:
        return ()
    summaries = await queries.read_summaries(connection, selection, ids)
    needles = positive_needles(node)[:MAX_NEEDLES]
    snippets = await _snippets(connection, settings, query, needles, ids)
    if plain := [one for one in ids if not snippets.get(one)]:
        words = await queries.read_accented_words(connection, plain)
        accented = accented_needles(needles, words)[:MAX_NEEDLES]
        if accented:
            spelled = replace(query, text=" | ".join(f"'{word}'" for word, _ in accented), stemmed={})
            snippets |= await _snippets(connection, settings, spelled, accented, plain)
    with_attachments = [one for one in ids if one in summaries and summaries[one].attachments.attachment_count]
    found_in = await find_in_attachments(
        connection, settings, node, with_attachments, needles=needles, languages=tuple(query.stemmed)
    )
    return tuple(
        Match(
            summary=summaries[stored_email_id],
            relevance_rank=rank,
            snippets=snippets.get(stored_email_id, ()),
            found_in=found_in.get(stored_email_id, ()),
        )
        for stored_email_id, rank in best
        if stored_email_id in summaries
    )


async def _snippets(
    connection: Connection,
    settings: Settings,
    query: CompiledQuery,
    needles: Sequence[tuple[str, bool]],
    ids: Sequence[UUID],
) -> dict[UUID, tuple[str, ...]]:
    extracts = await queries.read_extracts(
        connection,
        ids,
        query=query,
        configuration=settings.persistence.text_search_configuration,
        options=headline_options(settings.mailbox_search),
        needles=[needle.lower() for needle, _ in needles],
        part=HEADLINE_PART_CHARACTERS,
        before=BEFORE_CHARACTERS,
        around=AROUND_CHARACTERS,
    )
    return {one: snippets_of(extract, needles, settings.mailbox_search) for one, extract in extracts.items()}


async def freshness_of(connection: Connection, settings: Settings, scope: Scope) -> tuple[FolderFreshness, ...]:
    """One entry per (account, alias) in scope, the newest of several bindings, by account and alias (FIND-29)."""
    instants = await queries.read_freshness(connection, scope.folder_ids)
    newest: dict[tuple[AccountId, str], datetime | None] = dict.fromkeys(scope.unbound)
    for folder in scope.folders:
        pair = (folder.account_id, folder.alias)
        seen = [at for at in (newest.get(pair), instants.get(FolderId(folder.folder_id))) if at is not None]
        newest[pair] = max(seen, default=None)
    names = _display_names(settings)
    return tuple(
        FolderFreshness(account_id, names[account_id], alias, newest[account_id, alias])
        for account_id, alias in sorted(newest)
    )
