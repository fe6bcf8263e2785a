"""The SQL of listing and searching: statements composed from fixed pieces and bound parameters, typed rows out.

No value of a request ever becomes SQL text. Statements whose best plan depends on their values are not prepared, so
that PostgreSQL plans each with what it is given.
"""

# ruff: noqa: S608  -- statements are joined from literals of this module; values are parameters

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import sql

from mailkeep.db import Connection, load_queries
from mailkeep.languages import STEMMED
from mailkeep.mailbox import AccountId, ContentAvailability, Flags, FolderId
from mailkeep.search import tsqueries
from mailkeep.search.conditions import digits, filter_condition
from mailkeep.search.cursor import Boundary
from mailkeep.search.marks import SAMPLE
from mailkeep.search.model import AttachmentSummary, Direction, FacetKind, Filters, Summary
from mailkeep.terms import AllOf, QueryNode

_SQL: Final = load_queries("mailkeep.search")

MATCHED: Final[LiteralString] = "(d.search_vector || coalesce(d.attachment_vector, ''::tsvector))"
"""What a search asks of a document `d`: the words of the index, by the index's own expression."""
_WEIGHTS: Final[LiteralString] = "'{0.1, 0.05, 0.4, 1.0}'"
"""Weights of body (D), attachments (C), people (B) and subject (A)."""
RANK: Final[LiteralString] = (
    f"ts_rank({_WEIGHTS}, d.search_vector, %(ranking)s::tsquery)"
    " + CASE WHEN d.attachment_vector IS NULL THEN 0 ELSE least(0.06,"
    f" ts_rank({_WEIGHTS}, d.attachment_names_vector, %(ranking)s::tsquery)"
    " + CASE WHEN pg_column_size(d.attachment_vector) > 65536 THEN 0"
    f" ELSE ts_rank({_WEIGHTS}, d.attachment_vector, %(ranking)s::tsquery) END) END"
)
"""The rank of a document `d`: attachments add less than one word of a body (0.061), and long ones by their names alone,
since ranking reads the whole of a vector. The vectors are not put together, which costs more than ranking both."""


@dataclass(frozen=True, slots=True)
class FolderNames:
    """How a folder is called: what a summary says instead of the folder's number."""

    account_id: AccountId
    account_display_name: str
    alias: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows a read may return: folders of the scope, and the normalized filters."""

    folders: Mapping[FolderId, FolderNames]
    filters: Filters

    @property
    def folder_ids(self) -> list[int]:
        """The folders' keys as a parameter."""
        return list(self.folders)

    @property
    def account_ids(self) -> list[str]:
        """The accounts of the folders, each once."""
        return sorted({names.account_id for names in self.folders.values()})


# Summaries and the timeline

_SUMMARY_COLUMNS: Final[LiteralString] = (
    "e.id, e.mail_folder_id, e.internet_message_id, e.email_thread_id, e.subject, e.sent_at, e.received_at,"
    " e.size_octets, e.sender_address, e.sender_display_name, e.to_addresses, e.attachment_count,"
    " e.attachment_total_size_octets, e.inline_resource_count, e.is_encrypted, e.carries_unverified_signature,"
    " e.contains_unexpanded_tnef_part, e.content_availability, e.is_remotely_seen, e.is_remotely_answered,"
    " e.is_remotely_flagged, e.is_remotely_draft, e.is_remotely_deleted,"
    " e.remote_keywords || e.remote_labels, e.remote_flags_observed_at"
)


def _summary(row: Sequence[Any], folders: Mapping[FolderId, FolderNames]) -> Summary:
    names = folders[FolderId(row[1])]
    return Summary(
        stored_email_id=row[0],
        account_id=names.account_id,
        account_display_name=names.account_display_name,
        folder_alias=names.alias,
        internet_message_id=row[2],
        thread_id=row[3],
        subject=row[4],
        sent_at=row[5],
        received_at=row[6],
        size_octets=row[7],
        sender_address=row[8],
        sender_display_name=row[9],
        to_addresses=tuple(row[10]),
        attachments=AttachmentSummary(*row[11:17]),
        content_availability=ContentAvailability(row[17]),
        flags=Flags(row[18], row[19], row[20], row[21], row[22], tuple(row[23])),
        observed_at=row[24],
    )


