"""Messages a second of the reader: its structural scan beside `email` and fast-mail-parser, and all of it.

Each candidate has a process of its own (see message_reader.py). For rates a ratio above one is better.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .corpus import ROOT, messages
from .figure import Figure

RIVALS = {"stdlib": "email (standard library)", "fast-mail-parser": "fast-mail-parser"}


def measure() -> Iterator[Figure]:
    """Yield the rate of the scan against each rival, and the rate of the whole reader."""
    with tempfile.TemporaryDirectory(prefix="mailkeep-bench-") as name:
        folder = Path(name)
        for number, octets in enumerate(messages()):
            (folder / f"{number:05d}").write_bytes(octets)
        scan = _rate("scan", folder)
        for candidate, rival in RIVALS.items():
            yield Figure("reader_structure", scan, "messages/s", rival, _rate(candidate, folder))
        yield Figure("reader_whole", _rate("whole-reader", folder), "messages/s")


def _rate(candidate: str, folder: Path) -> float:
    command = [sys.executable, "-m", "benchmarks.message_reader", "--one", candidate, str(folder)]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return next(float(line["value"]) for line in map(json.loads, lines) if line["name"].endswith(" speed"))
