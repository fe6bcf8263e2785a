"""What operators do with stored mail: prove it complete, read it again, rewind, erase a folder."""

from __future__ import annotations

import psycopg
import pytest
from support.command import Installation
from support.dovecot import Dovecot


def execute(installation: Installation, statement: str) -> None:
    """Change the database behind the product's back."""
    assert installation.dsn is not None
    with psycopg.connect(installation.dsn) as connection:
        connection.execute(statement.encode())


@pytest.mark.case("212")
def test_verify_names_a_hole_fills_it_and_status_remembers(mirrored: Installation) -> None:
    """Exit code 1 while a message is missing, 0 when all are here; the proof is in status for people and programs."""
    assert mirrored.run("verify", "--json").json["accounts"][0]["complete"] is True
    execute(mirrored, "DELETE FROM stored_emails WHERE subject = 'Garden party'")
    found = mirrored.run("verify", "--folder", "inbox", "--json", code=1)
    (folder,) = found.json["accounts"][0]["folders"]
    assert (folder["server"], folder["stored"], folder["holes"], folder["filled"]) == (4, 3, 1, 0)
    assert folder["hole_uids"].isdigit()
    assert "verify --fill" in found.err
    assert "1 missing" in mirrored.run("status").err
    shown = mirrored.run("verify", code=1)
    assert f"holes at UID {folder['hole_uids']}" in shown.err
    (folder,) = mirrored.run("verify", "--folder", "inbox", "--fill", "--json").json["accounts"][0]["folders"]
    assert (folder["holes"], folder["filled"]) == (0, 1)
    folders = mirrored.run("status", "--json").json["accounts"][0]["folders"]
    (inbox,) = [one for one in folders if one["folder"] == "INBOX"]
    assert (inbox["proof"]["server"], inbox["proof"]["holes"], inbox["proof"]["surplus"]) == (4, 0, 0)
    assert len(mirrored.run("search", "lanterns", "--json").json["matches"]) == 1


def test_verify_says_what_it_cannot_compare(mirrored: Installation) -> None:
    """A local account has no server, an unknown alias no folder, and a server that is away is exit code 3."""
    mirrored.run("account", "add", "--id", "files", "--local")
    assert "mirrored" in mirrored.run("verify", "--account", "files", code=2).err
    assert "alias" in mirrored.run("verify", "--folder", "nowhere", code=2).err
    mirrored.run(
        *("account", "add", "--id", "away", "--host", "127.0.0.1", "--port", "1", "--user", "x"),
        *("--password-stdin", "--security", "none", "--no-test"),
        stdin="x\n",
    )
    assert "away:" in mirrored.run("verify", code=3).err


@pytest.mark.spec("SYNC-126")
def test_stored_mail_is_read_again_without_a_server(mirrored: Installation) -> None:
    """What a worse reader left is replaced; --status tells how it went."""
    assert mirrored.run("mail", "rederive", "--status", "--json").json == {"runs": []}
    execute(mirrored, "UPDATE stored_emails SET subject = 'spoilt'")
    mirrored.environment["MAILKEEP_MAIL_SYNCHRONIZATION__ENABLED"] = "false"
    done = mirrored.run("mail", "rederive", "--json")
    (whole,) = done.json["runs"]
    assert (whole["folder"], whole["rederived"], whole["unreadable"], whole["missing_content"]) == (None, 5, 0, 0)
    assert "5 messages, done" in done.err
    assert "Garden party" in mirrored.run("list").out
    assert "(all)" in mirrored.run("mail", "rederive", "--status").out
    assert "alias" in mirrored.run("mail", "rederive", "--folder", "nowhere", code=2).err


@pytest.mark.spec("SYNC-128")
def test_a_rewind_needs_consent_and_doubles_nothing(mirrored: Installation) -> None:
    """The count is shown before anything happens; without a terminal only --yes is consent."""
    before = mirrored.run("list", "--json").json["emails"]
    refused = mirrored.run("mail", "rewind", code=2)
    assert "5 stored messages" in refused.err
    assert "--yes" in refused.err
    assert "Rewound" in mirrored.run("mail", "rewind", "--yes").err
    mirrored.run("sync", "--once")
    assert mirrored.run("list", "--json").json["emails"] == before


@pytest.mark.spec("SYNC-28")
def test_only_a_folder_that_is_not_mirrored_any_more_is_erased(
    installation: Installation, mail_server: Dovecot
) -> None:
    """Refused while it is mirrored; with consent it goes once its mapping is gone, and other folders stay."""
    installation.add_account(mail_server, "--folder", "mail=INBOX", "--folder", "out=Sent")
    installation.run("sync", "--once")
    assert "mirrored" in installation.run("mail", "erase", "-a", "work", "-f", "out", "--yes", code=2).err
    installation.run("account", "remove", "work")
    installation.add_account(mail_server, "--folder", "mail=INBOX")
    assert "--yes" in installation.run("mail", "erase", "-a", "work", "-f", "out", code=2).err
    assert "Erased 1 messages" in installation.run("mail", "erase", "-a", "work", "-f", "out", "--yes").err
    assert "Erased 0 messages" in installation.run("mail", "erase", "-a", "work", "-f", "out", "--yes").err
    assert len(installation.run("list", "--json").json["emails"]) == 4
