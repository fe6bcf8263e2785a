"""The routes. Each handler asks `App`, hands the values to a page, and answers; failures become one short page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from mailkeep.app import App, ShownMessage, parse_email_id
from mailkeep.display import moment, size
from mailkeep.errors import DatabaseUnavailable, EmailNotAccessible, MailkeepError, ReaderError
from mailkeep.http import changes, embeddings, jobs, pages
from mailkeep.http.guard import LoopbackGuard
from mailkeep.mcp import http_app
from mailkeep.search import ListRequest, Match, QueryMalformed, RetrievalMode, SearchRequest, SearchResult, Summary
from mailkeep.search.filters import MAX_SKIP

RESULTS_PER_PAGE: Final = 20
UNANSWERED: Final = "The request could not be answered."
MCP_PATH: Final = "/mcp"


def create_app(mailkeep: App) -> LoopbackGuard:
    """The ASGI application on an open App. Its lifespan runs the mounted MCP endpoint's."""
    endpoint = http_app(mailkeep) if mailkeep.settings.mcp_endpoint.enabled else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if endpoint is not None:
                await stack.enter_async_context(endpoint.router.lifespan_context(endpoint))
            yield

    # The generated API pages would load scripts from elsewhere.
    application = FastAPI(title="mailkeep", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    application.state.mailkeep = mailkeep
    application.add_api_route("/", _status, response_class=HTMLResponse)
    application.add_api_route("/style.css", _style)
    application.add_api_route("/healthz", _health)
    application.add_api_route("/api/status", _api_status)
    application.add_api_route("/search", _search, response_class=HTMLResponse)
    application.add_api_route("/message/{email_id}", _message, response_class=HTMLResponse)
    application.add_api_route("/message/{email_id}/attachment/{position}", _attachment, response_class=HTMLResponse)
    changes.add_routes(application)
    embeddings.add_routes(application)
    jobs.add_routes(application)
    application.add_exception_handler(MailkeepError, _named_failure)
    application.add_exception_handler(HTTPException, _http_failure)
    application.add_exception_handler(Exception, _unnamed_failure)
    if endpoint is not None:
        application.add_api_route(MCP_PATH, _no_stream)
        endpoint.add_exception_handler(HTTPException, _http_failure)
        application.mount("/", endpoint)
    return LoopbackGuard(application)


def _app(request: Request) -> App:
    mailkeep: App = request.app.state.mailkeep
    return mailkeep


async def _status(request: Request) -> HTMLResponse:
    mailkeep = _app(request)
    text = pages.status_page(
        await mailkeep.status(),
        await mailkeep.quarantine(),
        now=datetime.now(UTC),
        mcp_enabled=mailkeep.settings.mcp_endpoint.enabled,
        stages=await mailkeep.stage_statuses(),
        notice=mailkeep.notice,
        stopped_jobs=await mailkeep.stopped_jobs(),
    )
    return HTMLResponse(text)


async def _style() -> Response:
    return Response(pages.STYLE, media_type="text/css")


async def _health(request: Request) -> Response:
    """200 while the database answers, 503 otherwise; says nothing else."""
    try:
        await _app(request).probe_database()
    except DatabaseUnavailable:
        return PlainTextResponse("database unavailable\n", status_code=503)
    return PlainTextResponse("ok\n")


async def _api_status(request: Request) -> Any:
    mailkeep = _app(request)
    return {
        "accounts": await mailkeep.status(),
        "quarantined": await mailkeep.quarantine(),
        "stages": await mailkeep.stage_statuses(),
        "settings": mailkeep.notice,
        "stopped_jobs": await mailkeep.stopped_jobs(),
    }


async def _search(
    request: Request, q: str = "", cursor: str | None = None, after: int = 0, saved: str = "", like: str = ""
) -> HTMLResponse:
    """A page of the timeline, or one of the matches of a typed or kept query; `after` counts the matches before it."""
    mailkeep = _app(request)
    kept = [one.name for one in await mailkeep.saved_searches()]
    query = (await mailkeep.saved_search(saved)).query_text if saved else q.strip()
    if not query and not like:
        page = await mailkeep.list(ListRequest(page_size=RESULTS_PER_PAGE, cursor=cursor))
        blocks = [_summary_block(summary, ()) for summary in page.emails]
        more = pages.query_string(cursor=page.next_cursor) if page.next_cursor is not None else None
        return HTMLResponse(pages.search_page("", blocks, notes=(), more=more, saved=kept))
    asked = SearchRequest(
        query_text=query,
        result_limit=RESULTS_PER_PAGE,
        skip=max(0, min(after, MAX_SKIP)),
        like=parse_email_id(like) if like else None,
    )
    try:
        result = await mailkeep.search(asked)
    except QueryMalformed as error:
        return HTMLResponse(pages.malformed_page(query, error.problem, error.position), status_code=400)
    more = None
    if len(result.matches) == RESULTS_PER_PAGE and asked.skip + RESULTS_PER_PAGE <= MAX_SKIP:
        more = pages.query_string(q=query or None, like=like or None, after=str(asked.skip + RESULTS_PER_PAGE))
    return HTMLResponse(
        pages.search_page(
            query,
            [_match_block(match) for match in result.matches],
            notes=_search_notes(result, asked.skip),
            more=more,
            saved=kept,
        )
    )


def _search_notes(result: SearchResult, skipped: int) -> list[str]:
    """How many matches there are, how they were found, how fresh the searched mail is."""
    if result.asked_for_nothing:
        return ["Nothing to look for: type a word, the beginning of one (ferr*), or a field such as from:ann."]
    if not result.matches:
        return []
    about = "" if result.match_count.is_exact else "about "
    shown, count = f"{skipped + 1} to {skipped + len(result.matches)}", f"{about}{result.match_count.count}"
    if result.retrieval_mode is RetrievalMode.HYBRID:  # those by meaning are no matches that could be counted
        facts = [f"{shown} of the best, {count} with these words"]
    else:
        facts = [f"{shown} of {count} matches"]
    facts.append(result.retrieval_mode.value)
    if result.mail_as_of is not None:
        facts.append(f"mail as of {moment(result.mail_as_of)}")
    return [", ".join(facts) + "."]


def _match_block(match: Match) -> str:
    email_id = str(match.summary.stored_email_id)
    hits = [
        pages.attachment_hit(email_id, hit.position, hit.file_name or "unnamed", hit.snippets) for hit in match.found_in
    ]
    if match.nearest_passage is not None:
        hits.append(pages.snippet(f"Near in meaning: {match.nearest_passage.replace('**', '* *')}"))
    return _summary_block(match.summary, match.snippets, hits)


def _summary_block(summary: Summary, snippets: tuple[str, ...], hits: Sequence[str] = ()) -> str:
    sender = " ".join(
        filter(None, (summary.sender_display_name, summary.sender_address and f"<{summary.sender_address}>"))
    )
    return pages.result_block(
        email_id=str(summary.stored_email_id),
        subject=summary.subject,
        sender=sender,
        when=moment(summary.received_at),
        place=f"{summary.account_id}/{summary.folder_alias}",
        snippets=[*(pages.snippet(text) for text in snippets), *hits],
    )


async def _message(request: Request, email_id: str) -> HTMLResponse:
    shown: ShownMessage = await _app(request).show(email_id)
    return HTMLResponse(
        pages.message_page(
            subject=shown.subject,
            fields=shown.fields,
            body=shown.text,
            attachments=[
                pages.attachment_line(
                    email_id,
                    one.position,
                    f"{one.name or 'unnamed'} ({one.media_type}, {size(one.size)})",
                    remark=one.remark,
                    has_text=one.characters > 0,
                )
                for one in shown.attachments
            ],
            notes=shown.notes,
            alike=pages.query_string(like=email_id),
        )
    )


async def _attachment(request: Request, email_id: str, position: int) -> HTMLResponse:
    """The text of an attachment, as it is searched; the file itself is not served."""
    mailkeep = _app(request)
    shown = await mailkeep.show(email_id)
    text = await mailkeep.attachment_text(email_id, position)
    name = next((one.name for one in shown.attachments if one.position == position), None)
    is_cut = text.reading.is_partial or len(text.text) < text.reading.character_count
    return HTMLResponse(pages.attachment_page(email_id, name or "unnamed", shown.subject, text.text, is_cut=is_cut))


async def _no_stream() -> Response:
    """405: a stateless endpoint has nothing to stream, and says so instead of holding the connection open for ever."""
    return PlainTextResponse(
        "This is the address for MCP clients; they send POST.\n", status_code=405, headers={"Allow": "POST"}
    )


async def _named_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, MailkeepError)
    if isinstance(error, EmailNotAccessible):
        status = 404
    elif isinstance(error, ReaderError):
        status = 400
    else:
        status = 503 if error.retryable else 500
    # Only reader errors are written for callers; the others' sentences are for the operator's log.
    sentence = error.message if isinstance(error, ReaderError) else UNANSWERED
    return _failure(request, status, f"Error {error.code}", sentence, code=error.code)


async def _http_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = "Not found" if error.status_code == 404 else "Not possible"
    return _failure(request, error.status_code, title, "There is nothing here.")


async def _unnamed_failure(request: Request, error: Exception) -> Response:
    del error  # its text may quote mail
    return _failure(request, 500, "Error", UNANSWERED)


def _failure(request: Request, status: int, title: str, sentence: str, *, code: int | None = None) -> Response:
    """One short page, or the same as JSON where a script asked."""
    if request.url.path.startswith("/api/"):
        return JSONResponse({"message": sentence} if code is None else {"code": code, "message": sentence}, status)
    return HTMLResponse(pages.error_page(title, sentence), status_code=status)
