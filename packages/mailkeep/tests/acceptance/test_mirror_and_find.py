"""The main job from the command line: mirror a real mailbox, prove it is complete, find and read its mail."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from support.command import Installation, command
from support.dovecot import Dovecot
from support.mail import message
from support.sample_mail import FILES, GARDEN, PLAIN


def counts(installation: Installation) -> dict[str, tuple[int, int, int, int, int]]:
    """Per folder: on the server, stored, quarantined, skipped, missing."""
    (account,) = installation.run("status", "--json").json["accounts"]
    return {
        folder["folder"]: (
            folder["server"],
            folder["stored"],
            folder["quarantined"],
            folder["skipped"],
            folder["missing"],
        )
        for folder in account["folders"]
    }


def test_everything_on_the_server_is_here_after_one_run(mirrored: Installation) -> None:
    """Status proves it folder by folder, and a second run changes nothing and fetches nothing."""
    held = counts(mirrored)
    assert held["INBOX"] == (4, 4, 0, 0, 0)
    assert held["SENT"] == (1, 1, 0, 0, 0)
    again = mirrored.run("sync", "--once", "--json").json["accounts"][0]
    assert sum(folder["stored"] for folder in again["folders"]) == 0
    assert again["failed"] is False
    assert counts(mirrored) == held


def test_mail_is_found_with_its_surroundings(reading: Installation) -> None:
    """A search names its mode and gives id, subject, sender, time and snippets."""
    result = reading.run("search", "lanterns", "--json").json
    assert result["mode"] == "lexical"
    (match,) = result["matches"]
    assert match["subject"] == "Garden party"
    assert match["from"] == "Zoë Quill <zoe@example.net>"
    assert match["received_at"] is not None
    assert any("lanterns" in snippet for snippet in match["snippets"])
    shown = reading.run("search", "lanterns")
    assert match["id"] in shown.out


def test_several_words_and_filters_need_no_quoting(reading: Installation) -> None:
    """Words of the command line are one query, and filters narrow it."""
    assert len(reading.run("search", "third", "quarter", "--json").json["matches"]) == 1
    narrowed = reading.run("search", "third", "quarter", "--from", "zoe@example.net", "--json")
    assert narrowed.json["matches"] == []


def test_pages_follow_each_other_to_the_end(reading: Installation) -> None:
    """Every message appears exactly once over the pages."""
    seen: list[str] = []
    arguments: tuple[str, ...] = ()
    while True:
        page = reading.run("list", "--limit", "2", "--json", *arguments).json
        seen += [email["id"] for email in page["emails"]]
        if page["next_cursor"] is None:
            break
        arguments = ("--cursor", page["next_cursor"])
    assert len(seen) == len(set(seen)) == 5


def email_id(installation: Installation, subject: str) -> str:
    """The id of the message with that subject."""
    emails = installation.run("list", "--json").json["emails"]
    return str(next(email["id"] for email in emails if email["subject"] == subject))


def test_a_message_is_shown_as_text_header_octets_and_html(reading: Installation) -> None:
    """Raw octets are exactly the server's; HTML comes without scripts."""
    number = email_id(reading, "Garden party")
    text = reading.run("show", number).out
    assert "Bring lanterns." in text
    assert "Garden party" in text
    assert "Message-ID: <m2@example.com>" in reading.run("show", number, "--headers").out
    assert reading.run("show", number, "--raw").octets == GARDEN
    html = reading.run("show", number, "--html").out
    assert "lanterns" in html
    assert "script" not in html
    assert reading.run("show", number, "--json").json["id"] == number
    reading.run("show", number, "--raw", "--html", code=2)


def test_attachments_stay_in_their_folder_and_overwrite_nothing(reading: Installation, tmp_path: Path) -> None:
    """Names that point elsewhere lose their path, and files of one name are numbered, run after run."""
    number = email_id(reading, "Two files")
    target = tmp_path / "saved"
    for _ in range(2):
        reading.run("show", number, "--attachments", str(target))
    names = sorted(file.name for file in target.iterdir())
    assert names == ["evil (2).txt", "evil (3).txt", "evil (4).txt", "evil.txt"]
    assert (target / "evil.txt").read_bytes() == b"first\n"
    assert not (tmp_path / "evil.txt").exists()


