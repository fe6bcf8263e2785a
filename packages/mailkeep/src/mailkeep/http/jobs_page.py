"""The page of jobs as text: what was given up, runs, waits and recurs, each with its buttons. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from mailkeep.background import ScheduleReport
from mailkeep.config import JobType
from mailkeep.display import duration, moment
from mailkeep.http.asked import button
from mailkeep.http.pages import age, escaped, named, page, query_string
from mailkeep.jobs import Decision, JobPage, JobRow, held_by

SAID = {
    Decision.ACCEPTED.value: "Done.",
    Decision.JOB_UNKNOWN.value: "There is no such job any more.",
    Decision.JOB_NOT_DEAD_LETTERED.value: "That job has not stopped, or not any more.",
    Decision.JOB_NOT_PENDING.value: "That job does not wait, or not any more.",
    "Paused": "Paused, in every process. What runs finishes.",
    "Resumed": "Going on.",
    "Asked": "Written down; it starts when a process has room for it.",
}
"""What came of a button, by the word in the address."""
WORKS = {
    JobType.VERIFY_MAILBOX: "Compare with the server",
    JobType.RETRY_QUARANTINED_MAIL: "Retry the quarantine",
    JobType.REDERIVE_STORED_MAIL: "Read stored mail again",
}


def jobs_page(
    *,
    stopped: JobPage,
    running: JobPage,
    waiting: JobPage,
    ended: Sequence[JobRow],
    schedules: Sequence[ScheduleReport],
    paused: Mapping[str, datetime],
    accounts: Sequence[tuple[str, str, Sequence[JobType]]],
    said: str,
    now: datetime,
) -> str:
    """The whole page; empty lists are left out, so that what needs a decision stands first."""
    body = "<h1>Jobs</h1>"
    if said in SAID:
        body += f"<p role=status><strong>{escaped(SAID[said])}</strong></p>"
    body += _paused(paused, now)
    if stopped.jobs:
        body += "<h2>Given up</h2><p>These wait for a decision. What caused a dropped job cannot ask for it again.</p>"
        body += _stopped(stopped.jobs, now)
        if stopped.next_cursor is not None:
            body += f'<p><a href="/jobs?{escaped(query_string(cursor=stopped.next_cursor))}">More</a></p>'
    body += "<h2>Running</h2>" + (_running(running.jobs, now) if running.jobs else "<p>Nothing runs.</p>")
    body += "<h2>Waiting</h2>" + (_waiting(waiting.jobs, paused, now) if waiting.jobs else "<p>Nothing waits.</p>")
    if waiting.next_cursor is not None:
        body += f"<p class=quiet>The latest {len(waiting.jobs)} are shown.</p>"
    body += _add(accounts, paused) + _schedules(schedules)
    if ended:
        body += "<h2>Done lately</h2>" + _ended(ended, now)
    return page("Jobs", body)


def _paused(paused: Mapping[str, datetime], now: datetime) -> str:
    rows = "".join(
        f"<tr class=bad><td>{escaped(name)}</td><td>paused {escaped(age(since, now))}</td>"
        f"<td>{button('/jobs/resume', 'Resume', name=name)}</td></tr>"
        for name, since in paused.items()
    )
    return f"<table><tbody>{rows}</tbody></table>" if rows else ""


def _stopped(jobs: Sequence[JobRow], now: datetime) -> str:
    rows = [
        (
            *_cells(job),
            str(job.attempts),
            escaped(job.reason or "-"),
            escaped(age(job.state_changed_at, now)),
            button("/jobs/retry", "Retry", title="from its first attempt", job=job.id)
            + button("/jobs/drop", "Drop", title="for good", job=job.id),
        )
        for job in jobs
    ]
    return _table(("Job", "Account", "Attempts", "Reason", "Stopped", ""), rows, is_bad=True)


def _running(jobs: Sequence[JobRow], now: datetime) -> str:
    rows = [
        (
            *_cells(job),
            escaped(_progress(job)),
            str(job.attempts),
            escaped(age(job.state_changed_at, now)),
            escaped(held_by(job.lease_owner or "-")),
        )
        for job in jobs
    ]
    return _table(("Job", "Account", "Progress", "Attempt", "Started", "Held by"), rows)


def _waiting(jobs: Sequence[JobRow], paused: Mapping[str, datetime], now: datetime) -> str:
    rows = [
        (
            *_cells(job),
            "paused" if job.job_type in paused else escaped(_start(job, now)),
            escaped(job.reason or "-"),
            escaped(age(job.enqueued_at, now)),
            button("/jobs/cancel", "Cancel", job=job.id),
        )
        for job in jobs
    ]
    return _table(("Job", "Account", "Starts", "Last failure", "Asked", ""), rows)


def _ended(jobs: Sequence[JobRow], now: datetime) -> str:
    rows = [(*_cells(job), escaped(result_of(job)), escaped(age(job.state_changed_at, now))) for job in jobs]
    return _table(("Job", "Account", "Result", "Ended"), rows)


def _schedules(schedules: Sequence[ScheduleReport]) -> str:
    if not schedules:
        return "<h2>Schedules</h2><p>None. They are declared in the settings: <code>[[jobs.schedules]]</code>.</p>"
    rows = []
    for one in schedules:
        act = ("resume", "Resume") if one.paused_at is not None else ("pause", "Pause")
        rows.append(
            (
                f"{escaped(one.schedule)}<div class=quiet>{escaped(one.recurrence)}</div>",
                escaped(one.job),
                escaped(moment(one.last_occasion)),
                "paused" if one.paused_at is not None else escaped(moment(one.next)),
                button("/jobs/run", "Run now", name=one.schedule)
                + button(f"/jobs/{act[0]}", act[1], name=one.schedule),
            )
        )
    return "<h2>Schedules</h2>" + _table(("Schedule", "Job", "Last occasion", "Next", ""), rows)


def _add(accounts: Sequence[tuple[str, str, Sequence[JobType]]], paused: Mapping[str, datetime]) -> str:
    """For each account a button for each kind of work that makes sense for it."""
    rows = ""
    for account_id, name, kinds in accounts:
        buttons = "".join(button("/jobs/add", WORKS[kind], account=account_id, name=kind.value) for kind in kinds)
        if JobType.VERIFY_MAILBOX in kinds:
            fields = {"account": account_id, "name": JobType.VERIFY_MAILBOX.value, "fill": "on"}
            buttons += button("/jobs/add", "Compare, and fetch what is missing", **fields)
        rows += f"<tr><td>{named(name, account_id)}</td><td class=acts>{buttons}</td></tr>"
    if not rows:
        return ""
    pauses = "".join(
        button("/jobs/pause", f"Pause {kind.value}", name=kind.value) for kind in WORKS if kind not in paused
    )
    if pauses:
        rows += f"<tr><td class=quiet>in every process</td><td class=acts>{pauses}</td></tr>"
    return f"<h2>Ask for work now</h2><table><tbody>{rows}</tbody></table>"


def _cells(job: JobRow) -> tuple[str, str]:
    """What it is, with its key, and whose."""
    what = f'{escaped(job.job_type)}<div class=quiet title="{escaped(job.id)}">{escaped(job.key)}</div>'
    return what, escaped(job.account_id or "-")


def _progress(job: JobRow) -> str:
    if job.progress_done is None:
        return "-"
    return f"{job.progress_done} of {job.progress_total}" if job.progress_total else str(job.progress_done)


def _start(job: JobRow, now: datetime) -> str:
    """When it may begin."""
    left = (job.available_at - now).total_seconds()
    return "as soon as there is room" if left <= 0 else f"in {duration(left)}"


def result_of(job: JobRow) -> str:
    """What it came to: counts."""
    return "-" if not job.result else ", ".join(f"{count} {name}" for name, count in job.result.items())


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, is_bad: bool = False) -> str:
    """Cells of HTML under their heads; where the window is narrow each row is a block whose lines carry the heads."""
    bad = " class=bad" if is_bad else ""
    body = "".join(
        f"<tr{bad}>"
        + "".join(
            f'<td data-head="{name}">{cell}</td>' if name else f"<td class=acts>{cell}</td>"
            for name, cell in zip(head, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    heads = "".join(f"<th>{name}</th>" for name in head)
    return f"<table class=blocks><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
