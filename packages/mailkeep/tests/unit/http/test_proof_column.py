"""The status page tells of the last comparison with the server and of damaged content."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mailkeep.http.pages import status_page
from mailkeep.reports import AccountReport, FolderReport, ProofReport

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def shown(**changes: object) -> str:
    """The page of one folder that holds everything, with the given differences."""
    values: dict[str, object] = {
        "folder": "INBOX",
        "path": "INBOX",
        "role": None,
        "server": 5,
        "stored": 5,
        "quarantined": 0,
        "skipped": 0,
        "skipped_by_reason": {},
        "missing": 0,
        "unreadable": 0,
        "gone": 0,
        "observed_at": NOW,
        "synchronized_at": NOW,
    }
    folder = FolderReport(**(values | changes))  # type: ignore[arg-type]
    account = AccountReport(account="a", name="A", kind="imap", folders=(folder,))
    return status_page([account], [], now=NOW, mcp_enabled=False)


@pytest.mark.spec("SYNC-143")
def test_a_proof_with_holes_marks_its_folder_although_the_counts_agree() -> None:
    """Never compared, compared and whole, compared with holes, and damage are told apart."""
    assert "<td>never</td>" in shown()
    proof = ProofReport(NOW - timedelta(minutes=2), server=5, holes=0, surplus=0)
    whole = shown(proof=proof)
    assert "0 holes" in whole
    assert "class=bad" not in whole
    bad = shown(proof=ProofReport(NOW, server=5, holes=2, surplus=1))
    assert "2 holes, 1 surplus" in bad
    assert "class=bad" in bad
    damaged = shown(damaged=3, unrepairable=1)
    assert "3 damaged, 1 tried in vain" in damaged
    assert "class=bad" in damaged
