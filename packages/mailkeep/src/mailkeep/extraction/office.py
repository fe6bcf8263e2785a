"""Office documents: Office Open XML (ECMA-376) and OpenDocument (ISO 26300), read from their zipped XML.

A streaming parser that refuses document type declarations, so that there are no entities to expand, and holds no tree.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final
from xml.parsers import expat

from mailkeep.extraction.model import Budget, Outcome, Stopped

_CHUNK: Final = 1 << 16
_NUMBER: Final = re.compile(r"\d+")

Members = Mapping[str, zipfile.ZipInfo]


class Kind(StrEnum):
    """The family and application of a document."""

    TEXT = "text"
    SHEETS = "sheets"
    SLIDES = "slides"
    OPEN_DOCUMENT = "open_document"


def kind_of(container: zipfile.ZipFile, members: Members) -> Kind | None:
    """What its members say the container is; None for an ordinary archive."""
    for name, kind in (
        ("word/document.xml", Kind.TEXT),
        ("xl/workbook.xml", Kind.SHEETS),
        ("ppt/presentation.xml", Kind.SLIDES),
    ):
        if name in members:
            return kind
    if "content.xml" in members and "mimetype" in members:
        with container.open("mimetype") as file:
            if file.read(100).startswith(b"application/vnd.oasis.opendocument"):
                return Kind.OPEN_DOCUMENT
    return None


def read(budget: Budget, container: zipfile.ZipFile, members: Members, kind: Kind) -> None:
    """Gather the text of a document part after part."""
    match kind:
        case Kind.TEXT:
            _read_parts(budget, container, ["word/document.xml", *_numbered(members, _TEXT_PARTS)], _Paragraphs)
        case Kind.SLIDES:
            slides = _numbered(members, re.compile(r"ppt/slides/slide\d+\.xml"))
            _read_parts(budget, container, _within(budget, slides), _Paragraphs)
            _read_parts(
                budget, container, _numbered(members, re.compile(r"ppt/notesSlides/notesSlide\d+\.xml")), _Paragraphs
            )
        case Kind.SHEETS:
            _read_sheets(budget, container, members)
        case Kind.OPEN_DOCUMENT:
            if "META-INF/manifest.xml" in members and _is_locked(budget, container):
                raise Stopped(Outcome.ENCRYPTED)
            _read_parts(budget, container, ["content.xml"], _OpenDocument)


_TEXT_PARTS: Final = re.compile(r"word/(?:footnotes|endnotes|comments|header\d*|footer\d*)\.xml")


def _numbered(members: Members, pattern: re.Pattern[str]) -> list[str]:
    """The members of that name in the order of their numbers."""
    names = [name for name in members if pattern.fullmatch(name)]
    return sorted(names, key=lambda name: ([int(number) for number in _NUMBER.findall(name)], name))


def _within(budget: Budget, names: list[str]) -> Iterator[str]:
    """As many as pages are allowed. Raises Stopped before the next one."""
    for count, name in enumerate(names):
        if count >= budget.bounds.max_pages:
            raise Stopped(Outcome.NO_TEXT)
        yield name


class _Handler:
    """Takes the events of one part. Names come without their namespace."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    def end(self, name: str) -> None:
        """An element ends."""

    def text(self, data: str) -> None:
        """Characters in the element that is open."""


class _Paragraphs(_Handler):
    """WordprocessingML and DrawingML: runs `t` in paragraphs `p`."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._in_run = False

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        if name == "t":
            self._in_run = True
        elif name in ("tab", "br", "cr"):
            self.budget.add("\t" if name == "tab" else "\n")

    def end(self, name: str) -> None:
        if name == "t":
            self._in_run = False
        elif name == "p":
            self.budget.add("\n")

    def text(self, data: str) -> None:
        if self._in_run:
            self.budget.add(data)


class _OpenDocument(_Handler):
    """OpenDocument content: everything in paragraphs and headings, cells apart."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._depth = 0

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        if name in ("p", "h"):
            self._depth += 1
        elif self._depth and name in ("s", "tab", "line-break"):
            self.budget.add("\n" if name == "line-break" else " ")

    def end(self, name: str) -> None:
        if name in ("p", "h"):
            self._depth -= 1
            self.budget.add("\n")

    def text(self, data: str) -> None:
        if self._depth:
            self.budget.add(data)


