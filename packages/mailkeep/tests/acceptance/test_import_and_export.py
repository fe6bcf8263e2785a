"""Mail in files, in and out of a real installation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import Installation
from support.sample_mail import GARDEN, INBOX, PLAIN, SENT

from mailkeep.transfer.mbox import mbox_entry


def octets_of(installation: Installation, account: str) -> set[bytes]:
    """The octets of every message of an account."""
    emails = installation.run("list", "--account", account, "--limit", "100", "--json").json["emails"]
    return {installation.run("show", email["id"], "--raw").octets for email in emails}


@pytest.mark.parametrize(("form", "name"), [("mbox", "all.mbox"), ("maildir", "Maildir"), ("eml", "mails")])
def test_what_is_exported_can_be_imported_octet_for_octet(
    mirrored: Installation, tmp_path: Path, form: str, name: str
) -> None:
    """Every format brings every message back exactly, and importing it twice changes nothing."""
    target = tmp_path / name
    exported = mirrored.run("export", str(target), "--format", form, "--json").json
    assert exported["exported"] == 5
    first = mirrored.run("import", str(target), "--account", "copy", "--json").json
    assert (first["imported"], first["already_present"], first["unreadable_count"]) == (5, 0, 0)
    assert octets_of(mirrored, "copy") == {*INBOX, SENT}
    again = mirrored.run("import", str(target), "--account", "copy", "--json").json
    assert (again["imported"], again["already_present"]) == (0, 5)
    mirrored.run("export", str(target), "--format", form, code=1)


def test_state_folders_and_dates_come_with_a_maildir(mirrored: Installation, tmp_path: Path) -> None:
    """Read mail stays read, Sent stays Sent, and the time of arrival is kept."""
    target = tmp_path / "Maildir"
    mirrored.run("export", str(target), "--format", "maildir")
    mirrored.run("import", str(target), "--account", "copy")
    before = {email["message_id"]: email for email in mirrored.run("list", "-a", "work", "--json").json["emails"]}
    after = {email["message_id"]: email for email in mirrored.run("list", "-a", "copy", "--json").json["emails"]}
    assert before.keys() == after.keys()
    for key, email in after.items():
        assert email["folder"] == before[key]["folder"]
        assert email["received_at"][:19] == before[key]["received_at"][:19]
        assert email["flags"]["seen"] == before[key]["flags"]["seen"]


def test_filters_choose_what_is_exported(reading: Installation, tmp_path: Path) -> None:
    """Sender and folder narrow the export."""
    chosen = reading.run("export", str(tmp_path / "a.mbox"), "--from", "zoe@example.net", "--json").json
    assert chosen["exported"] == 1
    sent = reading.run("export", str(tmp_path / "b.mbox"), "--folder", "sent", "--json").json
    assert sent["exported"] == 1


def test_one_bad_item_never_stops_an_import(installation: Installation, tmp_path: Path) -> None:
    """What cannot be read is counted and named; the rest is imported and found."""
    box = tmp_path / "box"
    box.mkdir()
    (box / "good.eml").write_bytes(GARDEN)
    (box / "empty.eml").write_bytes(b"")
    (box / "picture.png").write_bytes(b"\x89PNG\r\n")
    (box / "some.mbox").write_bytes(
        mbox_entry(PLAIN, sender="ann@example.com", arrived_at=None) + b"From x Mon Jan  1 00:00:00 2024\n\n\n"
    )
    done = installation.run("import", str(box), "--json")
    outcome = json.loads(done.out)
    assert (outcome["imported"], outcome["unreadable_count"]) == (2, 3)
    assert "picture.png" in done.err
    assert len(installation.run("search", "lanterns", "--json").json["matches"]) == 1
    assert installation.run("status", "--json").json["accounts"][0]["account"] == "local"


def test_imports_go_to_one_folder_when_told(installation: Installation, tmp_path: Path) -> None:
    """--folder names the folder, and a message that another folder holds is stored there as well."""
    (tmp_path / "a.eml").write_bytes(PLAIN)
    for folder in ("one", "two"):
        installation.run("import", str(tmp_path / "a.eml"), "--account", "old", "--folder", folder)
    (account,) = installation.run("status", "--json").json["accounts"]
    assert [(folder["folder"], folder["stored"]) for folder in account["folders"]] == [("ONE", 1), ("TWO", 1)]


@pytest.mark.usefixtures("mail_server")
def test_refusals_name_what_is_wrong(mirrored: Installation, tmp_path: Path) -> None:
    """Missing paths, files that are no mail, and mirrored accounts are refused in a sentence."""
    assert "[91001]" in mirrored.run("import", str(tmp_path / "missing"), "--account", "never", code=1).err
    assert [account["id"] for account in mirrored.run("account", "list", "--json").json["accounts"]] == ["work"]
    (tmp_path / "notes").write_text("just text")
    assert "[91001]" in mirrored.run("import", str(tmp_path / "notes"), code=1).err
    (tmp_path / "a.eml").write_bytes(PLAIN)
    assert "local account" in mirrored.run("import", str(tmp_path / "a.eml"), "--account", "work", code=2).err
    assert "[91002]" in mirrored.run("export", str(tmp_path / "notes"), code=1).err
