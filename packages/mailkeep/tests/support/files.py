"""Files as people attach them, written by hand as small as their formats allow, and files as attackers attach them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from xml.sax.saxutils import escape

from pypdf import PdfReader, PdfWriter

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
SHEETS = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SLIDES = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
OPEN_TEXT = "application/vnd.oasis.opendocument.text"


def container(members: Mapping[str, str | bytes], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP file."""
    target = BytesIO()
    with zipfile.ZipFile(target, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return target.getvalue()


def pdf(*pages: str, picture: bool = False, tree: bytes | None = None) -> bytes:
    """A PDF with a line of text on each page; `picture` puts an image on each, `tree` replaces the page tree."""
    image = b"/XObject << /P 4 0 R >>" if picture else b""
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        4: _stream(b"\x00", b"/Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray"
                   b" /BitsPerComponent 8"),
    }  # fmt: skip
    kids = []
    for place, text in enumerate(pages):
        number = 5 + 2 * place
        kids.append(b"%d 0 R" % number)
        objects[number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F 3 0 R >> %s >>"
            b" /Contents %d 0 R >>" % (image, number + 1)
        )
        shown = text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        objects[number + 1] = _stream(b"BT /F 12 Tf 72 700 Td (%s) Tj ET" % shown if text else b"q Q")
    objects[2] = tree or b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    return _assembled(objects)


def _stream(octets: bytes, entries: bytes = b"") -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(octets), octets)


def _assembled(objects: Mapping[int, bytes]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    places = {}
    for number in sorted(objects):
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, objects[number])
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (max(objects) + 1)
    for number in range(1, max(objects) + 1):
        out += b"%010d 00000 n \n" % places.get(number, 0)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (max(objects) + 1, start)
    return bytes(out)


def pdf_with_content(stream: bytes, entries: bytes = b"") -> bytes:
    """A PDF of one page whose content stream is exactly this."""
    return _assembled(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R >>",
            2: b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
            3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            5: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Resources << /Font << /F 3 0 R >> >> /Contents 6 0 R >>",
            6: _stream(stream, entries),
        }
    )


def locked_pdf(text: str, *, password: str) -> bytes:
    """The same behind a password; an empty one locks nothing but printing."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(pdf(text))))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    target = BytesIO()
    writer.write(target)
    return target.getvalue()


def docx(*paragraphs: str, document: str | None = None, footnote: str = "") -> bytes:
    """A text document; `document` replaces its main part."""
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'

    def part(root: str, texts: Sequence[str]) -> str:
        body = "".join(f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>" for text in texts)
        return f'<?xml version="1.0" encoding="UTF-8"?><w:{root} {space}>{body}</w:{root}>'

    return container(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": document or part("document", paragraphs),
            "word/footnotes.xml": part("footnotes", [footnote]),
        }
    )


def xlsx(rows: Sequence[Sequence[str | int]], *, sheet: str = "Sheet1") -> bytes:
    """A workbook of one sheet: texts shared, numbers in place."""
    texts = list(dict.fromkeys(cell for row in rows for cell in row if isinstance(cell, str)))
    cells = "".join(
        "<row>"
        + "".join(
            f'<c t="s"><v>{texts.index(cell)}</v></c>' if isinstance(cell, str) else f"<c><v>{cell}</v></c>"
            for cell in row
        )
        + "</row>"
        for row in rows
    )
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    strings = "".join(f"<si><t>{escape(text)}</t><rPh><t>reading</t></rPh></si>" for text in texts)
    return container(
        {
            "xl/workbook.xml": f'<workbook {space}><sheets><sheet name="{escape(sheet)}" sheetId="1"/></sheets></workbook>',
            "xl/sharedStrings.xml": f"<sst {space}>{strings}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet {space}><sheetData>{cells}</sheetData></worksheet>",
        }
    )


def pptx(*slides: str, notes: str = "") -> bytes:
    """A presentation with one line on each slide."""
    space = (
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
        'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    )

    def part(text: str) -> str:
        return f"<p:sld {space}><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:sld>"

    members = {f"ppt/slides/slide{number}.xml": part(text) for number, text in enumerate(slides, start=1)}
    return container({"ppt/presentation.xml": "<p/>", **members, "ppt/notesSlides/notesSlide1.xml": part(notes)})


def odt(*paragraphs: str, locked: bool = False) -> bytes:
    """An OpenDocument text."""
    text = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
    body = "".join(f"<text:p>{escape(one)}</text:p>" for one in paragraphs)
    manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    lock = "<m:file-entry><m:encryption-data/></m:file-entry>" if locked else ""
    return container(
        {
            "mimetype": OPEN_TEXT,
            "META-INF/manifest.xml": f'<m:manifest xmlns:m="{manifest}">{lock}</m:manifest>',
            "content.xml": f'<o:doc xmlns:o="urn:o" xmlns:text="{text}">{body}</o:doc>',
        }
    )


def ics(summary: str, *, location: str = "", attendee: str = "") -> bytes:
    """An event, its long lines folded."""
    lines = [
        "BEGIN:VCALENDAR",
        "BEGIN:VEVENT",
        "DTSTART;TZID=Europe/Berlin:20260417T090000",
        f"SUMMARY:{summary}",
        f"LOCATION:{location}",
        f'ATTENDEE;CN="{attendee}";RSVP=TRUE:mailto:guest@example.net',
        "END:VEVENT",
        "END:VCALENDAR",
    ]
    return "\r\n".join(f"{line[:60]}\r\n {line[60:]}" if len(line) > 60 else line for line in lines).encode()


def expanding_docx(octets: int) -> bytes:
    """A text document of a few kilobytes that unpacks to so many octets without a single letter of text."""
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    return docx(document=f"<w:document {space}>{' ' * octets}</w:document>")


def laughing_docx() -> bytes:
    """A text document whose entities expand to a billion words."""
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    declared = f'<!DOCTYPE d [<!ENTITY e0 "ha">{entities}]>'
    return docx(document=f"{declared}<w:document {space}><w:p><w:r><w:t>&e9;</w:t></w:r></w:p></w:document>")
