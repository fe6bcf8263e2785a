"""The two reads that locate mail: a page of the timeline, and the best matches of a query.

Each validates everything before it reads, resolves its scope once, and re-applies the whole selection wherever it reads
rows again: statements see separate snapshots, and a message that left the selection between them is left out (FIND-39).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from mailkeep.config import Settings
from mailkeep.db import Connection, Database
from mailkeep.embeddings import Embeddings, Meaning, SemanticState
from mailkeep.errors import EmailNotAccessible
from mailkeep.languages import stemmed_languages
from mailkeep.mailbox import AccountId, FolderId, Scope, resolve_scope
from mailkeep.search import filters as bounds
from mailkeep.search import fusion, lexical, newest, queries, semantic, timeline
from mailkeep.search.cursor import Boundary, decode_cursor, encode_cursor, fingerprint_of
from mailkeep.search.facets import read_facets
from mailkeep.search.found import find_in_attachments
from mailkeep.search.grouping import GROUPED_DEPTH, grouped
from mailkeep.search.language import TypedQuery, conjunction, meaning_text, read_query, strict_words
from mailkeep.search.lexical import Window
from mailkeep.search.like import resembling
from mailkeep.search.model import (
    AttachmentHit,
    Filters,
    FolderFreshness,
    Grouping,
    ListRequest,
    Match,
    Page,
    RetrievalMode,
    SearchRequest,
    SearchResult,
    SemanticSearch,
)
from mailkeep.search.places import resolve_typed_scope
from mailkeep.search.queries import CompiledQuery, FolderNames, Selection
from mailkeep.search.semantic import Hit
from mailkeep.search.snippets import (
    AROUND_CHARACTERS,
    BEFORE_CHARACTERS,
    HEADLINE_PART_CHARACTERS,
    accented_needles,
    headline_options,
    passage_beginning,
    snippets_of,
)
from mailkeep.terms import AllOf, QueryNode, positive_needles

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


async def search_emails(
    db: Database, settings: Settings, request: SearchRequest, *, embeddings: Embeddings | None = None
) -> SearchResult:
    """The best matches of the query, best first; of a query without words the newest ones.

    With `embeddings`, messages near in meaning are found as well where a profile is read; a provider that fails leaves
    the words alone.

    Raises ResultLimitRefused, FilterRefused (QueryMalformed with a place), AccountNotAccessible, RoleUnmapped,
    EmailNotAccessible.
    """
    bounds.check_result_limit(request.result_limit)
    bounds.check_skip(request.skip)
    if request.like is None or request.query_text.strip():
        bounds.check_query_text(request.query_text)
    typed = read_query(request.query_text, now=datetime.now(UTC), zone=request.zone)
    filters = bounds.normalized(conjunction([request.filters, typed.filters]))
    scope = await resolve_typed_scope(db, settings, request, typed)
    selection = selection_of(settings, scope, filters)
    if request.like is not None:
        await _check_readable(db, settings, request.like)
    meaning, near = await _by_meaning(db, settings, selection, request, embeddings)
    async with db.connection() as connection:
        words = await _words(connection, request, typed)
        window, query = await _find(connection, settings, selection, request, typed, words, deepens=near is not None)
        ranked = window.ranked.best if near is None else await _fused(connection, window.ranked.best, near)
        best = tuple(one for one in ranked if one[0] != request.like)
        facets = await read_facets(connection, selection, best) if request.with_facets else ()
        matches = await _matches(connection, settings, selection, query, words, best[: _depth(request)], request)
        matches = await _with_passages(connection, settings, matches, near or ())
        freshness = await freshness_of(connection, settings, scope)
    return SearchResult(
        matches=matches,
        match_count=window.match_count,
        ranked_among=window.ranked.ranked,
        retrieval_mode=RetrievalMode.LEXICAL if near is None else RetrievalMode.HYBRID,
        semantic_search=SemanticSearch(meaning.state.value),
        included_junk_mail=scope.includes_junk,
        folder_freshness=freshness,
        asked_for_nothing=typed.is_empty and request.like is None,
        facets=facets,
    )


async def _by_meaning(
    db: Database, settings: Settings, selection: Selection, request: SearchRequest, embeddings: Embeddings | None
) -> tuple[Meaning, list[Hit] | None]:
    """The state of search by meaning, and the nearest messages; None when this call goes by words alone (FIND-49).

    No connection is held while a provider is asked.
    """
    if embeddings is None:
        return Meaning(SemanticState.INACTIVE), None
    text = meaning_text(request.query_text) if request.like is None else ""
    if not text:
        return Meaning(await embeddings.state()), None
    meaning = await embeddings.meaning(text)
    if meaning.vector is None:
        return meaning, None
    async with db.connection() as connection:
        strict = await queries.compile_query(
            connection,
            strict_words(request.query_text),
            configuration=settings.persistence.text_search_configuration,
            languages=await stemmed_languages(connection),
        )
        hits = await semantic.rank(connection, selection, meaning, strict=strict, limit=fusion.DEPTH * _depth(request))
    return meaning, hits


async def _fused(
    connection: Connection, lexically: Sequence[tuple[UUID, float]], near: Sequence[Hit]
) -> tuple[tuple[UUID, float], ...]:
    """Both rankings in one (FIND-48)."""
    scores = fusion.fuse((one for one, _ in lexically), (hit.stored_email_id for hit in near))
    return fusion.in_order(scores, await queries.read_timeline_order(connection, list(scores)))


async def _with_passages(
    connection: Connection, settings: Settings, matches: tuple[Match, ...], near: Sequence[Hit]
) -> tuple[Match, ...]:
    """The nearest passage of each match that shows nothing else (Beyond 8)."""
    chunks = {hit.stored_email_id: hit.chunk_id for hit in near}
    bare = {match.summary.stored_email_id for match in matches if not match.snippets and not match.found_in}
    wanted = {one: chunks[one] for one in bare if one in chunks}
    if not wanted:
        return matches
    texts = await semantic.nearest_texts(connection, list(wanted.values()))
    return tuple(
        replace(match, nearest_passage=passage_beginning(texts[chunk], settings.mailbox_search))
        if (chunk := wanted.get(match.summary.stored_email_id)) in texts
        else match
        for match in matches
    )


async def _find(
    connection: Connection,
    settings: Settings,
    selection: Selection,
    request: SearchRequest,
    typed: TypedQuery,
    words: QueryNode | None,
    *,
    deepens: bool,
) -> tuple[Window, CompiledQuery | None]:
    """The window by rank, deeper when it is to be fused; by time where no word is asked for."""
    query = await queries.compile_query(
        connection,
        words,
        narrowing=typed.narrowing,
        configuration=settings.persistence.text_search_configuration,
        languages=await stemmed_languages(connection),
    )
    limit = _depth(request) * (fusion.DEPTH if deepens else 1) + (request.like is not None)
    if query is not None:
        names_scope = bool(request.accounts or request.folders or typed.accounts or typed.folders)
        limit = max(limit, lexical.RANKED) if request.with_facets else limit
        return await lexical.find(connection, selection, query, limit=limit, names_scope=names_scope), query
    if words is None and not typed.is_empty:
        names_folders = bool(request.folders or typed.folders)
        return await newest.find(connection, selection, limit=limit, names_folders=names_folders), None
    return lexical.NOTHING, None


def _depth(request: SearchRequest) -> int:
    """How many messages are looked at: groups are made of them, so more than are shown."""
    return (request.skip + request.result_limit) * (GROUPED_DEPTH if request.grouping is not Grouping.NONE else 1)


async def _words(connection: Connection, request: SearchRequest, typed: TypedQuery) -> QueryNode | None:
    """What ranks: the typed words, and those that make the message of `like` what it is."""
    if request.like is None:
        return typed.words
    alike = await resembling(connection, request.like)
    return alike if typed.words is None or alike is None else AllOf((typed.words, alike))


async def _check_readable(db: Database, settings: Settings, stored_email_id: UUID) -> None:
    """Raises EmailNotAccessible unless the message may be read; whoever names one by its id means that one."""
    scope = await resolve_scope(db, settings, include_junk=True)
    async with db.connection() as connection:
        found = await queries.read_summaries(connection, selection_of(settings, scope, Filters()), [stored_email_id])
    if not found:
        raise EmailNotAccessible("There is no readable email with that id.")


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
    query: CompiledQuery | None,
    words: QueryNode | None,
    best: Sequence[tuple[UUID, float]],
    request: SearchRequest,
) -> tuple[Match, ...]:
    """Summaries, groups and extracts of the ranked window, in its order."""
    if not best:
        return ()
    summaries = await queries.read_summaries(connection, selection, [one for one, _ in best])
    ranked = [(summaries[one], rank) for one, rank in best if one in summaries]
    groups = grouped(ranked, request.grouping)[request.skip : request.skip + request.result_limit]
    snippets: Mapping[UUID, tuple[str, ...]] = {}
    found_in: Mapping[UUID, tuple[AttachmentHit, ...]] = {}
    if query is not None and words is not None:
        needles = positive_needles(words)[:MAX_NEEDLES]
        snippets = await _shown(connection, settings, query, needles, [one.summary.stored_email_id for one in groups])
        found_in = await find_in_attachments(
            connection,
            settings,
            words,
            [one.summary.stored_email_id for one in groups if one.summary.attachments.attachment_count],
            needles=needles,
            languages=tuple(query.stemmed),
        )
    return tuple(
        Match(
            summary=group.summary,
            relevance_rank=group.rank,
            snippets=snippets.get(group.summary.stored_email_id, ()),
            found_in=found_in.get(group.summary.stored_email_id, ()),
            others=group.others,
        )
        for group in groups
    )


async def _shown(
    connection: Connection,
    settings: Settings,
    query: CompiledQuery,
    needles: Sequence[tuple[str, bool]],
    ids: Sequence[UUID],
) -> dict[UUID, tuple[str, ...]]:
    """The snippets of each message; where its body has the words with other accents, those."""
    snippets = await _snippets(connection, settings, query, needles, ids)
    if plain := [one for one in ids if not snippets.get(one)]:
        spellings = await queries.read_accented_words(connection, plain)
        accented = accented_needles(needles, spellings)[:MAX_NEEDLES]
        if accented:
            spelled = replace(query, ranking=" | ".join(f"'{word}'" for word, _ in accented), stemmed={})
            snippets |= await _snippets(connection, settings, spelled, accented, plain)
    return snippets


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
