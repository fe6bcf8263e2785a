"""The page of changes: what waits, what was given up and why, what was done; escaped, and of no mail's content."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from mailkeep.app import AccountReport
from mailkeep.http import pages
from mailkeep.http.changes import changes_page
from mailkeep.mailbox import AccountId, FolderId, Uid, UidValidity
from mailkeep.mutations import (
    AuditEntry,
    AuditOutcome,
    Change,
    ChangeCounts,
    ChangePage,
    Mutation,
    MutationRecord,
    Stage,
    Terms,
)
from mailkeep.mutations.model import Occurrence, Requester, RequesterOrigin

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
EVIL = '"><script>alert(1)</script>\x1b[31m'
ID = UUID("0190f2d4-0000-7000-8000-000000000000")


def change(stage: Stage = Stage.RECORDED, code: int | None = None) -> Change:
    """A move whose every name is hostile."""
    record = MutationRecord(
        id=ID,
        stored_email_id=ID,
        account_id=AccountId(EVIL),
        source=Occurrence(FolderId(1), UidValidity(1), Uid(1)),
        terms=Terms(Mutation.RELOCATE, destination_folder_path=EVIL),
        requester=Requester(RequesterOrigin.COMMAND, EVIL),
        stage=stage,
        stage_changed_at=NOW,
        abandoned_from_stage=None,
        issued_at=None,
        requires_source_removal=False,
        placement=None,
        placement_observed_at=None,
        source_removal_observed_at=None,
        attempt_count=3,
        last_failure_code=code,
        audit_trail_enabled=True,
        prior_state=None,
        prior_keywords=None,
        undoes_mutation_id=None,
        recorded_at=NOW - timedelta(minutes=3),
    )
    return Change(record, EVIL, EVIL)


ENTRY = AuditEntry(
    id=ID,
    mutation_record_id=ID,
    stored_email_id=ID,
    account_id=EVIL,
    mutation=Mutation.DELETE,
    outcome=AuditOutcome.ABANDONED,
    requester_origin=RequesterOrigin.COMMAND,
    requester_identity=EVIL,
    source_folder_path=EVIL,
    source_uid_validity=1,
    source_uid=1,
    destination_folder_path=None,
    placement_uid_validity=None,
    placement_uid=None,
    desired_seen_state=None,
    desired_flagged_state=None,
    keywords=None,
    failure_code=25006,
    requested_at=NOW,
    completed_at=NOW,
)


@pytest.mark.spec("MUT-36", "MUT-B1")
def test_what_waits_and_what_is_stuck_stand_apart_with_age_and_reason() -> None:
    """A dead letter says why and what to do; nothing of the names is markup."""
    stuck = change(Stage.ABANDONED, 25002)
    listed = ChangePage((change(), stuck), next_cursor="c")
    text = changes_page(listed, [stuck], {EVIL: (ENTRY,)}, now=NOW)
    assert text.count("3 min 0 s ago") == 2
    assert "answer was lost" in text
    assert "[25002]" in text
    assert "Abandoned [25006]" in text
    assert 'href="/changes?cursor=c"' in text
    assert "<script" not in text
    assert "\x1b" not in text
    empty = changes_page(ChangePage((), None), [], {}, now=NOW)
    assert "No change is waiting" in empty
    assert "Given up" not in empty


@pytest.mark.spec("MUT-36")
def test_the_status_page_counts_what_is_not_done() -> None:
    """With a link; an account without any says nothing of it."""
    quiet = AccountReport(account="home", name="Home", kind="imap", folders=())
    busy = replace(quiet, changes=ChangeCounts(1, 2, 1, NOW - timedelta(seconds=65)))
    text = pages.status_page([busy], [], now=NOW, mcp_enabled=False)
    assert "3 changes waiting, the oldest asked 1 min 5 s ago; 1 change given up" in text
    assert "waiting" not in pages.status_page([quiet], [], now=NOW, mcp_enabled=False)
