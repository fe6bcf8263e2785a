"""The worker process: `python -I -m mailkeep.extraction.worker <parent's process id> <octets of memory>`.

Reads requests from its standard input and writes answers to its standard output, one at a time, until the input ends:
four octets of length (big-endian), a JSON object, and for a request the file's octets after it. Everything that it may
need is imported before it confines itself; afterwards no file can be opened.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import struct
import sys
from typing import Any, BinaryIO, Final

from mailkeep.extraction.confinement import confine, die_with_parent, limit_processor
from mailkeep.extraction.formats import Format
from mailkeep.extraction.model import Bounds, Extraction, Outcome

LENGTH: Final = struct.Struct(">I")
_NOT_NEEDED: Final = ("encodings.mbcs", "encodings.oem", "encodings.__main__")


def main() -> None:
    """Serve until the parent closes the pipe."""
    die_with_parent(int(sys.argv[1]))
    import_everything()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    confine(int(sys.argv[2]))
    _answer(answers, {"ready": True})
    while (header := _read_exactly(requests, LENGTH.size)) is not None:
        request = json.loads(_read_exactly(requests, LENGTH.unpack(header)[0]) or b"")
        octets = _read_exactly(requests, request["size"])
        if octets is None:
            return
        extraction = _extract(octets, request)
        del octets
        _answer(
            answers,
            {"outcome": extraction.outcome.value, "text": extraction.text, "is_partial": extraction.is_partial},
        )
        if extraction.outcome is Outcome.OUT_OF_MEMORY:
            return  # what else suffered from it is unknown


def _extract(octets: bytes, request: dict[str, Any]) -> Extraction:
    from mailkeep.extraction.reading import extract

    bounds = Bounds(**request["bounds"])
    limit_processor(bounds.cpu_seconds)
    try:
        return extract(
            octets, Format(request["format"]), charset=request["charset"], hint=request["hint"], bounds=bounds
        )
    except MemoryError:
        return Extraction(Outcome.OUT_OF_MEMORY)


def import_everything() -> None:
    """Load what the readers load late: every charset, every module of the PDF library, the readers themselves."""
    import encodings

    import pypdf

    for package in (encodings, pypdf):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if module.name not in _NOT_NEEDED:
                try:
                    importlib.import_module(module.name)
                except ImportError:
                    continue  # parts that want a library which is not here
    for name in ("mailkeep.extraction.reading", "bz2", "lzma", "zlib", "stringprep", "unicodedata", "html.entities"):
        importlib.import_module(name)
    os.environ.clear()


def _read_exactly(stream: BinaryIO, count: int) -> bytes | None:
    octets = stream.read(count)
    return octets if len(octets) == count else None


def _answer(stream: BinaryIO, answer: dict[str, Any]) -> None:
    encoded = json.dumps(answer, ensure_ascii=False).encode("utf-8")
    stream.write(LENGTH.pack(len(encoded)) + encoded)
    stream.flush()


if __name__ == "__main__":
    main()
