"""The connection string that the settings come to."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from mailkeep.config import Settings
from mailkeep.db.database import external_dsn
from mailkeep.errors import DatabaseUnavailable


def told(dsn: str, home: Path) -> dict[str, object]:
    """What is connected with."""
    made = external_dsn(Settings.model_validate({"persistence": {"dsn": dsn}}), home)
    assert made is not None
    return dict(psycopg.conninfo.conninfo_to_dict(made))


def test_a_silent_server_is_probed_unless_the_connection_string_says_how(tmp_path: Path) -> None:
    """A machine that is gone sends nothing: without probes a process would wait for its answer for hours."""
    found = told("postgresql://ann@db.example/mail", tmp_path)
    assert (found["host"], found["user"], found["dbname"]) == ("db.example", "ann", "mail")
    assert (found["keepalives_idle"], found["tcp_user_timeout"]) == ("60", "120000")
    assert told("host=db keepalives_idle=7", tmp_path)["keepalives_idle"] == "7"


def test_what_is_no_connection_string_is_refused(tmp_path: Path) -> None:
    """In a sentence that quotes none of it: it may hold a password."""
    with pytest.raises(DatabaseUnavailable) as refused:
        told("secret nonsense", tmp_path)
    assert "secret" not in refused.value.message
