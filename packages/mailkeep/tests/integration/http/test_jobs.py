"""Jobs and schedules over HTTP: the same acts as `mailkeep jobs`, and who may not act."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from support.jobs import VERIFY, execute, put, rows

from mailkeep.app import App
from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.http.application import create_app
from mailkeep.jobs import AlreadyEnqueued, Created

pytestmark = pytest.mark.anyio
WORK = {"account_id": "work", "display_name": "Work", "host": "imap.example.com", "port": 993, "user_name": "w"}
NIGHTLY = {"name": "nightly", "recurrence": "Daily at 03:00", "job": "verify-mailbox"}
ADMIN = "/api/admin/jobs"
UNKNOWN = "01a22f6b-6d49-7b40-bcea-b8a4590120db"


@pytest.fixture
async def web(db: Database, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application on this database, with one account and one schedule."""
    accounts = {"accounts": [{**WORK, "secrets": {"password": "env:X"}}]}
    settings = Settings.model_validate({"mail_synchronization": accounts, "jobs": {"schedules": [NIGHTLY]}})
    mailkeep = App(tmp_path, settings, db)
    transport = httpx.ASGITransport(create_app(mailkeep))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client
    await mailkeep.access.close()
    await mailkeep.embeddings.close()


async def stopped(db: Database, key: str = "stopped") -> UUID:
    """One job that was given up."""
    made = await put(db, key)
    assert isinstance(made, Created)
    await execute(
        db,
        "UPDATE jobs SET state = 'DeadLettered', last_failure_reason = 'ValueError', attempt_count = 5, "
        """payload = '{"secret": "payload"}' WHERE id = %s""",
        made.id,
    )
    return made.id


async def token(web: httpx.AsyncClient) -> str:
    """The token that the page's forms carry."""
    found = re.search(r'name="token" value="([^"]+)"', (await web.get("/jobs")).text)
    assert found is not None
    return found[1]


@pytest.mark.spec("JOB-39")
async def test_dead_letters_are_listed_by_page_without_their_payloads(db: Database, web: httpx.AsyncClient) -> None:
    """Filters by type and account, refusals that name what to fix, a cursor bound to its filters."""
    for number in range(3):
        await stopped(db, f"key{number}")
    first = (await web.get(f"{ADMIN}/dead-letters?page_size=2")).json()
    second = (await web.get(f"{ADMIN}/dead-letters?page_size=2&cursor={first['next_cursor']}")).json()
    assert [job["key"] for job in first["jobs"] + second["jobs"]] == ["key2", "key1", "key0"]
    assert "next_cursor" not in second
    assert set(first["jobs"][0]) >= {"job", "type", "attempts", "classification", "reason", "key", "account"}
    assert "payload" not in str(first)
    assert len((await web.get(f"{ADMIN}/dead-letters?type=verify-mailbox&account=work")).json()["jobs"]) == 3
    for query in ("type=nonsense", "account=nobody", "page_size=201", "page_size=x", "cursor=x"):
        refused = await web.get(f"{ADMIN}/dead-letters?{query}")
        assert refused.status_code == 400
        assert refused.json()["message"]
    assert (await web.get(f"{ADMIN}/dead-letters?account=work&cursor={first['next_cursor']}")).status_code == 400


async def test_scripts_are_told_of_failures_in_json(web: httpx.AsyncClient) -> None:
    """The code and the sentence where people get a page."""
    refused = await web.get("/api/changes?state=nonsense")
    assert (refused.status_code, refused.json()["code"]) == (400, 51002)
    missing = await web.get("/api/nothing")
    assert (missing.status_code, missing.json()) == (404, {"message": "There is nothing here."})
    assert "<h1>Not found" in (await web.get("/nothing")).text


@pytest.mark.spec("JOB-40", "JOB-41")
async def test_a_script_retries_and_drops_by_id(db: Database, web: httpx.AsyncClient) -> None:
    """The outcome is an answer; a body without a job, not of JSON, or above 4 KB is refused before anything is done."""
    again, never = await stopped(db, "again"), await stopped(db, "never")

    async def decide(act: str, job: object) -> tuple[int, str | None]:
        answer = await web.post(f"{ADMIN}/dead-letters/{act}", json={"job": job})
        return answer.status_code, answer.json().get("outcome")

    assert await decide("retry", str(again)) == (200, "Accepted")
    assert await decide("retry", str(again)) == (200, "JobNotDeadLettered")
    assert await decide("drop", str(never)) == (200, "Accepted")
    assert await decide("drop", UNKNOWN) == (200, "JobUnknown")
    assert await decide("retry", None) == (400, None)
    assert await put(db, "never") == AlreadyEnqueued(never)
    assert (await web.post(f"{ADMIN}/cancellation", json={"job": str(again)})).json() == {"outcome": "Accepted"}
    kept = await stopped(db, "kept")
    path, body = f"{ADMIN}/dead-letters/drop", f'{{"job": "{kept}"}}'
    for content, kind, status in (
        (body + " " * 4097, "application/json", 413),
        (body, "text/plain", 415),
        (body, "application/x-www-form-urlencoded", 415),
        ("[]", "application/json", 400),
        ("{}", "application/json", 400),
        ("[" * 4000, "application/json", 400),
    ):
        assert (await web.post(path, content=content, headers={"Content-Type": kind})).status_code == status
    assert await rows(db, "SELECT state FROM jobs WHERE idempotency_key = 'kept'") == [("DeadLettered",)]


