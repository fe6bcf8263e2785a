"""Finding mail on disk, writing it there, and names that mail chose."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.errors import TransferSourceRefused, TransferTargetRefused
from mailkeep.transfer import (
    EmlWriter,
    ExportedItem,
    ItemFlags,
    MaildirWriter,
    MboxWriter,
    Source,
    SourceKind,
    Unreadable,
    export_items,
    find_sources,
    read_items,
    safe_file_name,
    write_new_file,
)
from mailkeep.transfer.files import MAX_NAME_OCTETS
from mailkeep.transfer.model import Item
from mailkeep.transfer.sources import maildir_flags

MAIL = b"Subject: x\r\n\r\nbody\r\n"
WHEN = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
BOX = b"From a Mon Jan  1 00:00:00 2024\n" + MAIL


def put(file: Path, octets: bytes = MAIL) -> Path:
    """Write a file and the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(octets)
    return file


def listing(folder: Path) -> list[Path]:
    """What is in a folder."""
    return list(folder.iterdir())


def maildir(folder: Path) -> Path:
    """An empty Maildir."""
    for part in ("cur", "new", "tmp"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    return folder


def found(root: Path) -> list[tuple[str, str]]:
    """Kind and alias of each source below `root`; what is unreadable appears as such."""
    return [
        (source.kind.value, source.alias) if isinstance(source, Source) else ("unreadable", Path(source.place).name)
        for source in find_sources(root)
    ]


def test_a_tree_of_mail_is_found_with_its_folders(tmp_path: Path) -> None:
    """Maildir++ sub-folders, mbox files and loose messages each become a folder of their own."""
    maildir(tmp_path / "Maildir")
    put(maildir(tmp_path / "Maildir" / ".Sent.2024") / "cur" / "1:2,S")
    put(tmp_path / "boxes" / "Work.mbox", BOX)
    put(tmp_path / "boxes" / "old", BOX)
    put(tmp_path / "loose" / "a.eml")
    put(tmp_path / "loose" / "notes.bin", b"\x00\x01")
    put(tmp_path / "loose" / ".hidden", b"\x00")
    assert found(tmp_path) == [
        ("maildir", "MAILDIR"),
        ("maildir", "MAILDIR/SENT.2024"),
        ("mbox", "BOXES/WORK"),
        ("mbox", "BOXES/OLD"),
        ("unreadable", "notes.bin"),
        ("eml", "LOOSE"),
    ]
    assert found(tmp_path / "Maildir") == [("maildir", "INBOX"), ("maildir", "SENT.2024")]
    assert found(tmp_path / "boxes" / "Work.mbox") == [("mbox", "WORK")]
    assert found(tmp_path / "loose" / "a.eml") == [("eml", "IMPORTED")]


def test_a_place_without_mail_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """Missing paths, devices and files that are no mail raise the import's own error."""
    put(tmp_path / "notes.txt", b"just text\n")
    for path in (tmp_path / "missing", Path("/dev/null"), tmp_path / "notes.txt"):
        with pytest.raises(TransferSourceRefused):
            list(find_sources(path))


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    """A link out of the folder brings in nothing, and a pipe in a Maildir does not hold the import."""
    put(tmp_path / "outside.eml")
    folder = maildir(tmp_path / "box")
    (folder / "cur" / "link").symlink_to(tmp_path / "outside.eml")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "cur" / "pipe")
    (source,) = find_sources(folder)
    assert isinstance(source, Source)
    assert list(read_items(source, max_octets=1000)) == []


def test_maildir_messages_bring_state_and_time(tmp_path: Path) -> None:
    """Octets are exact, flags come from the name, the time of arrival from the file."""
    file = put(maildir(tmp_path) / "cur" / "1.x:2,FRS")
    os.utime(file, (WHEN.timestamp(), WHEN.timestamp()))
    put(tmp_path / "new" / "2.x", b"")
    put(tmp_path / "new" / "3.x", b"y" * 2000)
    first, empty, large = read_items(Source(SourceKind.MAILDIR, tmp_path, "INBOX"), max_octets=1000)
    assert first == Item(MAIL, WHEN, ItemFlags(seen=True, answered=True, flagged=True))
    assert isinstance(empty, Unreadable)
    assert isinstance(large, Unreadable)
    assert maildir_flags("1.x;2,DT") == ItemFlags(draft=True, deleted=True)


async def given_items(values: Iterable[ExportedItem]) -> AsyncIterator[ExportedItem]:
    """The items as the store hands them out."""
    for value in values:
        yield value


def exported(number: int, *, folder: str = "INBOX", octets: bytes | None = MAIL, account: str = "work") -> ExportedItem:
    """One message on its way out."""
    flags = ItemFlags(seen=True, flagged=number == 1)
    return ExportedItem(f"id{number}", account, folder, "a@b.c", WHEN, flags, octets, "" if octets else "gone")


