"""Changes carried out on a real server, as an independent client sees them."""

from pathlib import Path

import pytest
from support.converging import DELETE, READ, STAR, UNSTAR, Mirrored, copy_to, keywords, move_to
from support.dovecot import Dovecot
from support.engine import mail, run_once

from mailkeep.db import Database
from mailkeep.mutations import Mutation, Stage

pytestmark = pytest.mark.anyio


@pytest.mark.spec("MUT-13", "MUT-19", "MUT-37")
async def test_a_star_reaches_the_server(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """A recorded star is set by the pass, completed without any stage in between, and nothing else changes."""
    dovecot.fill(user, "INBOX", [mail(1), mail(2)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, STAR)
    converged = await mailbox.converge()
    assert (converged.completed, converged.failed) == (1, 0)
    row = await mailbox.row(change)
    assert (row.stage, row.attempt_count, row.last_failure_code) == (Stage.COMPLETED, 1, None)
    assert row.issued_at is not None
    with dovecot.client(user) as other:
        assert other.flags("INBOX") == {1: frozenset({"\\Flagged"}), 2: frozenset()}


@pytest.mark.spec("MUT-37", "MUT-57")
async def test_flags_of_one_call_go_out_before_its_move(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A move, a star and a mark as read of one call all take effect, although the move was named first."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    await mailbox.asked(1, move_to("Sent"), STAR, READ)
    outcome = await run_once(db, tmp_path, mailbox.account)
    assert not outcome.is_failed
    with dovecot.client(user) as other:
        assert other.uids("INBOX") == []
        assert list(other.flags("Sent").values()) == [frozenset({"\\Flagged", "\\Seen"})]


async def test_each_kind(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """Copy, delete, keywords."""
    dovecot.fill(user, "INBOX", [mail(1), mail(2), mail(3)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    await mailbox.asked(1, keywords(Mutation.ADD_KEYWORDS, "todo"), copy_to("Sent"))
    await mailbox.asked(2, DELETE)
    await mailbox.asked(3, STAR)
    converged = await mailbox.converge()
    assert (converged.completed, converged.failed) == (4, 0)
    await mailbox.asked(3, UNSTAR)
    assert (await mailbox.converge()).completed == 1
    with dovecot.client(user) as other:
        assert other.flags("INBOX") == {1: frozenset({"todo"}), 3: frozenset()}
        assert list(other.flags("Sent").values()) == [frozenset({"todo"})]