class _SharedStrings(_Handler):
    """The table of texts that cells refer to; phonetic readings are left out."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self.strings: list[str] = []
        self._pieces: list[str] = []
        self._is_open = False
        self._phonetic = 0

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        if name == "si":
            self._pieces = []
        elif name == "rPh":
            self._phonetic += 1
        elif name == "t":
            self._is_open = not self._phonetic

    def end(self, name: str) -> None:
        if name == "si":
            self.strings.append("".join(self._pieces))
        elif name == "rPh":
            self._phonetic -= 1
        elif name == "t":
            self._is_open = False

    def text(self, data: str) -> None:
        if self._is_open:
            self._pieces.append(data)


class _Sheet(_Handler):
    """One worksheet: the values of its cells, a tab after each, a line for each row."""

    def __init__(self, budget: Budget, strings: list[str]) -> None:
        super().__init__(budget)
        self._strings = strings
        self._kind = ""
        self._is_open = False
        self._pieces: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "c":
            self._kind = attributes.get("t", "n")
            self._pieces = []
        elif name in ("v", "t"):
            self._is_open = True

    def end(self, name: str) -> None:
        if name in ("v", "t"):
            self._is_open = False
        elif name == "row":
            self.budget.add("\n")
        elif name == "c" and self._pieces:
            value = "".join(self._pieces)
            if self._kind == "s":
                place = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1
                value = self._strings[place] if 0 <= place < len(self._strings) else ""
            self.budget.add(value + "\t")

    def text(self, data: str) -> None:
        if self._is_open:
            self._pieces.append(data)


class _Names(_Handler):
    """The names of a workbook's sheets."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self.names: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sheet" and "name" in attributes:
            self.names.append(attributes["name"])


class _Manifest(_Handler):
    """Whether a member of the container is encrypted."""

    is_locked = False

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        if name == "encryption-data":
            self.is_locked = True


def _read_sheets(budget: Budget, container: zipfile.ZipFile, members: Members) -> None:
    names, shared = _Names(budget), _SharedStrings(budget)
    _parse(container, "xl/workbook.xml", names)
    for name in names.names:
        budget.add(name + "\n")
    if "xl/sharedStrings.xml" in members:
        _parse(container, "xl/sharedStrings.xml", shared)
    for part in _within(budget, _numbered(members, re.compile(r"xl/worksheets/sheet\d+\.xml"))):
        _parse(container, part, _Sheet(budget, shared.strings))
    _read_parts(budget, container, _numbered(members, re.compile(r"xl/comments\d*\.xml")), _Paragraphs)


def _is_locked(budget: Budget, container: zipfile.ZipFile) -> bool:
    manifest = _Manifest(budget)
    _parse(container, "META-INF/manifest.xml", manifest)
    return manifest.is_locked


def _read_parts(
    budget: Budget, container: zipfile.ZipFile, parts: Iterable[str], handler: type[_Paragraphs] | type[_OpenDocument]
) -> None:
    for part in parts:
        _parse(container, part, handler(budget))
        budget.add("\n")


def _parse(container: zipfile.ZipFile, part: str, handler: _Handler) -> None:
    """Stream one part through the handler. Raises Stopped for a document type declaration: there is none in these."""
    parser = expat.ParserCreate(namespace_separator="\n")
    parser.buffer_text = True

    def refuse(*_: object) -> None:
        raise Stopped(Outcome.BROKEN)

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = lambda name, attributes: handler.start(
        _local(name), {_local(key): value for key, value in attributes.items()}
    )
    parser.EndElementHandler = lambda name: handler.end(_local(name))
    parser.CharacterDataHandler = handler.text
    with container.open(part) as file:
        while chunk := file.read(_CHUNK):
            handler.budget.expand(len(chunk))
            parser.Parse(chunk, False)
    parser.Parse(b"", True)


def _local(name: str) -> str:
    return name.rpartition("\n")[2]
