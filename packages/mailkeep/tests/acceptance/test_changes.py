"""`mailkeep mark`, `move`, `undo` and the rest, as a person and an operator use them; the server is asked by imaplib."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support.command import Installation
from support.dovecot import Dovecot, is_installed
from support.mail import message
from support.terminal import Terminal

from mailkeep.cli.exits import ExitCode

MAILS = [
    message(f"Letter {number}", body=f"cormorant {number}\n", message_id=f"l{number}@example.com")
    for number in range(4)
]


@pytest.fixture(scope="module")
def server() -> Any:
    """A server whose mailbox the tests change, each under a user of its own."""
    if not is_installed():
        pytest.skip("Dovecot is not installed (Debian: dovecot-imapd)")
    with Dovecot.start(users=("paula", "quinn", "ruth", "sven")) as started:
        yield started


def mailbox(installation: Installation, server: Dovecot, user: str) -> dict[str, str]:
    """A mirrored account with four letters and the folders Later and Trash; the ids of the letters by subject."""
    server.fill(user, "INBOX", MAILS)
    with server.client(user) as client:
        client.create("Later")
    installation.add_account(server, user=user)
    installation.run("sync", "--once")
    listed = installation.run("list", "--json").json["emails"]
    return {one["subject"]: one["id"] for one in listed}


def execute(installation: Installation, statement: str) -> None:
    """Change the database behind the product's back."""
    assert installation.dsn is not None
    with psycopg.connect(installation.dsn) as connection:
        connection.execute(statement.encode())


def changed(installation: Installation, *arguments: str, code: int = 0, stdin: str = "") -> Any:
    return installation.run(*arguments, "--json", code=code, stdin=stdin).json


@pytest.mark.spec("MUT-13", "MUT-B7", "MUT-36", "MUT-B1")
def test_changes_are_written_down_looked_at_undone_and_decided_upon(
    installation: Installation, server: Dovecot
) -> None:
    """Without any server contacted: marks by ids, standard input and query; previews, lists, undo, retry, resolve."""
    ids = mailbox(installation, server, "paula")
    one, two = ids["Letter 0"], ids["Letter 1"]
    previewed = changed(installation, "mark", one, two, "--star", "--preview")
    assert [(group["mutation"], group["count"]) for group in previewed["would_change"]] == [("set-flagged", 2)]
    assert changed(installation, "changes", "list")["changes"] == []

    marked = installation.run("mark", one, "--star", "--read", "--request-id", "r1")
    assert "mailkeep sync --once" in marked.err
    assert "changes undo --request r1" in marked.err
    assert marked.out.count("pending") == 2
    assert "51012" in installation.run("mark", one, "--unstar", "--request-id", "r1", code=2).err
    piped = changed(installation, "mark", "-", "--add-keyword", "Work", stdin=f"{one}\n{two}\n")
    assert {change["message"] for change in piped["changes"]} == {one, two}
    found = installation.run("mark", "--query", "cormorant subject:letter", "--read", "--json")
    assert "4 messages found." in found.err
    assert len(found.json["changes"]) == 4

    listed = installation.run("changes", "list")
    assert listed.out.count("pending") == 8
    status = changed(installation, "status")["accounts"][0]["changes"]
    assert (status["pending"], status["dead_lettered"]) == (8, 0)
    withdrawn = changed(installation, "changes", "undo", "--request", "r1")["undone"]
    assert {one["outcome"] for one in withdrawn} == {"Withdrawn"}
    assert changed(installation, "changes", "list", "--state", "dead-lettered")["changes"][0]["code"] == 25008

    move = changed(installation, "move", one, "--to", "later")["changes"][0]["change"]
    execute(installation, f"UPDATE mailbox_mutations SET stage = 'PlacementIssued' WHERE id = '{move}'")
    assert "not been given up" in installation.run("changes", "retry", move, code=1).err
    installation.run("changes", "resolve", move, "--not-landed")
    installation.run("changes", "retry", move)
    shown = changed(installation, "changes", "show", move)
    assert (shown["stage"], shown["destination"], shown["attempts"]) == ("Recorded", "Later", 0)
    assert "no such change" in installation.run("changes", "show", one, code=1).err

    with server.client("paula") as client:
        assert client.flags("INBOX") == {uid: frozenset() for uid in (1, 2, 3, 4)}


