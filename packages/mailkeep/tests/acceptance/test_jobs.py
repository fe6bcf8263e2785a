"""`mailkeep worker` and `mailkeep jobs`, as an operator uses them."""

from __future__ import annotations

import time

import psycopg
import pytest
from support.command import TIMEOUT_SECONDS, Installation


def execute(installation: Installation, statement: str) -> None:
    """Change the database behind the product's back."""
    assert installation.dsn is not None
    with psycopg.connect(installation.dsn) as connection:
        connection.execute(statement.encode())


def finished(installation: Installation, job: str) -> dict[str, object]:
    """The job once it is over."""
    ends = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < ends:
        found: dict[str, object] = installation.run("jobs", "show", job, "--json").json
        if found["state"] not in ("Pending", "Claimed"):
            return found
    raise AssertionError("the job never ended")


@pytest.mark.spec("JOB-B13", "JOB-B8", "JOB-34")
def test_a_worker_process_verifies_the_mailbox_that_was_asked_for(mirrored: Installation) -> None:
    """Asked for now, listed as waiting, done by a worker, its result shown; the quarantine job finds nothing to do."""
    job = mirrored.run("jobs", "add", "verify-mailbox").out.strip()
    (listed,) = mirrored.run("jobs", "list", "--state", "pending", "--json").json["jobs"]
    assert (listed["id"], listed["job_type"], listed["account_id"]) == (job, "verify-mailbox", "work")
    other = mirrored.run("jobs", "add", "retry-quarantined-mail", "--account", "work").out.strip()
    with mirrored.started("worker") as worker:
        worker.await_line("Working at jobs")
        done = finished(mirrored, job)
        assert done["state"] == "Succeeded"
        assert isinstance(done["result"], dict)
        assert (done["result"]["holes"], done["result"]["unproven"]) == (0, 0)
        assert finished(mirrored, other)["result"] == {"stored": 0, "gone": 0}
        assert worker.stop() == 0
    assert "Succeeded" in mirrored.run("jobs", "show", job).out


@pytest.mark.spec("JOB-39", "JOB-40", "JOB-41")
def test_an_operator_lists_retries_and_drops_what_has_stopped(mirrored: Installation) -> None:
    """Each decision says what it came to and ends with a code that scripts can act on."""
    first, second = (mirrored.run("jobs", "add", "verify-mailbox", "-a", "work").out.strip() for _ in range(2))
    execute(mirrored, "UPDATE jobs SET state = 'DeadLettered', last_failure_reason = 'ValueError'")
    assert "2 jobs given up" in mirrored.run("status").err
    shown = mirrored.run("jobs", "list")
    assert first in shown.out
    assert "ValueError" in shown.out
    assert "confirm with --count 2" in mirrored.run("jobs", "retry", "--type", "verify-mailbox", code=2).err
    mirrored.run("jobs", "retry", "--type", "verify-mailbox", "--count", "1", code=1)
    mirrored.run("jobs", "retry", first)
    mirrored.run("jobs", "drop", second)
    assert "not any more" in mirrored.run("jobs", "drop", second, code=1).err
    mirrored.run("jobs", "cancel", first)
    assert "no such job" in mirrored.run("jobs", "show", "01a22f6b-6d49-7b40-bcea-b8a4590120db", code=1).err
    mirrored.run("jobs", "list", "--type", "classify-email-spam", code=2)
    assert mirrored.run("jobs", "list", "--json").json["jobs"] == []


@pytest.mark.spec("JOB-B8", "JOB-B12")
def test_types_and_schedules_are_paused_and_resumed(mirrored: Installation) -> None:
    """Both by their names; the list of schedules shows the next occasion."""
    settings = mirrored.home / "mailkeep.toml"
    declared = (
        '[[jobs.schedules]]\nname = "nightly"\nrecurrence = "Daily at 03:00 Europe/Warsaw"\njob = "verify-mailbox"\n'
    )
    settings.write_text(settings.read_text() + "\n" + declared)
    mirrored.run("jobs", "pause", "verify-mailbox")
    assert "verify-mailbox" in mirrored.run("jobs", "list", "--json").json["paused"]
    mirrored.run("jobs", "resume", "verify-mailbox")
    assert mirrored.run("jobs", "list", "--json").json["paused"] == {}
    mirrored.run("jobs", "pause", "work/nightly")
    (schedule,) = mirrored.run("jobs", "schedules", "--json").json["schedules"]
    assert schedule["schedule"] == "work/nightly"
    assert schedule["next"] is not None
    assert schedule["paused_at"] is not None
    mirrored.run("jobs", "resume", "work/nightly")
    assert mirrored.run("jobs", "schedules", "--json").json["schedules"][0]["paused_at"] is None
    mirrored.run("jobs", "pause", "work/unknown", code=2)


def test_a_worker_without_accounts_says_what_it_lacks(installation: Installation) -> None:
    """On another machine the settings are what is forgotten."""
    assert "mailkeep.toml" in installation.run("worker", code=2).err


@pytest.mark.spec("JOB-46")
def test_a_schedule_that_cannot_be_read_stops_every_command_and_is_named(mirrored: Installation) -> None:
    """Cron text is not guessed at."""
    settings = mirrored.home / "mailkeep.toml"
    declared = '[[jobs.schedules]]\nname = "nightly"\nrecurrence = "0 3 * * *"\njob = "verify-mailbox"\n'
    settings.write_text(settings.read_text() + "\n" + declared)
    assert "jobs.schedules[0].recurrence" in mirrored.run("worker", code=2).err.replace(".0.", "[0].")
