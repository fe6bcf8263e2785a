"""Named SQL files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mailkeep.db import load_queries
from mailkeep.db.database import is_lost_race, is_server_trouble
from mailkeep.mailbox.arrival import refused_message_state


@pytest.mark.parametrize("package", ["mailkeep.mailbox", "mailkeep.threads"])
def test_statements_are_found_by_name_without_their_heading(package: str) -> None:
    """What runs is the statement itself: it begins with a verb and has no trailing semicolon."""
    queries = load_queries(package)
    assert len(queries) > 5
    for name, statement in queries.items():
        assert statement.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "SET"), name
        assert not statement.endswith(";")
        assert ";" not in statement, name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT 1;", "names no statement"),
        ("-- name: a\n-- b\nSELECT 1;\n\n-- name: a\n-- c\nSELECT 2;", "named twice"),
    ],
)
def test_unusable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str) -> None:
    """A file without names, or with one name twice, is a mistake that shows at the first load."""
    package = f"queries_of_{abs(hash(text))}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    (tmp_path / package / "queries.sql").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=problem):
        load_queries(package)
    sys.modules.pop(package, None)


@pytest.mark.case("187")
def test_every_sqlstate_is_judged_once() -> None:
    """A message can be at fault, a race may be lost, or the server is in trouble: never two of them."""
    import psycopg

    judged = 0
    for name in dir(psycopg.errors):
        kind = getattr(psycopg.errors, name)
        if isinstance(kind, type) and issubclass(kind, psycopg.Error) and getattr(kind, "sqlstate", None):
            if kind.sqlstate == "23505":
                continue  # judged by the constraint's name
            error = kind("refused")
            verdicts = [refused_message_state(error) is not None, is_lost_race(error), is_server_trouble(error)]
            assert sum(verdicts) <= 1, name
            judged += 1
    assert judged > 200
    assert refused_message_state(psycopg.errors.ProgramLimitExceeded("x")) == "54000"
    assert refused_message_state(psycopg.errors.CharacterNotInRepertoire("x")) == "22021"
    assert refused_message_state(psycopg.DataError("text fields cannot contain NUL")) == "22000"
    assert is_server_trouble(psycopg.errors.DiskFull("x"))
    assert is_server_trouble(psycopg.OperationalError("connection lost"))
    assert refused_message_state(psycopg.OperationalError("connection lost")) is None
