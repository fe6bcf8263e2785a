"""A process killed at any moment, started again, ends where an undisturbed one ends.

MAILKEEP_KILLS sets how many kills are tried, five by default; `MAILKEEP_KILLS=20` is the sweep for releases.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.dovecot import PASSWORD, Dovecot
from support.engine import mail
from support.mirror_state import state, stored_behind_checkpoints
from support.postgres import temporary_database

KILLS = int(os.environ.get("MAILKEEP_KILLS", "5"))
MESSAGES = 320
TESTS = Path(__file__).parents[2]


def process(dsn: str, server: Dovecot, user: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"MAILKEEP_TEST_PASSWORD": PASSWORD, "PYTHONPATH": str(TESTS)}
    started = subprocess.Popen(
        [sys.executable, "-m", "support.sync_process", dsn, str(server.ports.plain), user],
        env=environment,
        stdout=subprocess.PIPE,
        cwd=TESTS,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"running\n"
    return started


def finish(running: subprocess.Popen[bytes]) -> float:
    """Wait for the end of an undisturbed process; how long it ran."""
    begun = time.monotonic()
    out, _ = running.communicate(timeout=90)
    assert out == b"done\n"
    assert running.returncode == 0
    return time.monotonic() - begun


@contextmanager
def database(server_dsn: str, template: str) -> Iterator[str]:
    yield from temporary_database(server_dsn, template=template)


def conversation(number: int) -> bytes:
    """Every third message answers the first of its group, so that conversations are assembled across batches."""
    head = f"References: <{number - number % 30}@example.com>\r\n".encode() if number % 3 == 0 else b""
    return head + mail(number, size=(number * 37) % 6000)


@pytest.mark.spec("SYNC-56", "SYNC-57", "SYNC-10")
@pytest.mark.case("218", "212")
@pytest.mark.timeout(100 + 20 * KILLS)
def test_killed_at_any_moment_and_started_again_it_ends_in_the_same_state(
    postgres_server: Any, template_database: str, dovecot: Dovecot, user: str
) -> None:
    """SIGKILL between any two instructions loses nothing, doubles nothing, and moves no checkpoint past mail."""
    dovecot.fill(user, "INBOX", (conversation(number) for number in range(MESSAGES)))
    with dovecot.client(user) as other:
        other.append("Sent", mail("sent"), flags=["\\Seen"])
        other.flag("INBOX", "5:50", "\\Flagged")
        shown = other.flags("INBOX")
    with database(postgres_server.dsn, template_database) as undisturbed:
        duration = finish(process(undisturbed, dovecot, user))
        expected = state(undisturbed)
    assert len(expected[0]) == MESSAGES + 1

    chance = random.Random()
    killed_midway = 0
    with database(postgres_server.dsn, template_database) as disturbed:
        for _ in range(KILLS):
            running = process(disturbed, dovecot, user)
            try:
                running.wait(chance.uniform(0, duration / min(KILLS, 6) + 0.05))
            except subprocess.TimeoutExpired:
                running.kill()
                killed_midway += 1
            running.communicate()
            for seen, held in stored_behind_checkpoints(disturbed).values():
                assert held == seen  # UIDs have no gaps here: the checkpoint passed nothing that is not stored
        finish(process(disturbed, dovecot, user))
        assert killed_midway
        assert state(disturbed) == expected
    with dovecot.client(user) as other:
        assert other.flags("INBOX") == shown
