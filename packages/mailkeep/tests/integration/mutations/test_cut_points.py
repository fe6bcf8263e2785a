"""Connections cut after any octet of what the server says, restarted once: one message, where it should be.

The whole sweep cuts at every octet, which takes hours, and is `make sweep` (MAILKEEP_SWEEP=1, and MAILKEEP_CUT_EVERY=20
for every twentieth); otherwise a few octets are drawn. What is
said until the sign-in is complete is the same for every change, so the octets of it are cut for one change only.
"""

from __future__ import annotations

import os
import random
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from support.cyrus import Cyrus
from support.dovecot import Dovecot
from support.sweeping import SERVERS, Scene, drawn, sample

from mailkeep.db import Database
from mailkeep.errors import MailkeepError

pytestmark = pytest.mark.anyio
IS_WHOLE = "MAILKEEP_SWEEP" in os.environ
POINTS_OF_EACH = None if IS_WHOLE else 1
PLACING_POINTS = None if IS_WHOLE else 2
EVERY = int(os.environ.get("MAILKEEP_CUT_EVERY", "1"))  # octets from one cut to the next, for a shorter sweep


async def octets(scene: Scene, name: str) -> tuple[int, int]:
    """How many octets the server says until the first command after sign-in, and in all."""
    before = scene.proxy.octets_received
    at_select = 0

    def note(_: int, command: str) -> None:
        nonlocal at_select
        if command.startswith("SELECT"):
            at_select = scene.proxy.octets_received - before

    scene.proxy.before_command = note
    await scene.undisturbed(name)
    scene.proxy.before_command = None
    return at_select, scene.proxy.octets_received - before


@pytest.mark.spec("MUT-8", "MUT-22", "MUT-33", "MUT-35", "MUT-40")
@pytest.mark.case("61", "65", "67")
@pytest.mark.timeout(4 * 3600 if IS_WHOLE else 120)
@pytest.mark.parametrize("kind", SERVERS)
async def test_cut_after_any_octet_and_restarted_once(
    db: Database, tmp_path: Path, request: pytest.FixtureRequest, user: str, kind: str
) -> None:
    """Each change ends done exactly once, or unknown and never repeated; no other message is touched."""
    server = request.getfixturevalue(kind.split()[0])
    assert isinstance(server, Dovecot | Cyrus)
    with ExitStack() as stack:
        scene = await Scene.of(stack, db, tmp_path, server, user, kind)
        for name, terms in drawn(IS_WHOLE):
            signed_in, total = await octets(scene, name)
            first = 0 if name == "relocate" else signed_in
            limit = PLACING_POINTS if name in {"relocate", "copy", "delete"} else POINTS_OF_EACH
            for cut in sample(range(first, total, EVERY), limit, random.Random()):
                uid, message_id = await scene.target()
                before = scene.onlooker.view()
                change = await scene.mailbox.asked(uid, terms)
                scene.proxy.cut_after = cut
                with suppress(MailkeepError):
                    await scene.mailbox.converge()
                scene.proxy.cut_after = None
                await scene.mailbox.converge()
                await scene.check(name, change, message_id, before)
            scene.sweep_up()
