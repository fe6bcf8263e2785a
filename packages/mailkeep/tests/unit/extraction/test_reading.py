"""Each format gives its text, each bound and each kind of damage its name."""

from __future__ import annotations

import zipfile
from dataclasses import replace

import pytest
from support import files
from support.mail import File, message

from mailkeep.extraction import Bounds, Extraction, Format, Outcome, format_of
from mailkeep.extraction.reading import extract

BOUNDS = Bounds()


def extracted(
    octets: bytes,
    name: str = "file.bin",
    media_type: str = "application/octet-stream",
    *,
    charset: str | None = None,
    hint: str | None = None,
    bounds: Bounds = BOUNDS,
) -> Extraction:
    """What the reader of these octets gives."""
    form = format_of(octets[:1024], media_type=media_type, file_name=name)
    assert form is not None
    return extract(octets, form, charset=charset, hint=hint, bounds=bounds)


@pytest.mark.parametrize(
    ("octets", "name", "words"),
    [
        (files.pdf("Ferry leaves (early)", "Second page"), "a.pdf", ["Ferry leaves (early)", "Second page"]),
        (files.locked_pdf("Only printing is locked", password=""), "a.pdf", ["Only printing is locked"]),
        (files.docx("Rent & deposit", "Größe", footnote="a footnote"), "a.docx", ["Rent & deposit\nGröße", "a footnote"]),
        (files.xlsx([["Item", "Price"], ["Ladder", 1250]], sheet="Tools"), "a.xlsx", ["Tools", "Ladder\t1250"]),
        (files.pptx("Agenda", "Budget", notes="say hello"), "a.pptx", ["Agenda", "Budget", "say hello"]),
        (files.odt("Erster Absatz", "花見の予定"), "a.odt", ["Erster Absatz\n花見の予定"]),
        (files.container({"tax/2025/receipt-17.jpg": b"x", "note.txt": b"hidden"}), "a.zip", ["tax / 2025 / receipt-17.jpg"]),
        (files.ics("Garden party, with\\nmusic and a very long title that is folded", attendee="Jo Doe"), "a.ics",
         ["Garden party, with\nmusic and a very long title that is folded", "Jo Doe guest@example.net", "2026-04-17"]),
        (b"{\\rtf1\\ansi Pay by \\b Friday\\b0 , caf\\'e9\\par\\u26085?}", "a.rtf", ["Pay by Friday", "café", "日"]),
        (b"<html><script>no()</script><p>Dear <b>Ann</b></html>", "a.html", ["Dear Ann"]),
        (b"name;city\r\nAnn;Lund\r\n", "a.csv", ["Ann;Lund"]),
    ],
)  # fmt: skip
@pytest.mark.spec("FIND-98")
def test_every_format_gives_its_text(octets: bytes, name: str, words: list[str]) -> None:
    """What a reader of the file reads is what is searched."""
    found = extracted(octets, name)
    assert (found.outcome, found.is_partial) == (Outcome.EXTRACTED, False)
    for expected in words:
        assert expected in found.text
    assert "no()" not in found.text
    assert "hidden" not in found.text
    assert "reading" not in found.text


@pytest.mark.case("118")
@pytest.mark.spec("FIND-98")
def test_messages_in_messages_are_read_with_their_attachments() -> None:
    """People, subject, text and files of an embedded message are found, to the bounded depth and not beyond."""
    innermost = message("Level three", body="deepest words", files=[File("c.txt", "text/plain", b"file at three")])
    inner = message("Level two", files=[File("b.pdf", "application/pdf", files.pdf("paper at two"))])
    middle = message("Level one", from_="Jo Doe <jo@example.net>", files=[
        File("two.eml", "application/octet-stream", inner), File("three.eml", "application/octet-stream", innermost),
        File("broken.docx", "application/octet-stream", b"PK\x03\x04 no archive"),
    ])  # fmt: skip
    found = extracted(middle, "one.eml")
    for expected in (
        "Jo Doe jo@example.net",
        "Level one",
        "Level two",
        "paper at two",
        "deepest words",
        "file at three",
    ):
        assert expected in found.text
    assert found.is_partial  # the broken file among them
    shallow = extracted(middle, "one.eml", bounds=replace(BOUNDS, max_nesting_depth=1))
    assert "deepest words" in shallow.text
    assert "file at three" not in shallow.text
    assert shallow.is_partial


@pytest.mark.parametrize(
    ("octets", "charset", "hint", "expected"),
    [
        ("Größe".encode(), None, None, "Größe"),
        ("Größe".encode(), None, "iso-8859-1", "Größe"),
        ("Größe".encode("utf-16"), None, None, "Größe"),
        ("Plain words".encode("utf-16-le"), None, None, "Plain words"),
        ("Plain words".encode("utf-16-be"), None, None, "Plain words"),
        ("花見の予定".encode("cp932"), "shift_jis", None, "花見の予定"),
        ("上海的会议".encode("gb18030"), None, "gb2312", "上海的会议"),
        ("Встреча".encode("koi8-r"), "koi8-r", None, "Встреча"),
        ("花見".encode("iso-2022-jp"), None, None, "花見"),
        ("Größe".encode("cp1252"), None, None, "Größe"),
    ],
)
@pytest.mark.spec("FIND-98")
def test_plain_text_is_read_in_any_charset(octets: bytes, charset: str | None, hint: str | None, expected: str) -> None:
    """Mark, label, UTF-8, the message's own charset, in this order."""
    assert extracted(octets, "a.txt", charset=charset, hint=hint).text == expected


@pytest.mark.spec("FIND-98")
def test_pages_name_their_charset_themselves() -> None:
    """An HTML file without a label in the mail says its charset in its head."""
    page = '<html><head><meta charset="windows-1251"></head><p>Встреча</p>'.encode("cp1251")
    assert extracted(page, "a.html").text == "Встреча"


