"""Which unfinished changes need a command, and which go out together."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from mailkeep.imap import Identity
from mailkeep.mailbox import AccountId, FolderId, Uid, UidValidity
from mailkeep.mutations import Mutation, MutationRecord, Stage, Terms
from mailkeep.mutations.model import Occurrence, Requester, RequesterOrigin
from mailkeep.mutations.plan import Due, batches, contradicts, settle

NOW = datetime(2026, 1, 2, tzinfo=UTC)
STAR = Terms(Mutation.SET_FLAGGED, desired_flagged_state=True)
MOVE = Terms(Mutation.RELOCATE, destination_folder_path="Archive")


def due(number: int, terms: Terms = STAR, *, uid: int | None = None, **changes: object) -> Due:
    """An unfinished change."""
    record = MutationRecord(
        id=UUID(int=number),
        stored_email_id=UUID(int=1000 + number),
        account_id=AccountId("anna"),
        source=Occurrence(FolderId(1), UidValidity(7), Uid(uid or number)),
        terms=terms,
        requester=Requester(RequesterOrigin.COMMAND, str(number)),
        stage=Stage.RECORDED,
        stage_changed_at=NOW,
        abandoned_from_stage=None,
        issued_at=None,
        requires_source_removal=False,
        placement=None,
        placement_observed_at=None,
        source_removal_observed_at=None,
        attempt_count=0,
        last_failure_code=None,
        audit_trail_enabled=False,
        prior_state=None,
        prior_keywords=None,
        undoes_mutation_id=None,
        recorded_at=NOW,
    )
    return Due(replace(record, **changes), "INBOX", "INBOX", "/", None, True, 100, "1@example.com")  # type: ignore[arg-type]


def numbers(rows: list[Due]) -> list[int]:
    return [row.record.id.int for row in rows]


@pytest.mark.spec("MUT-B8")
def test_alike_changes_go_out_together() -> None:
    """Changes of one folder and of equal terms share a command, at most 500 of them."""
    planned = batches([due(number) for number in range(1, 1101)])
    assert [len(batch.rows) for batch in planned] == [500, 500, 100]


@pytest.mark.spec("MUT-B8", "MUT-57")
def test_the_order_within_a_message_outlives_the_batches() -> None:
    """Star, unstar, star of one message are three commands; another message's star joins the first."""
    unstar = Terms(Mutation.SET_FLAGGED, desired_flagged_state=False)
    rows = [due(1, uid=5), due(2, unstar, uid=5), due(3, uid=5), due(4, uid=6), due(5, MOVE, uid=5), due(6, uid=9)]
    assert [numbers(batch.rows) for batch in batches(rows)] == [[1], [2], [3, 4, 6], [5]]


@pytest.mark.spec("MUT-39", "MUT-B8")
def test_what_failed_before_goes_in_smaller_company() -> None:
    """By the fourth attempt a change goes out alone, so that a message a server chokes on costs the others little."""
    sizes = [len(batches([due(n, attempt_count=tried) for n in range(1, 101)])[0].rows) for tried in range(5)]
    assert sizes == [100, 50, 5, 1, 1]


@pytest.mark.spec("MUT-B8")
def test_a_command_line_stays_short() -> None:
    """UIDs that lie apart make several commands rather than one that a server cuts."""
    planned = batches([due(number, uid=4_000_000_000 + 2 * number) for number in range(1, 501)])
    assert len(planned) > 1
    assert all(len(batch.uids.wire()) <= 4_000 for batch in planned)
    assert sum(len(batch.rows) for batch in planned) == 500


@pytest.mark.spec("MUT-20", "MUT-23", "MUT-29", "MUT-32", "MUT-35")
def test_what_needs_no_command_is_settled_first() -> None:
    """Each row by its stage: known outcomes complete, unanswered placements wait or expire, the rest is owed."""
    issued = {"stage": Stage.PLACEMENT_ISSUED, "attempt_count": 5}
    late = NOW - timedelta(hours=6)
    rows = [
        due(1, MOVE, **issued, source_removal_observed_at=NOW),
        due(2, MOVE, **issued, source_removal_observed_at=NOW, requires_source_removal=True),
        due(3, MOVE, **issued),
        due(4, MOVE, **issued, stage_changed_at=late),
        due(5, MOVE, stage=Stage.PLACEMENT_CONFIRMED, attempt_count=5),
        due(6, MOVE, stage=Stage.PLACEMENT_CONFIRMED, requires_source_removal=True),
        due(7, attempt_count=5),
        replace(due(8), is_bound=False),
        due(9, attempt_count=4),
    ]
    found = settle(rows, now=NOW, grace=timedelta(hours=6), attempts=5)
    assert (numbers(found.completed), numbers(found.unknown), numbers(found.expired)) == ([1, 5], [2, 3], [4])
    assert (numbers(found.exhausted), numbers(found.unbound), numbers(found.owed)) == ([7], [8], [6, 9])


@pytest.mark.case("5", "10")
@pytest.mark.parametrize(
    ("size", "header", "differs"),
    [
        (100, b"Message-ID: <1@example.com>\r\n\r\n", False),
        (99, b"Message-ID: <1@example.com>\r\n\r\n", True),
        (100, b"Message-ID: <2@example.com>\r\n\r\n", True),
        (None, b"", False),
        (100, b"\r\n", False),
    ],
)
def test_another_message_is_told_by_its_size_or_message_id(size: int | None, header: bytes, differs: bool) -> None:
    """What the server leaves out speaks against nothing."""
    assert contradicts(due(1), Identity(1, size, (), header)) is differs
