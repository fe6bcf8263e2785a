"""SIGKILL at every IMAP command boundary and around every commit of a run; the run after it makes up for everything.

The whole sweep is `make sweep` (MAILKEEP_SWEEP=1); otherwise a few points of each scenario are drawn.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest
from support.dovecot import PASSWORD, Dovecot
from support.engine import mail
from support.mirror_state import state, stored_behind_checkpoints
from support.postgres import temporary_database
from support.proxy import NO_CONDSTORE, NOTHING, Proxy

TESTS = Path(__file__).parents[2]
IS_WHOLE = "MAILKEEP_SWEEP" in os.environ
POINTS = 3  # of each scenario, unless the sweep is whole


class Runs:
    """Runs of the account, each in a process of its own that may die."""

    def __init__(self, port: int, user: str) -> None:
        self._place = f"{port}\t{user}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.killed_sync"],
            env=os.environ | {"MAILKEEP_TEST_PASSWORD": PASSWORD, "PYTHONPATH": str(TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=TESTS,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def undisturbed(self, dsn: str) -> int:
        """How many points a run has that nothing disturbs."""
        said = self._ask(dsn, "")
        assert said.startswith("done "), said
        return int(said.removeprefix("done "))

    def killed(self, dsn: str, point: int) -> bool:
        """Whether it was: a run may need fewer commands than the one that was counted."""
        said = self._ask(dsn, f" {point}")
        assert said == "killed" or said.startswith("done "), said
        return said == "killed"

    def _ask(self, dsn: str, point: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{dsn}\t{self._place}{point}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def copy_of(dsn: str, template: str) -> Iterator[str]:
    yield from temporary_database(dsn, template=template)


def name_of(dsn: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])


def points_of(count: int) -> list[int]:
    chosen = range(1, count + 1) if IS_WHOLE else random.Random().sample(range(1, count + 1), POINTS)
    return list(chosen)


def change(dovecot: Dovecot, user: str) -> None:
    """What other clients do between two runs: arrivals, flags, keywords, expunges, a new folder, a recreated one."""
    with dovecot.client(user) as other:
        for number in range(100, 106):
            other.append("INBOX", mail(number))
        other.flag("INBOX", "3:6", "\\Flagged")
        other.flag("INBOX", 7, "$Work")
        other.unflag("INBOX", 2, "\\Flagged")
        for uid in (4, 9, 10):
            other.expunge("INBOX", uid)
        other.create("Later")
        for number in range(200, 203):
            other.append("Later", mail(number), flags=["\\Seen"])
    dovecot.set_uid_validity(user, "Moved", 4711)


@pytest.mark.spec("SYNC-10", "SYNC-56", "SYNC-57", "SYNC-29")
@pytest.mark.case("212", "218")
@pytest.mark.timeout(3600 if IS_WHOLE else 120)
@pytest.mark.parametrize("hides", [NOTHING, NO_CONDSTORE], ids=["all it can", "no mod-sequences"])
def test_killed_at_any_boundary_and_started_again_it_ends_in_the_same_state(
    postgres_server: Any, template_database: str, dovecot: Dovecot, user: str, hides: frozenset[str]
) -> None:
    """A first run, and one that meets arrivals, flags, expunges, a new folder and another UIDVALIDITY."""
    dovecot.fill(user, "INBOX", (mail(number, size=number * 37) for number in range(1, 15)))
    dovecot.fill(user, "Moved", (mail(number) for number in range(50, 57)), seen=True)
    with dovecot.client(user) as other:
        other.flag("INBOX", 2, "\\Flagged")
    with (
        Proxy(dovecot.ports.plain, hides=hides) as proxy,
        Runs(proxy.port, user) as runs,
        copy_of(postgres_server.dsn, template_database) as mirrored,
    ):
        first = runs.undisturbed(mirrored)
        expected = state(mirrored)
        assert len(expected[0]) == 21
        sweep(runs, postgres_server.dsn, template_database, points_of(first), expected)
        change(dovecot, user)
        with copy_of(postgres_server.dsn, name_of(mirrored)) as followed:
            second = runs.undisturbed(followed)
            expected = state(followed)
        assert sum(row[-1] for row in expected[0]) == 14 + 6 - 3 + 7 + 3
        with dovecot.client(user) as other:
            shown = other.flags("INBOX")
        sweep(runs, postgres_server.dsn, name_of(mirrored), points_of(second), expected)
    assert min(first, second) > 30
    with dovecot.client(user) as other:
        assert other.flags("INBOX") == shown
        assert not any("\\Seen" in flags for flags in shown.values())


def sweep(runs: Runs, server: str, template: str, points: list[int], expected: Any) -> None:
    """Die at each point on a copy of the template, look, run again, compare."""
    killed = 0
    for point in points:
        with copy_of(server, template) as disturbed:
            killed += runs.killed(disturbed, point)
            for seen, held in stored_behind_checkpoints(disturbed).values():
                assert held <= seen
            runs.undisturbed(disturbed)
            assert state(disturbed) == expected, f"killed at point {point}"
    assert killed >= len(points) - 2
