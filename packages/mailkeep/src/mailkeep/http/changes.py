"""The page of changes, and the same as JSON: what waits, what is stuck and why, how changes ended. No mail content."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from mailkeep.app import App
from mailkeep.errors import FilterRefused
from mailkeep.http.pages import age, escaped, page, query_string
from mailkeep.mutations import (
    AuditEntry,
    AuditFilter,
    Change,
    ChangeFilter,
    ChangePage,
    Lifecycle,
    failure_sentence,
    list_changes,
    read_trail,
)

SHOWN: Final = 100
AUDITED: Final = 20


def add_routes(application: FastAPI) -> None:
    """`/changes` for people and `/api/changes` for scripts; both only read."""
    application.add_api_route("/changes", _changes, response_class=HTMLResponse)
    application.add_api_route("/api/changes", _api_changes)


def _app(request: Request) -> App:
    mailkeep: App = request.app.state.mailkeep
    return mailkeep


async def _changes(request: Request, cursor: str | None = None) -> HTMLResponse:
    mailkeep = _app(request)
    stuck = await list_changes(mailkeep.db, ChangeFilter(lifecycle=Lifecycle.DEAD_LETTERED), page_size=SHOWN)
    listed = await list_changes(mailkeep.db, page_size=SHOWN, cursor=cursor)
    trails = {
        account.display_name: (
            await read_trail(mailkeep.db, AuditFilter(account.account_id), page_size=AUDITED)
        ).entries
        for account in mailkeep.accounts()
        if account.audit_trail.enabled
    }
    return HTMLResponse(changes_page(listed, stuck.changes, trails, now=datetime.now(UTC)))


async def _api_changes(
    request: Request,
    account: str | None = None,
    state: str | None = None,
    cursor: str | None = None,
) -> Any:
    mailkeep = _app(request)
    account_id = None if account is None else mailkeep.accounts(account)[0].account_id
    try:
        lifecycle = None if state is None else Lifecycle(state)
    except ValueError:
        raise FilterRefused(f"state is one of {', '.join(Lifecycle)}") from None
    found = await list_changes(mailkeep.db, ChangeFilter(account_id, lifecycle), page_size=SHOWN, cursor=cursor)
    return {"changes": [_as_json(one) for one in found.changes], "next_cursor": found.next_cursor}


def changes_page(
    listed: ChangePage, stuck: Sequence[Change], trails: dict[str, tuple[AuditEntry, ...]], *, now: datetime
) -> str:
    """What waits, what was given up, and the latest of each audit trail by the account's name. Pure."""
    waiting = [one for one in listed.changes if one.record.lifecycle is not Lifecycle.DEAD_LETTERED]
    body = "<h1>Changes</h1>"
    body += "<h2>Waiting</h2>" + (_table(waiting, now) if waiting else "<p>No change is waiting.</p>")
    if listed.next_cursor is not None:
        body += f'<p><a href="/changes?{escaped(query_string(cursor=listed.next_cursor))}">More</a></p>'
    if stuck:
        body += (
            "<h2>Given up</h2><p>Again: <code>mailkeep changes retry</code>. A move or copy whose answer was lost: "
            f"<code>mailkeep changes resolve</code>.</p>{_table(stuck, now)}"
        )
    for name, entries in trails.items():
        body += f"<h2>Done: {escaped(name)}</h2>" + (_trail(entries, now) if entries else "<p>Nothing yet.</p>")
    return page("Changes", body)


def _table(changes: Sequence[Change], now: datetime) -> str:
    rows = "".join(_row(one, now) for one in changes)
    head = "<tr><th>Change<th>What<th>Folder<th>To<th>State<th class=n>Attempts<th>Asked</tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _row(change: Change, now: datetime) -> str:
    record = change.record
    code = record.last_failure_code
    state = record.lifecycle.value if code is None else f"{record.lifecycle.value}: {failure_sentence(code)} [{code}]"
    cells = (
        record.id,
        record.terms.mutation.value,
        f"{record.account_id}/{change.folder_alias}",
        record.terms.destination_folder_path or "",
        state,
    )
    bad = " class=bad" if record.lifecycle is Lifecycle.DEAD_LETTERED else ""
    shown = "".join(f"<td>{escaped(cell)}</td>" for cell in cells)
    asked = escaped(age(record.recorded_at, now))
    return f"<tr{bad}>{shown}<td class=n>{record.attempt_count}</td><td>{asked}</td></tr>"


def _trail(entries: Sequence[AuditEntry], now: datetime) -> str:
    rows = ""
    for one in entries:
        outcome = one.outcome.value if one.failure_code is None else f"{one.outcome.value} [{one.failure_code}]"
        cells = (
            one.mutation.value,
            one.source_folder_path,
            one.destination_folder_path or "",
            outcome,
            f"{one.requester_origin.value} {one.requester_identity}",
            age(one.completed_at, now),
        )
        rows += "<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in cells) + "</tr>"
    head = "<tr><th>What<th>From<th>To<th>Outcome<th>Asked by<th>Ended</tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _as_json(change: Change) -> dict[str, object]:
    record = change.record
    return {
        "change": record.id,
        "message": record.stored_email_id,
        "account": record.account_id,
        "folder": change.folder_alias,
        "mutation": record.terms.mutation.value,
        "destination": record.terms.destination_folder_path,
        "state": record.lifecycle.value,
        "code": record.last_failure_code,
        "attempts": record.attempt_count,
        "recorded_at": record.recorded_at,
        "since": record.stage_changed_at,
        "request_id": record.requester.identity,
    }
