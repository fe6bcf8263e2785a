"""Three ways to a message's structure under one adapter: our scan, `email` of the standard library, fast-mail-parser.

    python -m benchmarks.message_reader MESSAGES [CORPORA]

MESSAGES is a folder of files, one message each (the SpamAssassin corpus, for one). Each candidate runs in a process of
its own over all of them and decodes every leaf; one JSON object a line tells messages a second and peak memory. With
CORPORA (the folder that holds `index.tsv`) it also tells how many of the corpora's event trees each candidate matches,
how often it raises over all files, and which of the field cases 118, 121 and 127 it passes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .figure import Figure

Tree = tuple[str, tuple[Any, ...]]
Outline = tuple[Tree, list[bytes]]
"""The shape of a message, and the decoded octets of its leaves in order; an embedded message is a node of its own."""

CASES = {
    "118": (
        b"Content-Type: multipart/mixed; boundary=o\n\n--o\n\nouter\n--o\n"
        b"Content-Type: message/rfc822\n\n\ninner\n--o--\n",
        [b"outer", b"inner"],
    ),
    "121": (b"Content-Transfer-Encoding: base64\n\nYm9keQ==\nZm9vdGVy\n", [b"bodyfooter"]),
    "127": (
        b"Content-Type: multipart/mixed; boundary=o\n\n--o\n\na\n--o--More\n--ox\nb --o\n--o--\n",
        [b"a\n--o--More\n--ox\nb --o"],
    ),
}


def outline_scan(octets: bytes) -> Outline:
    """Our own structural scan: ranges of octets, leaves cut out and decoded on demand."""
    from mailkeep_message import Limits
    from mailkeep_message.structure import EMBEDDED, Entity, normalized, scan
    from mailkeep_message.transfer import decode_transfer

    structure = scan(normalized(octets), Limits())
    leaves: list[bytes] = []

    def tree(entity: Entity) -> Tree:
        if entity.is_multipart or entity.raw_type.startswith("multipart/"):
            return ("multipart", tuple(tree(child) for child in entity.children))
        payload = decode_transfer(octets[entity.body_start : entity.end], entity.encoding)[0]
        if entity.media_type in EMBEDDED:
            inner, below = outline_scan(payload)
            leaves.extend(below)
            return inner
        leaves.append(payload)
        return ("leaf", ())

    return ("message", (tree(structure.root),)), leaves


def outline_stdlib(octets: bytes) -> Outline:
    """The standard library, compat32 policy, from octets."""
    import email
    from email.message import Message

    leaves: list[bytes] = []

    def tree(part: Message) -> Tree:
        below = part.get_payload() if part.is_multipart() else []
        children = [child for child in below if isinstance(child, Message)] if isinstance(below, list) else []
        if part.get_content_type() in ("message/rfc822", "message/global") and part.is_multipart():
            return ("message", tuple(tree(child) for child in children))
        if part.get_content_maintype() == "multipart":
            return ("multipart", tuple(tree(child) for child in children))
        payload = part.get_payload(decode=True)
        leaves.append(payload if isinstance(payload, bytes) else b"")
        return ("leaf", ())

    return ("message", (tree(email.message_from_bytes(octets)),)), leaves


def outline_fast(octets: bytes) -> Outline:
    """fast-mail-parser's tree (Rust)."""
    import fast_mail_parser

    leaves: list[bytes] = []

    def tree(part: Any) -> Tree:
        if part.is_message:
            return ("message", tuple(tree(child) for child in part.children))
        if part.content_type.startswith("multipart/"):
            return ("multipart", tuple(tree(child) for child in part.children))
        leaves.append(part.content or b"")
        return ("leaf", ())

    return ("message", (tree(fast_mail_parser.parse_email_tree(octets)),)), leaves


def read_whole(octets: bytes) -> Outline:
    """Not a candidate: the whole reader on top of our scan (text, addresses, dates, trimming), for its own figure."""
    from mailkeep_message import read

    read(octets)
    return ("message", ()), []


CANDIDATES: dict[str, Callable[[bytes], Outline]] = {
    "scan": outline_scan,
    "stdlib": outline_stdlib,
    "fast-mail-parser": outline_fast,
    "whole-reader": read_whole,
}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("**/*") if path.is_file())


def run(name: str, folder: Path) -> list[Figure]:
    """Measure one candidate in this process: messages a second of the best of three passes, peak memory, errors."""
    outline = CANDIDATES[name]
    paths = _files(folder)
    best, failed = float("inf"), 0
    for _ in range(3):
        spent, failed = 0.0, 0
        for path in paths:
            octets = path.read_bytes()
            start = time.process_time()
            try:
                outline(octets)
            except Exception:
                failed += 1
            spent += time.process_time() - start
        best = min(best, spent)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        Figure(f"message_reader {name} speed", len(paths) / best, "messages/s"),
        Figure(f"message_reader {name} peak memory", peak, "MiB"),
        Figure(f"message_reader {name} raised", failed, "messages"),
    ]


def agreement(name: str, corpora: Path) -> list[Figure]:
    """Count the corpora's event trees and field cases that one candidate gets right, and the files it raises on."""
    outline = CANDIDATES[name]
    trees = sorted(corpora.glob("apache-james-mime4j/**/*_decoded.xml")) + sorted(
        corpora.glob("mime-tools-testmsgs/*_decoded.xml")
    )
    right = 0
    for path in trees:
        octets = path.with_name(path.name.removesuffix("_decoded.xml") + ".msg").read_bytes()
        try:
            right += outline(octets)[0] == ("message", (_expected(ElementTree.parse(path).getroot()),))
        except Exception:
            continue
    raised = 0
    for path in _files(corpora):
        try:
            outline(path.read_bytes())
        except Exception:
            raised += 1
    figures = [
        Figure(f"message_reader {name} event trees of {len(trees)}", right, "files"),
        Figure(f"message_reader {name} raised on corpora", raised, "files"),
    ]
    for number, (octets, leaves) in CASES.items():
        try:
            passed = outline(octets)[1] == leaves
        except Exception:
            passed = False
        figures.append(Figure(f"message_reader {name} case {number}", passed, "passed"))
    return figures


def _expected(element: ElementTree.Element) -> Tree:
    for child in element:
        if child.tag == "multipart":
            return ("multipart", tuple(_expected(part) for part in child if part.tag == "body-part"))
        if child.tag == "message":
            return ("message", (_expected(child),))
    return ("leaf", ())


def main(arguments: list[str]) -> int:
    """Start one process for each candidate, or be that process (`--one NAME`)."""
    if arguments[:1] == ["--one"]:
        _, name, folder, *rest = arguments
        figures = run(name, Path(folder))
        if rest and name != "whole-reader":
            figures += agreement(name, Path(rest[0]))
        for figure in figures:
            print(figure.line(), flush=True)
        return 0
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for name in CANDIDATES:
        subprocess.run([sys.executable, "-m", "benchmarks.message_reader", "--one", name, *arguments], check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