@dataclass(frozen=True, slots=True)
class Walk:
    """One range of an index: the column it begins with and the value there."""

    column: LiteralString
    value: object


_NEWEST: Final[LiteralString] = "e.received_at DESC NULLS LAST, e.id DESC"
_OLDEST: Final[LiteralString] = "e.received_at ASC NULLS FIRST, e.id ASC"


async def read_range(
    connection: Connection,
    selection: Selection,
    walks: Sequence[Walk],
    *,
    direction: Direction,
    boundary: Boundary | None,
    dated: bool | None,
    limit: int,
) -> list[Summary]:
    """Up to `limit` summaries behind the boundary in the documented order: one index range per walk, merged.

    `dated` True reads dated mail only, False undated only, None both in one range. A dated boundary goes with True, an
    undated one with False: one predicate for both would leave the index (DATA-17).
    """
    condition = filter_condition(selection.filters)
    order = _NEWEST if direction is Direction.NEWEST_FIRST else _OLDEST
    sign: LiteralString = "<" if direction is Direction.NEWEST_FIRST else ">"
    position: LiteralString = ""
    parameters: dict[str, object] = {**condition.parameters, "folder_ids": selection.folder_ids, "limit": limit}
    if dated is True:
        position = (
            f" AND (e.received_at, e.id) {sign} (%(at)s, %(id)s)" if boundary else " AND e.received_at IS NOT NULL"
        )
    elif dated is False:
        position = " AND e.received_at IS NULL" + (f" AND e.id {sign} %(id)s" if boundary else "")
    if boundary is not None:
        parameters |= {"at": boundary.received_at, "id": boundary.email_id}
    branches: list[LiteralString] = []
    for number, walk in enumerate(walks):
        name: LiteralString = "walk" + digits(number)
        parameters[name] = walk.value
        folder: LiteralString = "" if walk.column == "mail_folder_id" else " AND e.mail_folder_id = ANY(%(folder_ids)s)"
        branches.append(
            f"(SELECT {_SUMMARY_COLUMNS} FROM stored_emails e WHERE e.{walk.column} = %({name})s{folder}"
            f" AND {condition.text}{position} ORDER BY {order} LIMIT %(limit)s)"
        )
    statement: LiteralString = branches[0]
    if len(branches) > 1:
        statement = f"SELECT * FROM ({' UNION ALL '.join(branches)}) e ORDER BY {order} LIMIT %(limit)s"
    cursor = await connection.execute(statement, parameters, prepare=False)
    return [_summary(row, selection.folders) for row in await cursor.fetchall()]


async def read_summaries(connection: Connection, selection: Selection, ids: Sequence[UUID]) -> dict[UUID, Summary]:
    """Summaries of the named messages that still satisfy the whole selection (FIND-39)."""
    condition = filter_condition(selection.filters)
    statement: LiteralString = (
        f"SELECT {_SUMMARY_COLUMNS} FROM stored_emails e"
        f" WHERE e.id = ANY(%(ids)s) AND e.mail_folder_id = ANY(%(folder_ids)s) AND {condition.text}"
    )
    parameters = {**condition.parameters, "ids": list(ids), "folder_ids": selection.folder_ids}
    cursor = await connection.execute(statement, parameters, prepare=False)
    found = [_summary(row, selection.folders) for row in await cursor.fetchall()]
    return {summary.stored_email_id: summary for summary in found}


async def read_freshness(connection: Connection, folder_ids: Iterable[int]) -> dict[FolderId, datetime | None]:
    """When each binding was last synchronized."""
    cursor = await connection.execute(_SQL["freshness"], {"folder_ids": list(folder_ids)})
    return {FolderId(row[0]): row[1] for row in await cursor.fetchall()}


