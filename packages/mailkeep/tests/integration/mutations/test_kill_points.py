"""Killed before or after any command and any commit of any change, restarted once: one message, where it should be.

The whole sweep takes minutes and is `make sweep` (MAILKEEP_SWEEP=1); otherwise a few points of each change are drawn.
Here the death of the process is an exception that nothing handles; `test_killed_process.py` sends real SIGKILLs.
"""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.cyrus import Cyrus
from support.dovecot import Dovecot
from support.sweeping import SERVERS, Scene, drawn, sample

from mailkeep.db import Database
from mailkeep.imap.dialogue import Command, Completion
from mailkeep.imap.writing import WritingDialogue
from mailkeep.mutations import Stage
from mailkeep.mutations.ledger import Ledger

pytestmark = pytest.mark.anyio
IS_WHOLE = "MAILKEEP_SWEEP" in os.environ
POINTS_OF_EACH = None if IS_WHOLE else 1
PLACING_POINTS = None if IS_WHOLE else 2


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Killer:
    """Counts the points at which a process could die, and lets it die at one of them."""

    at: int | None = None
    points: list[str] = field(default_factory=list)

    def reach(self, point: str) -> None:
        self.points.append(point)
        if self.at is not None and len(self.points) == self.at + 1:
            raise Killed(point)

    def arm(self, at: int | None) -> None:
        self.at, self.points = at, []


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    """Every command on a writing connection and every commit of a step is a point, before and after it."""
    killer = Killer()
    run, write = WritingDialogue.run, Ledger._write

    def sending(self: WritingDialogue, command: Command) -> Completion:
        verb = b" ".join(command.parts[:2] if command.parts[0] == b"UID" else command.parts[:1]).decode()
        if verb in {"LOGOUT", "ID", "CAPABILITY"}:
            return run(self, command)
        killer.reach(f"before {verb}")
        completion = run(self, command)
        killer.reach(f"after {verb}")
        return completion

    async def committing(self: Ledger, name: str, **values: Any) -> Any:
        if not values.get("ids", True):
            return await write(self, name, **values)
        killer.reach(f"before commit of {name}")
        answer = await write(self, name, **values)
        killer.reach(f"after commit of {name}")
        return answer

    monkeypatch.setattr(WritingDialogue, "run", sending)
    monkeypatch.setattr(Ledger, "_write", committing)
    return killer


@pytest.mark.spec("MUT-18", "MUT-20", "MUT-22", "MUT-23", "MUT-24", "MUT-25", "MUT-26", "MUT-31", "MUT-32", "MUT-35")
@pytest.mark.case("61", "65", "67")
@pytest.mark.timeout(3600 if IS_WHOLE else 120)
@pytest.mark.parametrize("kind", SERVERS)
async def test_killed_at_any_point_and_restarted_once(
    db: Database, tmp_path: Path, request: pytest.FixtureRequest, user: str, killer: Killer, kind: str
) -> None:
    """Each change ends done exactly once, or unknown and never repeated; no other message is touched."""
    server = request.getfixturevalue(kind.split()[0])
    assert isinstance(server, Dovecot | Cyrus)
    unknown: list[str] = []
    with ExitStack() as stack:
        scene = await Scene.of(stack, db, tmp_path, server, user, kind)
        for name, terms in drawn(IS_WHOLE):
            killer.arm(None)
            await scene.undisturbed(name)
            points = list(killer.points)
            limit = PLACING_POINTS if name in {"relocate", "copy", "delete"} else POINTS_OF_EACH
            for point in sample(range(len(points)), limit, random.Random()):
                uid, message_id = await scene.target()
                before = scene.onlooker.view()
                change = await scene.mailbox.asked(uid, terms)
                killer.arm(point)
                with pytest.raises(Killed):
                    await scene.mailbox.converge()
                killer.arm(None)
                await scene.mailbox.converge()
                if await scene.check(name, change, message_id, before) is Stage.PLACEMENT_ISSUED:
                    unknown.append(points[point])
    # Only what lies between the commit that announces a placement and the one that confirms it cannot be known.
    assert set(unknown) <= {
        "after commit of advance",
        "before UID MOVE",
        "after UID MOVE",
        "before UID COPY",
        "after UID COPY",
        "before UID SEARCH",
        "after UID SEARCH",
        "before STATUS",
        "after STATUS",
        "before commit of confirm_placements",
    }
