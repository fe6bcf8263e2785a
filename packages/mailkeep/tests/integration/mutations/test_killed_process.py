"""Real processes and real SIGKILLs: what a change was at when its process died is what the next process goes on from."""

import os
import random
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.converging import STAR, Mirrored, move_to
from support.dovecot import PASSWORD, Dovecot
from support.engine import mail
from support.sweeping import CHANGES, Scene

from mailkeep.db import Database
from mailkeep.mutations import Stage

pytestmark = pytest.mark.anyio
TESTS = Path(__file__).parents[2]
IS_WHOLE = "MAILKEEP_SWEEP" in os.environ
KILLS = 30 if IS_WHOLE else 1


def converge(dsn: str, port: int, user: str, *, point: int | str | None = None) -> bool:
    """One pass in a process of its own, killed when it reaches the point; whether it was."""
    arguments = [dsn, str(port), user, *([] if point is None else [str(point)])]
    running = subprocess.Popen(
        [sys.executable, "-m", "support.converge_process", *arguments],
        env=os.environ | {"MAILKEEP_TEST_PASSWORD": PASSWORD, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        cwd=TESTS,
    )
    with running:
        assert running.stdout is not None
        said = running.stdout.readline()
        if said == b"waiting\n":
            running.kill()
        running.communicate(timeout=60)
    assert said in (b"waiting\n", b"done\n")
    return said == b"waiting\n"


@pytest.mark.spec("MUT-22", "MUT-23", "MUT-32")
@pytest.mark.timeout(60 + 20 * KILLS)
@pytest.mark.parametrize("kind", ["dovecot", "dovecot without MOVE"])
async def test_a_process_killed_anywhere_is_followed_by_one_that_ends_the_change(
    db: Database, dsn: str, tmp_path: Path, dovecot: Dovecot, user: str, kind: str
) -> None:
    """SIGKILL before or after a command or commit of a move; the next process leaves one message, where it should be."""
    with ExitStack() as stack:
        scene = await Scene.of(stack, db, tmp_path, dovecot, user, kind)
        for _ in range(KILLS):
            uid, message_id = await scene.target()
            before = scene.onlooker.view()
            change = await scene.mailbox.asked(uid, CHANGES["relocate"])
            converge(dsn, scene.proxy.port, user, point=random.randint(3, 26))
            converge(dsn, scene.proxy.port, user)
            await scene.check("relocate", change, message_id, before)


@pytest.mark.spec("MUT-32")
async def test_five_killed_attempts_are_all_a_change_gets(
    db: Database, dsn: str, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A change whose process dies in each of five attempts is abandoned by the sixth run, which sends nothing."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, STAR)
    for attempt in range(1, 6):
        assert converge(dsn, dovecot.ports.plain, user, point="SELECT")
        assert (await mailbox.row(change)).attempt_count == attempt
    mailbox.at(1)  # where nobody answers: a command would fail
    converged = await mailbox.converge()
    row = await mailbox.row(change)
    assert (converged.abandoned, converged.failed) == (1, 0)
    assert (row.stage, row.last_failure_code, row.attempt_count) == (Stage.ABANDONED, 25003, 5)


@pytest.mark.spec("MUT-20", "MUT-22")
async def test_a_move_that_began_as_a_copy_ends_as_one(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Stopped at PlacementConfirmed and resumed where MOVE is offered: the source goes, and no second copy is made."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, move_to("Sent"))
    with dovecot.client(user) as other:
        other.copy("INBOX", 1, "Sent")
        await mailbox.rewrite(change, stage="PlacementConfirmed", requires_source_removal=True, attempt_count=1)
        assert (await mailbox.converge()).completed == 1
        assert (other.uids("INBOX"), len(other.uids("Sent"))) == ([], 1)
    assert (await mailbox.row(change)).stage is Stage.COMPLETED