# Lexical search


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A typed query as PostgreSQL reads it.

    `text` is the tsquery that finds, `ranking` the one that ranks: without marks, and of several words their
    exact forms alone, since `ts_rank` looks at every pair of what it is given.
    `is_selective` is False for exclusions alone; `reads_vectors` is True when words count in one place only, which no
    index knows. `stemmed` has the query in the words of each language, for headlines.
    """

    text: str
    ranking: str
    is_selective: bool
    reads_vectors: bool
    stemmed: Mapping[str, str]


async def compile_query(
    connection: Connection,
    words: QueryNode | None,
    *,
    configuration: str,
    narrowing: QueryNode | None = None,
    languages: Sequence[str] = (),
) -> CompiledQuery | None:
    """Let PostgreSQL turn the trees into tsqueries, every text a parameter; None when no word is left of them.

    `words` find and rank, `narrowing` finds only. `languages` are those whose stems are asked for as well.
    """
    nodes = tuple(node for node in (words, narrowing) if node is not None)
    if not nodes:
        return None
    matching = tsqueries.Writer("m", configuration, languages, with_marks=True)
    ranking = tsqueries.Writer("r", configuration, () if isinstance(words, AllOf) else languages, with_marks=False)
    writers = [tsqueries.Writer(language, STEMMED[language]) for language in languages]
    columns = [
        matching.write(AllOf(nodes)),
        *(sql.SQL("''::tsquery") if words is None else writer.write(words) for writer in (ranking, *writers)),
    ]
    statement = sql.SQL("SELECT q::text, querytree(q), {} FROM (SELECT {} AS q OFFSET 0) q").format(
        sql.SQL(", ").join([sql.SQL("({})::text").format(column) for column in columns[1:]]), columns[0]
    )
    parameters = {name: value for writer in (matching, ranking, *writers) for name, value in writer.parameters.items()}
    cursor = await connection.execute(statement, parameters, prepare=False)
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return None
    return CompiledQuery(
        text=row[0],
        ranking=row[2],
        is_selective=row[1] not in ("", "T"),
        reads_vectors=matching.is_weighted,
        stemmed=dict(zip(languages, row[3:], strict=True)),
    )


async def force_index(connection: Connection) -> None:
    """For the rest of the transaction, let only the words' index answer."""
    await connection.execute(_SQL["force_index"])


async def received_span(connection: Connection, account_ids: Sequence[str]) -> tuple[datetime | None, datetime | None]:
    """The newest and the oldest instant in the accounts; None without dated mail."""
    cursor = await connection.execute(_SQL["latest_received"], {"account_ids": list(account_ids)})
    row = await cursor.fetchone()
    return (row[0], row[1]) if row is not None else (None, None)


async def few_matching_filters(connection: Connection, selection: Selection, *, at_most: int) -> list[UUID] | None:
    """The messages that the filters alone select; None when they are more than `at_most`."""
    condition = filter_condition(selection.filters)
    statement: LiteralString = (
        f"SELECT e.id FROM stored_emails e WHERE e.mail_folder_id = ANY(%(folder_ids)s) AND {condition.text}"
        " LIMIT %(limit)s"
    )
    parameters = {**condition.parameters, "folder_ids": selection.folder_ids, "limit": at_most + 1}
    cursor = await connection.execute(statement, parameters, prepare=False)
    rows = await cursor.fetchall()
    return [row[0] for row in rows] if len(rows) <= at_most else None


