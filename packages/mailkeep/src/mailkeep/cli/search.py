"""`mailkeep search`: the best matches with the words in their surroundings."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from mailkeep.app import App, parse_email_id
from mailkeep.cli.exits import ExitCode, run
from mailkeep.cli.read import (
    AccountsOption,
    AttachmentsOption,
    FlaggedOption,
    FoldersOption,
    FromOption,
    JsonOption,
    JunkOption,
    KeywordOption,
    SinceOption,
    SubjectOption,
    ToOption,
    UnreadOption,
    UntilOption,
    filters_of,
    freshness_hint,
    freshness_json,
    show_heading,
    summary_json,
)
from mailkeep.cli.terminal import out, say, show, show_json, table
from mailkeep.config import home
from mailkeep.display import moment, neutralise
from mailkeep.search import (
    FacetKind,
    Grouping,
    Match,
    QueryMalformed,
    RetrievalMode,
    SearchRequest,
    SearchResult,
    SemanticSearch,
)

_MODES = {RetrievalMode.LEXICAL: "by words", RetrievalMode.HYBRID: "by words and meaning"}
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="Best matches to show.")]
GroupOption = Annotated[
    Grouping, typer.Option("--group", help="Show copies of a message, or conversations, as one match.")
]
FacetsOption = Annotated[bool, typer.Option("--facets", help="Count the matches by sender, folder and month.")]


def search(
    query: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUERY", help='Words; "phrases"; -without; beginnings*; from:ann, is:unread, after:7d.'),
    ] = None,
    account: AccountsOption = None,
    folder: FoldersOption = None,
    sender: FromOption = None,
    recipient: ToOption = None,
    subject: SubjectOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    unread: UnreadOption = None,
    flagged: FlaggedOption = None,
    keyword: KeywordOption = None,
    attachments: AttachmentsOption = None,
    junk: JunkOption = False,
    like: Annotated[
        str | None, typer.Option("--like", metavar="ID", help="Mail that resembles this message; a query is optional.")
    ] = None,
    group: GroupOption = Grouping.NONE,
    facets: FacetsOption = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Search stored mail: the best matches first, with the words in their surroundings.

    Words, "phrases", beginnings*, OR, -without, (brackets), and fields: from: to: cc: subject: in: account: filename:
    has:attachment is:unread|read|flagged|answered|draft keyword: before: after: larger: smaller: lang:. Write `--`
    before a query in which something begins with a minus: `mailkeep search -- report -draft`.
    """
    if not query and like is None:
        raise typer.BadParameter("type what to look for, or give --like ID", param_hint="QUERY")
    request = SearchRequest(
        query_text=" ".join(query or ()),
        accounts=tuple(account) if account else None,
        folders=tuple(folder) if folder else None,
        filters=filters_of(sender, recipient, subject, since, until, unread, flagged, keyword, attachments),
        include_junk_mail=junk,
        result_limit=limit,
        like=None if like is None else parse_email_id(like),
        grouping=group,
        with_facets=facets,
    )
    run_search(request, as_json=as_json)


def run_search(request: SearchRequest, *, as_json: bool) -> None:
    """Search and print; a query that cannot be understood is shown with a mark under the place."""

    async def work() -> SearchResult:
        async with App.open(home()) as mailkeep:
            return await mailkeep.search(request)

    try:
        result = run(work())
    except QueryMalformed as error:
        point_at(request.query_text, error, as_json=as_json)
        raise typer.Exit(ExitCode.USAGE) from None
    if as_json:
        show_json(result_json(result))
        return
    for match in result.matches:
        show_match(match)
    if result.facets:
        _show_facets(result)
    _conclude(result, request)


def point_at(query_text: str, error: QueryMalformed, *, as_json: bool) -> None:
    """Say what is wrong and where; as JSON with `position`, counted from 0."""
    if as_json:
        show_json({"error": {"code": error.code, "message": error.problem, "position": error.position}})
    say(f"mailkeep: {error.problem} [{error.code}]")
    shown = neutralise(query_text)
    before = len(neutralise(query_text[: error.position]))
    say(f"  {shown}")
    say(f"  {' ' * Text(shown[:before]).cell_len}^")


def _conclude(result: SearchResult, request: SearchRequest) -> None:
    if result.asked_for_nothing:
        say("Nothing to look for: type a word, the beginning of one (ferr*), or a field such as from:ann or is:unread.")
        return
    if not result.matches:
        say("Nothing found." + freshness_hint(result.folder_freshness, request.folders))
        return
    about = "" if result.match_count.is_exact else "about "
    count = f"{len(result.matches)} of {about}{result.match_count.count} matches"
    if result.retrieval_mode is RetrievalMode.HYBRID:  # those by meaning are no matches that could be counted
        count = f"{len(result.matches)} best, {about}{result.match_count.count} with these words"
    facts = [count, _MODES[result.retrieval_mode]]
    if result.semantic_search is SemanticSearch.DEGRADED:
        facts.append("search by meaning is out of reach just now")
    if result.mail_as_of is not None:
        facts.append(f"mail as of {moment(result.mail_as_of)}")
    say(f"{', '.join(facts)}. Read one with: mailkeep show ID")


def result_json(result: SearchResult) -> dict[str, object]:
    """A search as JSON."""
    return {
        "mode": result.retrieval_mode,
        "semantic_search": result.semantic_search,
        "matches": [
            {
                **summary_json(match.summary),
                "rank": match.relevance_rank,
                "snippets": match.snippets,
                "nearest_passage": match.nearest_passage,
                "found_in": [
                    {"attachment": hit.file_name, "position": hit.position, "snippets": hit.snippets}
                    for hit in match.found_in
                ],
                "others": [str(other) for other in match.others],
            }
            for match in result.matches
        ],
        "match_count": result.match_count.count,
        "match_count_is_exact": result.match_count.is_exact,
        "ranked_among": result.ranked_among,
        "asked_for_nothing": result.asked_for_nothing,
        "facets": [{"kind": one.kind, "value": one.value, "count": one.count} for one in result.facets],
        "folders": freshness_json(result.folder_freshness),
    }


def show_match(match: Match) -> None:
    """One match on a few lines."""
    summary = match.summary
    show_heading(summary, more=f"  (+{len(match.others)})" if match.others else "")
    for snippet in match.snippets:
        out.print(highlighted(neutralise(snippet)))
    for hit in match.found_in:
        show(f"  in attachment {neutralise(hit.file_name or 'unnamed')}")
        for snippet in hit.snippets:
            out.print(highlighted(neutralise(snippet)))
    if match.nearest_passage is not None:
        show(f"  near in meaning: {neutralise(match.nearest_passage)}")
    show(f"  {summary.stored_email_id}")


def highlighted(snippet: str) -> Text:
    """The snippet with its `**words**` bold on a terminal; a pipe keeps the asterisks."""
    text = Text("  ")
    if not out.is_terminal:
        return text.append(snippet)
    for position, part in enumerate(snippet.split("**")):
        text.append(part, style="bold" if position % 2 else "")
    return text


def _show_facets(result: SearchResult) -> None:
    rows = [(kind.value, one.value, str(one.count)) for kind in FacetKind for one in result.facets if one.kind is kind]
    table(("counted by", "value", "matches"), rows, right=(2,))
    if not result.match_count.is_exact:
        say(f"Counted among the newest {result.ranked_among} matches.")
