"""What operators do: look into quarantine and retry, open psql, keep mirroring in the foreground, upgrade a database."""

from __future__ import annotations

import json
import signal
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest
from support.command import Installation
from support.dovecot import Dovecot
from support.mail import message


def set_aside(dsn: str, subject: str) -> None:
    """Make the store say of one message that this build could not store it."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "WITH gone AS (DELETE FROM stored_emails WHERE subject = %s RETURNING mail_folder_id, uid_validity, uid)"
            " INSERT INTO quarantined_messages SELECT mail_folder_id, uid_validity, uid, 'StorageRefused', '22021', 77, 1,"
            " now(), now(), %s FROM gone",
            (subject, version("mailkeep")),
        )


def test_quarantined_mail_is_named_with_its_reason_and_retried(mirrored: Installation) -> None:
    """Status counts it, the list tells why, an ordinary run leaves it alone, and a retry brings it back."""
    assert mirrored.dsn is not None
    set_aside(mirrored.dsn, "Garden party")
    mirrored.run("sync", "--once")
    (folder,) = [
        folder
        for folder in mirrored.run("status", "--json").json["accounts"][0]["folders"]
        if folder["folder"] == "INBOX"
    ]
    assert (folder["server"], folder["stored"], folder["quarantined"], folder["missing"]) == (4, 3, 1, 0)
    (entry,) = mirrored.run("status", "--quarantine", "--json").json["quarantined"]
    assert (entry["folder"], entry["reason"], entry["detail"]) == ("INBOX", "StorageRefused", "22021")
    assert "StorageRefused" in mirrored.run("status", "--quarantine").out
    assert "1 message left the quarantine" in mirrored.run("sync", "--once", "--retry-quarantined").err
    assert mirrored.run("status", "--quarantine", "--json").json["quarantined"] == []
    assert len(mirrored.run("search", "lanterns", "--json").json["matches"]) == 1


def test_psql_is_opened_read_only_and_without_arguments(mirrored: Installation, tmp_path: Path) -> None:
    """Everything psql needs is in its environment; only --write lifts the protection."""
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "psql"
    fake.write_text('#!/bin/sh\necho "args=$# options=$PGOPTIONS database=$PGDATABASE"\nexit 5\n')
    fake.chmod(0o755)
    mirrored.environment["PATH"] = str(tools)
    opened = mirrored.run("db", "sql", code=5).out
    assert "args=0" in opened
    assert "default_transaction_read_only=on" in opened
    assert mirrored.dsn is not None
    assert f"database={psycopg.conninfo.conninfo_to_dict(mirrored.dsn)['dbname']}" in opened
    assert "read_only" not in mirrored.run("db", "sql", "--write", code=5).out


def test_without_psql_statements_are_read_line_by_line(mirrored: Installation) -> None:
    """Each line is one statement; a mistake ends with its own code."""
    mirrored.environment["PATH"] = "/nonexistent"
    done = mirrored.run("db", "sql", stdin="SELECT count(*) AS n FROM stored_emails\n\nSELECT 'x' AS y\n")
    assert done.out.split() == ["n", "5", "y", "x"]
    assert "[36001]" in mirrored.run("db", "sql", stdin="SELEC 1\n", code=1).err


def test_mirroring_in_the_foreground_ends_cleanly(installation: Installation, mail_server: Dovecot) -> None:
    """`mailkeep sync` keeps running until it is told to stop, and then everything it began is kept."""
    installation.add_account(mail_server)
    with installation.started("--verbose", "sync") as running:
        running.await_line("folder bound")
        assert running.stop(signal.SIGTERM) == 0
        assert "Stopped" in running.errors
    installation.run("sync", "--once")
    assert len(installation.run("list", "--json").json["emails"]) == 5


def test_an_external_database_is_upgraded_only_when_told(tmp_path: Path, empty_dsn: str) -> None:
    """Without its schema every command says what to run; afterwards it works, and upgrading again changes nothing."""
    installation = Installation(tmp_path / "home", dsn=empty_dsn)
    assert "[32001]" in installation.run("list", code=1).err
    assert len(installation.run("db", "status", "--json", code=1).json["missing"]) > 0
    assert "Applied" in installation.run("db", "upgrade").err
    assert "up to date" in installation.run("db", "upgrade").err
    assert installation.run("list", "--json").json["emails"] == []


def test_a_database_that_is_away_is_named(tmp_path: Path) -> None:
    """A server that cannot be reached is exit code 3, without its password."""
    installation = Installation(tmp_path / "home", dsn="host=127.0.0.1 port=1 user=u password=sentinel dbname=d")
    refused = installation.run("list", code=3)
    assert "[35001]" in refused.err
    assert "sentinel" not in refused.err


def test_a_folder_mapping_that_the_server_lacks_is_warned_about(
    installation: Installation, mail_server: Dovecot
) -> None:
    """Chosen folders alone are mirrored; one that does not exist is named when the account is added and at each run."""
    added = installation.add_account(mail_server, "--folder", "mail=INBOX", "--folder", "lost=Nowhere")
    assert "Nowhere" in added.err
    done = installation.run("sync", "--once", "--json")
    outcomes = {folder["folder"]: folder["outcome"] for folder in json.loads(done.out)["accounts"][0]["folders"]}
    assert outcomes == {"MAIL": "Synchronized", "LOST": "AliasUnresolved"}
    assert "LOST: AliasUnresolved" in done.err
    assert {email["folder"] for email in installation.run("list", "--json").json["emails"]} == {"MAIL"}


def test_one_failing_account_delays_no_other(installation: Installation, mail_server: Dovecot) -> None:
    """The good account is mirrored, the bad one named, and the exit code is the bad one's."""
    installation.add_account(mail_server)
    installation.run(
        *("account", "add", "--id", "away", "--host", "127.0.0.1", "--port", "1", "--user", "x"),
        *("--password-stdin", "--security", "none", "--no-test"),
        stdin="x\n",
    )
    done = installation.run("sync", "--once", code=3)
    assert "away:" in done.err
    assert "work: 5 messages stored" in done.err


