"""The page of jobs, and the administration of jobs as JSON (docs/spec/jobs.md section 8). Payloads are never read.

Both do what `mailkeep jobs` does, through the same calls. Paths below `/api/admin` are those of docs/spec/operations.md
section 4; `/api/jobs` answers what the page shows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from mailkeep.app import App
from mailkeep.background import applies_to
from mailkeep.errors import ConfigurationRefused, JobQueueFull, MailkeepError, ReaderError
from mailkeep.http import jobs_page
from mailkeep.http.asked import RequestRefused, document_of, form_of
from mailkeep.http.pages import error_page
from mailkeep.jobs import (
    Decision,
    JobPage,
    JobRow,
    JobState,
    cancel_job,
    drop_job,
    held_by,
    job_type_named,
    list_jobs,
    paused_types,
    retry_job,
    show_job,
)

SHOWN: Final = 50
ENDED: Final = 10
ADMIN: Final = "/api/admin/jobs"
_STATES: Final = {
    "stopped": JobState.DEAD_LETTERED,
    "pending": JobState.PENDING,
    "running": JobState.CLAIMED,
    "done": JobState.SUCCEEDED,
    "dropped": JobState.DROPPED,
}
_DECISIONS: Final = {"retry": retry_job, "drop": drop_job, "cancel": cancel_job}
_REFUSED: Final = (ReaderError, ConfigurationRefused, JobQueueFull)
"""Errors whose sentence is written for whoever asked."""


def add_routes(application: FastAPI) -> None:
    """`/jobs` and its buttons for people, `/api/jobs` and `/api/admin/jobs` for scripts."""
    application.add_api_route("/jobs", _page, response_class=HTMLResponse)
    application.add_api_route("/jobs/{act}", _pressed, methods=["POST"])
    application.add_api_route("/api/jobs", _api_list)
    application.add_api_route("/api/jobs/schedules", _api_schedules)
    application.add_api_route("/api/jobs/{job}", _api_show)
    application.add_api_route(f"{ADMIN}/dead-letters", _api_dead_letters)
    application.add_api_route(f"{ADMIN}/dead-letters/{{act}}", _api_decide, methods=["POST"])
    application.add_api_route(f"{ADMIN}/cancellation", _api_cancel, methods=["POST"])
    application.add_api_route(f"{ADMIN}/pause", _api_pause, methods=["POST"])
    application.add_api_route(f"{ADMIN}/resume", _api_resume, methods=["POST"])
    application.add_api_route(f"{ADMIN}/requests", _api_add, methods=["POST"])
    application.add_exception_handler(RequestRefused, _refused)


def _app(request: Request) -> App:
    mailkeep: App = request.app.state.mailkeep
    return mailkeep


async def _page(request: Request, said: str = "", cursor: str | None = None) -> HTMLResponse:
    mailkeep = _app(request)
    db = mailkeep.db
    text = jobs_page.jobs_page(
        stopped=await list_jobs(db, page_size=SHOWN, cursor=cursor),
        running=await list_jobs(db, state=JobState.CLAIMED, page_size=SHOWN),
        waiting=await list_jobs(db, state=JobState.PENDING, page_size=SHOWN),
        ended=(await list_jobs(db, state=JobState.SUCCEEDED, page_size=ENDED)).jobs,
        schedules=await mailkeep.background.schedule_reports(),
        paused=await paused_types(db),
        accounts=[
            (one.account_id, one.display_name, [kind for kind in jobs_page.WORKS if applies_to(kind, one)])
            for one in mailkeep.accounts()
        ],
        said=said,
        now=datetime.now(UTC),
    )
    # Under no-referrer a browser hides the origin of our own forms as well, and the guard would refuse them.
    return HTMLResponse(text, headers={"Referrer-Policy": "same-origin"})


async def _pressed(request: Request, act: str) -> Response:
    """A button of the page: act, then show the page again with what came of it."""
    mailkeep, fields = _app(request), await form_of(request)
    try:
        said = await _act(mailkeep, act, fields)
    except _REFUSED as error:
        return HTMLResponse(error_page("Not possible", error.message), status_code=_status_of(error))
    return RedirectResponse(f"/jobs?{urlencode({'said': said})}", status_code=303)


async def _act(mailkeep: App, act: str, fields: dict[str, str]) -> str:
    """The name of the sentence to show. Raises RequestRefused and what the calls raise."""
    if act in _DECISIONS:
        return (await _DECISIONS[act](mailkeep.db, _job_id(fields.get("job")))).value
    name = fields.get("name", "")
    if act == "pause":
        await mailkeep.background.pause(name)
        return "Paused"
    if act == "resume":
        await mailkeep.background.resume(name)
        return "Resumed"
    if act == "run":
        await mailkeep.background.run_now(name)
        return "Asked"
    if act == "add":
        (account,) = mailkeep.accounts(fields.get("account") or "")
        await mailkeep.background.ask_for(name, account, folder=None, fill=fields.get("fill") == "on")
        return "Asked"
    raise RequestRefused(404, "There is nothing here.")


async def _api_list(
    request: Request,
    state: str = "stopped",
    type: str | None = None,  # noqa: A002 -- the name in the address
    account: str | None = None,
    page_size: str = str(SHOWN),
    cursor: str | None = None,
) -> Response:
    if state not in _STATES:
        return _problem(400, f"state is one of {', '.join(_STATES)}")
    return await _answered(_found(request, _STATES[state], type, account, page_size, cursor))


async def _api_dead_letters(
    request: Request,
    type: str | None = None,  # noqa: A002 -- the name in the address
    account: str | None = None,
    page_size: str = str(SHOWN),
    cursor: str | None = None,
) -> Response:
    return await _answered(_found(request, JobState.DEAD_LETTERED, type, account, page_size, cursor))


async def _found(
    request: Request, state: JobState, job_type: str | None, account: str | None, page_size: str, cursor: str | None
) -> dict[str, Any]:
    mailkeep = _app(request)
    if not page_size.isascii() or not page_size.isdigit() or len(page_size) > 4:
        raise RequestRefused(400, "page_size is a number from 1 to 200")
    page: JobPage = await list_jobs(
        mailkeep.db,
        state=state,
        job_type=None if job_type is None else job_type_named(job_type),
        account_id=None if account is None else mailkeep.accounts(account)[0].account_id,
        page_size=int(page_size),
        cursor=cursor,
    )
    found: dict[str, Any] = {"jobs": [as_json(job) for job in page.jobs]}
    if page.next_cursor is not None:
        found["next_cursor"] = page.next_cursor
    return found


async def _api_show(request: Request, job: str) -> Response:
    found = await show_job(_app(request).db, _job_id(job))
    if found is None:
        return _problem(404, "There is no such job.")
    return _json(as_json(found))


async def _api_schedules(request: Request) -> Any:
    mailkeep = _app(request)
    return {"schedules": await mailkeep.background.schedule_reports(), "paused": await paused_types(mailkeep.db)}


async def _api_decide(request: Request, act: str) -> Response:
    if act not in ("retry", "drop"):
        return _problem(404, "There is nothing here.")
    return await _decided(request, _DECISIONS[act])


async def _api_cancel(request: Request) -> Response:
    return await _decided(request, cancel_job)


async def _decided(request: Request, decide: Callable[..., Awaitable[Decision]]) -> Response:
    document = await document_of(request)
    return _json({"outcome": (await decide(_app(request).db, _job_id(document.get("job")))).value})


async def _api_pause(request: Request) -> Response:
    name = _text(await document_of(request), "name")
    return await _answered(_done(_app(request).background.pause(name)))


async def _api_resume(request: Request) -> Response:
    name = _text(await document_of(request), "name")
    return await _answered(_done(_app(request).background.resume(name)))


async def _done(work: Awaitable[None]) -> dict[str, Any]:
    await work
    return {"outcome": Decision.ACCEPTED.value}


async def _api_add(request: Request) -> Response:
    return await _answered(_added(_app(request), await document_of(request)))


async def _added(mailkeep: App, document: dict[str, Any]) -> dict[str, Any]:
    (account,) = mailkeep.accounts(_text(document, "account"))
    folder = None if document.get("folder") is None else _text(document, "folder")
    fill = document.get("fill", False)
    if not isinstance(fill, bool):
        raise RequestRefused(400, "fill is true or false")
    asked = mailkeep.background.ask_for(_text(document, "type"), account, folder=folder, fill=fill)
    return {"job": str(await asked)}


def as_json(job: JobRow) -> dict[str, Any]:
    """One job; instants in ISO 8601. What nobody knows yet is null."""
    return {
        "job": str(job.id),
        "type": job.job_type,
        "state": job.state.value,
        "attempts": job.attempts,
        "classification": job.classification,
        "reason": job.reason,
        "key": job.key,
        "account": job.account_id,
        "enqueued_at": job.enqueued_at.isoformat(),
        "since": job.state_changed_at.isoformat(),
        "available_at": job.available_at.isoformat(),
        "holder": None if job.lease_owner is None else held_by(job.lease_owner),
        "held_until": None if job.lease_expires_at is None else job.lease_expires_at.isoformat(),
        "progress": {"done": job.progress_done, "total": job.progress_total},
        "result": job.result,
    }


async def _answered(work: Awaitable[dict[str, Any]]) -> Response:
    """The answer of a call, or the refusal with its code and sentence."""
    try:
        return _json(await work)
    except _REFUSED as error:
        return _problem(_status_of(error), error.message, code=error.code)


def _status_of(error: MailkeepError) -> int:
    return 503 if isinstance(error, JobQueueFull) else 400


def _job_id(text: object) -> UUID:
    try:
        return UUID(text if isinstance(text, str) else "")
    except ValueError:
        raise RequestRefused(400, "job should be the id of a job") from None


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value or len(value) > 256:
        raise RequestRefused(400, f"{name} is missing")
    return value


def _json(value: dict[str, Any]) -> Response:
    return JSONResponse(value)


def _problem(status: int, sentence: str, *, code: int | None = None) -> Response:
    return JSONResponse({"message": sentence} if code is None else {"code": code, "message": sentence}, status)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    if request.url.path.startswith("/api/"):
        return _problem(error.status, error.sentence)
    return HTMLResponse(error_page("Not possible", error.sentence), status_code=error.status)
