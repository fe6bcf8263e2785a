"""What commands print: JSON, tables, progress; accounts from answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

import pytest

from mailkeep.cli.adding import is_loopback
from mailkeep.cli.progress import LINE_SECONDS, ProgressDisplay, facts, place
from mailkeep.cli.read import parse_instant
from mailkeep.cli.terminal import plain, show_json, table
from mailkeep.sync import Progress


class Colour(StrEnum):
    """A closed set."""

    RED = "Red"


@dataclass(frozen=True, slots=True)
class Thing:
    """A value with everything JSON does not know."""

    id: UUID
    at: datetime
    colour: Colour
    names: tuple[str, ...]
    counts: dict[Colour, int]


def test_values_become_json() -> None:
    """Ids, instants, enums, tuples and mappings are spelled as the reference says."""
    thing = Thing(UUID(int=1), datetime(2024, 1, 2, tzinfo=UTC), Colour.RED, ("a",), {Colour.RED: 1})
    assert plain(thing) == {
        "id": "00000000-0000-0000-0000-000000000001",
        "at": "2024-01-02T00:00:00+00:00",
        "colour": "Red",
        "names": ["a"],
        "counts": {"Red": 1},
    }


def test_json_carries_dangerous_characters_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """The document means the same text, but a terminal that shows it is safe, and other letters stay readable."""
    value = {"subject": "日本 \x1b[2J \u202eexe \x9b \ud800 \u2066"}
    show_json(value)
    printed = capsys.readouterr().out
    assert json.loads(printed) == value
    assert "日本" in printed
    assert not set(printed) & set("\x1b\u202e\x9b\ud800\u2066")


def test_tables_never_interpret_or_cut_their_cells(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets of mail are no markup, controls are shown, and a pipe gets whole lines."""
    table(("subject", "n"), [("[bold]x[/bold] \x1b[31m" + "y" * 300, "1")], right=(1,))
    printed = capsys.readouterr().out
    assert "[bold]x[/bold]" in printed
    assert "y" * 300 in printed
    assert "\x1b" not in printed


def step(**changes: object) -> Progress:
    """A step of a run."""
    values: dict[str, object] = {
        "account_id": "work",
        "folder": "INBOX",
        "folders_done": 1,
        "folders_total": 7,
        "messages_done": 150,
        "messages_total": 6046,
        "octets_done": 3 << 20,
        "messages_per_second": 812.4,
        "octets_per_second": 2 << 20,
        "seconds_left": 75.0,
    }
    return Progress(**(values | changes))  # type: ignore[arg-type]


def test_a_step_says_place_counts_rate_and_time_left() -> None:
    """Unknown totals and times are left out instead of guessed."""
    assert place(step()) == "work INBOX (1/7 folders)"
    assert facts(step()) == "150/6046 messages, 3.0 MiB, 812/s 2.0 MiB/s, 1 min 15 s left"
    assert facts(step(messages_total=None, messages_per_second=0.0, seconds_left=None)) == "150 messages, 3.0 MiB"
    assert "\x1b" not in place(step(folder="\x1b[31m" + "x" * 100))
    assert len(place(step(folder="x" * 100))) < 60


def test_without_a_terminal_a_line_comes_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """Steps come many times a second; a log gets one line in LINE_SECONDS."""
    now = [0.0]
    with ProgressDisplay(clock=lambda: now[0]) as display:
        for _ in range(50):
            display.show(step())
        assert capsys.readouterr().err == ""
        now[0] = LINE_SECONDS + 1
        display.show(step())
        display.show(step())
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1.example.com", False),
        ("localhost.example.com", False),
        ("0.0.0.0", False),
        ("192.168.1.2", False),
        ("", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, expected: bool) -> None:
    """A name that merely looks like the loopback address does not count."""
    assert is_loopback(host) is expected


def test_days_and_instants_are_read() -> None:
    """An instant keeps its offset; nonsense is a usage error."""
    assert parse_instant(None, "--since") is None
    assert parse_instant("2024-01-31T09:30:00+02:00", "--since") == datetime(2024, 1, 31, 7, 30, tzinfo=UTC)
    assert parse_instant("2024-01-31", "--since") is not None
    for text in ("yesterday", "2024-13-01", "0001-01-01T00:00:00+14:00"):
        with pytest.raises(Exception, match="should be 2024-01-31"):
            parse_instant(text, "--since")