async def matching_on_server(
    connection: Connection, selection: Selection, query: CompiledQuery | None, *, limit: int
) -> list[UUID]:
    """The newest messages of the selection, still on their server, that hold the query's words; None asks for none."""
    condition = filter_condition(selection.filters)
    words: LiteralString = ""
    parameters = {**condition.parameters, "folder_ids": selection.folder_ids, "limit": limit}
    if query is not None:
        words = (
            " AND EXISTS (SELECT FROM email_search_documents d"
            f" WHERE d.stored_email_id = e.id AND {MATCHED} @@ %(query)s::tsquery)"
        )
        parameters["query"] = query.text
        if query.is_selective:
            await force_index(connection)
    statement: LiteralString = (
        "SELECT e.id FROM stored_emails e WHERE e.mail_folder_id = ANY(%(folder_ids)s)"
        f" AND e.remote_expunge_observed_at IS NULL AND {condition.text}{words}"
        " ORDER BY e.received_at DESC NULLS LAST, e.id DESC LIMIT %(limit)s"
    )
    cursor = await connection.execute(statement, parameters, prepare=False)
    return [row[0] for row in await cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one message in 128 says: how many of the sample match, and the instants of the nth newest of them."""

    matching: int
    instants: tuple[datetime | None, ...]


async def read_sample(connection: Connection, selection: Selection, tsquery: str, *, nth: Sequence[int]) -> Sample:
    """Count the sampled matches and read `received_at` of the nth newest (None where undated or fewer)."""
    condition = filter_condition(selection.filters)
    join: LiteralString = ""
    if selection.filters != Filters():
        join = f"JOIN stored_emails e ON e.id = d.stored_email_id AND {condition.text}"
    statement: LiteralString = (
        "SELECT count(*), (array_agg(d.received_at ORDER BY d.received_at DESC NULLS LAST))[:%(depth)s]"
        f" FROM email_search_documents d {join}"
        f" WHERE {MATCHED} @@ %(tsquery)s::tsquery AND d.mail_folder_id = ANY(%(folder_ids)s)"
    )
    parameters = {
        **condition.parameters,
        "tsquery": tsquery,
        "folder_ids": selection.folder_ids,
        "depth": max(nth),
    }
    cursor = await connection.execute(statement, parameters, prepare=False)
    row = await cursor.fetchone()
    count, instants = (row[0], row[1] or []) if row is not None else (0, [])
    return Sample(matching=count, instants=tuple(instants[n - 1] if n <= len(instants) else None for n in nth))


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best of the newest candidates: (id, rank) in result order; how many were ranked, and how many there were."""

    best: tuple[tuple[UUID, float], ...]
    ranked: int
    candidates: int


async def rank_newest(
    connection: Connection,
    selection: Selection,
    *,
    ranking: str,
    narrowed: str,
    span: str | None,
    not_before: datetime | None,
    among: int,
    limit: int,
) -> Ranked:
    """Rank the newest `among` matches and return the best `limit`; ties in timeline order.

    `ranking` is what ranks (empty: time alone), `narrowed` what is looked for, with marks. `span` holds marks of time:
    as a condition of its own, since the index then leaps over what either side lacks, several times faster than through
    one query with both. `not_before` leaves out older and undated messages.
    """
    condition = filter_condition(selection.filters)
    spanned: LiteralString = "" if span is None else f" AND {MATCHED} @@ %(span)s::tsquery"
    since: LiteralString = "" if not_before is None else " AND d.received_at >= %(not_before)s"
    statement: LiteralString = (
        # Vectors pass through here unread.
        "WITH newest AS ("
        " SELECT d.stored_email_id, d.received_at, d.search_vector, d.attachment_names_vector, d.attachment_vector,"
        " count(*) OVER () AS candidates"
        f" FROM email_search_documents d JOIN stored_emails e ON e.id = d.stored_email_id AND {condition.text}"
        f" WHERE {MATCHED} @@ %(narrowed)s::tsquery{spanned}"
        f" AND d.mail_folder_id = ANY(%(folder_ids)s){since}"
        " ORDER BY d.received_at DESC NULLS LAST, d.stored_email_id DESC LIMIT %(among)s)"
        f" SELECT d.stored_email_id, {RANK if ranking else '0'} AS rank, d.candidates, count(*) OVER ()"
        " FROM newest d ORDER BY rank DESC, d.received_at DESC NULLS LAST, d.stored_email_id DESC LIMIT %(limit)s"
    )
    parameters = {
        **condition.parameters,
        "ranking": ranking,
        "narrowed": narrowed,
        "span": span,
        "folder_ids": selection.folder_ids,
        "not_before": not_before,
        "among": among,
        "limit": limit,
    }
    return _ranked(await (await connection.execute(statement, parameters, prepare=False)).fetchall())


async def rank_named(connection: Connection, query: CompiledQuery, *, ids: Sequence[UUID], limit: int) -> Ranked:
    """Rank all matches among the named messages."""
    statement: LiteralString = (
        f"SELECT d.stored_email_id, {RANK} AS rank, count(*) OVER (),"
        " count(*) OVER () FROM email_search_documents d"
        f" WHERE d.stored_email_id = ANY(%(ids)s) AND {MATCHED} @@ %(query)s::tsquery"
        " ORDER BY rank DESC, d.received_at DESC NULLS LAST, d.stored_email_id DESC LIMIT %(limit)s"
    )
    parameters = {"query": query.text, "ranking": query.ranking, "ids": list(ids), "limit": limit}
    cursor = await connection.execute(statement, parameters, prepare=False)
    return _ranked(await cursor.fetchall())


def _ranked(rows: Sequence[Sequence[Any]]) -> Ranked:
    best = tuple((row[0], float(row[1])) for row in rows)
    return Ranked(best=best, ranked=rows[0][3] if rows else 0, candidates=rows[0][2] if rows else 0)


@dataclass(frozen=True, slots=True)
class Extract:
    """What was cut out of one body: the headline with its markers, and what surrounds the first place of each word."""

    headline: str
    around: tuple[str, ...]


async def read_extracts(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    query: CompiledQuery,
    configuration: str,
    options: str,
    needles: Sequence[str],
    part: int,
    before: int,
    around: int,
) -> dict[UUID, Extract]:
    """Cut extracts of the named messages: `part` bounds the characters that the headline reads, in one message.

    A message whose language is known is read in that language, so that other forms of a word are marked as well.
    """
    parameters = {
        "ids": list(ids),
        "query": query.ranking,
        "configuration": configuration,
        "languages": list(query.stemmed),
        "configurations": [STEMMED[language] for language in query.stemmed],
        "stemmed": list(query.stemmed.values()),
        "options": options,
        "needles": list(needles),
        "part": part,
        "before": before,
        "around": around,
    }
    cursor = await connection.execute(_SQL["extracts"], parameters, prepare=False)
    return {row[0]: Extract(row[1], tuple(row[2] or ())) for row in await cursor.fetchall()}


async def read_accented_words(connection: Connection, ids: Sequence[UUID]) -> list[str]:
    """The distinct words with letters beyond ASCII in the named messages' vectors, at most 20,000."""
    cursor = await connection.execute(_SQL["accented_words"], {"ids": list(ids)})
    return [row[0] for row in await cursor.fetchall()]


# Facets and resemblance


async def count_facets(
    connection: Connection, ids: Sequence[UUID], *, folder_ids: Sequence[int]
) -> list[tuple[FacetKind, str, int]]:
    """How many of the messages have each sender, folder (its key as text) and month (in UTC)."""
    cursor = await connection.execute(_SQL["facets"], {"ids": list(ids), "folder_ids": list(folder_ids)})
    return [(FacetKind(row[0]), row[1], row[2]) for row in await cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class TermCount:
    """A term of one message: how often it stands there, whether in the subject, and in how many sampled messages."""

    term: str
    occurrences: int
    is_in_subject: bool
    sampled_messages: int


async def read_terms(connection: Connection, message: UUID, *, at_most: int) -> list[TermCount]:
    """The most frequent words of a message's subject and body, with their frequency in the sample of all mail."""
    await force_index(connection)
    parameters = {"id": message, "at_most": at_most, "sample": SAMPLE}
    cursor = await connection.execute(_SQL["terms_of_message"], parameters, prepare=False)
    return [TermCount(*row) for row in await cursor.fetchall()]


async def count_sample(connection: Connection) -> int:
    """How many messages are in the sample of all mail."""
    cursor = await connection.execute(_SQL["sample_size"], {"sample": SAMPLE}, prepare=False)
    row = await cursor.fetchone()
    return int(row[0]) if row is not None else 0


async def read_timeline_order(connection: Connection, ids: Sequence[UUID]) -> list[UUID]:
    """The named messages, newest first."""
    cursor = await connection.execute(_SQL["in_timeline_order"], {"ids": list(ids)})
    return [row[0] for row in await cursor.fetchall()]