@pytest.mark.anyio
async def test_a_maildir_comes_back_as_it_went_out(tmp_path: Path) -> None:
    """Folders, flags, times and octets survive export and import; a message without octets is counted."""
    target = tmp_path / "out"
    out = [exported(1), exported(2, folder="SENT/2024"), exported(3, octets=None)]
    outcome = await export_items(given_items(out), MaildirWriter(target, by_account=False))
    assert (outcome.exported, outcome.octets) == (2, 2 * len(MAIL))
    assert outcome.unreadable == (Unreadable("id3", "gone"),)
    assert found(target) == [("maildir", "INBOX"), ("maildir", "SENT.2024")]
    inbox, sent = (list(read_items(s, max_octets=1000)) for s in find_sources(target) if isinstance(s, Source))
    assert inbox == [Item(MAIL, WHEN, ItemFlags(seen=True, flagged=True))]
    assert sent == [Item(MAIL, WHEN, ItemFlags(seen=True))]


@pytest.mark.anyio
async def test_eml_files_keep_their_folders_and_octets(tmp_path: Path) -> None:
    """One folder per account when there are several, one file per message, dated as it."""
    target = tmp_path / "out"
    out = [exported(1), exported(2, account="../home", folder="A/../B")]
    await export_items(given_items(out), EmlWriter(target, by_account=True))
    files = sorted(file.relative_to(target).as_posix() for file in target.rglob("*") if file.is_file())
    assert files == ["home/A/folder/B/20240203T040506Z-id2.eml", "work/INBOX/20240203T040506Z-id1.eml"]
    assert (target / files[1]).read_bytes() == MAIL
    assert (target / files[1]).stat().st_mtime == WHEN.timestamp()


@pytest.mark.anyio
async def test_an_mbox_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """A failure leaves no file and no remainder; a success leaves exactly the file."""

    async def failing() -> AsyncIterator[ExportedItem]:
        yield exported(1)
        raise RuntimeError("the store went away")

    target = tmp_path / "all.mbox"
    with pytest.raises(RuntimeError):
        await export_items(failing(), MboxWriter(target))
    assert listing(tmp_path) == []
    await export_items(given_items([exported(1), exported(2)]), MboxWriter(target))
    assert listing(tmp_path) == [target]
    (source,) = find_sources(target)
    assert isinstance(source, Source)
    assert [item.octets for item in read_items(source, max_octets=1000) if isinstance(item, Item)] == [MAIL, MAIL]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """An existing file, a folder that is not empty and a link in the target's place are refused."""
    put(tmp_path / "full" / "x")
    put(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path / "file", tmp_path / "dangling"):
        with pytest.raises(TransferTargetRefused):
            MboxWriter(path)
    for path in (tmp_path / "full", tmp_path / "file", tmp_path / "dangling"):
        with pytest.raises(TransferTargetRefused):
            EmlWriter(path, by_account=False)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\system.ini", "system.ini"),
        ("/", "file-0.pdf"),
        ("..", "file-0.pdf"),
        (None, "file-0.pdf"),
        (".bashrc", "bashrc"),
        ("a\x00b\n.txt", "ab.txt"),
        ("exe.\u202efdp.scr", "exe.fdp.scr"),
        ("CON.txt", "_CON.txt"),
        ("nul", "_nul"),
        ("a:b?.txt", "a_b_.txt"),
        ("name. . ", "name"),
        ("日本.txt", "日本.txt"),
    ],
)
def test_names_that_mail_chose_are_made_harmless(name: str | None, expected: str) -> None:
    """Paths, device names, hidden files, controls and bidi overrides lose what makes them dangerous."""
    assert safe_file_name(name, fallback="file-0", media_type="application/pdf") == expected


@given(st.text(max_size=400))
def test_no_name_leaves_its_folder_or_is_too_long(name: str) -> None:
    """Whatever the name, the result is one visible path level within what file systems take."""
    safe = safe_file_name(name, fallback="file")
    assert safe not in ("", ".", "..")
    assert not safe.startswith(".")
    assert not set(safe) & set("/\\\0:")
    assert len(safe.encode("utf-8")) <= MAX_NAME_OCTETS


def test_a_taken_name_is_numbered_and_a_link_never_written_through(tmp_path: Path) -> None:
    """Files that exist stay as they are, links among them."""
    victim = put(tmp_path / "victim", b"precious")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "a.txt").symlink_to(victim)
    assert write_new_file(folder, "a.txt", b"1").name == "a (2).txt"
    assert write_new_file(folder, "a.txt", b"2").name == "a (3).txt"
    assert victim.read_bytes() == b"precious"
    for name in ("../x", "", "..", "a/b"):
        with pytest.raises(TransferTargetRefused):
            write_new_file(folder, name, b"")