@pytest.mark.spec("JOB-B8", "JOB-B12")
async def test_types_and_schedules_are_paused_and_work_is_asked_for(db: Database, web: httpx.AsyncClient) -> None:
    """What the command line can, a script can."""
    assert (await web.post(f"{ADMIN}/pause", json={"name": "verify-mailbox"})).status_code == 200
    assert (await web.post(f"{ADMIN}/pause", json={"name": "work/nightly"})).status_code == 200
    found = (await web.get("/api/jobs/schedules")).json()
    assert list(found["paused"]) == ["verify-mailbox"]
    (schedule,) = found["schedules"]
    assert (schedule["schedule"], schedule["recurrence"]) == ("work/nightly", "Daily at 03:00")
    assert schedule["paused_at"] is not None
    for name in ("verify-mailbox", "work/nightly"):
        assert (await web.post(f"{ADMIN}/resume", json={"name": name})).status_code == 200
    found = (await web.get("/api/jobs/schedules")).json()
    assert (found["paused"], found["schedules"][0]["paused_at"]) == ({}, None)
    assert (await web.post(f"{ADMIN}/pause", json={"name": "nobody/never"})).status_code == 400
    asked = {"type": "verify-mailbox", "account": "work", "folder": "inbox", "fill": True}
    job = (await web.post(f"{ADMIN}/requests", json=asked)).json()["job"]
    assert (await web.get("/api/jobs?state=pending")).json()["jobs"][0]["job"] == job
    assert (await web.get(f"/api/jobs/{job}")).json()["state"] == "Pending"
    assert (await web.get(f"/api/jobs/{UNKNOWN}")).status_code == 404
    payload = "SELECT payload->>'folder_alias', payload->>'fill', priority FROM jobs"
    assert await rows(db, payload) == [("INBOX", "true", 0)]
    for wrong in ({"type": "no"}, {"account": "nobody"}, {"fill": "yes"}, {"type": "rederive-stored-mail"}):
        assert (await web.post(f"{ADMIN}/requests", json={**asked, **wrong})).status_code == 400


@pytest.mark.spec("JOB-B8", "JOB-B12", "JOB-40")
async def test_a_person_acts_by_the_buttons_of_the_page(db: Database, web: httpx.AsyncClient) -> None:
    """Each act leads back to the page, which says what came of it."""
    job, value = await stopped(db), await token(web)
    page = (await web.get("/jobs")).text
    assert "Given up" in page
    assert "ValueError" in page

    async def press(act: str, **fields: str) -> str:
        answer = await web.post(f"/jobs/{act}", data={**fields, "token": value})
        assert answer.status_code == 303
        shown = await web.get(answer.headers["location"])
        assert shown.headers["referrer-policy"] == "same-origin"
        return shown.text

    assert "Done." in await press("retry", job=str(job))
    assert "not any more" in await press("drop", job=str(job))
    assert "Done." in await press("cancel", job=str(job))
    assert "Pause verify-mailbox" not in await press("pause", name="verify-mailbox")
    assert "Pause verify-mailbox" in await press("resume", name="verify-mailbox")
    assert "Resume" in await press("pause", name="work/nightly")
    assert "Going on" in await press("resume", name="work/nightly")
    assert "Written down" in await press("run", name="work/nightly")
    assert "Written down" in await press("add", name="retry-quarantined-mail", account="work")
    states = "SELECT job_type, state FROM jobs ORDER BY enqueued_at"
    assert await rows(db, states) == [
        (VERIFY.value, "Dropped"),
        (VERIFY.value, "Pending"),
        ("retry-quarantined-mail", "Pending"),
    ]
    await execute(db, "DELETE FROM jobs")
    await press("add", name="verify-mailbox", account="work", fill="on")
    assert await rows(db, "SELECT payload->>'fill' FROM jobs") == [("true",)]
    refused = await web.post("/jobs/add", data={"name": "verify-mailbox", "account": "nobody", "token": value})
    assert refused.status_code == 400
    assert "no account" in refused.text


@pytest.mark.spec("JOB-40")
async def test_nothing_is_changed_for_a_page_of_another_site(db: Database, web: httpx.AsyncClient) -> None:
    """Without the token, with a foreign origin, from another page of this machine, or as a form to the API."""
    job, value = await stopped(db), await token(web)
    form = {"job": str(job), "token": value}
    attempts = [
        web.post("/jobs/drop", data={"job": str(job)}),
        web.post("/jobs/drop", data={**form, "token": value[:-1]}),
        web.post("/jobs/drop", data=form, headers={"Origin": "https://example.com"}),
        web.post("/jobs/drop", data=form, headers={"Sec-Fetch-Site": "same-site"}),
        web.post("/jobs/drop", data=form, headers={"Origin": "null"}),
    ]
    assert [(await attempt).status_code for attempt in attempts] == [403] * 5
    json = {"job": str(job)}
    crossed = await web.post(f"{ADMIN}/dead-letters/drop", json=json, headers={"Sec-Fetch-Site": "cross-site"})
    assert crossed.status_code == 403
    assert (await web.get("/jobs/drop", params=form)).status_code in (404, 405)
    assert await rows(db, "SELECT state FROM jobs") == [("DeadLettered",)]
    own = {"Origin": "http://127.0.0.1:8025", "Sec-Fetch-Site": "same-origin"}
    assert (await web.post("/jobs/drop", data=form, headers=own)).status_code == 303