def test_a_first_day_leaves_older_mail_on_the_server(installation: Installation, mail_server: Dovecot) -> None:
    """--since is kept in the settings and applied; an impossible day is a usage error."""
    installation.add_account(mail_server, "--since", "2999-01-01", code=2)
    installation.add_account(mail_server, "--since", "not-a-day", code=2)
    installation.add_account(mail_server, "--since", "2001-01-01")
    assert "earliest_email_received_date = 2001-01-01" in (installation.home / "mailkeep.toml").read_text()


def test_values_that_cannot_be_saved_are_refused_by_name(installation: Installation, mail_server: Dovecot) -> None:
    """A name that is too long is refused before the server is asked, without repeating it."""
    refused = installation.add_account(mail_server, user="u" * 400, code=2)
    assert "user_name" in refused.err
    assert "uuuu" not in refused.err
    assert "--ca" in installation.add_account(mail_server, "--ca", "/nonexistent", "--no-test", code=2).err


def test_a_terminal_without_unicode_still_shows_mail(installation: Installation, tmp_path: Path) -> None:
    """Letters that the terminal's encoding lacks are spelled out instead of failing the command."""
    (tmp_path / "a.eml").write_bytes(message("Grüße aus 日本"))
    installation.run("import", str(tmp_path / "a.eml"))
    installation.environment |= {"PYTHONIOENCODING": "ascii"}
    assert "Gr\\xfc\\xdfe" in installation.run("list").out


@pytest.mark.parametrize("arguments", [(), ("account",), ("db",), ("--help",), ("search", "--help"), ("--version",)])
def test_help_is_always_there(installation: Installation, arguments: tuple[str, ...]) -> None:
    """Help needs no installation, touches nothing and names the commands."""
    shown = installation.run(*arguments, code=None)
    assert shown.code in (0, 2)
    assert "mailkeep" in shown.out + shown.err
    assert not installation.home.exists()