def test_nothing_a_terminal_acts_on_is_printed(reading: Installation) -> None:
    """Escape sequences and bidirectional overrides of a mail never reach the output, JSON included."""
    number = email_id(reading, "Hostile")
    for arguments in (
        ("show", number),
        ("list",),
        ("search", "before"),
        ("list", "--json"),
        ("show", number, "--json"),
    ):
        output = reading.run(*arguments).out
        assert not set(output) & set("\x1b\u202e\x9b")


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("show", "0190f2d4-0000-7000-8000-000000000000"), 1, "53002"),
        (("show", "nonsense"), 2, "51004"),
        (("search", "x", "--account", "nobody"), 2, "53001"),
        (("search", " "), 2, "51002"),
        (("list", "--cursor", "nonsense"), 2, "52001"),
        (("list", "--since", "yesterday"), 2, "--since"),
        (("list", "--limit", "1000"), 2, "--limit"),
        (("sync", "--once", "--account", "nobody"), 2, "53001"),
        (("account", "test", "nobody"), 2, "12001"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(
    reading: Installation, arguments: tuple[str, ...], code: int, named: str
) -> None:
    """Each mistake has its exit code and names what is wrong; nothing is printed as a result."""
    refused = reading.run(*arguments, code=code)
    assert named in refused.err
    assert refused.out == ""


def test_a_broken_configuration_is_refused_by_every_command(installation: Installation) -> None:
    """All defects are listed with their paths, without a traceback."""
    installation.home.mkdir()
    (installation.home / "mailkeep.toml").write_text('[http]\nport = "sentinel"\n[mail_sync]\nx = 1\n')
    for arguments in (("list",), ("sync", "--once"), ("status",), ("account", "list"), ("serve",), ("db", "status")):
        refused = installation.run(*arguments, code=2)
        assert "http.port" in refused.err
        assert "mail_sync" in refused.err
        assert "sentinel" not in refused.err


def test_without_an_account_people_are_told_how_to_add_one(installation: Installation) -> None:
    """An empty installation answers instead of failing obscurely."""
    assert "account add" in installation.run("status").err
    assert "account add" in installation.run("sync", "--once", code=2).err
    assert installation.run("search", "x", "--json").json["matches"] == []
    assert "account add" in installation.run("search", "x").err


def test_a_folder_that_is_not_here_is_not_taken_for_one_to_be_mirrored(reading: Installation) -> None:
    """A mistyped folder is named as the reason, where everything is mirrored already."""
    found = reading.run("search", "x", "--folder", "NOWHERE")
    assert "No folder of that name" in found.err
    assert "sync --once" not in found.err


def test_a_reader_that_goes_away_is_no_failure(reading: Installation) -> None:
    """`mailkeep list | head -0` ends quietly."""
    with subprocess.Popen(
        command(["list"]), env=reading.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode in (0, 1)


def test_two_processes_never_mirror_one_account_twice(installation: Installation, mail_server: Dovecot) -> None:
    """One of two simultaneous runs does the work; the other says why it does not, or finds nothing left to do."""
    installation.add_account(mail_server)
    with installation.started("sync", "--once") as first, installation.started("sync", "--once") as second:
        codes = sorted(running.process.wait(60) for running in (first, second))
        errors = first.errors + second.errors
    assert codes in ([0, 0], [0, 1])
    if codes == [0, 1]:
        assert "[31002]" in errors
    assert counts(installation)["INBOX"] == (4, 4, 0, 0, 0)
    assert len(installation.run("list", "--json").json["emails"]) == 5


def test_an_interrupted_run_goes_on_where_it_stopped(installation: Installation, mail_server: Dovecot) -> None:
    """Ctrl-C ends with 130 and a hint, and the next run completes the mailbox without a message twice."""
    total = 3000
    if not (mail_server.root / "mail" / "many" / "mail").exists():
        mail_server.fill(
            "many", "INBOX", [message(f"Number {n}", message_id=f"n{n}@example.com") for n in range(total)]
        )
    installation.add_account(mail_server, user="many")
    with installation.started("--verbose", "sync", "--once") as running:
        running.await_line("folder bound.*")
        code = running.stop(signal.SIGINT)
    assert code in (130, 0)
    if code == 130:
        assert "go on with" in running.errors
    installation.run("sync", "--once")
    assert counts(installation)["INBOX"] == (total, total, 0, 0, 0)


def test_the_embedded_database_needs_nothing_but_a_home(tmp_path: Path, mail_server: Dovecot) -> None:
    """Without any setting of a database the mail is kept below the home, and stays there between commands."""
    installation = Installation(tmp_path / "home")
    installation.add_account(mail_server)
    installation.run("sync", "--once")
    assert len(installation.run("search", "lanterns", "--json").json["matches"]) == 1
    assert (installation.home / "postgres").is_dir()
    assert installation.run("db", "status", "--json").json["missing"] == []


def test_sql_reads_and_never_writes(mirrored: Installation) -> None:
    """One statement prints its rows; a change or a mistake is refused in the server's own words."""
    statement = "SELECT count(*) AS n, '100%' AS share FROM stored_emails"
    assert mirrored.run("db", "sql", "-c", statement, "--json").json == [{"n": 5, "share": "100%"}]
    assert "read-only" in mirrored.run("db", "sql", "-c", "DELETE FROM stored_emails", code=1).err
    assert "[36001]" in mirrored.run("db", "sql", "-c", "SELEC 1", code=1).err
    assert len(mirrored.run("list", "--json").json["emails"]) == 5


def test_originals_differ(reading: Installation) -> None:
    """The octets of every message are the ones that were put on the server."""
    for original, subject in ((PLAIN, "Quarterly figures"), (FILES, "Two files")):
        assert reading.run("show", email_id(reading, subject), "--raw").octets == original
