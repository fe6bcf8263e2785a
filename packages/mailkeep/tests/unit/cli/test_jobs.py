"""Jobs in a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from mailkeep.cli import jobs
from mailkeep.jobs import JobRow, JobState

ID = UUID("01a22f6b-6d49-7b40-bcea-b8a4590120db")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_narrow_terminal_keeps_ids_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """They are what a person copies; what is unknown is left out."""
    monkeypatch.setattr(jobs, "is_narrow", lambda: True)
    row = JobRow(
        *(ID, "verify-mailbox", JobState.CLAIMED, 2, None, None, "work/asked", "work", NOON, NOON, NOON),
        *("host/41/0011", NOON, None, None, None),
    )
    jobs._table(jobs.Listed.RUNNING, [row])
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == str(ID)
    assert second == "  verify-mailbox  work"
    assert "attempts 2" in third
    assert "held by host/41 until" in third
    assert "progress" not in third