@pytest.mark.spec("MUT-59", "MUT-60", "MUT-B7")
def test_what_cannot_be_asked_for_is_said_in_a_sentence_with_its_code(
    installation: Installation, server: Dovecot
) -> None:
    """Unknown mail, unknown folders, nothing to do, bad keywords; a deletion asks, and without a terminal needs --yes."""
    one = mailbox(installation, server, "quinn")["Letter 0"]
    unknown = "0190f2d4-0000-7000-8000-000000000000"
    for arguments, code, text in (
        (("mark", unknown, "--star"), 1, "53002"),
        (("mark", one), 2, "51012"),
        (("mark", one, "--query", "x", "--star"), 2, "--query"),
        (("mark", "--query", "from:(", "--star"), 2, "^"),
        (("move", one, "--to", "nowhere"), 2, "DestinationFolderUnmapped"),
        (("delete", one), 2, "--yes"),
        (("changes", "undo", unknown), 1, "53013"),
    ):
        assert text in installation.run(*arguments, code=code).err, arguments
    assert "there already" in installation.run("move", one, "--to", "INBOX").err
    deleted = changed(installation, "delete", one, "--yes")
    assert deleted["changes"][0]["mutation"] == "delete"
    assert changed(installation, "move", one, "--to", "later", code=1)["left_out"][0]["reason"] == "AlreadyLeaving"


@pytest.mark.spec("MUT-B7")
def test_a_deletion_and_a_whole_search_are_asked_about_at_a_terminal(
    installation: Installation, server: Dovecot
) -> None:
    """What and how many is said before; a no records nothing, a yes does."""
    one = mailbox(installation, server, "ruth")["Letter 0"]
    with Terminal(installation, "delete", one) as terminal:
        terminal.answer("Delete them from the server for good", "n")
        assert terminal.finish() == ExitCode.FAILED
        assert "delete: 1 message of work/INBOX" in terminal.seen
    with Terminal(installation, "mark", "--query", "cormorant", "--read") as terminal:
        terminal.answer("Change them", "y")
        assert terminal.finish() == ExitCode.OK
        assert "4 messages found." in terminal.seen
    kinds = [change["mutation"] for change in changed(installation, "changes", "list")["changes"]]
    assert kinds == ["set-seen"] * 4


@pytest.mark.spec("MUT-66", "MUT-B10")
def test_the_trail_is_read_and_erased_by_a_person_s_messages(installation: Installation, tmp_path: Path) -> None:
    """In pages; erasing says how many and needs consent; an account that is gone still has entries."""
    person, other = "0190f2d4-0000-7000-8000-000000000001", "0190f2d4-0000-7000-8000-000000000002"
    columns = (
        "id, mutation_record_id, stored_email_id, mailbox_account_id, mutation, outcome, requester_origin, "
        "requester_identity, source_folder_path, source_uid_validity, source_uid, requested_at, completed_at"
    )
    execute(
        installation,
        f"INSERT INTO mailbox_mutation_audit_entries ({columns}) SELECT gen_random_uuid(), gen_random_uuid(), "
        f"CASE n % 2 WHEN 0 THEN '{person}'::uuid ELSE '{other}' END, 'gone', 'delete', 'Performed', 'Command', 'r', "
        "'INBOX', 1, n, now(), now() FROM generate_series(1, 6) n",
    )
    page = installation.run("changes", "audit", "-a", "gone", "-n", "4", "--json").json
    assert len(page["entries"]) == 4
    rest = installation.run("changes", "audit", "-a", "gone", "-n", "4", "--after", page["next_cursor"], "--json").json
    assert (len(rest["entries"]), rest["next_cursor"]) == (2, None)
    assert "52002" in installation.run("changes", "audit", "-a", "other", "--after", page["next_cursor"], code=2).err
    assert "Performed" in installation.run("changes", "audit", "-a", "gone").out
    listed = tmp_path / "messages"
    listed.write_text(f"{person}\n")
    erase = ("changes", "erase", "-a", "gone")
    assert "name messages" in installation.run(*erase, "--yes", code=2).err
    assert "--yes" in installation.run(*erase, "--messages-from", str(listed), code=2).err
    assert "Erased 3" in installation.run(*erase, "--messages-from", str(listed), "--yes").err
    assert "Erased 3" in installation.run(*erase, "--all", "--yes").err
    assert json.loads(installation.run("changes", "audit", "-a", "gone", "--json").out)["entries"] == []