@pytest.mark.parametrize(
    ("octets", "name", "expected"),
    [
        (files.locked_pdf("secret", password="open sesame"), "a.pdf", Outcome.ENCRYPTED),
        (files.odt("secret", locked=True), "a.odt", Outcome.ENCRYPTED),
        (bytes.fromhex("d0cf11e0a1b11ae1") + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le"), "a.docx", Outcome.ENCRYPTED),
        (bytes.fromhex("d0cf11e0a1b11ae1") + b"\0" * 600, "a.doc", Outcome.UNSUPPORTED),
        (files.pdf("", "", picture=True), "a.pdf", Outcome.SCANNED_PAGES),
        (files.pdf(""), "a.pdf", Outcome.NO_TEXT),
        (b"%PDF-1.4 and nothing more", "a.pdf", Outcome.BROKEN),
        (files.pdf("words")[:200], "a.pdf", Outcome.BROKEN),
        (files.docx("words")[:300], "a.docx", Outcome.BROKEN),
        (files.laughing_docx(), "a.docx", Outcome.BROKEN),
        (b"no calendar", "a.ics", Outcome.BROKEN),
        (bytes(range(256)) * 8, "a.txt", Outcome.UNSUPPORTED),
        (b"  \n ", "a.txt", Outcome.NO_TEXT),
    ],
)  # fmt: skip
@pytest.mark.spec("FIND-99", "FIND-102")
def test_what_cannot_be_read_is_named(octets: bytes, name: str, expected: Outcome) -> None:
    """Locked, scanned, broken and foreign files each have their reason, and no text."""
    found = extracted(octets, name)
    assert (found.outcome, found.text) == (expected, "")


@pytest.mark.spec("FIND-99")
def test_encrypted_members_of_a_document_are_named() -> None:
    """A zipped document whose members want a password; the names of an ordinary archive are no secret."""
    octets = bytearray(files.docx("words"))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = octets.find(mark)
        while at >= 0:
            octets[at + flags] |= 1
            at = octets.find(mark, at + 4)
    assert extracted(bytes(octets), "a.docx").outcome is Outcome.ENCRYPTED


@pytest.mark.spec("FIND-99")
def test_text_beyond_the_bound_is_cut_and_told() -> None:
    """The beginning is kept, whatever the format."""
    bounds = replace(BOUNDS, max_characters=1000)
    for octets, name in (
        (b"word " * 5000, "a.txt"),
        (files.docx(*["word " * 100] * 50), "a.docx"),
        (files.pdf(*["word " * 50] * 20), "a.pdf"),
        (b"<p>" + b"word " * 5000, "a.html"),
        (files.container({f"member-{number}.jpg": b"" for number in range(500)}), "a.zip"),
    ):
        found = extracted(octets, name, bounds=bounds)
        assert (found.outcome, found.is_partial) == (Outcome.EXTRACTED, True)
        assert 900 <= len(found.text) <= 1000


@pytest.mark.spec("FIND-99")
def test_pages_beyond_the_bound_are_left_out_and_told() -> None:
    """Pages, slides and sheets are counted alike."""
    bounds = replace(BOUNDS, max_pages=2)
    for octets, name in ((files.pdf("one", "two", "three"), "a.pdf"), (files.pptx("one", "two", "three"), "a.pptx")):
        found = extracted(octets, name, bounds=bounds)
        assert found.is_partial
        assert "two" in found.text
        assert "three" not in found.text


@pytest.mark.spec("FIND-102")
def test_files_that_unpack_too_far_are_stopped_while_they_do() -> None:
    """A few kilobytes that become hundreds of megabytes: counted as a stream, never held."""
    bomb = files.expanding_docx(64 << 20)
    assert len(bomb) < 200_000
    found = extracted(bomb, "a.docx", bounds=replace(BOUNDS, max_expanded_octets=1 << 20))
    assert found.outcome is Outcome.EXPANDED_TOO_FAR


def test_a_page_tree_that_goes_in_circles_ends() -> None:
    """A PDF whose pages are their own parents gives what there is, or its name."""
    circle = files.pdf("words", tree=b"<< /Type /Pages /Kids [2 0 R 5 0 R 2 0 R] /Count 3 >>")
    assert extracted(circle, "a.pdf").outcome in (Outcome.EXTRACTED, Outcome.BROKEN)


@pytest.mark.spec("FIND-99")
def test_a_damaged_end_leaves_the_beginning() -> None:
    """What was read before the damage is kept and called partial."""
    document = files.container(
        {"word/document.xml": "<d xmlns:w='urn:w'><w:p><w:t>first words</w:t></w:p><w:p></d>"},
        compression=zipfile.ZIP_STORED,
    )
    assert extracted(document, "a.docx") == Extraction(Outcome.EXTRACTED, "first words", is_partial=True)


def test_texts_hold_nothing_that_a_database_refuses() -> None:
    """No NUL, no control characters, no lone surrogates from any reader."""
    found = extracted(b"{\\rtf1 a\\u-10240?b\\'00c\\u7?}", "a.rtf")
    assert found.text
    assert found.text.encode("utf-8")
    assert not any(ord(character) < 32 and character not in "\n\t" for character in found.text)


@pytest.mark.parametrize("form", list(Format))
def test_no_reader_raises_on_octets_of_any_kind(form: Format) -> None:
    """Whatever the reader is given, it comes to an outcome."""
    for octets in (b"", b"\0" * 5000, bytes(range(256)) * 30, b"PK\x05\x06" + b"\0" * 18, b"(" * 3000, b"<" * 3000):
        assert isinstance(extract(octets, form, charset=None, hint=None, bounds=BOUNDS), Extraction)
